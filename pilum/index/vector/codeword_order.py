"""The order of codewords in which searches of product codes leave out most rows early.

    256 codewords of a sub-vector ──cut in halves, four times──▶ 16 groups of 16 near to each other
    codeword r of group g         ──▶ number 16 r + g

A search looks up the least distance of a group by the lower half of a code, for many rows at once;
see `rust/kernels/src/vector/product_filter.rs`. Any order is valid, and this one is faster.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["ordered"]

_NUM_GROUPS = 16


def ordered(codewords: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return codewords in the order above; those of 4 bits unchanged.

    Args:
        codewords: Shape (m, 16 or 256, D / m).
    """
    num_sub_vectors, count, _ = codewords.shape
    if count <= _NUM_GROUPS:
        return codewords
    order = np.tile(np.arange(count), (num_sub_vectors, 1))
    num_groups = 1
    while num_groups < _NUM_GROUPS:
        groups = order.reshape(num_sub_vectors, num_groups, -1)
        by_place = _places(np.take_along_axis(codewords, order[..., None], axis=1), num_groups)
        order = np.take_along_axis(groups, by_place, axis=2).reshape(order.shape)
        num_groups *= 2
    order = order.reshape(num_sub_vectors, _NUM_GROUPS, -1).swapaxes(1, 2).reshape(order.shape)
    return np.take_along_axis(codewords, order[..., None], axis=1)


def _places(codewords: NDArray[np.float32], num_groups: int) -> NDArray[np.int64]:
    """Return the order of the members of each group, in the direction in which it extends most."""
    num_sub_vectors, _, width = codewords.shape
    groups = codewords.astype(np.float64).reshape(num_sub_vectors, num_groups, -1, width)
    groups -= groups.mean(axis=2, keepdims=True)
    _, directions = np.linalg.eigh(groups.swapaxes(2, 3) @ groups)
    along = (groups @ directions[..., -1:])[..., 0]
    return np.asarray(np.argsort(along, axis=2, kind="stable"))
