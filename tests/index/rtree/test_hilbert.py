"""The order of boxes along a Hilbert curve."""

from __future__ import annotations

import numpy as np

from pilum.index.rtree.hilbert import hilbert_order, places_on_curve


def test_adjacent_places_are_adjacent_cells() -> None:
    """The curve visits each cell of a grid once, from cell to adjacent cell."""
    x, y = np.divmod(np.arange(64 * 64, dtype=np.uint32), np.uint32(64))
    places = places_on_curve(x, y)
    order = np.argsort(places)
    assert places[order].tolist() == list(range(64 * 64))
    steps = np.abs(np.diff(x[order].astype(int))) + np.abs(np.diff(y[order].astype(int)))
    assert (steps == 1).all()


def test_small_grid() -> None:
    """The drawing of the module."""
    x, y = np.array([[0, 1, 1, 0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 2, 3, 3, 2, 2]], np.uint32)
    assert places_on_curve(x, y).tolist() == list(range(9))
    last = places_on_curve(np.array([65535], np.uint32), np.array([0], np.uint32))
    assert last.tolist() == [2**32 - 1]


def test_order() -> None:
    """Boxes are ordered by their centres; equal ones keep their order, also where all are alike."""
    boxes = np.array([[9, 0, 9, 0], [0, 0, 0, 0], [9, 9, 9, 9], [0, 9, 0, 9], [0, 0, 0, 0]], float)
    assert hilbert_order(boxes).tolist() == [1, 4, 3, 2, 0]
    assert hilbert_order(boxes[:0]).tolist() == []
    assert hilbert_order(np.repeat(boxes[:1], 5, axis=0)).tolist() == [0, 1, 2, 3, 4]
    huge = np.array([[-1.7e308, -np.inf, 1.7e308, np.inf], [1.7e308, 0, 1.7e308, 0]])
    assert sorted(hilbert_order(huge).tolist()) == [0, 1]
