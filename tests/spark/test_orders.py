from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from pilum.spark.orders import hilbert, z_order


def grid(dimensions: int, bits: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """All cells, shape (dimensions, cells)."""
    return np.indices((1 << bits,) * dimensions, dtype=np.int64).reshape(dimensions, -1)


@pytest.mark.parametrize(("dimensions", "bits"), [(1, 5), (2, 1), (2, 4), (3, 3), (4, 2), (5, 2)])
def test_cells_that_follow_each_other_on_a_hilbert_curve_touch(dimensions: int, bits: int) -> None:
    cells = grid(dimensions, bits)
    place = hilbert(list(cells), bits)
    assert sorted(place) == list(range(1 << (dimensions * bits)))
    along = cells[:, np.argsort(place)].T
    assert all(np.abs(one - next_one).sum() == 1 for one, next_one in pairwise(along))


def test_the_curves_are_those_of_the_drawings() -> None:
    y, x = grid(2, 2)
    assert z_order([y, x], 2)[:8].tolist() == [0, 1, 4, 5, 2, 3, 6, 7]
    drawn = [[0, 3, 4, 5], [1, 2, 7, 6], [14, 13, 8, 9], [15, 12, 11, 10]]
    assert hilbert([y, x], 2).reshape(4, 4).tolist() == drawn


def test_seven_dimensions_fit_a_signed_number() -> None:
    corner = [np.full(1, 255)] * 7
    assert z_order(corner)[0] == (1 << 56) - 1
    assert 0 <= hilbert(corner)[0] < 1 << 56


def test_ranks_are_left_as_they_are() -> None:
    ranks = [np.array([3, 200]), np.array([255, 7])]
    hilbert(ranks)
    assert [rank.tolist() for rank in ranks] == [[3, 200], [255, 7]]
