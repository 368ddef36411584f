"""Structs with strings or lists as one value (`CompressiveEncoding.variable_packed_struct`).

Since file version 2.2, in full-zip pages only. A row is a value of varying length that consists of
its members in the order of the schema:

    fixed width      the value; of a fixed-size list, the bitmaps of its items and then the items
    varying length   length (4 or 8 bytes), then the bytes, each compressed on its own

    struct<x: int32, s: string, z: uint8>    1 "s" 1   ->   01000000  01000000 73  01

The validity of the struct is an ordinary definition level; members have none. Source:
docs/format/encodings-2.1.md, "Packed structs".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from pilum.encodings.base import Children, Compressive, demand
from pilum.encodings.compressive.fixed_size_list import FixedSizeList
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.fsst import Fsst
from pilum.encodings.compressive.general import General
from pilum.encodings.compressive.variable import Variable
from pilum.format.pb import encodings21_pb2 as pb
from pilum.kernels import Plan

__all__ = ["PackedMember", "VariablePackedStruct", "stored_bits"]

PackedMember: TypeAlias = Flat | FixedSizeList | Variable | Fsst | General


@dataclass(frozen=True)
class VariablePackedStruct(Compressive):
    """Rows of members of which some vary in length; any row can be read alone.

    `offset_bits` is the width of the length prefix of a row, from the description of the page.
    """

    arm = "variable_packed_struct"

    members: tuple[PackedMember, ...]
    offset_bits: int = 32

    @classmethod
    def from_proto(
        cls, message: pb.VariablePackedStruct, children: Children
    ) -> VariablePackedStruct:
        """Read the member message."""
        demand(len(message.fields) > 0, "packed struct without members")
        return cls(tuple(_member(field, children) for field in message.fields))

    def member(self) -> pb.VariablePackedStruct:
        """Return the member message."""
        return pb.VariablePackedStruct(fields=[_message(member) for member in self.members])

    def with_offset_bits(self, offset_bits: int) -> VariablePackedStruct:
        """Return a copy with length prefixes of this width."""
        return replace(self, offset_bits=offset_bits)

    def plan(self) -> Plan:
        """Return the plan that decodes zipped entries, which are whole rows."""
        return Plan.variable(self.offset_bits)


def _member(field: pb.VariablePackedStruct.FieldEncoding, children: Children) -> PackedMember:
    value = children(field.value)
    known = isinstance(value, Flat | FixedSizeList | Variable | Fsst | General)
    demand(known, f"packed struct: a member as {value.arm}")
    assert isinstance(value, Flat | FixedSizeList | Variable | Fsst | General)
    bits = stored_bits(value)
    is_fixed = field.WhichOneof("layout") == "bits_per_value"
    found = field.bits_per_value if is_fixed else field.bits_per_length
    expected = length_bits(value) if bits is None else bits
    same = is_fixed == (bits is not None) and found == expected
    demand(same, f"packed struct: a member of {found} bits as {value.arm} of {expected}")
    demand(found % 8 == 0, f"packed struct: a member of {found} bits")
    return value


def _message(member: PackedMember) -> pb.VariablePackedStruct.FieldEncoding:
    made = pb.VariablePackedStruct.FieldEncoding(value=member.to_proto())
    bits = stored_bits(member)
    if bits is None:
        made.bits_per_length = length_bits(member)
    else:
        made.bits_per_value = bits
    return made


def stored_bits(member: Compressive) -> int | None:
    """Return the bits of a member, including bitmaps; None if they vary."""
    if isinstance(member, FixedSizeList):
        return member.bits + sum(8 * ((count + 7) // 8) for count in member.validity_counts())
    return member.bits if isinstance(member, Flat) else None


def length_bits(member: Compressive) -> int:
    """Return the bits of the length prefix of a member of varying length."""
    if isinstance(member, Variable):
        return member.offset_bits
    inner = member.values if isinstance(member, Fsst | General) else None
    demand(isinstance(inner, Variable | Fsst), f"packed struct: a member as {member.arm}")
    assert inner is not None
    return length_bits(inner)
