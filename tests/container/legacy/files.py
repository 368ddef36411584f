"""Legacy files in memory."""

from __future__ import annotations

import pyarrow as pa
from container.files import MemorySink, MemorySource

from pilum.container.legacy.batches import Grouping
from pilum.container.legacy.fields import LegacyFieldReader
from pilum.container.legacy.file import LegacyFile
from pilum.container.legacy.writer import LegacyWriter
from pilum.container.segments import FilePart
from pilum.format.fields import Field
from pilum.format.rows import RowRanges
from pilum.format.schema import Schema

__all__ = ["field_reader", "read_legacy", "write_legacy"]


def write_legacy(table: pa.Table, rows_per_group: int = 1024) -> bytes:
    """Writes a file."""
    sink = MemorySink()
    writer = LegacyWriter(sink, Schema.from_arrow(table.schema), Grouping(rows_per_group))
    for batch in table.to_batches():
        writer.write_batch(batch)
    written = writer.finish()
    assert sink.state == "finished"
    assert written.size_bytes == len(sink.data)
    assert written.num_rows == table.num_rows
    return bytes(sink.data)


def field_reader(file: LegacyFile, field: Field) -> LegacyFieldReader:
    """The reader of a field of a file on its own."""
    ids = tuple(sorted(item.id for item in file.schema.walk()))
    part = FilePart(file, dict.fromkeys(field.ids, -1), ids)
    return LegacyFieldReader.of(field, [part], file.num_rows)


def read_legacy(data: bytes | MemorySource, rows: RowRanges | None = None) -> pa.Table:
    """Reads a file on its own, all of it or some rows."""
    source = data if isinstance(data, MemorySource) else MemorySource(data)
    file = LegacyFile.open(source)
    rows = RowRanges.of((0, file.num_rows)) if rows is None else rows
    columns = []
    for field in file.schema.fields:
        arrays = [segment.read() for segment in field_reader(file, field).segments(rows)]
        columns.append(pa.chunked_array(arrays, field.arrow_type))
    table = pa.Table.from_arrays(columns, schema=file.schema.arrow)
    table.validate(full=True)
    return table
