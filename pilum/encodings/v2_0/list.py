"""Lists of any length (`ArrayEncoding.list`): where each one ends among the items.

    offsets    n x u64     ends and nulls, as for strings (`entries.py`); the items are a column of
                           their own, and `num_items` of them belong to this page

    [1, 2] null [] [3, 4, 5]     ->     offsets 2 8 2 5    null_offset_adjustment 6    num_items 5

Source: docs/format/encodings-2.0.md, "List".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilum.encodings.base import demand
from pilum.encodings.v2_0.base import ArrayEncoding, Buffer, Children, Encoded, Items
from pilum.encodings.v2_0.entries import Entries, adjusted, read_entries
from pilum.encodings.v2_0.flat import Flat
from pilum.encodings.v2_0.nullable import Nullable
from pilum.format.pb import encodings20_pb2 as pb
from pilum.storage.base import Plan

__all__ = ["List"]

_MAX_ITEMS = 2**40


@dataclass(frozen=True)
class List(ArrayEncoding):
    """The ends of the items of each list, counted from the first item of the page."""

    arm = "list"

    offsets: ArrayEncoding
    null_adjustment: int
    num_items: int

    @classmethod
    def from_proto(cls, message: pb.List, children: Children) -> List:
        """Read the member message."""
        demand(message.num_items < _MAX_ITEMS, f"list: {message.num_items} items")
        return cls(children(message.offsets), message.null_offset_adjustment, message.num_items)

    def member(self) -> pb.List:
        """Return the member message."""
        return pb.List(
            offsets=self.offsets.to_proto(),
            null_offset_adjustment=self.null_adjustment,
            num_items=self.num_items,
        )

    def entries(self, items: Items, offset_bits: int) -> Plan[Entries]:
        """Read the bounds and the validity of the selected lists.

        Raises:
            CorruptFileError: If one ends beyond the items of the page.
        """
        entries = yield from read_entries(self.offsets, self.null_adjustment, items, offset_bits)
        last = int(entries.spans[:, 1].max(initial=0))
        demand(last <= self.num_items, f"list: ends at item {last} of {self.num_items}")
        return entries

    @classmethod
    def encode(cls, ends: NDArray[np.int64], valid: NDArray[np.bool_] | None) -> Encoded:
        """Encode lists with these ends; those that are not valid are null."""
        stored, adjustment = adjusted(ends, valid)
        num_items = int(ends[-1]) if len(ends) else 0
        encoding = cls(Nullable(Flat(64, Buffer(0))), max(adjustment, 1), num_items)
        return Encoded(encoding, (stored,))
