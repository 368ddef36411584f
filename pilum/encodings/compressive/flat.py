"""Uncompressed values (`CompressiveEncoding.flat`).

    bits_per_value = 1     bitmap, least significant bit first, ceil(n / 8) bytes
    any multiple of 8      n x width bytes, little-endian

A block consists of the same bytes. Source: docs/format/encodings-2.1.md, "Flat".
"""

from __future__ import annotations

from dataclasses import dataclass

from pilum.encodings.base import Children, Compressive, demand
from pilum.format.pb import encodings21_pb2 as pb
from pilum.kernels import Block, Plan

__all__ = ["Flat"]


@dataclass(frozen=True)
class Flat(Compressive):
    """Fixed-width values without compression; any value can be read alone."""

    arm = "flat"

    bits: int

    def __post_init__(self) -> None:
        valid = self.bits == 1 or (self.bits % 8 == 0 and 0 < self.bits < 2**31)
        demand(valid, f"flat: values of {self.bits} bits")

    @classmethod
    def from_proto(cls, message: pb.Flat, children: Children) -> Flat:
        """Read the member message."""
        demand(not message.HasField("data"), "flat: a compressed buffer, which no version writes")
        return cls(message.bits_per_value)

    def member(self) -> pb.Flat:
        """Return the member message."""
        return pb.Flat(bits_per_value=self.bits)

    def plan(self) -> Plan:
        """Return the plan that decodes values of chunks or zipped entries."""
        return Plan.flat(self.bits)

    def block(self) -> Block:
        """Return the block that decodes values."""
        return Block.flat(self.bits)
