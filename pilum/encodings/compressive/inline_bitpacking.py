"""Bit-packing with the width in front (`CompressiveEncoding.inline_bitpacking`).

T = 8, 16, 32 or 64 bits is the width of the values. One buffer per chunk of 1,024 values (the
last one is padded with zeros):

    W         T bits                width of this chunk, 0..T
    packed    1024 * W / T words    in FastLanes order, see rust/kernels/src/bitpacking.rs

W counts the bits of the largest value taken as unsigned, so one negative value makes it T. As a
block there are at most 1,024 values. Source: docs/format/encodings-2.1.md, "Bit-packing".
"""

from __future__ import annotations

from dataclasses import dataclass

from pilum.encodings.base import Children, Compressive, demand
from pilum.format.pb import encodings21_pb2 as pb
from pilum.kernels import Block, Coding, Plan

__all__ = ["InlineBitpacking"]


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
