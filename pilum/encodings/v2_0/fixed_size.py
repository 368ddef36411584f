"""Values of a fixed number of items: lists, and strings of one length.

    fixed_size_list      row r is the items r * dimension .. (r + 1) * dimension
    fixed_size_binary    value i is the bytes i * width .. (i + 1) * width; read, never written

Null lists are given by a `nullable` around the encoding, null items by a `nullable` within. Items
of one bit are contiguous, also across rows. Source: docs/format/encodings-2.0.md, "Fixed-size list"
and "Fixed-size binary".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pilum.encodings.base import demand
from pilum.encodings.v2_0.base import ArrayEncoding, Children, FixedWidth, Items
from pilum.encodings.v2_0.binary import OFFSET_BITS
from pilum.encodings.v2_0.nullable import Nullable
from pilum.format.pb import encodings20_pb2 as pb
from pilum.storage.base import Plan

__all__ = ["FixedSizeBinary", "FixedSizeList", "items_of"]

_BYTE = 8


@dataclass(frozen=True)
class FixedSizeList(ArrayEncoding):
    """`dimension` items per value."""

    arm = "fixed_size_list"

    dimension: int
    items: ArrayEncoding

    @classmethod
    def from_proto(cls, message: pb.FixedSizeList, children: Children) -> FixedSizeList:
        """Read the member message."""
        demand(message.dimension > 0, "fixed_size_list: no items")
        demand(not message.has_validity, "fixed_size_list: validity of its own")
        return cls(message.dimension, children(message.items))

    def member(self) -> pb.FixedSizeList:
        """Return the member message."""
        return pb.FixedSizeList(dimension=self.dimension, items=self.items.to_proto())

    def read(self, items: Items, kind: pa.DataType) -> Plan[pa.Array]:
        """Read lists without nulls among them."""
        demand(
            pt.is_fixed_size_list(kind) and kind.list_size == self.dimension,
            f"values of type {kind} stored as lists of {self.dimension}",
        )
        values = yield from self.items.read(items.times(self.dimension), kind.value_type)
        return pa.Array.from_buffers(kind, items.num_wanted, [None], 0, children=[values])


def items_of(array: pa.Array) -> pa.Array:
    """Return all items of an array of fixed-size lists, including those of null lists."""
    size = array.type.list_size
    return array.values.slice(array.offset * size, len(array) * size)


@dataclass(frozen=True)
class FixedSizeBinary(ArrayEncoding):
    """Values of `width` bytes for a column of strings."""

    arm = "fixed_size_binary"

    bytes: ArrayEncoding
    width: int

    @classmethod
    def from_proto(cls, message: pb.FixedSizeBinary, children: Children) -> FixedSizeBinary:
        """Read the member message."""
        demand(message.byte_width > 0, "fixed_size_binary: values without bytes")
        return cls(children(message.bytes), message.byte_width)

    def member(self) -> pb.FixedSizeBinary:
        """Return the member message."""
        return pb.FixedSizeBinary(bytes=self.bytes.to_proto(), byte_width=self.width)

    def read(self, items: Items, kind: pa.DataType) -> Plan[pa.Array]:
        """Read values without nulls."""
        bits = OFFSET_BITS.get(kind.id)
        demand(bits is not None, f"values of type {kind} stored as {self.arm}")
        size = items.num_wanted * self.width
        demand(bits == 64 or size < 2**31, f"fixed_size_binary: {size} bytes for type {kind}")
        if self._as_bytes:
            data = yield from self.bytes.raw(items.times(self.width), _BYTE)
        else:
            data = yield from self.bytes.raw(items, _BYTE * self.width)
        offsets = np.arange(0, size + 1, self.width, dtype=np.int64 if bits == 64 else np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(kind, items.num_wanted, buffers, 0)

    @property
    def _as_bytes(self) -> bool:
        """Return whether single bytes are described; other writers describe whole values."""
        inner: ArrayEncoding | None = self.bytes
        while isinstance(inner, Nullable):
            inner = inner.values
        return isinstance(inner, FixedWidth) and inner.bits == _BYTE and self.width > 1
