"""Distances of rows that have a list of vectors each, from a query of several vectors.

    query vectors   q1 q2
    row             v1 v2 v3      min(d(q1, v1..v3)) + min(d(q2, v1..v3))

Each vector of the query counts with its distance from the nearest vector of the row, whatever the
metric is. For cosine and dot this is the number of query vectors less the sum of the greatest
similarities. Source: docs/format/vector-indices.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pilum.index.vector.metrics import Metric
from pilum.index.vector.vectors import Matrix
from pilum.kernels import distances
from pilum.table.indices.ranking import Nearest

__all__ = ["fused", "list_distances"]


def list_distances(
    vectors: Matrix, rows: NDArray[np.int64], query: Matrix, metric: Metric
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the rows that have a vector, and their distances.

    Args:
        vectors: The vectors of all rows, shape (n, D).
        rows: The row of each vector, ascending, shape (n,).
        query: Shape (t, D).
        metric: The distance between two vectors.

    Returns:
        The distinct rows, and float32 distances; NaN where no vector of a row has a distance.
    """
    if not len(rows):
        return rows, np.empty(0, np.float32)
    starts = np.flatnonzero(np.diff(rows, prepend=rows[0] - 1))
    total = np.zeros(len(starts), np.float32)
    for own in query:
        [one] = distances(vectors, own[None], metric.value)
        total += np.fmin.reduceat(one, starts)
    return rows[starts], total


def fused(parts: Sequence[Nearest], k: int) -> Nearest:
    """Return the `k` nearest rows, given the rows that an index found for each vector of a query.

    A row that was not found for a vector counts with the greatest distance that was found for it,
    as it is at least that far.

    Args:
        parts: For each vector of the query, the rows of the nearest vectors, which may repeat.
        k: Maximum number of rows.
    """
    ids = np.unique(np.concatenate([part.ids for part in parts]))
    total = np.zeros(len(ids), np.float32)
    for part in parts:
        if not len(part):
            continue
        best = np.full(len(ids), part.distances[-1], np.float32)
        np.minimum.at(best, ids.searchsorted(part.ids), part.distances)
        total += best
    return Nearest.ordered(ids, total, k)
