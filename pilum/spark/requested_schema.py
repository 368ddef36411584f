"""Schemas that a query requests with `schema(…)`, checked against the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql.types import StructField, StructType

from pilum.errors import InvalidInputError
from pilum.spark.convert import check_fits
from pilum.spark.names import stored_type
from pilum.spark.opening import seen_schema
from pilum.spark.options import Options
from pilum.spark.types import compared_schema, to_spark
from pilum.table.read.snapshot import Snapshot

__all__ = ["check_columns", "check_schema", "require_one_projection"]


def check_schema(schema: StructType, snapshot: Snapshot, options: Options) -> None:
    """Check that every column of a requested schema is in the table with its type.

    Names are compared case-sensitively.

    Raises:
        ColumnNotFoundError: If the table has no such column.
        SchemaMismatchError: If a type differs.
    """
    require_one_projection(schema, options)
    check_columns(schema, schema.names, snapshot, replace(options, case_sensitive=True))


def require_one_projection(schema: StructType, options: Options) -> None:
    """Check that the option `columns`, if given, names the columns of a requested schema.

    Raises:
        InvalidInputError: If it names others.
    """
    if options.columns and schema.names != list(options.columns):
        raise InvalidInputError(
            f'the option "columns" names {list(options.columns)}, the schema {schema.names}; '
            "give only one of them"
        )


def check_columns(
    schema: StructType, columns: Sequence[str], snapshot: Snapshot, options: Options
) -> None:
    """Compare the requested columns with the table columns that they refer to.

    Raises:
        ColumnNotFoundError: If the table has no such column.
        SchemaMismatchError: If a type differs.
    """
    payloads = options.blobs == "payloads"
    table = to_spark(seen_schema(snapshot, columns, payloads=payloads))
    wanted = StructType(
        [
            StructField(
                field.name,
                stored_type(field.dataType, found.dataType, options.case_sensitive),
                field.nullable,
            )
            for field, found in zip(schema.fields, table.fields, strict=True)
        ]
    )
    available = compared_schema(table)
    for field, found in zip(compared_schema(wanted), available, strict=True):
        check_fits(found.type, field.type, field.name, subset=True)
