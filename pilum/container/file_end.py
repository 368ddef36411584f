"""The end of a file: its number of rows, its schema, and the places of its columns.

    data buffers │ file descriptor, column metadata, column table, global table, footer
                 ▲ the end of most files begins here

Small files that were written alike often have the same end, byte for byte. They share the parsed
object, with the metadata of those columns that were read in any of them.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from pilum.cache import SHARED_DESCRIPTIONS, Descriptions
from pilum.container.column_pages import ColumnPages
from pilum.container.frame import (
    FOOTER_BYTES,
    MAX_ROWS,
    Footer,
    Places,
    Tail,
    parse_file_descriptor,
    parse_table,
)
from pilum.errors import CorruptFileError
from pilum.format.paths import elements_per_row
from pilum.format.pb import file_pb2
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.lazy import cached_property
from pilum.storage.base import Plan

__all__ = ["FileEnd", "FileSchema", "shared_end"]

_SHARED_BYTES = 8192
_SHARED_ENDS = Descriptions(4 << 20)
_POSITIONS = struct.Struct("<QQQ")
_POSITION = struct.Struct("<Q")


class FileSchema:
    """The schema from global buffer 0, which most files of a table share."""

    def __init__(self, data: bytes) -> None:
        self._message = file_pb2.Schema.FromString(data)

    @cached_property
    def schema(self) -> Schema:
        """The schema, with the field ids of the table that the file was written for."""
        return Schema.from_proto(self._message.fields, self._message.metadata)

    @cached_property
    def elements(self) -> list[int]:
        """The number of elements per row of each column."""
        paths = (path for field in self.schema.fields for path in field.leaf_paths())
        return [elements_per_row(path) if len(path) > 1 else 1 for path in paths]


class FileEnd:
    """The parsed end of a file; immutable, as files share it.

    Attributes:
        version: File version.
        num_rows: Rows of the file.
        file_schema: The schema.
        descriptor_bytes: Size of the file descriptor.
        column_table: Position and size of the metadata of each column, bytes.
        global_buffers: Position and size of each global buffer, bytes; the first is the file
            descriptor.
        start: Position of the metadata of the first column.
        columns: The metadata of the columns that were read, since version 2.1.
    """

    __slots__ = (
        *("column_table", "columns", "descriptor_bytes", "file_schema", "global_buffers"),
        *("num_rows", "start", "version"),
    )

    def __init__(
        self,
        footer: Footer,
        descriptor: NDArray[np.uint8],
        column_table: Places,
        global_buffers: Places,
        descriptions: Descriptions,
    ) -> None:
        self.version: FileVersion = footer.version
        self.num_rows, schema = descriptions.parsed(_described, descriptor.tobytes())
        self.file_schema = descriptions.parsed(FileSchema, schema)
        self.descriptor_bytes = len(descriptor)
        self.column_table = column_table
        self.global_buffers = global_buffers
        self.start = footer.column_metadata
        self.columns: dict[int, ColumnPages] = {}
        if self.num_rows >= MAX_ROWS:
            raise CorruptFileError(f"rows: {self.num_rows}; a file has fewer than {MAX_ROWS}")

    @classmethod
    def read(cls, file_bytes: int, tail: Tail, descriptions: Descriptions) -> Plan[FileEnd]:
        """Read footer, tables and file descriptor; only what lies before the tail is fetched.

        Raises:
            CorruptFileError: If the file is not a Lance file, or is damaged.
            UnsupportedVersionError: If its version is not supported.
        """
        footer = Footer.parse(tail.data[-FOOTER_BYTES:].tobytes(), file_bytes)
        table = yield from tail.bytes_at(footer.global_table, footer.global_table_bytes)
        global_buffers = parse_table(table, footer.column_metadata)
        size = footer.column_table_bytes
        descriptor, table = yield from tail.all_at(
            [global_buffers[0], (footer.global_table - size, size)]
        )
        columns = parse_table(table, footer.global_table)
        if columns and min(columns)[0] < min(footer.column_metadata, footer.column_table):
            raise CorruptFileError("column metadata before its start")
        return cls(footer, descriptor, columns, global_buffers, descriptions)


def shared_end(data: NDArray[np.uint8]) -> FileEnd | None:
    """Return the end of a file in memory, parsed once for all files with the same.

    None if the end is long, or its parts are in an unusual order. The errors are those of
    `FileEnd.read`.
    """
    start = _start(data)
    if start is None:
        return None
    return _SHARED_ENDS.parsed(_end, data[start:].tobytes(), len(data))


def _start(data: NDArray[np.uint8]) -> int | None:
    """Return where the end begins, if it is short."""
    size = len(data)
    if size < FOOTER_BYTES:
        return None
    columns, _, table = _POSITIONS.unpack_from(data.data, size - FOOTER_BYTES)
    if table > size - FOOTER_BYTES:
        return None
    (descriptor,) = _POSITION.unpack_from(data.data, table)
    start: int = min(columns, descriptor)
    return start if 0 <= size - start <= _SHARED_BYTES else None


def _end(data: bytes, file_bytes: int) -> FileEnd | None:
    tail = Tail(file_bytes - len(data), np.frombuffer(data, np.uint8))
    try:
        next(FileEnd.read(file_bytes, tail, SHARED_DESCRIPTIONS))
    except StopIteration as stop:
        end: FileEnd = stop.value
        return end
    return None


def _described(data: bytes) -> tuple[int, bytes]:
    """Parse global buffer 0 and return the number of rows and the serialised schema."""
    message = parse_file_descriptor(data)
    return message.length, message.schema.SerializeToString()
