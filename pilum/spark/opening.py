"""Open the version that options name, and compare its columns with those that Spark requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from pilum.distributed import TableVersion, find_version
from pilum.distributed.versions import branch_uri
from pilum.errors import InvalidInputError
from pilum.spark.convert import check_fits
from pilum.spark.names import stored_paths, stored_type
from pilum.spark.options import Options
from pilum.spark.types import compared_schema, to_spark

__all__ = [
    "asked_schema",
    "check_columns",
    "check_schema",
    "open_version",
    "pin",
    "require_one_projection",
    "to_write",
]

_RESOLVED = ("asOf", "branch", "columns")
"""Options that the version and the schema of a reader replace."""


def pin(options: Options) -> tuple[Options, TableVersion]:
    """Return options pinned to the version that they name, or to the latest one, and the version.

    The errors are those of `find_version`.
    """
    found = find_version(
        options.path,
        options.version,
        branch=options.branch,
        as_of=options.as_of,
        storage_options=options.storage_options,
    )
    pinned = replace(options, path=found.uri, version=found.version, as_of=None, branch=None)
    return pinned, found


def open_version(texts: Mapping[str, str]) -> tuple[Options, TableVersion, dict[str, str]]:
    """Pin the version that options name, and check their filter before any task runs.

    The options are also returned as texts, for readers of a given schema.
    """
    options, table = pin(Options.parse(texts))
    if options.filter is not None:
        table.condition(options.filter)
    left = {name: text for name, text in texts.items() if name not in _RESOLVED}
    return options, table, {**left, "path": options.path, "version": str(options.version)}


def to_write(options: Options) -> Options:
    """Return the options of a writer, with the location of the branch that they name."""
    for name, value in (("version", options.version), ("asOf", options.as_of)):
        if value is not None:
            raise InvalidInputError(
                f"option {name!r}: only the latest version can be written to, of a table or, with "
                'the option "branch", of a branch'
            )
    path = branch_uri(options.path, options.branch, options.storage_options)
    return replace(options, path=path, branch=None)


def asked_schema(version: TableVersion, options: Options) -> pa.Schema:
    """Return the columns that the options select, under the names that the options use."""
    payloads = options.blobs == "payloads"
    if options.columns is None:
        return version.read_schema(with_payloads=payloads)
    paths = stored_paths(options.columns, version.columns, case_sensitive=options.case_sensitive)
    seen = version.read_schema(paths, with_payloads=payloads)
    return pa.schema(
        [field.with_name(name) for name, field in zip(options.columns, seen, strict=True)]
    )


def check_schema(schema: StructType, version: TableVersion, options: Options) -> None:
    """Check that every column of a requested schema is in the table with its type.

    Names are compared case-sensitively.
    """
    require_one_projection(schema, options)
    check_columns(schema, schema.names, version, replace(options, case_sensitive=True))


def require_one_projection(schema: StructType, options: Options) -> None:
    """Check that the option `columns`, if given, names the columns of a requested schema."""
    if options.columns and schema.names != list(options.columns):
        raise InvalidInputError(
            f'the option "columns" names {list(options.columns)}, the schema {schema.names}; '
            "give only one of them"
        )


def check_columns(
    schema: StructType, columns: Sequence[str], version: TableVersion, options: Options
) -> None:
    """Compare the requested columns with the table columns that they refer to."""
    payloads = options.blobs == "payloads"
    table = to_spark(version.read_schema(columns, with_payloads=payloads))
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
