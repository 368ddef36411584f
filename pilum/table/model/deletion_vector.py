"""The deleted rows of one fragment, and conversions between rows and positions.

    physical rows    0  1  2  3  4  5  6  7
    deleted             x     x  x
    positions        0     1        2  3  4      of the remaining rows

A position is converted to a physical row by counting. `offsets[i] - i` remaining rows lie before
deleted row `offsets[i]`, so a binary search in these numbers gives the number of deleted rows to
skip.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.format.rows import RowRanges

__all__ = ["DeletionVector", "bit_mask"]

_Number = TypeVar("_Number", bound=np.generic)


@dataclass(frozen=True, eq=False)
class DeletionVector:
    """A set of deleted rows of a fragment.

    Attributes:
        offsets: uint32, shape (n,): the deleted physical rows, ascending and distinct.
    """

    offsets: NDArray[np.uint32]

    @classmethod
    def of(cls, rows: NDArray[np.generic]) -> DeletionVector:
        """Build a deletion vector from rows in any order; rows may repeat."""
        return cls(_distinct(np.sort(rows)).astype(np.uint32, copy=False))

    def __len__(self) -> int:
        return len(self.offsets)

    def count(self, start: int, stop: int) -> int:
        """Count the deleted rows among the physical rows from `start` to before `stop`."""
        return self._before(stop) - self._before(start)

    def kept(self, rows: RowRanges) -> pa.BooleanArray | None:
        """Return a mask of the rows that are not deleted; None if no row is."""
        start, stop = int(rows.starts[0]), int(rows.stops[-1])
        first, behind = self._before(start), self._before(stop)
        if first == behind:
            return None
        mask = np.ones(stop - start, dtype=np.bool_)
        mask[self.offsets[first:behind].astype(np.int64) - start] = False
        return bit_mask(mask if len(rows.bounds) == 1 else mask[rows.rows() - start])

    def contains(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return, for each physical row, whether it is deleted."""
        places = self.offsets.searchsorted(rows)
        inside = places < len(self.offsets)
        found = np.zeros(len(rows), dtype=np.bool_)
        found[inside] = self.offsets[places[inside]] == rows[inside]
        return found

    def position(self, row: int) -> int:
        """Count the remaining rows before a physical row."""
        return row - self._before(row)

    def positions(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the remaining rows before each physical row."""
        return rows - self.offsets.searchsorted(rows)

    def physical(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the physical rows at positions among the remaining rows; int64 in and out."""
        return positions + self._left_before.searchsorted(positions, side="right")

    def union(self, other: DeletionVector) -> DeletionVector:
        """Return the rows of both vectors."""
        both = np.concatenate((self.offsets, other.offsets))
        both.sort(kind="stable")  # a stable sort merges sorted runs
        return DeletionVector(_distinct(both))

    def without(self, other: DeletionVector) -> DeletionVector:
        """Return the rows that are not in the other vector."""
        return DeletionVector(np.setdiff1d(self.offsets, other.offsets, assume_unique=True))

    def meets(self, other: DeletionVector) -> bool:
        """Return whether a row is in both vectors."""
        return bool(self.contains(other.offsets.astype(np.int64)).any())

    @cached_property
    def _left_before(self) -> NDArray[np.int64]:
        """Return the number of remaining rows before each deleted row."""
        return self.offsets.astype(np.int64) - np.arange(len(self.offsets))

    def _before(self, row: int) -> int:
        # With a number of another type, NumPy would convert all offsets.
        return int(self.offsets.searchsorted(np.uint32(row)))


def _distinct(rows: NDArray[_Number]) -> NDArray[_Number]:
    """Return sorted rows without duplicates; much faster than `np.unique`, which hashes them."""
    is_first = np.ones(len(rows), dtype=np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=is_first[1:])
    return rows[is_first]


def bit_mask(mask: NDArray[np.bool_]) -> pa.BooleanArray:
    """Convert a boolean mask to an Arrow array."""
    bits = np.packbits(mask, bitorder="little")
    return pa.BooleanArray.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(bits)])
