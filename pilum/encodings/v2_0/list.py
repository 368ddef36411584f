"""Lists of any length (`ArrayEncoding.list`), and the ends that lists and strings store.

    offsets    n x u64     ends and nulls; the items are a column of their own, and `num_items` of
                           them belong to this page

    stored[i] = end of entry i                   valid
    stored[i] = end of entry i + adjustment      null

    [1, 2] null [] [3, 4, 5]     ->     offsets 2 8 2 5    null_offset_adjustment 6    num_items 5

The offsets are those of one page, without a leading zero: entry i begins where entry i - 1 ends,
even a null one. The adjustment is larger than any end (writers take the last end plus one).
Source: docs/format/encodings-2.0.md, "List" and "Adjusted offsets".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum import kernels
from pilum.encodings.base import demand
from pilum.encodings.v2_0.base import ArrayEncoding, Buffer, Bytes, Children, Encoded, Items
from pilum.encodings.v2_0.flat import Flat
from pilum.encodings.v2_0.nullable import Nullable
from pilum.format.pb import encodings20_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.storage.base import Plan

__all__ = ["ENTRY_BITS", "Entries", "List", "adjusted", "entries_of", "read_entries"]

ENTRY_BITS = 64

_MAX_ITEMS = 2**40


@dataclass(frozen=True, slots=True)
class Entries:
    """Some entries of a page.

    Attributes:
        offsets: int32 or int64, shape (n + 1,), into the joined spans.
        spans: int64, shape (ranges of entries, 2): where their values lie in the page.
        validity: uint8 bitmap, or None if all are valid.
    """

    offsets: NDArray[Any]
    spans: NDArray[np.int64]
    validity: Bytes | None
    null_count: int

    @property
    def wanted(self) -> RowRanges:
        """The spans that hold values, with adjacent spans joined."""
        spans = self.spans[self.spans[:, 0] < self.spans[:, 1]]
        if len(spans) < 2:
            return RowRanges(spans)
        opens = np.append(True, spans[1:, 0] != spans[:-1, 1])
        closes = np.append(opens[1:], True)
        return RowRanges(np.column_stack((spans[opens, 0], spans[closes, 1])))

    @property
    def buffers(self) -> list[pa.Buffer | None]:
        """Validity and offsets for Arrow."""
        validity = None if self.validity is None else pa.py_buffer(self.validity)
        return [validity, pa.py_buffer(self.offsets)]


def read_entries(
    ends: ArrayEncoding, adjustment: int, items: Items, offset_bits: int
) -> Plan[Entries]:
    """Read the selected entries, and for each range the preceding end."""
    bounds = items.rows.bounds
    with_front = bounds - np.column_stack((bounds[:, 0] > 0, np.zeros(len(bounds), dtype=bool)))
    stored = yield from ends.raw(
        Items(items.buffers, items.total, RowRanges(with_front)), ENTRY_BITS
    )
    return entries_of(stored, adjustment, bounds, offset_bits)


def entries_of(
    stored: Bytes, adjustment: int, bounds: NDArray[np.int64], offset_bits: int
) -> Entries:
    """Build entries in ranges of rows from their ends and the end preceding each range."""
    offsets, spans, validity, null_count = kernels.adjusted_entries(
        np.ascontiguousarray(stored), adjustment, np.ascontiguousarray(bounds), offset_bits
    )
    return Entries(offsets, spans.reshape(-1, 2), validity, null_count)


def adjusted(
    ends: NDArray[np.int64], valid: NDArray[np.bool_] | None
) -> tuple[NDArray[np.uint64], int]:
    """Return the ends as stored, and their adjustment."""
    adjustment = int(ends[-1]) + 1 if len(ends) else 0
    if valid is None:
        return ends.view(np.uint64), adjustment
    return ends.view(np.uint64) + np.uint64(adjustment) * ~valid, adjustment


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
        """Read the bounds and the validity of the selected lists."""
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
