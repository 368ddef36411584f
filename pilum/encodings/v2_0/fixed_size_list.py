"""Lists of a fixed number of items (`ArrayEncoding.fixed_size_list`).

    row r is the items r * dimension .. (r + 1) * dimension

Null rows are given by a `nullable` around this, null items by a `nullable` within. Items of one bit
are contiguous, also across rows. Source: docs/format/encodings-2.0.md, "Fixed-size list".
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from pilum.encodings.base import demand
from pilum.encodings.v2_0.base import ArrayEncoding, Children, Items
from pilum.format.pb import encodings20_pb2 as pb
from pilum.storage.base import Plan

__all__ = ["FixedSizeList", "items_of"]


@dataclass(frozen=True)
class FixedSizeList(ArrayEncoding):
    """`dimension` items per value."""

    arm = "fixed_size_list"

    dimension: int
    items: ArrayEncoding

    @classmethod
    def from_proto(cls, message: pb.FixedSizeList, children: Children) -> FixedSizeList:
        """Read the member message."""
        demand(message.dimension > 0, "fixed_size_list: no items")
        demand(not message.has_validity, "fixed_size_list: validity of its own")
        return cls(message.dimension, children(message.items))

    def member(self) -> pb.FixedSizeList:
        """Return the member message."""
        return pb.FixedSizeList(dimension=self.dimension, items=self.items.to_proto())

    def read(self, items: Items, kind: pa.DataType) -> Plan[pa.Array]:
        """Read lists without nulls among them."""
        demand(
            pt.is_fixed_size_list(kind) and kind.list_size == self.dimension,
            f"values of type {kind} stored as lists of {self.dimension}",
        )
        values = yield from self.items.read(items.times(self.dimension), kind.value_type)
        return pa.Array.from_buffers(kind, items.num_wanted, [None], 0, children=[values])


def items_of(array: pa.Array) -> pa.Array:
    """Return all items of an array of fixed-size lists, including those of null lists."""
    size = array.type.list_size
    return array.values.slice(array.offset * size, len(array) * size)
