"""Integers of few bits, back to back (`ArrayEncoding.bitpacked`). Read, never written.

    value i     bits i * width .. (i + 1) * width of the buffer, least significant first

If signed, the topmost packed bit is the sign. Source: docs/format/encodings-2.0.md, "Bit-packed".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilum import kernels
from pilum.encodings.base import demand
from pilum.encodings.v2_0.base import Buffer, Bytes, Children, Items
from pilum.encodings.v2_0.fixed_width import FixedWidth
from pilum.format.pb import encodings20_pb2 as pb
from pilum.storage.base import Plan, Ranges

__all__ = ["Bitpacked"]


@dataclass(frozen=True)
class Bitpacked(FixedWidth):
    """Integers of `packed` bits each; any rows can be read alone."""

    arm = "bitpacked"

    packed: int
    bits: int
    buffer: Buffer
    signed: bool

    @classmethod
    def from_proto(cls, message: pb.Bitpacked, children: Children) -> Bitpacked:
        """Read the member message."""
        packed, bits = message.compressed_bits_per_value, message.uncompressed_bits_per_value
        demand(
            bits in (8, 16, 32, 64) and 0 < packed <= bits, f"bitpacked: {packed} of {bits} bits"
        )
        return cls(packed, bits, Buffer.from_proto(message.buffer), message.signed)

    def member(self) -> pb.Bitpacked:
        """Return the member message."""
        return pb.Bitpacked(
            compressed_bits_per_value=self.packed,
            uncompressed_bits_per_value=self.bits,
            buffer=self.buffer.to_proto(),
            signed=self.signed,
        )

    def values(self, items: Items) -> Plan[Bytes]:
        """Read the bytes of the selected values."""
        offset, size = self.buffer.place(items.buffers)
        need = -(items.total * self.packed // -8)
        demand(size >= need, f"bitpacked: {size} bytes for {items.total} values")
        starts, stops = items.rows.starts * self.packed, items.rows.stops * self.packed
        first, behind = starts // 8, -(stops // -8)
        fetched = yield Ranges(offset + first, behind - first)
        bits = kernels.gather_bits(
            fetched.data, np.column_stack((fetched.starts * 8 + starts % 8, stops - starts))
        )
        return kernels.unpack_linear(bits, 0, self.packed, self.bits, self.signed, items.num_wanted)
