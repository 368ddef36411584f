"""Conversion of all accepted inputs to one stream of record batches.

Inputs are streamed where possible: only Python lists, dicts and data frames are converted at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pilum.arrays import has_dictionaries, join_arrays
from pilum.errors import InvalidInputError, SchemaMismatchError
from pilum.format.rows import BATCH_ROWS
from pilum.format.types import PLAIN_BY_ID
from pilum.table.write.align import without_views
from pilum.table.write.forms import converted, table_form

__all__ = ["batch_of", "in_form_of", "mentions_blobs", "to_reader"]

_KINDS = (
    "a table, record batch, reader or dataset of pyarrow, a pandas.DataFrame, a polars.LazyFrame, "
    "a dataset of Hugging Face, a list of dicts, a dict of columns, an iterable of record batches, "
    "of data frames or of dicts, or anything with __arrow_c_stream__"
)

_SMALL_SHARE = 4
"""A column with less than this part of the bytes of its batch is copied out of a stream."""

_WITHOUT_VIEWS = frozenset(PLAIN_BY_ID)
"""The ids of types that neither are views nor contain one."""

_ARROW_ERRORS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError, pa.ArrowNotImplementedError)


def to_reader(data: Any, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """Open data as a stream of record batches, cast to a schema if one is given.

    `pilum.write_dataset` lists the forms of data.
    """
    if schema is not None and not isinstance(schema, pa.Schema):
        raise InvalidInputError(f"schema: expected a pyarrow.Schema, found {schema!r}")
    try:
        reader = _open(data, schema)
        if schema is None:
            return _without_views(reader)
        _require_names(reader.schema, schema)
        return reader if reader.schema.equals(schema) else _brought(reader, schema)
    except _ARROW_ERRORS as error:
        raise SchemaMismatchError(f"the data does not fit the schema: {error}") from error


def mentions_blobs(schema: pa.Schema) -> bool:
    """Return whether fields may be marked as blobs: False is certain, at any depth.

    Looking for the mark in the bytes costs less than asking each of a thousand fields.
    """
    return b"lance-encoding:blob" in schema.serialize().to_pybytes()


def batch_of(data: Any) -> pa.RecordBatch | None:
    """Return a data frame, table or batch as one batch; None for any other input."""
    if isinstance(data, pa.RecordBatch):
        return data
    if _is_pandas(data):
        return pa.RecordBatch.from_pandas(data, preserve_index=False)
    if not hasattr(data, "__arrow_c_stream__"):
        return None
    table = _without_views(_stream(data)).read_all().combine_chunks()
    columns = [column.chunk(0) if column.num_chunks else None for column in table.columns]
    arrays = [
        pa.nulls(0, field.type) if column is None else column
        for field, column in zip(table.schema, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def in_form_of(batch: pa.RecordBatch, schema: pa.Schema, what: str) -> pa.RecordBatch:
    """Return a batch with the types of a schema, if its own types are other Arrow forms of them."""
    if batch.schema.equals(schema):
        return batch
    types = zip(batch.schema.types, schema.types, strict=False)
    same = batch.schema.names == schema.names
    if not same or any(table_form(found, wanted) != wanted for found, wanted in types):
        raise SchemaMismatchError(f"{what}: expected\n{schema}\nfound\n{batch.schema}")
    columns = [
        converted(column, field.type, field.name)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    for column, field in zip(columns, schema, strict=True):
        if column.null_count and not field.nullable:
            raise SchemaMismatchError(
                f"column {field.name!r} must not be null, but {column.null_count} values are"
            )
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _open(data: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    if _is_pandas(data):
        return _from_pandas(data, schema).to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data]).to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        if isinstance(data, pa.Table):
            return pa.RecordBatchReader.from_stream(data)
        return _in_own_memory(_stream(data))
    if _is_pyarrow_dataset(data):
        scanner = data.scanner() if hasattr(data, "scanner") else data
        return scanner.to_reader()
    if hasattr(data, "collect_batches"):
        return _from_batches(_of_lazy_frame(data), schema)
    if type(data).__module__.partition(".")[0] == "datasets" and hasattr(data, "with_format"):
        return _from_batches(iter(data.with_format("arrow").iter(BATCH_ROWS)), schema)
    if isinstance(data, Mapping):
        return _from_columns(data, schema).to_reader()
    if isinstance(data, list) and data and all(isinstance(row, Mapping) for row in data):
        return _from_rows(data, schema).to_reader()
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return _from_batches(iter(data), schema)
    raise InvalidInputError(f"cannot write {type(data).__name__}; expected {_KINDS}")


def _stream(data: Any) -> pa.RecordBatchReader:
    """Open an Arrow stream. Python objects in a frame of polars are refused: it has addresses."""
    if type(data).__module__.partition(".")[0] == "polars":
        kinds = getattr(data, "schema", {}).items()
        if objects := [name for name, kind in kinds if str(kind) == "Object"]:
            raise InvalidInputError(f"columns {objects} hold Python objects; convert them")
    return pa.RecordBatchReader.from_stream(data)


def _in_own_memory(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return a stream whose small columns do not keep whole batches in memory.

    All columns of a batch that came through the C interface have one owner. A writer keeps the rows
    of a small column for much longer than those of a large one.
    """
    batches = map(_with_copies, reader)
    return pa.RecordBatchReader.from_batches(reader.schema, batches)


