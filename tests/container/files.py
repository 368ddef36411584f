"""Files in memory: written by the container, read by it, with every request on record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from pilum.container.fields import LeafFieldReader
from pilum.container.open import new_file
from pilum.container.reader import FileReader
from pilum.container.segments import FilePart
from pilum.container.writer import FileOptions, WrittenFile
from pilum.errors import CorruptFileError
from pilum.format.blobs import described
from pilum.format.rows import RowRanges
from pilum.format.schema import Schema
from pilum.format.version import DEFAULT_VERSION, FileVersion
from pilum.storage.base import Fetched, Ranges

__all__ = ["MemorySink", "MemorySource", "field_readers", "read_rows", "read_table", "write_table"]


class MemorySource:
    """A file in memory that records what is read of it.

    Attributes:
        requests: Per call, the (offset, size) pairs that were asked for.
    """

    def __init__(self, data: bytes, path: str = "memory.lance") -> None:
        self._data = np.frombuffer(pa.py_buffer(bytearray(data)), np.uint8)
        self.path = path
        self.size = len(data)
        self.requests: list[list[tuple[int, int]]] = []

    def read(self, ranges: Ranges) -> Fetched:
        """Views of the file."""
        pairs = list(zip(ranges.offsets.tolist(), ranges.sizes.tolist(), strict=True))
        self.requests.append(pairs)
        for offset, size in pairs:
            if offset < 0 or size < 0 or offset + size > self.size:
                raise CorruptFileError(f"{size} bytes at {offset}: outside of the file", self.path)
        return Fetched(self._data, ranges.offsets, ranges.sizes)

    def is_mapped(self, offset: int, size: int) -> bool:
        """Never, so that threads are used as for a file on a device."""
        del offset, size
        return False

    def close(self) -> None:
        """Nothing to close."""


class MemorySink:
    """A new file in memory."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.state = "open"

    @property
    def position(self) -> int:
        """Bytes written so far."""
        return len(self.data)

    def write(self, data: Any) -> None:
        """Appends one buffer."""
        self.data += memoryview(data).cast("B")

    def expose(self) -> bool:
        """Nobody looks."""
        return False

    def finish(self) -> None:
        """Ends the file."""
        self.state = "finished"

    def abort(self) -> None:
        """Drops the file."""
        self.state = "aborted"


def write_table(
    table: pa.Table,
    batches: Iterable[pa.RecordBatch] | None = None,
    version: FileVersion = DEFAULT_VERSION,
    options: FileOptions | None = None,
) -> tuple[bytes, WrittenFile]:
    """Writes a file; `batches` default to those of the table."""
    sink = MemorySink()
    schema = Schema.from_arrow(table.schema)
    writer = new_file(sink, schema, version, options or FileOptions())
    for batch in table.to_batches() if batches is None else batches:
        writer.write_batch(batch)
    written = writer.finish()
    assert sink.state == "finished"
    assert written.size_bytes == len(sink.data)
    return bytes(sink.data), written


def field_readers(reader: FileReader) -> Iterator[LeafFieldReader]:
    """Readers of the top-level fields."""
    index = 0
    for field in described(reader.schema).fields:
        leaves = list(field.leaves())
        columns = {leaf.id: index + number for number, leaf in enumerate(leaves)}
        index += len(leaves)
        yield LeafFieldReader.of(field, [FilePart(reader, columns)], reader.num_rows)


def read_rows(reader: FileReader, rows: RowRanges) -> pa.Table:
    """Reads rows of all columns."""
    columns = []
    for field_reader in field_readers(reader):
        arrays = [segment.read() for segment in field_reader.segments(rows)]
        columns.append(pa.chunked_array(arrays, field_reader.field.arrow_type))
    table = pa.Table.from_arrays(columns, schema=described(reader.schema).arrow)
    table.validate(full=True)
    return table


def read_table(data: bytes) -> pa.Table:
    """Reads a whole file."""
    reader = FileReader.open(MemorySource(data))
    return read_rows(reader, RowRanges.of((0, reader.num_rows)))
