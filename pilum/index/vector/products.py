"""Matrix products in one thread: the callers decide how many threads compute.

Libraries of linear algebra (BLAS) start threads for large products. Where other work needs the
processors, these threads wait for each other, and a product takes ten times as long. So a product
is computed in tiles, each of which is too small for that, and of a shape that is fast:

    rows (n, D) x factors (D, k)     tiles of 127 rows and 32 columns for D = 128
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["product"]

_MOST_MULTIPLICATIONS = 2**19 - 1
_MOST_COLUMNS = 256
_FEWEST_COLUMNS = 16
_FACTORS_OF_TILE = 4096


def product(
    rows: NDArray[Any], factors: NDArray[Any], out: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Return `rows @ factors`, computed in the thread of the caller.

    Args:
        rows: float32 or float64, of shape (n, D).
        factors: The same type, of shape (D, k).
        out: The result, of shape (n, k), in the same type; None to allocate it.
    """
    if out is None:
        out = np.empty((len(rows), factors.shape[1]), rows.dtype)
    dimension, count = factors.shape
    width = max(_FEWEST_COLUMNS, min(_MOST_COLUMNS, _FACTORS_OF_TILE // max(dimension, 1)))
    width = max(1, min(width, count))
    height = max(1, _MOST_MULTIPLICATIONS // max(dimension * width, 1))
    for top in range(0, len(rows), height):
        some, into = rows[top : top + height], out[top : top + height]
        for left in range(0, count, width):
            right = left + width
            np.matmul(some, factors[:, left:right], out=into[:, left:right])
    return out
