"""A file since 2.0 in pieces that can be changed and put together again."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError, Message

from pilum.container.frame import FOOTER_BYTES
from pilum.format.pb import encodings20_pb2, encodings21_pb2, file_pb2

__all__ = ["FileParts"]

_FOOTER = "<QQQIIHH4s"
_LAYOUTS: dict[str, Any] = {
    "PageLayout": encodings21_pb2.PageLayout,
    "ArrayEncoding": encodings20_pb2.ArrayEncoding,
}


@dataclass
class FileParts:
    """The pieces.

    Attributes:
        data: Everything before the first global buffer.
        descriptor: Schema and number of rows.
        others: Further global buffers.
        columns: Metadata of all columns.
        version: Numbers of the footer.
        footer: Fields to force, by their number.
    """

    data: bytearray
    descriptor: Any
    others: list[bytes]
    columns: list[Any]
    version: tuple[int, int]
    footer: dict[int, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, whole: bytes) -> FileParts | None:
        """Takes a file apart; None if that is no use."""
        try:
            footer = struct.unpack(_FOOTER, whole[-FOOTER_BYTES:])
            if footer[5] not in (0, 2) or max(footer[:3]) > len(whole):
                return None
            tables = [
                np.frombuffer(whole, "<u8", 2 * count, at).reshape(-1, 2).tolist()
                for at, count in ((footer[1], footer[4]), (footer[2], footer[3]))
            ]
            columns = [
                file_pb2.ColumnMetadata.FromString(whole[at : at + size]) for at, size in tables[0]
            ]
            buffers = [whole[at : at + size] for at, size in tables[1]]
            descriptor = file_pb2.FileDescriptor.FromString(buffers[0])
        except (struct.error, ValueError, IndexError, DecodeError):
            return None
        first = min(at for at, _ in tables[1])
        return cls(
            bytearray(whole[:first]), descriptor, buffers[1:], columns, (footer[5], footer[6])
        )

    def change_layout(self, page: Any, change: Callable[[Message], None]) -> None:
        """Changes the description of a page, which is a message in a message in bytes."""
        wrapped = file_pb2.Any.FromString(page.encoding.direct.encoding)
        kind = _LAYOUTS.get(wrapped.type_url.rpartition(".")[2])
        if kind is None:
            return
        layout = kind.FromString(wrapped.value)
        change(layout)
        wrapped.value = layout.SerializeToString()
        page.encoding.direct.encoding = wrapped.SerializeToString()

    def build(self) -> bytes:
        """The file."""
        out = bytearray(self.data)
        buffers = [self.descriptor.SerializeToString(), *self.others]
        global_table = _put_all(out, buffers)
        start = len(out)
        column_table = _put_all(out, [column.SerializeToString() for column in self.columns])
        places = [len(out), len(out) + len(column_table)]
        out += column_table + global_table
        values = [start, *places, len(buffers), len(self.columns), *self.version]
        limits = [64, 64, 64, 32, 32, 16, 16]
        for index, value in self.footer.items():
            values[index] = value % 2 ** limits[index]
        return bytes(out) + struct.pack(_FOOTER, *values, b"LANC")


def _put_all(out: bytearray, pieces: list[bytes]) -> bytes:
    """Appends pieces; returns the table of their places."""
    entries = []
    for piece in pieces:
        entries += [len(out), len(piece)]
        out += piece
    return np.array(entries, "<u8").tobytes()
