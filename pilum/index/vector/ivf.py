"""Partitions of vectors by their nearest centroid ("inverted file").

    vector 7  ──▶ nearest of the centroids 0 … P-1 ──▶ partition 2
    query     ──▶ centroids in the order of their distances ──▶ the partitions to search

Source: docs/format/vector-indices.md, "Partitions".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum.index.vector.metrics import Metric
from pilum.index.vector.vectors import normalized
from pilum.kernels import distances as measured
from pilum.kernels import nearest_centroids
from pilum.lazy import cached_property

__all__ = ["IvfModel"]

_BLOCK_BYTES = 16 << 20
"""Bytes of the distances that are computed together."""

_FEW_PRODUCTS = 1 << 22
"""Up to this many products, a kernel computes distances, which for l2 loses no digits.

A matrix product takes a third of its time, but the threads of the product then wait actively for
the next one, and take the processors from the search: this many products of a batch of 100 queries
cost 0.5 ms more, and the search 7 ms less.
"""


class IvfModel:
    """The centroids of an index.

    Args:
        centroids: Shape (P, D), of the element type of the column.
        metric: The metric of the index.
        loss: The sum of the distances of all indexed vectors to their centroids; None if unknown.

    Attributes:
        centroids: See above.
        metric: See above.
        loss: See above.
    """

    def __init__(self, centroids: NDArray[Any], metric: Metric, loss: float | None = None) -> None:
        self.centroids = centroids
        self.metric = metric
        self.loss = loss
        self._metric_name = (Metric.L2 if metric is Metric.COSINE else metric).value

    @property
    def num_partitions(self) -> int:
        """Number of partitions."""
        return len(self.centroids)

    @property
    def dimension(self) -> int:
        """Number of elements of a vector."""
        return int(self.centroids.shape[1])

    @property
    def size_bytes(self) -> int:
        """The approximate memory that it uses."""
        wide = 0 if self.wide is self.centroids else self.wide.nbytes
        return self.centroids.nbytes + wide + 4 * len(self.centroids)

    @cached_property
    def wide(self) -> NDArray[Any]:
        """The centroids as contiguous float32; for hamming as uint8."""
        dtype = np.uint8 if self.metric is Metric.HAMMING else np.float32
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(self.centroids, dtype)

    @cached_property
    def _norms(self) -> NDArray[np.float32]:
        """The squared lengths of the centroids."""
        return np.asarray(np.einsum("ij,ij->i", self.wide, self.wide))

    def assign(self, vectors: NDArray[Any]) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
        """Return the partition of each vector, and its distance to the centroid.

        Args:
            vectors: Shape (n, D); for cosine, of length 1.

        Returns:
            Partitions and distances, both of shape (n,). Distances are squared Euclidean ones
            for l2 and cosine.
        """
        partitions = np.empty(len(vectors), np.uint32)
        distances = np.empty(len(vectors), np.float32)
        model = _Assignment(self)
        step = max(_BLOCK_BYTES // (4 * max(self.num_partitions, self.dimension)), 1)
        for start in range(0, len(vectors), step):
            block = slice(start, start + step)
            partitions[block], distances[block] = model.of(vectors[block])
        return partitions, distances

    def queries(self, vectors: NDArray[Any]) -> NDArray[Any]:
        """Return queries as they are compared: contiguous, and of length 1 for cosine.

        Args:
            vectors: Shape (b, D).
        """
        if self.metric is Metric.HAMMING:
            return np.ascontiguousarray(vectors, np.uint8)
        found = np.ascontiguousarray(vectors, np.float32)
        return normalized(found) if self.metric is Metric.COSINE else found

    def distances(self, queries: NDArray[Any]) -> NDArray[np.float32]:
        """Return the distance of each centroid to each query, shape (b, P).

        Args:
            queries: From `queries`. Distances are squared Euclidean ones for l2 and cosine.
        """
        wide = self.wide
        if self.metric is Metric.HAMMING or wide.size * len(queries) <= _FEW_PRODUCTS:
            return measured(wide, queries, self._metric_name)
        with np.errstate(all="ignore"):
            if self.metric is Metric.DOT:
                return np.asarray(1 - queries @ wide.T)
            found = queries @ wide.T
            found *= -2
            found += self._norms
            found += np.einsum("ij,ij->i", queries, queries)[:, None]
            return np.asarray(np.maximum(found, 0, out=found))


class _Assignment:
    """The nearest centroids of blocks of vectors."""

    def __init__(self, model: IvfModel) -> None:
        self._metric = model.metric
        self._dtype = np.float64 if model.centroids.dtype == np.float64 else np.float32
        self._centroids = _elements(model.centroids, model.metric, self._dtype)
        if model.metric is Metric.DOT:
            self._factor, offsets = 1, np.ones(len(self._centroids), self._dtype)
        else:
            self._factor, offsets = 2, np.einsum("ij,ij->i", self._centroids, self._centroids)
        self._offsets: NDArray[Any] = offsets

    def of(self, vectors: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the nearest centroid of each vector, and its distance."""
        block = _elements(vectors, self._metric, self._dtype)
        if self._dtype is np.float32:
            nearest, values = nearest_centroids(block, self._centroids, self._offsets, self._factor)
        else:
            all_values = self._offsets - self._factor * (block @ self._centroids.T)
            nearest = all_values.argmin(axis=1).astype(np.uint32)
            values = all_values[np.arange(len(block)), nearest]
        if self._metric is Metric.DOT:
            return nearest, values
        gaps = block - self._centroids[nearest]
        return nearest, np.einsum("ij,ij->i", gaps, gaps)


def _elements(vectors: NDArray[Any], metric: Metric, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    """Return vectors as numbers for products; bits become 0 and 1, whose squared gaps count."""
    if metric is Metric.HAMMING:
        return np.unpackbits(vectors, axis=1).astype(dtype)
    return np.ascontiguousarray(vectors, dtype)
