"""Where batches of legacy files end (S2.5)."""

from __future__ import annotations

import numpy as np
import pytest

from pilum.container.legacy.batches import Grouping
from pilum.errors import InvalidInputError


def test_batches_of_one_size() -> None:
    grouping = Grouping(4)
    assert [grouping.end_behind(row) for row in (0, 3, 4)] == [4, 4, 8]
    assert [grouping.end_until(row) for row in (3, 4, 11)] == [0, 4, 8]
    assert grouping.cuts(8, 6).tolist() == [0, 4, 6]


def test_batches_of_given_sizes_also_without_rows() -> None:
    grouping = Grouping(4, np.array([0, 0, 3, 3, 10, 12], np.int64))
    assert [grouping.end_behind(row) for row in (0, 2, 3, 11)] == [3, 3, 10, 12]
    assert [grouping.end_until(row) for row in (2, 3, 11)] == [0, 3, 10]
    bounds = [0]
    for first, rows in ((0, 3), (3, 7), (10, 2)):
        bounds += (grouping.cuts(first, rows)[1:] + first).tolist()
    assert bounds == [0, 0, 3, 3, 10, 12]
    assert grouping.cuts(0, 12).tolist() == [0, 0, 3, 3, 10, 12]
    assert grouping.cuts(3, 8).tolist() == [0, 7, 8]
    with pytest.raises(InvalidInputError, match="the fragment has 12"):
        grouping.end_behind(12)
