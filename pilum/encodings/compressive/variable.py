"""Strings and binary (`CompressiveEncoding.variable`).

One value buffer per mini-block chunk of n values, w = 4 or 8 bytes by the Arrow type:

    offsets   (n + 1) x w    from the start of this buffer; the first is (n + 1) * w
    data
    padding   to a multiple of w, counted in the size of the buffer

Value i is buffer[offsets[i] : offsets[i + 1]]. In full-zip pages each value follows its
length instead. Source: docs/format/encodings-2.1.md, "Variable".
"""

from __future__ import annotations

from dataclasses import dataclass

from pilum.encodings.base import Children, Compressive, demand
from pilum.encodings.compressive.flat import Flat
from pilum.format.pb import encodings21_pb2 as pb
from pilum.kernels import Plan

__all__ = ["Variable"]


@dataclass(frozen=True)
class Variable(Compressive):
    """Values of varying length; any value can be read alone."""

    arm = "variable"

    offset_bits: int

    def __post_init__(self) -> None:
        demand(self.offset_bits in (32, 64), f"variable: offsets of {self.offset_bits} bits")

    @classmethod
    def from_proto(cls, message: pb.Variable, children: Children) -> Variable:
        """Read the member message."""
        offsets = children(message.offsets)
        demand(isinstance(offsets, Flat), "variable: offsets that are not flat")
        assert isinstance(offsets, Flat)
        return cls(offsets.bits)

    def member(self) -> pb.Variable:
        """Return the member message."""
        return pb.Variable(offsets=Flat(self.offset_bits).to_proto())

    def plan(self) -> Plan:
        """Return the plan that decodes values of chunks or zipped entries."""
        return Plan.variable(self.offset_bits)
