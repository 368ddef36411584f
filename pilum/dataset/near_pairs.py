"""Pairs of vectors that are at most so far apart, within bounded memory.

block of vectors ──▶ products with all later ones ──▶ candidates ──▶ exact distances ──▶ pairs
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum.index.vector.metrics import Metric
from pilum.index.vector.vectors import normalized

__all__ = ["NearPairs", "Vectors"]

_BYTES_OF_PAIR = 48
"""Memory of a product, what is computed from it, and the numbers of its rows."""

_BYTES_OF_ELEMENT = 28
"""Memory of an element of two vectors whose exact distance is computed."""

_SLACK = 1e-5
"""Share of the squared lengths by which a squared distance from products may be wrong."""


@dataclass(frozen=True, eq=False)
class NearPairs:
    """Some pairs of vectors that are close together.

    Attributes:
        one: The number of one vector of each pair.
        other: The number of the other one, which is greater.
        distances: Their distances, float32.
    """

    one: NDArray[np.int64]
    other: NDArray[np.int64]
    distances: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vectors among which pairs are looked for.

    Attributes:
        values: Their elements, float32, shape (n, D); for hamming, a number for each bit.
        metric: The metric.
    """

    values: NDArray[np.float32]
    metric: Metric

    @classmethod
    def of(cls, stored: NDArray[Any], metric: Metric) -> Vectors:
        """Return vectors, given their elements; for hamming these are bytes."""
        if metric is Metric.HAMMING:
            stored = np.unpackbits(stored, axis=1)
        values = stored.astype(np.float32, copy=False)
        return cls(normalized(values) if metric is Metric.COSINE else values, metric)

    def pairs(self, most: float, limit: int) -> Iterator[NearPairs]:
        """Yield the pairs at a distance of at most `most`, each once.

        Args:
            most: The distance.
            limit: Approximate memory, in bytes.
        """
        count = len(self.values)
        size = max(1, limit // (_BYTES_OF_PAIR * max(count, 1)))
        squares = np.einsum("ij,ij->i", self.values, self.values)
        step = max(1, limit // (_BYTES_OF_ELEMENT * self.values.shape[1]))
        for start in range(0, count, size):
            one, other = self._candidates(start, min(start + size, count), squares, most)
            for first in range(0, len(one), step):
                part = slice(first, first + step)
                near = self._near(one[part], other[part], most)
                if len(near.one):
                    yield near

    def _near(self, one: NDArray[np.int64], other: NDArray[np.int64], most: float) -> NearPairs:
        """Return those of some pairs that are at a distance of at most `most`."""
        distances = self._distances(one, other)
        kept = distances <= most
        return NearPairs(one[kept], other[kept], distances[kept])

    def _candidates(
        self, start: int, stop: int, squares: NDArray[np.float32], most: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return pairs of a block with all later rows, and a few that are farther apart."""
        products = self.values[start:stop] @ self.values[start:].T
        sums = squares[start:stop, np.newaxis] + squares[start:]
        slack = _SLACK * (sums + 1)
        if self.metric in (Metric.L2, Metric.HAMMING):
            is_near = sums - 2 * products <= most + slack
        else:
            is_near = 1 - products <= most + slack
        one, other = np.nonzero(np.triu(is_near, 1))
        return one + start, other + start

    def _distances(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.float32]:
        left, right = self.values[one].astype(np.float64), self.values[other]
        if self.metric in (Metric.L2, Metric.HAMMING):
            return np.asarray(((left - right) ** 2).sum(axis=1), np.float32)
        return np.asarray(1 - np.einsum("ij,ij->i", left, right), np.float32)
