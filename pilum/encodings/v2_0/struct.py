"""Structs, with columns for their members or packed row by row, and positions of blobs.

    struct           no bytes, only a length: the members are columns of their own
    packed_struct    row r is the bytes r * width .. (r + 1) * width: its members in order,
                     without padding

    {a: int32 = 1, b: float64 = 2, c: [1, 2, 3] of int8}
    01000000 0000000000000040 010203

Neither a struct nor a member of a packed struct is ever null. Only the widths of the members' own
encodings matter, and the schema has these.

Positions of blob payloads are a packed struct of two words per row:

    payload of some bytes    position in the file, size
    empty payload            0, 0
    null                     1, 0

Payloads lie before the page, each at a multiple of 64 bytes; the first may be at 0.
Source: docs/format/encodings-2.0.md, "Struct", "Packed struct" and "Blobs".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pilum.blocks import validity_mask
from pilum.encodings.base import demand
from pilum.encodings.v2_0.base import (
    ArrayEncoding,
    Buffer,
    Bytes,
    Children,
    Encoded,
    Items,
    aligned,
    bits_of,
)
from pilum.encodings.v2_0.fixed_size import FixedSizeList, items_of
from pilum.encodings.v2_0.flat import Flat
from pilum.encodings.v2_0.nullable import Nullable
from pilum.format.pb import encodings20_pb2 as pb
from pilum.storage.base import Plan

__all__ = ["PackedStruct", "Struct", "encode_places", "packed_bytes"]


@dataclass(frozen=True)
class PackedStruct(ArrayEncoding):
    """Rows of fixed-width members."""

    arm = "packed_struct"

    members: tuple[ArrayEncoding, ...]
    buffer: Buffer

    @classmethod
    def from_proto(cls, message: pb.PackedStruct, children: Children) -> PackedStruct:
        """Read the member message."""
        members = tuple(children(inner) for inner in message.inner)
        return cls(members, Buffer.from_proto(message.buffer))

    def member(self) -> pb.PackedStruct:
        """Return the member message."""
        inner = [member.to_proto() for member in self.members]
        return pb.PackedStruct(inner=inner, buffer=self.buffer.to_proto())

    def read(self, items: Items, kind: pa.DataType) -> Plan[pa.Array]:
        """Read whole rows, and split their members."""
        demand(pt.is_struct(kind), f"values of type {kind} stored as {self.arm}")
        widths = [packed_bytes(member.type) for member in kind]
        demand(
            None not in widths and len(widths) == len(self.members),
            f"values of type {kind} stored as {self.arm} of {len(self.members)} members",
        )
        ends = np.cumsum([0, *(width or 0 for width in widths)])
        rows = yield from Flat(8 * int(ends[-1]), self.buffer).values(items)
        table = rows.reshape(items.num_wanted, int(ends[-1]))
        members = [
            _array(member.type, table[:, start:stop])
            for member, start, stop in zip(kind, ends, ends[1:], strict=False)
        ]
        return pa.StructArray.from_arrays(members, fields=list(kind))

    @classmethod
    def encode(cls, array: pa.Array, first: int) -> Encoded:
        """Encode the rows of an array without nulls into buffer number `first`."""
        members = [array.field(index) for index in range(array.type.num_fields)]
        rows = np.concatenate([_rows(member) for member in members], axis=1)
        inner = tuple(_description(member.type) for member in members)
        return Encoded(cls(inner, Buffer(first)), (np.ascontiguousarray(rows),))


def packed_bytes(kind: pa.DataType) -> int | None:
    """Return the bytes of a member in its row; None if it cannot be packed."""
    if pt.is_fixed_size_list(kind):
        item = packed_bytes(kind.value_type)
        return None if item is None else item * int(kind.list_size)
    bits = bits_of(kind)
    return bits // 8 if bits and bits % 8 == 0 else None


def _array(kind: pa.DataType, rows: Bytes) -> pa.Array:
    if not pt.is_fixed_size_list(kind):
        return pa.Array.from_buffers(kind, len(rows), [None, aligned(rows)], 0)
    items = _array(kind.value_type, rows.reshape(len(rows) * kind.list_size, -1))
    return pa.Array.from_buffers(kind, len(rows), [None], 0, children=[items])


def _rows(member: pa.Array) -> Bytes:
    """Return the bytes of each value, shape (n, width)."""
    values, count = member, len(member)
    while pt.is_fixed_size_list(values.type):
        values = items_of(values)
    data = np.frombuffer(Flat.encode(values, 0).buffers[0], np.uint8)
    return data.reshape(count, packed_bytes(member.type) or 0)


def _description(kind: pa.DataType) -> ArrayEncoding:
    """Return the description of a member: all refer to buffer 0, which no member has."""
    if pt.is_fixed_size_list(kind):
        return Nullable(FixedSizeList(kind.list_size, _description(kind.value_type)))
    return Nullable(Flat(bits_of(kind) or 0, Buffer(0)))


@dataclass(frozen=True)
class Struct(ArrayEncoding):
    """An empty description."""

    arm = "struct"

    @classmethod
    def from_proto(cls, message: pb.Empty, children: Children) -> Struct:
        """Read the member message."""
        return cls()

    def member(self) -> pb.Empty:
        """Return the member message."""
        return pb.Empty()


def encode_places(array: pa.Array) -> Encoded:
    """Encode positions and sizes; nulls get special words."""
    valid = validity_mask(array)
    position, size = (
        array.field(index).to_numpy(zero_copy_only=False).astype(np.uint64) for index in (0, 1)
    )
    position[~valid], size[~valid] = 1, 0
    members = [pa.array(position), pa.array(size)]
    return PackedStruct.encode(pa.StructArray.from_arrays(members, ["position", "size"]), 0)
