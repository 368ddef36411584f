"""Write the container of files since version 2.0: aligned buffers, then the tables at the end.

    data buffers      each padded to a multiple of the alignment, 64 bytes by default;
                      global buffers 1, 2, … are among them
    global buffer 0   the file descriptor
    column metadata   one message per column
    tables, footer    see `footer.py`

Source: docs/format/container.md, "Writing".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from pilum.container.footer import Footer, pack_table
from pilum.format.pb import file_pb2
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Sink

__all__ = ["FileBody"]

_ALIGNMENT = 64
_PAD = b"\x48"
_SMALL_BYTES = 64 * 1024


class FileBody:
    """A writer of one file: its buffers in order, whatever they contain, then its tables.

    Attributes:
        sink: The destination.
    """

    def __init__(self, sink: Sink, alignment: int = _ALIGNMENT) -> None:
        """Start a file; every buffer begins at a multiple of `alignment` bytes."""
        self.sink = sink
        self._alignment = alignment
        self._global_buffers: list[tuple[int, int]] = []

    def buffer(self, data: Any) -> tuple[int, int]:
        """Write a data buffer and return its position and size. Empty buffers take no space."""
        position, size = self.sink.position, memoryview(data).nbytes
        if size:
            self.sink.write(data)
        if gap := -size % self._alignment:
            self.sink.write(_PAD * gap)
        return position, size

    def page(self, buffers: Sequence[Any]) -> tuple[tuple[int, int], ...]:
        """Write the data buffers of a page, coalescing small ones; see `buffer`."""
        sizes = [memoryview(buffer).nbytes for buffer in buffers]
        if sum(sizes) > _SMALL_BYTES:
            return tuple([self.buffer(buffer) for buffer in buffers])
        position, places = self.sink.position, []
        parts: list[Any] = []
        for buffer, size in zip(buffers, sizes, strict=True):
            gap = -size % self._alignment
            places.append((position, size))
            parts += (buffer, _PAD * gap)
            position += size + gap
        self.sink.write(b"".join(parts))
        return tuple(places)

    def global_buffer(self, data: Any) -> int:
        """Write a global buffer and return its number, from 1 on."""
        self._global_buffers.append(self.buffer(data))
        return len(self._global_buffers)

    def end(
        self, schema: Schema, num_rows: int, columns: Sequence[bytes], version: FileVersion
    ) -> None:
        """Write the end of the file, given the metadata of each column."""
        message = file_pb2.Schema(fields=schema.to_proto(), metadata=schema.metadata_to_proto())
        descriptor = file_pb2.FileDescriptor(schema=message, length=num_rows)
        self.end_with(descriptor.SerializeToString(), columns, version)

    def end_with(self, descriptor: bytes, columns: Sequence[bytes], version: FileVersion) -> None:
        """Write the end of the file, given a serialised file descriptor."""
        global_buffers = [self._bytes(descriptor), *self._global_buffers]
        start = self.sink.position
        sizes = list(map(len, columns))
        entries = list(zip(accumulate(sizes, initial=start), sizes, strict=False))
        self.sink.write(b"".join(columns))
        column_table, _ = self._bytes(pack_table(entries))
        global_table, _ = self._bytes(pack_table(global_buffers))
        count = len(global_buffers)
        footer = Footer(start, column_table, global_table, count, len(columns), version)
        self._bytes(footer.pack())

    def _bytes(self, data: bytes) -> tuple[int, int]:
        position = self.sink.position
        self.sink.write(data)
        return position, len(data)
