"""Files of version 2.0 in memory: by the writer, or put together page by page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from container.files import MemorySink, MemorySource

from pilum.container.frame import FileBody
from pilum.container.open import field_reader, new_file, open_file
from pilum.container.segments import FilePart
from pilum.container.v2_0.metadata import pack_column
from pilum.container.v2_0.reader import PagedFileReader
from pilum.encodings.v2_0.base import ArrayEncoding, Buffers
from pilum.format.rows import RowRanges
from pilum.format.schema import Schema
from pilum.format.version import FileVersion

__all__ = ["HandPage", "file_of", "open_paged", "read_all", "read_paged", "write_paged"]


@dataclass(frozen=True)
class HandPage:
    """A page as a test wants it."""

    num_items: int
    encoding: ArrayEncoding
    buffers: Sequence[Any] = ()


def write_paged(table: pa.Table, batches: Iterable[pa.RecordBatch] | None = None) -> bytes:
    """Writes a file; `batches` default to those of the table."""
    sink = MemorySink()
    writer = new_file(sink, Schema.from_arrow(table.schema), FileVersion.V2_0)
    for batch in table.to_batches() if batches is None else batches:
        writer.write_batch(batch)
    assert writer.finish().size_bytes == len(sink.data)
    return bytes(sink.data)


def file_of(
    schema: pa.Schema,
    columns: Sequence[Sequence[HandPage]],
    num_rows: int,
    shared: Mapping[int, Sequence[bytes]] | None = None,
) -> bytes:
    """A file of these pages; `shared` are buffers that belong to a column."""
    sink = MemorySink()
    body = FileBody(sink)
    metadata = []
    for number, pages in enumerate(columns):
        places = [
            (page.num_items, Buffers(tuple(map(body.buffer, page.buffers))), page.encoding)
            for page in pages
        ]
        data = pack_column(places, blob=False)
        for buffer in (shared or {}).get(number, ()):
            offset, size = body.buffer(buffer)
            # Fields 3 and 4 of the message, packed.
            data += b"\x1a" + _varints(offset) + b"\x22" + _varints(size)
        metadata.append(data)
    body.end(Schema.from_arrow(schema), num_rows, metadata, FileVersion.V2_0)
    return bytes(sink.data)


def _varints(value: int) -> bytes:
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    digits.append(value)
    return bytes([len(digits)]) + bytes(digits)


def open_paged(data: bytes) -> PagedFileReader:
    """Opens a file."""
    reader = open_file(MemorySource(data))
    assert isinstance(reader, PagedFileReader)
    return reader


def read_paged(reader: PagedFileReader, rows: RowRanges) -> pa.Table:
    """Reads rows of all columns."""
    part = FilePart(reader, reader.field_columns())
    columns = []
    for field in reader.schema.fields:
        fields = field_reader(field, [part], reader.num_rows)
        arrays = [segment.read() for segment in fields.segments(rows)]
        columns.append(pa.chunked_array(arrays, field.arrow_type))
    table = pa.Table.from_arrays(columns, schema=reader.schema.arrow)
    table.validate(full=True)
    return table


def read_all(data: bytes) -> pa.Table:
    """Reads a whole file."""
    reader = open_paged(data)
    return read_paged(reader, RowRanges.of((0, reader.num_rows)))
