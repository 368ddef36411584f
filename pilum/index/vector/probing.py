"""The number of partitions that a query searches at first.

    distances of the centroids    1.0  1.1  1.2 | 1.9  2.4 …      l2, k = 10
    margin 0.265 of the first     1.265        |
    count 3, at least 6, at most 24   ──▶   6 partitions

A caller may set a minimum and a maximum, or a search effort between 0 and 1 that leads from the
minimum (0) by the automatic number (0.5) to the maximum (1). The numbers are those of the
reference, so that both libraries find the same rows. Source: docs/format/vector-indices.md,
"Probing".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilum.index.vector.metrics import Metric

__all__ = ["fixed_probes", "num_probes"]


class _Rule(NamedTuple):
    """The automatic number for some k: partitions within a margin, at least and at most."""

    margin: float
    least: int
    most: int


_MAX_K = (1, 10, 100, 200, 500, 1000)
"""The rules are for k up to each of these, and for any greater one."""


def _rules(
    margins: Sequence[float], least: Sequence[int], most: Sequence[int]
) -> tuple[_Rule, ...]:
    """Return the rules for k up to each of `_MAX_K`, and for any greater one."""
    return tuple(map(_Rule, margins, least, most))


_RULES = {
    Metric.L2: _rules(
        (0.2175, 0.265, 0.33, 0.375, 0.3725, 0.4175, 0.569),
        (5, 6, 11, 15, 22, 29, 98),
        (19, 24, 38, 56, 81, 93, 238),
    ),
    Metric.COSINE: _rules(
        (0.235, 0.2875, 0.38, 0.415, 0.45, 0.47, 0.647),
        (3, 8, 7, 18, 28, 34, 104),
        (50, 77, 106, 156, 192, 248, 447),
    ),
    Metric.DOT: _rules(
        (0.14, 0.055, 0.0625, 0.0675, 0.07, 0.0725, 0.0825),
        (56, 144, 200, 211, 244, 279, 517),
        (112, 432, 768, 833, 971, 1092, 1820),
    ),
}

_HAMMING_FACTORS = ((1, 0.6), (10, 7.0))
_HAMMING_FACTOR = 81.0
"""Hamming counts centroids up to a multiple of the first distance, which depends on k."""


def fixed_probes(
    num_partitions: int, minimum: int, maximum: int | None, effort: float | None
) -> int | None:
    """Return how many partitions every query searches; None if it depends on distances.

    Args:
        num_partitions: Number of partitions of the index.
        minimum: See `NearestQuery.minimum_nprobes`.
        maximum: See `NearestQuery.maximum_nprobes`.
        effort: See `NearestQuery.search_effort`.
    """
    most = num_partitions if maximum is None else min(maximum, num_partitions)
    return most if effort is None and minimum >= most else None


def num_probes(
    distances: NDArray[np.float32],
    metric: Metric,
    k: int,
    minimum: int = 1,
    maximum: int | None = None,
    effort: float | None = None,
) -> NDArray[np.int64]:
    """Return how many partitions each query searches at first, shape (b,).

    Args:
        distances: The distance of each centroid to each query, shape (b, P); P is not 0.
        metric: The metric of the index.
        k: Number of rows that the caller requested, without the refine factor.
        minimum: See `NearestQuery.minimum_nprobes`.
        maximum: See `NearestQuery.maximum_nprobes`.
        effort: See `NearestQuery.search_effort`.
    """
    num_queries, all = distances.shape
    fixed = fixed_probes(all, minimum, maximum, effort)
    if fixed is not None:
        return np.full(num_queries, fixed)
    most = all if maximum is None else min(maximum, all)
    automatic = _automatic(distances, metric, k)
    if effort is None:
        return np.asarray(automatic.clip(min(minimum, most), most))
    low = max(1, min(minimum, most))
    middles = automatic.clip(1, max(most, 1)).tolist()
    return np.array([_by_effort(effort, low, middle, most) for middle in middles])


def _automatic(distances: NDArray[np.float32], metric: Metric, k: int) -> NDArray[np.int64]:
    num_queries, all = distances.shape
    if metric is Metric.HAMMING:
        factor = next((f for limit, f in _HAMMING_FACTORS if k <= limit), _HAMMING_FACTOR)
        return _count(distances, distances.min(axis=1) * np.float32(factor))
    rule = _RULES[metric][bisect_left(_MAX_K, k)]
    if rule.least >= all:
        return np.full(num_queries, all)
    nearest = distances.min(axis=1)
    scale = np.abs(1 - nearest) if metric is Metric.DOT else nearest
    counts = _count(distances, nearest + np.float32(rule.margin) * scale)
    return np.asarray(counts.clip(rule.least, min(rule.most, all)))


def _count(distances: NDArray[np.float32], limits: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.asarray(np.count_nonzero(distances <= limits[:, None], axis=1))


def _by_effort(effort: float, low: int, middle: int, high: int) -> int:
    """Return a number between three others, on a geometric scale."""
    start, stop, share = (low, middle, 2 * effort)
    if effort > 0.5:
        start, stop, share = middle, high, 2 * effort - 1
    ratio: float = (stop / start) ** share
    return ceil(start * ratio)
