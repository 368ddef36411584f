"""Strings that all have the same length (`ArrayEncoding.fixed_size_binary`). Read, never written.

    value i     bytes i * width .. (i + 1) * width

Source: docs/format/encodings-2.0.md, "Fixed-size binary".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pilum.encodings.base import demand
from pilum.encodings.v2_0.base import ArrayEncoding, Children, Items
from pilum.encodings.v2_0.binary import OFFSET_BITS
from pilum.encodings.v2_0.fixed_width import FixedWidth
from pilum.encodings.v2_0.nullable import Nullable
from pilum.format.pb import encodings20_pb2 as pb
from pilum.storage.base import Plan

__all__ = ["FixedSizeBinary"]

_BYTE = 8


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
