"""Deleted rows of a fragment against plain Python lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pilum.format.rows import RowRanges
from pilum.table.model.deletion_vector import DeletionVector

ROWS = 40
some_rows = st.sets(st.integers(0, ROWS - 1))


def vector(rows: set[int]) -> DeletionVector:
    return DeletionVector.of(np.array(sorted(rows), dtype=np.int64))


@given(some_rows)
def test_positions_step_over_deleted_rows(deleted: set[int]) -> None:
    left = [row for row in range(ROWS) if row not in deleted]
    found = vector(deleted)
    assert found.physical(np.arange(len(left))).tolist() == left
    assert [found.position(row) for row in left] == list(range(len(left)))


@given(some_rows, st.lists(st.integers(0, ROWS), min_size=2, max_size=6, unique=True))
def test_ranges(deleted: set[int], bounds: list[int]) -> None:
    pairs = list(zip(*[iter(sorted(bounds))] * 2, strict=False))
    found = vector(deleted)
    kept = [row not in deleted for start, stop in pairs for row in range(start, stop)]
    assert sum(found.count(start, stop) for start, stop in pairs) == kept.count(False)
    mask = found.kept(RowRanges.of(*pairs))
    assert kept == (mask.to_pylist() if mask else [True] * len(kept))


@given(some_rows, some_rows)
def test_sets(first: set[int], second: set[int]) -> None:
    one, other = vector(first), vector(second)
    assert one.union(other).offsets.tolist() == sorted(first | second)
    assert one.meets(other) == bool(first & second)
    assert one.contains(np.arange(ROWS)).tolist() == [row in first for row in range(ROWS)]


def test_rows_come_in_any_order_and_also_repeated() -> None:
    found = DeletionVector.of(np.array([7, 2, 7, 2**32 - 1]))
    assert found.offsets.tolist() == [2, 7, 2**32 - 1]
    assert found.offsets.dtype == np.uint32
    assert found.physical(np.array([0, 2, 6])).tolist() == [0, 3, 8]
