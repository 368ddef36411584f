"""Conversion of the user's column expressions and functions to the form that tasks use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from pyspark.sql import types as st

from pilum.dataset.column_files import ColumnValues
from pilum.errors import InvalidInputError, SchemaMismatchError
from pilum.spark.types import to_arrow

__all__ = ["Form", "OutputSchema", "column_values"]

Form = Literal["arrow", "pandas"]
OutputSchema: TypeAlias = pa.Schema | st.StructType | str


def column_values(
    values: Mapping[str, str] | Callable[[Any], Any],
    *,
    read_columns: Sequence[str] | None = None,
    output_schema: OutputSchema | None = None,
    form: Form = "arrow",
    batch_size: int | None = None,
    where: str | None = None,
) -> ColumnValues:
    """Check and combine the arguments.

    Raises:
        InvalidInputError: If the arguments contradict each other.
    """
    if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
        raise InvalidInputError(f"batch_size: expected a positive number, found {batch_size!r}")
    if isinstance(values, Mapping):
        if read_columns is not None or output_schema is not None:
            raise InvalidInputError("read_columns and output_schema are for functions only")
        return ColumnValues(dict(values), batch_size=batch_size, where=where)
    if not callable(values):
        raise InvalidInputError(f"expected a dict of SQL expressions or a function, not {values!r}")
    if output_schema is None:
        raise InvalidInputError("output_schema: needed for a function")
    schema = _arrow(output_schema)
    function = _PandasFunction(values, schema) if _is_pandas(form) else values
    reads = None if read_columns is None else _names(read_columns)
    return ColumnValues(None, function, schema, reads, batch_size, where)


def _names(columns: Any) -> tuple[str, ...]:
    if isinstance(columns, str):
        raise InvalidInputError(f"read_columns: expected a list of names, found {columns!r}")
    return tuple(columns)


def _is_pandas(form: str) -> bool:
    if form not in {"arrow", "pandas"}:
        raise InvalidInputError(f"form: expected arrow or pandas, found {form!r}")
    return form == "pandas"


def _arrow(schema: OutputSchema) -> pa.Schema:
    if isinstance(schema, str):
        schema = st.StructType.fromDDL(schema)
    return to_arrow(schema) if isinstance(schema, st.StructType) else schema


@dataclass(frozen=True)
class _PandasFunction:
    """An adapter that turns a function of pandas frames into one of record batches."""

    function: Callable[[Any], Any]
    schema: pa.Schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        result = self.function(batch.to_pandas())
        if hasattr(result, "to_frame"):  # one column as a series
            result = result.to_frame(self.schema.names[0])
        if not hasattr(result, "iloc"):
            raise InvalidInputError(
                f"the function returned {type(result).__name__}, not a DataFrame or Series"
            )
        if set(result.columns) != set(self.schema.names):
            raise SchemaMismatchError(
                f"the function returned the columns {list(result.columns)}, not {self.schema.names}"
            )
        return pa.RecordBatch.from_pandas(result, schema=self.schema, preserve_index=False)
