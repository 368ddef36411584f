"""Bit-packing: integers in as few bits as the largest needs, taken as unsigned.

T = 8, 16, 32 or 64 bits is the width of the values, W that of the packed ones; one negative value
makes W as wide as T. Packed words are in FastLanes order, see rust/kernels/src/bitpacking.rs.

With the width in front (`CompressiveEncoding.inline_bitpacking`), one buffer per chunk of 1,024
values, of which the last one is padded with zeros; as a block there are at most 1,024 values:

    W         T bits                width of this chunk, 0..T
    packed    1024 * W / T words

With one width for a page (`CompressiveEncoding.out_of_line_bitpacking`), which is in the
description, as a flat encoding of W bits. For blocks only: the levels of each chunk, or a
dictionary of n values:

    groups    n // 1024 groups of 1024 * W / T words
    tail      t = n % 1024 values: t raw words if t <= 1024 * W / T, else one more padded group

A reader distinguishes the two tails by their length. Source: docs/format/encodings-2.1.md,
"Bit-packing".
"""

from __future__ import annotations

from dataclasses import dataclass

from pilum.encodings.base import Children, Compressive, demand
from pilum.format.pb import encodings21_pb2 as pb
from pilum.kernels import Block, Coding, Plan

__all__ = ["InlineBitpacking", "OutOfLineBitpacking"]


@dataclass(frozen=True)
class InlineBitpacking(Compressive):
    """Integers in as many bits as the largest of each chunk needs; any value can be read alone."""

    arm = "inline_bitpacking"
    coding = Coding.INLINE_BITPACKING

    bits: int

    def __post_init__(self) -> None:
        demand(self.bits in (8, 16, 32, 64), f"inline bit-packing: words of {self.bits} bits")

    @classmethod
    def from_proto(cls, message: pb.InlineBitpacking, children: Children) -> InlineBitpacking:
        """Read the member message."""
        return cls(message.uncompressed_bits_per_value)

    def member(self) -> pb.InlineBitpacking:
        """Return the member message."""
        return pb.InlineBitpacking(uncompressed_bits_per_value=self.bits)

    def plan(self) -> Plan:
        """Return the plan that decodes values of chunks."""
        return Plan.inline_bitpacking(self.bits)

    def block(self) -> Block:
        """Return the block that decodes at most 1,024 values."""
        return Block.inline_bitpacking(self.bits)


@dataclass(frozen=True)
class OutOfLineBitpacking(Compressive):
    """Integers of `bits` bits packed into `packed_bits`."""

    arm = "out_of_line_bitpacking"

    bits: int
    packed_bits: int

    def __post_init__(self) -> None:
        demand(self.bits in (8, 16, 32, 64), f"bit-packing: words of {self.bits} bits")
        demand(
            self.packed_bits <= self.bits, f"bit-packing: {self.packed_bits} of {self.bits} bits"
        )

    @classmethod
    def from_proto(cls, message: pb.OutOfLineBitpacking, children: Children) -> OutOfLineBitpacking:
        """Read the member message."""
        arm = message.values.WhichOneof("compression")
        demand(arm == "flat", f"bit-packing: packed words as {arm}")
        return cls(message.uncompressed_bits_per_value, message.values.flat.bits_per_value)

    def member(self) -> pb.OutOfLineBitpacking:
        """Return the member message."""
        packed = pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=self.packed_bits))
        return pb.OutOfLineBitpacking(uncompressed_bits_per_value=self.bits, values=packed)

    def block(self) -> Block:
        """Return the block that decodes values."""
        return Block.out_of_line_bitpacking(self.bits, self.packed_bits)
