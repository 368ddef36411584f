"""Strings of one-byte codes (`CompressiveEncoding.fsst`).

The description holds a symbol table of 2,312 bytes; the values are a `variable` encoding of the
compressed strings, each of which decodes on its own:

    0     number of symbols n        4..8     54 53 53 46
    1,2   for the encoder only       8        n symbols of 8 bytes, zero filled
    3     bit 0: data is coded       8 + 8n   n symbol lengths, 1..8

Code c < n denotes symbol c, code 255 escapes the literal byte after it. Without bit 0 the strings
are stored uncompressed. Source: docs/format/encodings-2.1.md, "FSST".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pilum.encodings.base import Children, Compressive, demand
from pilum.encodings.compressive.variable import Variable
from pilum.format.pb import encodings21_pb2 as pb
from pilum.kernels import Plan

__all__ = ["Fsst"]


@dataclass(frozen=True)
class Fsst(Compressive):
    """Strings compressed by a table of frequent symbols; any value can be read alone."""

    arm = "fsst"

    symbol_table: bytes = field(repr=False)
    values: Variable

    @classmethod
    def from_proto(cls, message: pb.Fsst, children: Children) -> Fsst:
        """Read the member message."""
        values = children(message.values)
        demand(isinstance(values, Variable), f"fsst: strings as {values.arm}")
        assert isinstance(values, Variable)
        return cls(message.symbol_table, values)

    def member(self) -> pb.Fsst:
        """Return the member message."""
        return pb.Fsst(symbol_table=self.symbol_table, values=self.values.to_proto())

    def plan(self) -> Plan:
        """Return the plan that decodes values of chunks or zipped entries."""
        return Plan.fsst(self.symbol_table, self.values.offset_bits)