def _with_copies(batch: pa.RecordBatch) -> pa.RecordBatch:
    if not batch.num_rows:  # its buffers may end before its offset
        return batch
    most = batch.nbytes // _SMALL_SHARE
    is_small = [
        column.nbytes < most and not has_dictionaries(column.type) for column in batch.columns
    ]
    if not any(is_small):
        return batch
    columns = [
        # Joining arrays copies them, but a single one would be returned as it is.
        join_arrays([column, column.slice(0, 0)], name) if copies else column
        for name, column, copies in zip(batch.schema.names, batch.columns, is_small, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _is_pandas(data: Any) -> bool:
    kind = type(data)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"


def _is_pyarrow_dataset(data: Any) -> bool:
    modules = {kind.__module__ for kind in type(data).__mro__}
    opens = hasattr(data, "scanner") or hasattr(data, "to_reader")
    return opens and "pyarrow._dataset" in modules


def _brought(reader: pa.RecordBatchReader, schema: pa.Schema) -> pa.RecordBatchReader:
    """Return a stream cast to a schema; check at once whether the types can be cast."""
    reader.schema.empty_table().cast(schema)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            try:
                brought = batch.cast(schema)
            except _ARROW_ERRORS as error:
                raise SchemaMismatchError(f"the data does not fit the schema: {error}") from error
            yield brought

    return pa.RecordBatchReader.from_batches(schema, batches())


def _require_names(found: pa.Schema, wanted: pa.Schema) -> None:
    if found.names != wanted.names:
        raise SchemaMismatchError(
            f"the data does not fit the schema: expected the columns {wanted.names}, found "
            f"{found.names}"
        )


def _without_views(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return a stream without string views, which Arrow can neither take nor join."""
    schema = reader.schema
    if all(kind.id in _WITHOUT_VIEWS for kind in schema.types):
        return reader
    plain = pa.schema(
        [field.with_type(without_views(field.type)) for field in schema], schema.metadata
    )
    return reader if plain.equals(schema) else reader.cast(plain)


def _of_lazy_frame(data: Any) -> Iterator[Any]:
    """Yield the frames that a lazy frame of polars computes, after an empty one for the schema."""
    yield data.collect_schema().to_frame()
    yield from data.collect_batches(chunk_size=BATCH_ROWS, lazy=True)


def _from_pandas(data: Any, schema: pa.Schema | None) -> pa.Table:
    try:
        return pa.Table.from_pandas(data, schema=schema)
    except KeyError as error:
        raise SchemaMismatchError(f"the data does not fit the schema: {error.args[0]}") from error


_MANY = ("__iter__", "__array__", "__arrow_array__", "__arrow_c_array__", "__arrow_c_stream__")
"""Methods of which Arrow needs one to convert a value to an array."""


def _from_columns(data: Mapping[Any, Any], schema: pa.Schema | None) -> pa.Table:
    if schema is not None and set(data) != set(schema.names):
        raise SchemaMismatchError(
            f"the data does not fit the schema: expected the columns {schema.names}, found "
            f"{list(data)}"
        )
    columns = {name: _vectors(name, values) for name, values in data.items()}
    return pa.Table.from_pydict(columns, schema=schema)


def _vectors(name: Any, values: Any) -> Any:
    """Return a matrix as vectors, and any other list of values unchanged."""
    if not any(hasattr(values, method) for method in _MANY):
        raise InvalidInputError(f"column {name!r}: expected a list of values, found {values!r:.80}")
    if not isinstance(values, np.ndarray) or values.ndim < 2:
        return values
    if 0 in values.shape[1:]:
        raise InvalidInputError(f"column {name!r}: vectors without items, shape {values.shape}")
    array = pa.array(np.ascontiguousarray(values).reshape(-1))
    for size in reversed(values.shape[1:]):
        array = pa.FixedSizeListArray.from_arrays(array, size)
    return array


def _from_rows(rows: list[Mapping[str, Any]], schema: pa.Schema | None) -> pa.Table:
    if schema is not None:
        _require_known(rows, schema)
        return pa.Table.from_pylist(rows, schema=schema)
    # Arrow takes the names of the columns only from the first row.
    names = dict.fromkeys(itertools.chain.from_iterable(rows))
    return pa.Table.from_pylist([{**names, **rows[0]}, *rows[1:]])


def _from_batches(items: Iterator[Any], schema: pa.Schema | None) -> pa.RecordBatchReader:
    """Stream an iterable; without a schema, take the schema of the first batch."""
    batches = _batches_of(items, schema)
    if schema is None:
        first = next(batches, None)
        if first is None:
            raise InvalidInputError("there is no batch to take the schema from; pass schema=")
        schema, batches = first.schema, itertools.chain([first], batches)
    formed = (in_form_of(batch, schema, "the batches differ") for batch in batches)
    return pa.RecordBatchReader.from_batches(schema, formed)


def _batches_of(items: Iterator[Any], schema: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    for is_row, group in itertools.groupby(items, lambda item: isinstance(item, Mapping)):
        if is_row:
            while rows := list(itertools.islice(group, BATCH_ROWS)):
                table = _from_rows(rows, schema)
                schema = table.schema if schema is None else schema
                yield from table.to_batches()
            continue
        for item in group:
            if isinstance(item, pa.Table):
                yield from item.to_batches()
            elif (batch := batch_of(item)) is not None:
                yield batch
            else:
                raise InvalidInputError(f"the data yields {type(item).__name__}; expected {_KINDS}")


def _require_known(rows: list[Mapping[str, Any]], schema: pa.Schema) -> None:
    unknown = set(itertools.chain.from_iterable(rows)).difference(schema.names)
    if unknown:
        raise SchemaMismatchError(
            f"rows have the keys {sorted(map(str, unknown))}, which the rows before them or the "
            f"schema do not have: {schema.names}; pass schema= with all columns"
        )
