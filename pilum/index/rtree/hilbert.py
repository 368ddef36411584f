"""Order boxes along a Hilbert curve, on which places that are close together are mostly close.

The centre of each box is a place on a grid of 65,536 by 65,536 cells, which covers all boxes:

    5 6 9 10      cells of a grid of 4 by 4 in the order of the curve; y upwards
    4 7 8 11
    3 2 13 12
    0 1 14 15
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pilum.expressions.geometry.bounds import Boxes

__all__ = ["hilbert_order", "places_on_curve"]

_BITS = 16
_CELLS_TOGETHER = 1 << 14
"""So many cells stay in the processor's cache."""

_Numbers: TypeAlias = "NDArray[np.uint32]"


def hilbert_order(boxes: Boxes) -> NDArray[np.int64]:
    """Return the places of boxes in the order of the curve; those of one cell keep their order.

    Args:
        boxes: Boxes without NaN.
    """
    numbers = np.arange(len(boxes), dtype=np.uint64)  # in the lower half of what is sorted
    x, y = _cells(boxes[:, 0], boxes[:, 2]), _cells(boxes[:, 1], boxes[:, 3])
    for first in range(0, len(boxes), _CELLS_TOGETHER):
        own = slice(first, first + _CELLS_TOGETHER)
        numbers[own] |= places_on_curve(x[own], y[own]).astype(np.uint64) << np.uint64(32)
    numbers.sort()
    return (numbers & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _cells(low: NDArray[np.float64], high: NDArray[np.float64]) -> _Numbers:
    """Return the cell of the middle of each range along one axis."""
    if len(low) == 0:
        return np.empty(0, np.uint32)
    first, last = low.min(), high.max()
    with np.errstate(all="ignore"):  # infinite ends, and ranges that are all alike
        share = (low / 2 + high / 2 - first) / (last - first)
    np.fmax(share, 0.0, out=share)  # NaN becomes 0
    np.fmin(share, 1.0, out=share)
    cells: _Numbers = (share * ((1 << _BITS) - 1)).astype(np.uint32)
    return cells


def places_on_curve(x: _Numbers, y: _Numbers) -> _Numbers:
    """Return the place of each cell on the curve.

    From the coarsest to the finest bit, two bits say which quarter a cell is in. The curve inside
    of a quarter is turned: by exchanged axes in the lower quarters, and from the opposite side in
    the right one of them.
    """
    places = np.zeros(len(x), np.uint32)
    one = np.uint32(1)
    for bit in range(_BITS - 1, -1, -1):
        right, upper = x >> np.uint32(bit) & one, y >> np.uint32(bit) & one
        places = places << np.uint32(2) | (right * np.uint32(3)) ^ upper
        opposite = -(right & (upper ^ one))  # all bits, or none
        exchanged = (x ^ y) & -(upper ^ one)
        x, y = x ^ exchanged ^ opposite, y ^ exchanged ^ opposite
    return places
