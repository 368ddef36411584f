"""Everything that can be written, as one stream of batches.

Whatever can be streamed is: only Python lists and dicts, and pandas, are converted at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from pilum.errors import InvalidInputError, SchemaMismatchError

__all__ = ["to_reader"]

_KINDS = (
    "a table, record batch, reader or dataset of pyarrow, a pandas.DataFrame, a list of dicts, a "
    "dict of columns, an iterable of record batches, or anything with __arrow_c_stream__"
)


def to_reader(data: Any, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """Opens data as a stream.

    Args:
        data: A pyarrow Table, RecordBatch, RecordBatchReader, Dataset or Scanner; a pandas
            DataFrame; a list of dicts; a dict of columns; an iterable of record batches; a
            LanceDataset, a LanceScanner or anything else with `__arrow_c_stream__`.
        schema: What the data is brought to. Needed for an iterable that may be empty.

    Raises:
        InvalidInputError: If the data is nothing of that kind.
        SchemaMismatchError: If it cannot be brought to the schema.
    """
    if schema is not None and not isinstance(schema, pa.Schema):
        raise InvalidInputError(f"schema: expected a pyarrow.Schema, found {schema!r}")
    try:
        reader = _open(data, schema)
        return reader if schema is None or reader.schema.equals(schema) else reader.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError) as error:
        raise SchemaMismatchError(f"the data does not fit the schema: {error}") from error


def _open(data: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    if _is_pandas(data):
        return pa.Table.from_pandas(data, schema=schema).to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data]).to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if _is_pyarrow_dataset(data):
        scanner = data.scanner() if hasattr(data, "scanner") else data
        return scanner.to_reader()
    if isinstance(data, Mapping):
        return pa.Table.from_pydict(dict(data), schema=schema).to_reader()
    if isinstance(data, list) and data and all(isinstance(row, Mapping) for row in data):
        return pa.Table.from_pylist(data, schema=schema).to_reader()
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return _from_batches(iter(data), schema)
    raise InvalidInputError(f"cannot write {type(data).__name__}; expected {_KINDS}")


def _is_pandas(data: Any) -> bool:
    kind = type(data)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"


def _is_pyarrow_dataset(data: Any) -> bool:
    modules = {kind.__module__ for kind in type(data).__mro__}
    opens = hasattr(data, "scanner") or hasattr(data, "to_reader")
    return opens and "pyarrow._dataset" in modules


def _from_batches(items: Iterator[Any], schema: pa.Schema | None) -> pa.RecordBatchReader:
    """Streams an iterable; without a schema the first batch tells it."""
    batches: Iterator[pa.RecordBatch] = (batch for item in items for batch in _batches_of(item))
    if schema is None:
        first = next(batches, None)
        if first is None:
            raise InvalidInputError("there is no batch to take the schema from; pass schema=")
        schema, batches = first.schema, itertools.chain([first], batches)
    return pa.RecordBatchReader.from_batches(schema, _checked(batches, schema))


def _batches_of(item: Any) -> list[pa.RecordBatch]:
    if isinstance(item, pa.RecordBatch):
        return [item]
    if isinstance(item, pa.Table):
        return list(item.to_batches())
    raise InvalidInputError(f"the data yields {type(item).__name__}; expected {_KINDS}")


def _checked(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch if batch.schema.equals(schema) else _with_nullability(batch, schema)


def _with_nullability(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with a schema that differs only in which columns may have nulls."""
    found = batch.schema
    if (found.names, found.types) != (schema.names, schema.types):
        raise SchemaMismatchError(f"the batches differ: expected\n{schema}\nfound\n{found}")
    for field, column in zip(schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise SchemaMismatchError(
                f"column {field.name!r} must not be null, but {column.null_count} values are"
            )
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
