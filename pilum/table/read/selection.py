"""Selections: the rows of some fragments that match a filter, or may match it.

    fragment 0    covered     rows 3 9 12        read; tested with the filter unless they are exact
    fragment 1    covered     no rows            skipped
    fragment 2                                   scanned with the filter, or left out

Indices find the rows (`pilum.table.indices`), and scans read them. Addresses of fragments that no
longer exist, and of deleted rows, may be among them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from pilum.format.rows import RowRanges, addresses_in, first_address, fragment_ids_of
from pilum.index.answers import RowSet
from pilum.lazy import cached_property
from pilum.table.model.deletion_vector import DeletionVector

__all__ = ["Selection"]


@dataclass(frozen=True, eq=False)
class Selection:
    """The rows of the covered fragments to which a filter is restricted.

    Attributes:
        covered: Ids of the fragments whose rows were searched.
        rows: The addresses that were found.
        is_exact: Whether the filter is true for all of these rows; otherwise it has to be tested.
        only_covered: Whether the rows of other fragments are left out.
    """

    covered: BitMap
    rows: RowSet
    is_exact: bool
    only_covered: bool = False

    def covers(self, fragment_id: int) -> bool:
        """Return whether the rows of a fragment were searched."""
        return fragment_id in self.covered

    def is_few(self, num_rows: int) -> bool:
        """Return whether at most `num_rows` rows were found."""
        return not self.rows.is_complement and self.rows.num_listed <= num_rows

    @cached_property
    def touched(self) -> BitMap:
        """The covered fragments in which rows may have been found."""
        if self.rows.is_complement:
            return self.covered
        ids = fragment_ids_of(self.rows.listed)  # in ascending order
        ends = (ids[1:] != ids[:-1]).nonzero()[0]
        return self.covered & BitMap((*ids[ends].tolist(), *ids[-1:].tolist()))

    def rows_of(self, fragment_id: int, start: int, stop: int) -> NDArray[np.int64]:
        """Return the physical rows in [start, stop) of a covered fragment, ascending."""
        first, listed = first_address(fragment_id), self.rows.listed
        low, high = listed.searchsorted(np.array([first + start, first + stop], np.uint64))
        rows = (listed[low:high] - np.uint64(first)).view(np.int64)
        if not self.rows.is_complement:
            return rows
        found = np.ones(stop - start, np.bool_)
        found[rows - start] = False
        return np.flatnonzero(found) + start

    def count(self, fragment_id: int, num_rows: int, deletions: DeletionVector | None) -> int:
        """Count the rows of a covered fragment that were found and are not deleted.

        Args:
            fragment_id: Id of the fragment.
            num_rows: Its physical rows.
            deletions: Its deleted rows; None for none.
        """
        first = first_address(fragment_id)
        listed = self.rows.count_listed(first, first + num_rows)
        if deletions is None:
            return num_rows - listed if self.rows.is_complement else listed
        gone = addresses_in(fragment_id, deletions.offsets)
        is_found = self.rows.contains(gone)
        found = num_rows - listed if self.rows.is_complement else listed
        return found - int(is_found.sum())

    def ranges_of(self, fragment_id: int, start: int, stop: int) -> RowRanges:
        """Return the same rows as `rows_of` as ranges."""
        return RowRanges.of_rows(self.rows_of(fragment_id, start, stop))
