"""Rows: their addresses, the rows of a read as ranges, and the default size of a batch.

A row address is where a row is stored, in 64 bits:

    bits 63 … 32    id of the fragment
    bits 31 … 0     physical row in the fragment, deleted rows included

Addresses in ascending order are grouped by fragment. An address changes when its row moves.
Source: docs/format/table.md, "Row ids".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BATCH_ROWS",
    "MAX_FRAGMENT_ID",
    "MAX_ROWS",
    "Addresses",
    "RowRanges",
    "addresses_in",
    "addresses_of_rows",
    "by_fragment",
    "first_address",
    "fragment_id_of",
    "fragment_ids_of",
    "rows_of",
]

BATCH_ROWS = 8192
"""Number of rows of a batch, unless the caller specifies another."""

_FEW_ROWS = 16


class RowRanges:
    """Sorted, disjoint, non-empty ranges of rows; immutable.

    Attributes:
        bounds: int64, shape (n, 2), contiguous: first row of each range, and the one after its end.
    """

    __slots__ = ("_num_rows", "bounds")

    def __init__(self, bounds: NDArray[np.int64]) -> None:
        self.bounds = bounds
        self._num_rows = -1

    def __repr__(self) -> str:
        return f"RowRanges({self.bounds.tolist()})"

    @classmethod
    def of(cls, *ranges: tuple[int, int]) -> RowRanges:
        """Build ranges from sorted `(start, stop)` pairs; empty ones are dropped."""
        bounds = np.array(ranges, dtype=np.int64).reshape(-1, 2)
        return cls(np.ascontiguousarray(bounds[bounds[:, 0] < bounds[:, 1]]))

    @classmethod
    def one(cls, start: int, stop: int) -> RowRanges:
        """Build the single range from `start` to before `stop`, which must not be empty."""
        made = cls(np.array([[start, stop]], dtype=np.int64))
        made._num_rows = stop - start
        return made

    @classmethod
    def of_rows(cls, rows: NDArray[np.int64]) -> RowRanges:
        """Build ranges from sorted, distinct rows; adjacent rows become one range."""
        if len(rows) == 0:
            return cls(np.empty((0, 2), dtype=np.int64))
        if len(rows) <= _FEW_ROWS:  # where the cost of NumPy's calls would dominate
            return cls.of_few(rows.tolist())
        [cuts] = (rows[1:] - rows[:-1] != 1).nonzero()
        bounds = np.empty((len(cuts) + 1, 2), dtype=np.int64)
        bounds[0, 0], bounds[1:, 0] = rows[0], rows[1:][cuts]
        bounds[-1, 1], bounds[:-1, 1] = rows[-1], rows[cuts]
        bounds[:, 1] += 1
        made = cls(bounds)
        made._num_rows = len(rows)
        return made

    @classmethod
    def of_few(cls, rows: list[int]) -> RowRanges:
        """Build ranges from a few sorted, distinct rows, at least one."""
        first, stop = rows[0], rows[0] + 1
        bounds: list[int] = []
        for row in rows[1:]:
            if row != stop:
                bounds += (first, stop)
                first = row
            stop = row + 1
        bounds += (first, stop)
        made = cls(np.array(bounds, np.int64).reshape(-1, 2))
        made._num_rows = len(rows)
        return made

    @property
    def starts(self) -> NDArray[np.int64]:
        """First row of each range."""
        return self.bounds[:, 0]

    @property
    def stops(self) -> NDArray[np.int64]:
        """The row after the last one of each range."""
        return self.bounds[:, 1]

    @property
    def num_rows(self) -> int:
        """The number of rows in the ranges."""
        if self._num_rows >= 0:  # every column reads it
            return self._num_rows
        if len(self.bounds) == 1:  # the common case, where the cost of NumPy's calls would dominate
            self._num_rows = int(self.bounds[0, 1]) - int(self.bounds[0, 0])
        else:
            self._num_rows = int((self.stops - self.starts).sum())
        return self._num_rows

    def rows(self, first: int = 0) -> NDArray[np.int64]:
        """Return every row, int64, shape (num_rows,); row 0 is numbered `first`."""
        if len(self.bounds) == 1:
            return np.arange(first + self.bounds[0, 0], first + self.bounds[0, 1], dtype=np.int64)
        lengths = self.stops - self.starts
        shifts = self.starts - np.concatenate(([0], np.cumsum(lengths)[:-1])) + first
        firsts = np.repeat(shifts, lengths)
        return firsts + np.arange(len(firsts), dtype=np.int64)

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows at some places among these rows."""
        return places + self.bounds[0, 0] if len(self.bounds) == 1 else self.rows()[places]

    def within(self, start: int, stop: int) -> RowRanges:
        """Return the rows in [start, stop), counted from `start`; the ranges must not be empty."""
        if start <= self.bounds[0, 0] and self.bounds[-1, 1] <= stop:
            return RowRanges(self.bounds - start) if start else self
        first = int(self.stops.searchsorted(start, side="right"))
        last = int(self.starts.searchsorted(stop, side="left"))
        bounds = self.bounds[first:last] - start
        if len(bounds):  # `clip` would cost more than all the rest
            bounds[0, 0] = max(bounds[0, 0], 0)
            bounds[-1, 1] = min(bounds[-1, 1], stop - start)
        return RowRanges(bounds)

    def split(self, cuts: NDArray[np.int64]) -> Iterator[tuple[int, RowRanges]]:
        """Yield the rows between adjacent cuts, counted from the first one, where there are any.

        Args:
            cuts: Ascending rows.
        """
        lows = self.stops.searchsorted(cuts[:-1], side="right").tolist()
        highs = self.starts.searchsorted(cuts[1:], side="left").tolist()
        for (start, stop), low, high in zip(pairwise(cuts.tolist()), lows, highs, strict=True):
            if low < high:
                bounds = self.bounds[low:high] - start
                if bounds[0, 0] < 0:  # `clip` would cost more than all the rest
                    bounds[0, 0] = 0
                if bounds[-1, 1] > stop - start:
                    bounds[-1, 1] = stop - start
                yield start, RowRanges(bounds)

    def covers(self, num_rows: int) -> bool:
        """Return whether the ranges contain exactly the rows from 0 to before `num_rows`."""
        count = self._num_rows if self._num_rows >= 0 else self.num_rows  # every page asks
        return count == num_rows and len(self.bounds) == 1 and not self.bounds[0, 0]


