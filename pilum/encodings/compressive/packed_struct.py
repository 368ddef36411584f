"""Structs of fixed-width members as one value (`CompressiveEncoding.packed_struct`).

One value buffer per mini-block chunk of n rows, the members of a row side by side in the order of
the schema, without padding:

    struct<x: int32, y: float64, z: uint8>    13 bytes a row

    x (4 bytes)   y (8 bytes)   z (1 byte)   x   y   z   …

The validity of the struct is an ordinary definition level; members have none. Source:
docs/format/encodings-2.1.md, "Packed structs".
"""

from __future__ import annotations

from dataclasses import dataclass

from pilum.encodings.base import Children, Compressive, demand
from pilum.encodings.compressive.flat import Flat
from pilum.errors import UnsupportedFormatError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.kernels import Plan

__all__ = ["PackedStruct"]


@dataclass(frozen=True)
class PackedStruct(Compressive):
    """Rows of members of `bits` bits each; any row can be read alone."""

    arm = "packed_struct"

    bits: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(bits % 8 for bits in self.bits):
            raise UnsupportedFormatError(f"packed struct: members of {list(self.bits)} bits")
        widths = bool(self.bits) and all(self.bits) and sum(self.bits) < 2**31
        demand(widths, f"packed struct: members of {list(self.bits)} bits")

    @classmethod
    def from_proto(cls, message: pb.PackedStruct, children: Children) -> PackedStruct:
        """Read the member message."""
        bits = tuple(message.bits_per_value)
        flat = message.values.WhichOneof("compression") == "flat"
        demand(flat, "packed struct: rows that are not flat")
        total = message.values.flat.bits_per_value
        demand(total == sum(bits), f"packed struct, bits: expected {sum(bits)}, found {total}")
        return cls(bits)

    def member(self) -> pb.PackedStruct:
        """Return the member message."""
        values = Flat(sum(self.bits)).to_proto()
        return pb.PackedStruct(bits_per_value=self.bits, values=values)

    def plan(self) -> Plan:
        """Return the plan that decodes values of chunks."""
        return Plan.flat(sum(self.bits))
