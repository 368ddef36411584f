"""Integers of few bits, in one of two orders. Read, never written.

    bitpacked                 value i is bits i * width .. (i + 1) * width of the buffer, least
                              significant first; if signed, the topmost packed bit is the sign
    bitpacked_for_non_neg     groups of 1,024 values, each of 1,024 x width / 8 bytes, in the order
                              of version 2.1's bit-packing; the last group is padded with zeros

Source: docs/format/encodings-2.0.md, "Bit-packed".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilum import kernels
from pilum.encodings.base import demand
from pilum.encodings.v2_0.base import Buffer, Bytes, Children, FixedWidth, Items
from pilum.format.pb import encodings20_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.storage.base import Plan, Ranges

__all__ = ["Bitpacked", "BitpackedForNonNeg"]

_GROUP = 1024


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
        packed, bits = _widths(cls.arm, message)
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
        first, stop = starts // 8, -(stops // -8)
        fetched = yield Ranges(offset + first, stop - first)
        bits = kernels.gather_bits(
            fetched.data, np.column_stack((fetched.starts * 8 + starts % 8, stops - starts))
        )
        return kernels.unpack_linear(bits, 0, self.packed, self.bits, self.signed, items.num_wanted)


@dataclass(frozen=True)
class BitpackedForNonNeg(FixedWidth):
    """Integers of `packed` bits each; a group is read as a whole."""

    arm = "bitpacked_for_non_neg"

    packed: int
    bits: int
    buffer: Buffer

    @classmethod
    def from_proto(cls, message: pb.BitpackedForNonNeg, children: Children) -> BitpackedForNonNeg:
        """Read the member message."""
        packed, bits = _widths(cls.arm, message)
        return cls(packed, bits, Buffer.from_proto(message.buffer))

    def member(self) -> pb.BitpackedForNonNeg:
        """Return the member message."""
        return pb.BitpackedForNonNeg(
            compressed_bits_per_value=self.packed,
            uncompressed_bits_per_value=self.bits,
            buffer=self.buffer.to_proto(),
        )

    def values(self, items: Items) -> Plan[Bytes]:
        """Read the bytes of the selected values."""
        offset, size = self.buffer.place(items.buffers)
        group_bytes = _GROUP * self.packed // 8
        need = -(items.total // -_GROUP) * group_bytes
        demand(size >= need, f"bitpacked_for_non_neg: {size} bytes for {items.total} values")
        groups = _groups(items.rows)
        fetched = yield Ranges(
            offset + groups.starts * group_bytes, (groups.stops - groups.starts) * group_bytes
        )
        packed = kernels.gather_bytes(
            fetched.data, np.column_stack((fetched.starts, fetched.sizes))
        )
        block = kernels.Block.out_of_line_bitpacking(self.bits, self.packed)
        data = kernels.decode_block(block, packed, groups.num_rows * _GROUP)
        return _picked(data, items.rows, groups, self.bits // 8)


def _widths(arm: str, message: pb.Bitpacked | pb.BitpackedForNonNeg) -> tuple[int, int]:
    """Return the bits of a packed value and of an integer."""
    packed, bits = message.compressed_bits_per_value, message.uncompressed_bits_per_value
    demand(bits in (8, 16, 32, 64) and 0 < packed <= bits, f"{arm}: {packed} of {bits} bits")
    return packed, bits


def _groups(rows: RowRanges) -> RowRanges:
    """Return the groups that hold some rows, with adjacent groups joined."""
    first, stop = rows.starts // _GROUP, -(rows.stops // -_GROUP)
    opens = np.append(True, first[1:] > stop[:-1])
    closes = np.append(opens[1:], True)
    return RowRanges(np.column_stack((first[opens], stop[closes])))


def _picked(data: Bytes, rows: RowRanges, groups: RowRanges, width: int) -> Bytes:
    """Extract the bytes of some rows from those of their groups."""
    range_of = np.searchsorted(groups.starts, rows.starts // _GROUP, side="right") - 1
    lengths = groups.stops - groups.starts
    before = np.cumsum(lengths) - lengths
    shift = (before - groups.starts)[range_of] * _GROUP
    spans = np.column_stack((rows.starts + shift, rows.stops - rows.starts)) * width
    return kernels.gather_bytes(data, spans)