MAX_FRAGMENT_ID = 2**32 - 1
MAX_ROWS = 2**32 - 1
"""Maximum fragment id, and maximum number of physical rows of a fragment."""

Addresses = NDArray[np.uint64]
"""Row addresses, uint64, shape (n,)."""

_ROW_BITS = 32
_SHIFT = np.uint64(_ROW_BITS)
_ROW_MASK = np.uint64(MAX_ROWS)


def first_address(fragment_id: int) -> int:
    """Return the address of row 0 of a fragment."""
    return int(fragment_id) << _ROW_BITS


def addresses_in(fragment_id: int, rows: NDArray[np.integer]) -> Addresses:
    """Return the addresses of physical rows of one fragment."""
    return rows.astype(np.uint64) + np.uint64(first_address(fragment_id))


def addresses_of_rows(fragment_ids: NDArray[np.integer], rows: NDArray[np.integer]) -> Addresses:
    """Return the address of each physical row, given its fragment."""
    return (fragment_ids.astype(np.uint64) << _SHIFT) + rows.astype(np.uint64)


def fragment_ids_of(addresses: Addresses) -> NDArray[np.int64]:
    """Return the id of the fragment of each address."""
    return (addresses >> _SHIFT).view(np.int64)


def fragment_id_of(address: np.uint64) -> int:
    """Return the id of the fragment of one address."""
    return int(address) >> _ROW_BITS


def rows_of(addresses: Addresses) -> NDArray[np.int64]:
    """Return the physical row of each address, within its fragment."""
    return (addresses & _ROW_MASK).view(np.int64)


def by_fragment(addresses: Addresses) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Split addresses, in any order and with repetitions, by fragment.

    Yields:
        The id of a fragment, in ascending order, and the positions of its addresses in `addresses`,
        ascending.
    """
    ids = fragment_ids_of(addresses)
    order = np.argsort(ids, kind="stable")
    cuts = np.flatnonzero(np.diff(ids[order])) + 1
    for positions in np.split(order, cuts) if len(order) else ():
        yield int(ids[positions[0]]), positions
