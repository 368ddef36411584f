"""Files that claim what cannot be: each part in order, the whole absurd.

Runs as a program that reads them all in little memory:

    python -m container.claims
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from container.damage import attempt, columns
from container.files import write_table
from explore.costs import limit_memory

from pilum.container.frame import FOOTER_BYTES
from pilum.format.pb import encodings21_pb2, file_pb2

__all__ = ["CLAIMS", "FileParts"]

HUGE = [2**31 - 1, 2**31, 2**32 - 1, 2**39, 2**62, 2**63, 2**64 - 1]


@cache
def _file(name: str) -> bytes:
    return write_table(pa.table({name: columns()[name]}))[0]


class FileParts:
    """A file in pieces that can be changed and put together again.

    Attributes:
        data: The page buffers.
        descriptor: Schema and number of rows.
        columns: Metadata of all columns.
        page: First page of the first column.
        layout: Its description.
        footer: Fields to force: position of metadata, of both tables, both counts.
    """

    def __init__(self, name: str) -> None:
        self._whole = _file(name)
        footer = struct.unpack("<QQQIIHH4s", self._whole[-FOOTER_BYTES:])
        table = np.frombuffer(self._whole[footer[1] :][: 16 * footer[4]], "<u8").reshape(-1, 2)
        position, size = np.frombuffer(self._whole[footer[2] :][:16], "<u8").tolist()
        self.data = bytearray(self._whole[:position])
        self.descriptor = file_pb2.FileDescriptor.FromString(self._whole[position:][:size])
        self.columns = [
            file_pb2.ColumnMetadata.FromString(self._whole[at:][:size])
            for at, size in table.tolist()
        ]
        self.page = self.columns[0].pages[0]
        self._any = file_pb2.Any.FromString(self.page.encoding.direct.encoding)
        self.layout = encodings21_pb2.PageLayout.FromString(self._any.value)
        self.mini_block = self.layout.mini_block_layout
        self.footer: dict[int, int] = {}

    def set_rows(self, num_rows: int) -> None:
        """Claims so many rows wherever rows are told."""
        self.descriptor.length = num_rows
        self.page.length = num_rows
        if self.layout.WhichOneof("layout") == "mini_block_layout":
            self.mini_block.num_items = num_rows

    def build(self) -> bytes:
        """The file."""
        self._any.value = self.layout.SerializeToString()
        self.page.encoding.direct.encoding = self._any.SerializeToString()
        out = bytearray(self.data)
        descriptor = self.descriptor.SerializeToString()
        global_entry = (len(out), len(descriptor))
        out += descriptor
        start, entries = len(out), []
        for column in self.columns:
            packed = column.SerializeToString()
            entries.append((len(out), len(packed)))
            out += packed
        column_table = len(out)
        out += np.array(entries, "<u8").tobytes()
        global_table = len(out)
        out += np.array(global_entry, "<u8").tobytes()
        footer = [start, column_table, global_table, 1, len(self.columns)]
        for index, value in self.footer.items():
            footer[index] = value
        return bytes(out) + struct.pack("<QQQIIHH4s", *footer, 2, 1, b"LANC")


def _rows(name: str, count: int) -> Callable[[], bytes]:
    def make() -> bytes:
        parts = FileParts(name)
        parts.set_rows(count)
        return parts.build()

    return make


def _edit(name: str, change: Callable[[FileParts], object]) -> Callable[[], bytes]:
    def make() -> bytes:
        parts = FileParts(name)
        change(parts)
        return parts.build()

    return make


def _fields(count: int, make: Callable[[int], tuple[int, int]]) -> Callable[[FileParts], None]:
    """Replaces the schema by structs; `make` gives id and parent of each."""

    def change(parts: FileParts) -> None:
        del parts.descriptor.schema.fields[:]
        for number in range(count):
            own, parent = make(number)
            parts.descriptor.schema.fields.add(
                name=f"f{number}", id=own, parent_id=parent, logical_type="struct"
            )

    return change


def _set(message: Callable[[FileParts], Any], **values: Any) -> Callable[[FileParts], None]:
    def change(parts: FileParts) -> None:
        target = message(parts)
        for field, value in values.items():
            setattr(target, field, value)

    return change


def _buffers(field: str, index: int, value: int) -> Callable[[FileParts], None]:
    def change(parts: FileParts) -> None:
        getattr(parts.page, field)[index] = value

    return change


def _zero_width_dictionary(parts: FileParts) -> None:
    packing = parts.mini_block.dictionary.out_of_line_bitpacking
    packing.uncompressed_bits_per_value = 64
    packing.values.flat.bits_per_value = 0
    parts.mini_block.num_dictionary_items = 2**40
    parts.page.buffer_sizes[2] = 0


def _bomb(scheme: int, head: bytes) -> Callable[[FileParts], None]:
    """Values of chunks as compressed bytes that promise gigabytes."""

    def change(parts: FileParts) -> None:
        inner = encodings21_pb2.CompressiveEncoding()
        inner.CopyFrom(parts.mini_block.value_compression)
        general = parts.mini_block.value_compression.general
        general.compression.scheme = scheme
        general.values.CopyFrom(inner)
        body = parts.page.buffer_offsets[1]
        parts.data[body + 8 : body + 8 + len(head)] = head

    return change


def _all() -> Iterator[tuple[str, Callable[[], bytes]]]:
    for name in columns():
        for count in (1, 301, 2**31, 2**39, 2**63):
            yield f"{count} rows of {name}", _rows(name, count)
    for value in HUGE:
        yield f"{value} items", _edit("lists", _set(lambda p: p.mini_block, num_items=value))
        yield f"{value} items, plain", _edit("flat", _set(lambda p: p.mini_block, num_items=value))
        yield (
            f"{value} dictionary values",
            _edit("dictionary", _set(lambda p: p.mini_block, num_dictionary_items=value)),
        )
        yield (
            f"flat values of {value} bits",
            _edit(
                "flat",
                _set(lambda p: p.mini_block.value_compression.flat, bits_per_value=value),
            ),
        )
        yield (
            f"lists of {value} items",
            _edit(
                "vectors",
                _set(
                    lambda p: p.mini_block.value_compression.fixed_size_list, items_per_value=value
                ),
            ),
        )
        for index in (0, 1):
            for field in ("buffer_offsets", "buffer_sizes"):
                for column in ("packed", "long", "empty lists"):
                    change = _buffers(field, index, value)
                    yield f"{field} {index} of {column}: {value}", _edit(column, change)
    for index in range(5):
        for value in (0, 1, 2**31, 2**32 - 1, *([2**63, 2**64 - 1] if index < 3 else [])):
            yield (
                f"footer field {index}: {value}",
                _edit("flat", lambda p, i=index, v=value: p.footer.update({i: v})),  # type: ignore[misc]
            )
    yield "a thousand layers", _edit("lists", lambda p: p.mini_block.layers.extend([6] * 1000))
    yield (
        "seventy thousand layers",
        _edit("lists", lambda p: p.mini_block.layers.extend([6] * 70_000)),
    )
    yield "a schema without end", _edit("flat", _fields(5000, lambda i: (i, i - 1)))
    yield "a field that is its own parent", _edit("flat", _fields(3, lambda i: (0, i - 1)))
    yield "a dictionary without bytes", _edit("dictionary", _zero_width_dictionary)
    yield "no buffers", _edit("flat", lambda p: p.page.ClearField("buffer_offsets"))
    yield "zstd, 2 GiB", _edit("flat", _bomb(2, struct.pack("<Q", 2**31) + b"\x28\xb5\x2f\xfd"))
    frame = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", 2**31 - 1) + b"\x03\0\0" * 30
    yield "zstd, 2 GiB in the frame", _edit("flat", _bomb(2, struct.pack("<Q", 2**31 - 1) + frame))
    yield "lz4, 4 GiB", _edit("flat", _bomb(1, struct.pack("<I", 2**32 - 1)))
    for name in ("flat", "packed", "dictionary", "long", "zstd", "wide", "lists", "empty lists"):
        for index in (0, 1, 2):
            yield f"buffer {index} of {name} at an odd place", _edit(name, _odd(index))


def _odd(index: int) -> Callable[[FileParts], None]:
    """Moves one buffer, whole, by a byte: nothing forbids it to readers."""

    def change(parts: FileParts) -> None:
        if index >= len(parts.page.buffer_offsets):
            return
        start, size = parts.page.buffer_offsets[index], parts.page.buffer_sizes[index]
        moved = parts.data[start : start + size]
        parts.data += bytes(-len(parts.data) % 64 + 1)
        parts.page.buffer_offsets[index] = len(parts.data)
        parts.data += moved

    return change


CLAIMS = dict(_all())


if __name__ == "__main__":
    files = {name: make() for name, make in CLAIMS.items()}
    limit_memory()
    print(json.dumps({name: attempt(data) for name, data in files.items()}))
