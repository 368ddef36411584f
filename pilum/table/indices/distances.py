"""Exact distances between a query and many vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pilum.index.vector.metrics import Metric
from pilum.index.vector.vectors import Matrix

__all__ = ["distances_of"]

_BLOCK_BYTES = 1 << 21
"""Size of the vectors whose distances are computed together, so that they stay in the cache."""


def distances_of(vectors: Matrix, query: Matrix, metric: Metric) -> NDArray[np.float32]:
    """Return the distance of each vector from a query, as float32.

    Args:
        vectors: Shape (n, D).
        query: Shape (D,), of the same element type.
        metric: The distance.
    """
    found = np.empty(len(vectors), np.float32)
    step = max(1, _BLOCK_BYTES // max(1, vectors.shape[1] * 8))
    compute = _BY_METRIC[metric]
    wide = np.float64 if vectors.dtype == np.float64 else np.float32
    own = query if metric is Metric.HAMMING else query.astype(wide)
    with np.errstate(all="ignore"):
        for start in range(0, len(vectors), step):
            block = vectors[start : start + step]
            own_block = block if metric is Metric.HAMMING else block.astype(wide, copy=False)
            found[start : start + step] = compute(own_block, own)
    return found


def _l2(vectors: Matrix, query: Matrix) -> Matrix:
    difference = vectors - query
    return np.asarray(np.einsum("ij,ij->i", difference, difference))


def _dot(vectors: Matrix, query: Matrix) -> Matrix:
    return np.asarray(1 - vectors @ query)


def _cosine(vectors: Matrix, query: Matrix) -> Matrix:
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors)) * np.sqrt(query @ query)
    return np.asarray(1 - (vectors @ query) / lengths)


def _hamming(vectors: Matrix, query: Matrix) -> Matrix:
    return np.asarray(_NUM_BITS[vectors ^ query].sum(axis=1, dtype=np.int64))


_NUM_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1)
_BY_METRIC = {Metric.L2: _l2, Metric.DOT: _dot, Metric.COSINE: _cosine, Metric.HAMMING: _hamming}
