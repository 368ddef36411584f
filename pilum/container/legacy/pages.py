"""The pages of a legacy file: the page table, and runs of selected slots in many pages.

                         batch 0             batch 1          …
    smallest field id    i64 pos, i64 len    i64 pos, i64 len
    next id              …
    …                                                          up to the last field with pages

Fields without pages (structs, ids that the file does not hold) have zeros, or no row at the end of
the table: their rows are never read. The unit of the length depends on the kind of page; see
`page_kinds.py`. Source: docs/format/legacy.md, "Page table".

A batch has only about a thousand rows, so many are read at once:

    batches  0        0        1        3            runs of slots, in order;
    slots    [5, 9)   [40, 41) [0, 1024) [0, 1024)   for list items, slots count items
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.encodings.base import demand
from pilum.format.rows import RowRanges
from pilum.lazy import cached_property
from pilum.storage.base import Fetched, Plan, Ranges

__all__ = ["PageTable", "Pages", "Slots", "bits", "joined", "pack_page_table"]

_SMALL_BYTES = 64 * 1024
"""Up to this size, memory from the kernel is as cheap as memory from NumPy, which is cached."""

_ENTRY_BYTES = 16
_MAX_BYTES = 1 << 62
_OVERHEAD = 16
"""The memory overhead of a row, in entries."""


@dataclass(frozen=True)
class Slots:
    """Runs of slots in the pages of a field.

    All are int64, shape (n,): the batch of each run, ascending; its first slot within the page; and
    the slot after the last.
    """

    batches: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    @classmethod
    def of_rows(cls, rows: RowRanges, bounds: NDArray[np.int64]) -> Slots:
        """Build the slots of rows of the file, split at the bounds of its batches."""
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


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of one field: their first bytes and lengths, int64, shape (batches,).

    Pages do not overlap, so no read is larger than `file_bytes`, the size of the file.
    """

    positions: NDArray[np.int64]
    lengths: NDArray[np.int64]
    file_bytes: int

    @property
    def all(self) -> Slots:
        """All slots of all pages."""
        return Slots.of_batches(self.lengths)

    def ranges(self, slots: Slots, width_bytes: int, extra: int = 0) -> Ranges:
        """Return the byte ranges of slots of a fixed width, with `extra` values after each run."""
        self.require(slots, extra)
        # As Python integers: what a damaged file claims may not fit in 64 bits.
        total = (slots.num_slots + extra * len(slots.batches)) * width_bytes
        furthest = (slots.furthest + extra) * width_bytes
        self.require_bytes(max(total, furthest))
        sizes = (slots.stops - slots.starts + extra) * width_bytes
        return Ranges(self.positions[slots.batches] + slots.starts * width_bytes, sizes)

    def require(self, slots: Slots, extra: int = 0) -> None:
        """Raise an error if pages are shorter than the slots that are read."""
        inside = slots.stops + extra <= self.lengths[slots.batches]
        demand(bool(inside.all()), "page: too short for its rows")

    def require_bytes(self, size: int) -> None:
        """Raise an error if a number of bytes exceeds the file."""
        demand(size <= self.file_bytes, f"pages: {size} bytes in a file of {self.file_bytes}")


class PageTable:
    """The page table of a file; rows are fetched on demand."""

    def __init__(self, position: int, first_id: int, num_batches: int, file_bytes: int) -> None:
        self._position = position
        self._first_id = first_id
        self._num_batches = num_batches
        self._file_bytes = file_bytes
        self._rows: dict[int, Pages] = {}

    @property
    def held_bytes(self) -> int:
        """Estimate the memory of the rows that were fetched."""
        return _ENTRY_BYTES * (_OVERHEAD + self._num_batches) * len(self._rows)

    def read(self, ids: Iterable[int]) -> Plan[Mapping[int, Pages]]:
        """Read the table rows of fields that own pages."""
        wanted = list(ids)
        missing = [number for number in wanted if number not in self._rows]
        if missing:
            fetched = yield Ranges.of(*map(self._place, missing))
            for index, number in enumerate(missing):
                self._rows[number] = self._parse(number, fetched[index])
        return {number: self._rows[number] for number in wanted}

    def _place(self, field_id: int) -> tuple[int, int]:
        size = _ENTRY_BYTES * self._num_batches
        start = self._position + size * (field_id - self._first_id)
        inside = field_id >= self._first_id and start + size <= self._file_bytes
        demand(inside, f"page table: no row for field {field_id}")
        return start, size

    def _parse(self, field_id: int, data: NDArray[np.uint8]) -> Pages:
        entries = np.frombuffer(data.tobytes(), "<i8").reshape(-1, 2)
        positions, lengths = entries[:, 0], entries[:, 1]
        possible = (positions >= 0) & (positions <= self._file_bytes) & (lengths >= 0)
        possible &= lengths < _MAX_BYTES
        demand(bool(possible.all()), f"page table: impossible numbers for field {field_id}")
        return Pages(positions, lengths, self._file_bytes)


def pack_page_table(
    pages: Mapping[int, Sequence[NDArray[np.int64]]], first_id: int, num_batches: int
) -> bytes:
    """Serialise a page table of `num_batches` pages for each field.

    `pages` has the position and length of each page by field id, int64, shape (n, 2), from runs of
    batches; structs are left out. `first_id` is the smallest id of the file, with pages or without.
    """
    table = np.zeros((max(pages, default=first_id - 1) - first_id + 1, num_batches, 2), "<i8")
    for field_id, entries in pages.items():
        table[field_id - first_id] = np.concatenate(entries)
    return table.tobytes()
