"""Space-filling curves through a grid: the number of each cell along the curve.

    Z-order            Hilbert
    0  1  4  5         0  3  4  5        cells that follow each other on the Hilbert curve always
    2  3  6  7         1  2  7  6        touch; on the Z-order curve there are jumps between the
    8  9 12 13        14 13  8  9        quarters, but its number is cheaper to compute
   10 11 14 15        15 12 11 10

Cells are given by a rank per dimension, `BITS` bits each. Source for Hilbert: J. Skilling,
"Programming the Hilbert curve", AIP Conference Proceedings 707 (2004).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["BITS", "MOST_DIMENSIONS", "Curve", "hilbert", "z_order"]

BITS = 8
MOST_DIMENSIONS = 7

Ranks = Sequence[NDArray[np.int64]]
Curve = Callable[[Ranks], NDArray[np.int64]]


def z_order(ranks: Ranks, bits: int = BITS) -> NDArray[np.int64]:
    """Return the numbers of cells along a Z-order curve: rank bits interleaved, highest first.

    Args:
        ranks: For each dimension an array of shape (n,), with numbers below `2 ** bits`.
        bits: Number of bits of a rank.
    """
    place = np.zeros_like(ranks[0])
    for bit in reversed(range(bits)):
        for rank in ranks:
            place = (place << 1) | ((rank >> bit) & 1)
    return place


def hilbert(ranks: Ranks, bits: int = BITS) -> NDArray[np.int64]:
    """Return the numbers of cells along a Hilbert curve.

    Args:
        ranks: For each dimension an array of shape (n,), with numbers below `2 ** bits`.
        bits: Number of bits of a rank.
    """
    axes = np.array(ranks)  # a copy, shape (dimensions, n)
    for bit in reversed(range(1, bits)):
        _undo(axes, 1 << bit)
    return z_order(list(_gray(axes, bits)), bits)


def _undo(axes: NDArray[np.int64], bit: int) -> None:
    """Rotate and mirror the cubes of one size, so that each inner curve begins in one corner."""
    below = bit - 1
    for axis in axes:
        is_upper = (axis & bit) != 0
        swapped = np.where(is_upper, 0, (axes[0] ^ axis) & below)
        axes[0] ^= np.where(is_upper, below, swapped)
        axis ^= swapped  # no effect for the first axis


def _gray(axes: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Return the Gray code of cells, as ranks whose interleaved bits are the number."""
    for number in range(1, len(axes)):
        axes[number] ^= axes[number - 1]
    flips = np.zeros_like(axes[0])
    for bit in reversed(range(1, bits)):
        flips ^= np.where(axes[-1] & (1 << bit), (1 << bit) - 1, 0)
    axes ^= flips
    return axes
