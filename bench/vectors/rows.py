"""Recall where both libraries compare as many rows.

    probed partitions    8     9             8
    rows in them     13,600 15,300      15,800    pylance, which has some very large partitions
    recall            0.756  0.81        0.838
                                  0.83            pilum, between 9 and 10 partitions

With the same number of partitions, an index whose partitions have more different sizes compares
more rows, and finds more of the nearest for more time. That says nothing about its quality.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["recall_at", "rows_by_probes"]


def rows_by_probes(dataset: Any, queries: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the mean number of rows in the 1, 2, … partitions that are nearest to a query by l2.

    Args:
        dataset: A table whose column "vector" has an index of one segment.
        queries: Shape (number of queries, dimension).
    """
    name = dataset.describe_indices()[0].name
    [found] = dataset.stats.index_stats(name)["indices"]
    centroids = np.array(found["centroids"], np.float32)
    sizes = np.array([part["size"] for part in found["partitions"]])
    distances = np.einsum("ij,ij->i", centroids, centroids) - 2 * queries @ centroids.T
    order = np.argsort(distances, axis=1)
    means: NDArray[np.float64] = np.cumsum(sizes[order], axis=1).mean(axis=0)
    return means


def recall_at(num_rows: float, rows: NDArray[np.float64], recall: Callable[[int], float]) -> float:
    """Return the recall where so many rows are compared, between two numbers of partitions.

    Args:
        num_rows: The rows to compare.
        rows: Those in the 1, 2, … nearest partitions; ascending.
        recall: Measures the recall with a number of partitions.
    """
    above = min(int(rows.searchsorted(num_rows)), len(rows) - 1)
    if above == 0 or rows[above] <= num_rows:
        return recall(above + 1)
    share = (num_rows - rows[above - 1]) / (rows[above] - rows[above - 1])
    low, high = recall(above), recall(above + 1)
    return float(low + share * (high - low))
