"""Selections count the rows of a fragment that were found and are not deleted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from pilum.index.answers import RowSet
from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.read.selection import Selection

_ROWS = st.sets(st.integers(0, 19))


@given(_ROWS, _ROWS, st.booleans(), st.booleans())
def test_counts(found: set[int], deleted: set[int], negate: bool, as_bitmap: bool) -> None:
    """The count is that of the set, for lists, bitmaps and complements, with deleted rows."""
    first = 3 << 32
    references = np.array(sorted(first + row for row in found), np.uint64)
    others = np.array([5, first + 20, 4 << 32], np.uint64)
    listed = np.sort(np.concatenate([references, others]))
    rows = RowSet(BitMap64(listed.tolist()) if as_bitmap else listed, negate)
    selection = Selection(BitMap([3]), rows, is_exact=True)
    deletions = DeletionVector.of(np.array(sorted(deleted), np.uint32)) if deleted else None
    wanted = set(range(20)) - found if negate else found
    assert selection.count(3, 20, deletions) == len(wanted - deleted)
