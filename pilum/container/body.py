"""What every file since version 2.0 is written of: aligned buffers, then the tables of its end.

    data buffers      each padded to 64 bytes
    global buffer 0   the schema and the number of rows
    column metadata   one message per column
    tables, footer    see `footer.py`

Source: docs/format/container.md, "Writing".
"""

from __future__ import annotations

from typing import Any

from pilum.container.footer import Footer, pack_table
from pilum.format.pb import file_pb2
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Sink

__all__ = ["FileBody"]

_ALIGNMENT = 64
_PAD = b"\x48" * _ALIGNMENT


class FileBody:
    """Writes the parts of one file in their order.

    Attributes:
        sink: Where it goes.
    """

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def buffer(self, data: Any) -> tuple[int, int]:
        """Writes a data buffer; returns its position and size. Empty ones take no room."""
        position, size = self.sink.position, memoryview(data).nbytes
        if size:
            self.sink.write(data)
            self.sink.write(_PAD[: -size % _ALIGNMENT])
        return position, size

    def end(
        self, schema: Schema, num_rows: int, columns: list[bytes], version: FileVersion
    ) -> None:
        """Writes all that follows the data, given the metadata of each column."""
        message = file_pb2.Schema(fields=schema.to_proto(), metadata=schema.metadata_to_proto())
        descriptor = file_pb2.FileDescriptor(schema=message, length=num_rows)
        descriptor_entry = self._bytes(descriptor.SerializeToString())
        start = self.sink.position
        entries = [self._bytes(column) for column in columns]
        column_table, _ = self._bytes(pack_table(entries))
        global_table, _ = self._bytes(pack_table([descriptor_entry]))
        footer = Footer(start, column_table, global_table, 1, len(columns), version)
        self._bytes(footer.pack())

    def _bytes(self, data: bytes) -> tuple[int, int]:
        position = self.sink.position
        self.sink.write(data)
        return position, len(data)
