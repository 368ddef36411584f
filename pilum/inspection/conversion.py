"""Rows from Parquet files, and to Parquet, CSV and JSON, at any location of a store.

A file is written beside its name or not at all: if anything fails, an interrupt included, no file
is left.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from pilum.arrays import storage_type
from pilum.errors import CorruptFileError, InvalidInputError, NotFoundError
from pilum.inspection.values import json_lines
from pilum.storage.base import Ranges, Sink, Source, Store, entries_below, finish_new
from pilum.storage.open import open_object, open_store

__all__ = [
    "FORMATS",
    "exists",
    "parquet_files",
    "parquet_reader",
    "replacing",
    "write_rows",
]

FORMATS = ("csv", "json", "parquet")
_SUFFIX = ".parquet"

Found = list[tuple[Store, str]]


def parquet_files(location: str, storage_options: Mapping[str, str] | None = None) -> Found:
    """Return the Parquet files at a location: one file, or all files below a folder, by path.

    Raises:
        NotFoundError: If there are none.
    """
    if location.endswith(_SUFFIX):
        store, name = open_object(location, storage_options)
        if exists(store, name):
            return [(store, name)]
    store = open_store(location, storage_options)
    paths = sorted(path for path, _ in entries_below(store, "") if path.endswith(_SUFFIX))
    if not paths:
        raise NotFoundError(f"there is no Parquet file at {location}")
    return [(store, path) for path in paths]


def exists(store: Store, name: str) -> bool:
    """Return whether a store contains an object."""
    try:
        store.source(name).close()
    except NotFoundError:
        return False
    return True


def parquet_reader(files: Found) -> tuple[pa.RecordBatchReader, int]:
    """Open Parquet files as one stream, with the schema of the first, and count their rows.

    Raises:
        CorruptFileError: If a file is not a Parquet file.
        InvalidInputError: If a file has another schema.
    """
    opened = [_opened(store, path) for store, path in files]
    schema = opened[0].schema_arrow
    for (_, path), file in zip(files, opened, strict=True):
        if not file.schema_arrow.equals(schema):
            raise InvalidInputError(f"{path} has another schema than {files[0][1]}")

    def batches() -> Iterator[pa.RecordBatch]:
        for file in opened:
            yield from file.iter_batches()

    rows = sum(file.metadata.num_rows for file in opened)
    return pa.RecordBatchReader.from_batches(schema, batches()), rows


def _opened(store: Store, path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(pa.PythonFile(_SourceFile(store.source(path)), mode="r"))
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptFileError(f"not a Parquet file: {error}", f"{store.uri}/{path}") from error


class _SourceFile(io.RawIOBase):
    """A source as a file of Python."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._source.size}
        self._position = starts[whence] + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(self._source.size - self._position, 0)
        count = left if size is None or size < 0 else min(size, left)
        if not count:
            return b""
        data = self._source.read(Ranges.of((self._position, count)))[0].tobytes()
        self._position += count
        return data


class _SinkFile(io.RawIOBase):
    """A sink as a file of Python."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._sink.position

    def write(self, data: Any, /) -> int:
        self._sink.write(data)
        return len(data)


@contextmanager
def replacing(
    location: str, storage_options: Mapping[str, str] | None = None
) -> Iterator[IO[bytes]]:
    """Open a location for writing; it has the new content if the block ends without an error."""
    store, name = open_object(location, storage_options)
    sink = store.sink(name)
    try:
        yield _SinkFile(sink)  # type: ignore[misc]
    except BaseException:
        sink.abort()
        raise
    finish_new(sink)


def write_rows(reader: pa.RecordBatchReader, form: str, target: IO[bytes]) -> int:
    """Write rows in one of `FORMATS`, batch by batch, and return their number.

    Raises:
        InvalidInputError: If the form cannot express a column.
    """
    writers: dict[str, Callable[[pa.RecordBatchReader, IO[bytes]], int]] = {
        "csv": _write_csv,
        "json": _write_json,
        "parquet": _write_parquet,
    }
    if form not in writers:
        raise InvalidInputError(f"format {form!r}: expected one of {', '.join(FORMATS)}")
    return writers[form](reader, target)


def _write_csv(reader: pa.RecordBatchReader, target: IO[bytes]) -> int:
    nested = [field.name for field in reader.schema if pa.types.is_nested(field.type)]
    if nested:
        raise InvalidInputError(f"csv: columns {nested} are nested; leave them out, or take json")
    names, kinds = reader.schema.names, map(storage_type, reader.schema.types)
    schema = pa.schema([*zip(names, kinds, strict=True)])
    try:
        with csv.CSVWriter(pa.PythonFile(target, mode="w"), schema) as writer:
            return _written((batch.cast(schema) for batch in reader), writer.write_batch)
    except pa.ArrowInvalid as error:  # bytes that are no text
        raise InvalidInputError(f"csv: {error}; leave out the column, or take json") from error


def _write_parquet(reader: pa.RecordBatchReader, target: IO[bytes]) -> int:
    with pq.ParquetWriter(pa.PythonFile(target, mode="w"), reader.schema) as writer:
        return _written(reader, writer.write_batch)


def _write_json(reader: pa.RecordBatchReader, target: IO[bytes]) -> int:
    return _written(reader, lambda batch: target.write(json_lines(batch)))


def _written(batches: Iterable[pa.RecordBatch], write: Callable[[pa.RecordBatch], object]) -> int:
    count = 0
    for batch in batches:
        write(batch)
        count += batch.num_rows
    return count
