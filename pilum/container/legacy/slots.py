"""Runs of selected slots in the pages of many batches, and how their bytes are joined.

A batch has only about a thousand rows, so many are read at once:

    batches  0        0        1        3            runs of slots, in order;
    slots    [5, 9)   [40, 41) [0, 1024) [0, 1024)   for list items, slots count items
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.format.rows import RowRanges
from pilum.storage.base import Fetched

__all__ = ["Slots", "bits", "joined"]

_SMALL_BYTES = 64 * 1024
"""Up to this size, memory from the kernel is as cheap as memory from NumPy, which is cached."""


@dataclass(frozen=True)
class Slots:
    """Runs of slots in the pages of a field.

    Attributes:
        batches: int64, shape (n,), the batch of each run, ascending.
        starts: int64, same shape, first slot of the run within the page.
        stops: int64, same shape, the slot after the last.
    """

    batches: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    @classmethod
    def of_rows(cls, rows: RowRanges, bounds: NDArray[np.int64]) -> Slots:
        """Build the slots of rows of the file, split at batch boundaries.

        Args:
            rows: Rows within the file.
            bounds: int64, first row of each batch and the end.
        """
        first = np.searchsorted(bounds, rows.starts, side="right") - 1
        last = np.searchsorted(bounds, rows.stops, side="left") - 1
        counts = last - first + 1
        which = np.repeat(np.arange(len(first)), counts)
        inner = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        batches = first[which] + inner
        starts = np.maximum(rows.starts[which], bounds[batches]) - bounds[batches]
        stops = np.minimum(rows.stops[which], bounds[batches + 1]) - bounds[batches]
        return cls(batches, starts, stops).without_empty()

    @classmethod
    def of_batches(cls, lengths: NDArray[np.int64]) -> Slots:
        """Build the slots of all batches in full."""
        return cls(
            np.arange(len(lengths)), np.zeros(len(lengths), np.int64), lengths
        ).without_empty()

    @cached_property
    def num_slots(self) -> int:
        """The number of slots."""
        return int((self.stops - self.starts).sum())

    @cached_property
    def furthest(self) -> int:
        """The highest stop; 0 if there are no runs."""
        return int(self.stops.max(initial=0))

    def times(self, factor: int) -> Slots:
        """Return the runs of items where every slot has `factor` items."""
        return Slots(self.batches, self.starts * factor, self.stops * factor)

    def without_empty(self) -> Slots:
        """Return only the runs that are not empty."""
        some = self.starts < self.stops
        return (
            self if some.all() else Slots(self.batches[some], self.starts[some], self.stops[some])
        )


def joined(fetched: Fetched) -> NDArray[np.uint8]:
    """Join all ranges, without a copy where they are already contiguous."""
    starts, sizes = fetched.starts, fetched.sizes
    if len(starts) == 0:
        return np.empty(0, np.uint8)
    ends = starts + sizes
    if (ends[:-1] == starts[1:]).all():
        return fetched.data[int(starts[0]) : int(ends[-1])]
    if int(sizes.sum()) <= _SMALL_BYTES:
        return kernels.gather_bytes(fetched.data, np.stack([starts, sizes], axis=1))
    return np.concatenate(list(fetched))


def bits(data: NDArray[np.uint8], slots: Slots) -> NDArray[np.uint8]:
    """Return a bitmap of the bits of slots, from the joined bytes that hold each run."""
    if ((slots.starts % 8) == 0).all() and ((slots.stops[:-1] % 8) == 0).all():
        return data
    run_bytes = (slots.stops + 7) // 8 - slots.starts // 8
    firsts = (np.cumsum(run_bytes) - run_bytes) * 8 + slots.starts % 8
    return kernels.gather_bits(data, np.stack([firsts, slots.stops - slots.starts], axis=1))
