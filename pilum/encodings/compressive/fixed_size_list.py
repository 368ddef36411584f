"""Fixed-size lists of primitives (`CompressiveEncoding.fixed_size_list`), nested to any depth.

A value is a whole list of D items. Mini-block chunk of n lists:

    validity   one bitmap of n * D bits per level whose items may be null, outer level first
    items      n * D x item width; none if all are null (`Constant`)

In full-zip pages each value holds its own bitmaps (ceil(D / 8) bytes each) and then its items. The
validity of the lists themselves is an ordinary definition level. D counts the items of all levels
down to its own. Source: docs/format/encodings-2.1.md, "Fixed-size lists".
"""

from __future__ import annotations

from dataclasses import dataclass

from pilum.encodings.base import Children, Compressive, demand
from pilum.encodings.compressive.constant import Constant
from pilum.encodings.compressive.flat import Flat
from pilum.format.pb import encodings21_pb2 as pb
from pilum.kernels import Plan

__all__ = ["FixedSizeList"]


@dataclass(frozen=True)
class FixedSizeList(Compressive):
    """Lists of `items_per_value` items each."""

    arm = "fixed_size_list"

    items_per_value: int
    has_validity: bool
    values: Flat | FixedSizeList | Constant

    def __post_init__(self) -> None:
        valid = 0 < self.items_per_value < 2**31 and self.bits < 2**40
        demand(valid, f"fixed-size list: {self.items_per_value} items per value")

    @classmethod
    def from_proto(cls, message: pb.FixedSizeList, children: Children) -> FixedSizeList:
        """Read the member message."""
        values = children(message.values)
        known = Flat | FixedSizeList | Constant
        demand(isinstance(values, known), f"fixed-size list: items as {values.arm}")
        assert isinstance(values, known)
        return cls(message.items_per_value, message.has_validity, values)

    def member(self) -> pb.FixedSizeList:
        """Return the member message."""
        return pb.FixedSizeList(
            items_per_value=self.items_per_value,
            values=self.values.to_proto(),
            has_validity=self.has_validity,
        )

    @property
    def bits(self) -> int:
        """Bits of all items of one value."""
        return self.items_per_value * self.values.bits

    def validity_counts(self, outer: int = 1) -> list[int]:
        """Return the items per value at each level with nullable items, outer level first."""
        items = outer * self.items_per_value
        here = [items] if self.has_validity else []
        below = self.values
        return here + (below.validity_counts(items) if isinstance(below, FixedSizeList) else [])

    @property
    def num_buffers(self) -> int:
        """Number of buffers: one bitmap per nullable level, and the items."""
        return len(self.validity_counts()) + 1

    def plan(self) -> Plan:
        """Return the plan that decodes values of chunks or zipped entries."""
        return Plan.fixed_size_list(self.validity_counts(), self.bits)
