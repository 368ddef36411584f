"""Sets of row references as masks over the rows of partitions.

    allowed    rows 2 5 of fragment 0, row 1 of fragment 7
    table      0 0 1 0 0 1 | 0 1 | 0        a bit for each row up to the last one, by fragment
    rows       5 6 (7, 1)   ──▶   1 0 1     what lies outside of the table has the last bit

A look-up takes one step however many rows are listed. A set whose rows lie far apart, as the ids of
few rows of a very large table do, is searched instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pilum.format.rows import Addresses
from pilum.index.answers import RowSet
from pilum.kernels import RowMarks

__all__ = ["RowMask"]

_MAX_FRAGMENTS = 1 << 20
_FREE_BYTES = 16 << 20
_BYTES_PER_ROW = 64


class RowMask:
    """A set of rows, for look-ups of rows in any order.

    Args:
        allowed: The set.

    Attributes:
        allowed: See above.
    """

    def __init__(self, allowed: RowSet) -> None:
        self.allowed = allowed
        self._outside = bool(allowed.is_complement)
        self._marks = self._made()
        self._of_partitions: dict[int, NDArray[np.bool_] | None] = {}
        self._kept_bytes = 0

    @property
    def size_bytes(self) -> int:
        """The memory that the table uses."""
        return self._kept_bytes + (0 if self._marks is None else self._marks.size_bytes)

    def of_partitions(
        self, numbers: Sequence[int], parts: Sequence[Addresses]
    ) -> list[NDArray[np.bool_] | None]:
        """Return which rows of partitions are in the set, which is kept; None for no row.

        Args:
            numbers: The numbers of the partitions.
            parts: All rows of each.
        """
        kept = self._of_partitions
        missing = [place for place, number in enumerate(numbers) if number not in kept]
        for place, found in zip(
            missing, self._of_each([parts[one] for one in missing]), strict=True
        ):
            kept[numbers[place]] = found
            self._kept_bytes += 0 if found is None else found.nbytes
        return [kept[number] for number in numbers]

    def _of_each(self, parts: Sequence[Addresses]) -> list[NDArray[np.bool_] | None]:
        """Return which rows of each part are in the set; None for no row."""
        if self._marks is None:
            return [found if found.any() else None for found in map(self.of, parts)]
        return self._marks.of_each([np.ascontiguousarray(rows) for rows in parts])

    def of(self, rows: Addresses) -> NDArray[np.bool_]:
        """Return which of some rows are in the set."""
        if self._marks is not None:
            return self._marks.of(np.ascontiguousarray(rows))
        listed = self.allowed.listed
        places = listed.searchsorted(rows)
        places[places == len(listed)] = 0
        return np.asarray((listed[places] == rows) ^ self._outside)

    def _made(self) -> RowMarks | None:
        """Build the table, unless it would be large for what it says."""
        allowed = self.allowed
        most = _MAX_FRAGMENTS, _FREE_BYTES + _BYTES_PER_ROW * allowed.num_listed
        if allowed.bits is not None and not self._outside:
            return RowMarks.of_bits([run[:4] for run in allowed.bits], *most)
        return RowMarks.made(np.ascontiguousarray(allowed.listed), not self._outside, *most)
