"""K-means by PyTorch, on any of its devices.

repeat      every vector goes to its nearest centroid
            every centroid moves to the mean of its vectors
            an empty cluster takes half of the largest one
until       the sum of the distances changes by less than the tolerance
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch

from pilum.arguments import require_count
from pilum.errors import InvalidInputError
from pilum.index.vector.metrics import Metric
from pilum.index.vector.vectors import matrix
from pilum.torch import preferred_device
from pilum.torch.distance import dot_distance, l2_distance

__all__ = ["KMeans"]

_BATCH_SIZE = 10240
_SHIFT = 0.005
"""By so much, relative to themselves, the components of halves of a cluster are moved at most."""


class KMeans:
    """Clusters of vectors.

    Args:
        k: Number of clusters.
        metric: "l2", "cosine" or "dot".
        init: Must be "random": random vectors are the first centroids.
        max_iters: Maximum number of updates of the centroids.
        tolerance: Updates end if the sum of distances changes by a smaller part.
        centroids: The first centroids, shape (k, D); None to draw them.
        seed: Of the random numbers; None for any.
        device: A device of PyTorch; None for the fastest, see `preferred_device`.

    Attributes:
        centroids: Shape (k, D); None before `fit`.
        total_distance: The sum of the distances to the nearest centroids at the last update.

    Raises:
        InvalidInputError: If an argument is invalid.
    """

    def __init__(
        self,
        k: int,
        *,
        metric: str = "l2",
        init: Literal["random"] = "random",
        max_iters: int = 50,
        tolerance: float = 1e-4,
        centroids: torch.Tensor | None = None,
        seed: int | None = None,
        device: str | None = None,
    ) -> None:
        found = Metric.named(metric)
        if found is Metric.HAMMING:
            raise InvalidInputError(
                f"Only l2/cosine/dot is supported as metric type, got: {metric}"
            )
        if init != "random":
            raise InvalidInputError(f"init: expected 'random', found {init!r}")
        self.k = require_count("k", k, 1)
        self.metric = found.value
        self.init = init
        self.max_iters = require_count("max_iters", max_iters, 0)
        self.tolerance = tolerance
        self.centroids = centroids
        self.seed = seed
        self.device = preferred_device(device)
        self.total_distance = 0.0
        self._generator = torch.Generator()
        if seed is not None:
            self._generator.manual_seed(seed)

    def __repr__(self) -> str:
        return f"KMeans(k={self.k}, metric={self.metric}, device={self.device})"

    def fit(self, data: Any, column: str | None = None) -> None:
        """Find the clusters.

        Args:
            data: Vectors: an array of pyarrow, of fixed-size lists or tensors; an array of numpy; a
                tensor; or a dataset that can be iterated more than once and yields batches, as
                tensors or as dicts of them. A dataset needs `centroids`.
            column: The tensor of each dict of a dataset.

        Raises:
            InvalidInputError: If there are fewer vectors than clusters, or no first centroids.
        """
        batches: Iterable[Any] = data
        if isinstance(data, pa.Array | pa.ChunkedArray | np.ndarray | torch.Tensor):
            vectors = _tensor(data)
            if self.centroids is None:
                self.centroids = self._first(vectors)
            batches = vectors.split(_BATCH_SIZE)
        if self.centroids is None:
            raise InvalidInputError("centroids: pass the first centroids to fit a dataset")
        self.centroids = self.centroids.to(self.device)
        self.total_distance = 0.0
        for _ in range(self.max_iters):
            if not self._updated(self._batches(batches, column)):
                break

    def transform(self, data: Any) -> torch.Tensor:
        """Return the cluster of each vector, -1 for those with NaN.

        Args:
            data: As for `fit`, but no dataset.

        Raises:
            InvalidInputError: If there are no centroids.
        """
        if self.centroids is None:
            raise InvalidInputError("KMeans: call fit before transform")
        return self._nearest(self._prepared(_tensor(data).to(self.device)))[0]

    def _first(self, vectors: torch.Tensor) -> torch.Tensor:
        if len(vectors) < self.k:
            raise InvalidInputError(f"{len(vectors)} vectors for {self.k} clusters")
        chosen = torch.randperm(len(vectors), generator=self._generator)[: self.k]
        return self._prepared(vectors[chosen.to(vectors.device)])

    def _prepared(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return vectors as they are compared: of length 1 for cosine."""
        return torch.nn.functional.normalize(vectors) if self.metric == "cosine" else vectors

    def _batches(self, batches: Iterable[Any], column: str | None) -> Iterator[torch.Tensor]:
        for batch in batches:
            vectors = batch if column is None else batch[column]
            yield self._prepared(vectors.to(self.device))

    def _nearest(self, vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        assert self.centroids is not None
        if self.metric == "dot":
            return dot_distance(vectors, self.centroids)
        return l2_distance(vectors, self.centroids)

    def _updated(self, batches: Iterable[torch.Tensor]) -> bool:
        """Move the centroids to the means of their vectors; return False if that is the end."""
        assert self.centroids is not None
        before = self.centroids
        sums = torch.zeros(before.shape, dtype=torch.float32, device=self.device)
        counts = torch.zeros(len(before), dtype=torch.float32, device=self.device)
        total = 0.0
        for vectors in batches:
            numbers, distances = self._nearest(vectors)
            is_known = numbers >= 0
            numbers = numbers[is_known]
            total += float(distances[is_known].sum(dtype=torch.float32))
            sums.index_add_(0, numbers, vectors[is_known].to(torch.float32))
            counts.index_add_(0, numbers, torch.ones_like(numbers, dtype=torch.float32))
        change, self.total_distance = abs(total - self.total_distance), total
        if change <= self.tolerance * abs(total):
            return False
        self.centroids = self._prepared(self._means(sums, counts, before)).to(before.dtype)
        return True

    def _means(
        self, sums: torch.Tensor, counts: torch.Tensor, before: torch.Tensor
    ) -> torch.Tensor:
        """Return the means of clusters; an empty one begins beside the largest."""
        means = torch.where(
            counts[:, None] > 0, sums / counts[:, None].clamp(min=1), before.to(sums.dtype)
        )
        sizes = counts.clone()
        for place in torch.nonzero(counts == 0).flatten().tolist():
            largest = int(torch.argmax(sizes))
            noise = torch.rand(means.shape[1], generator=self._generator).to(self.device)
            shift = (noise * 2 - 1) * _SHIFT
            means[place], means[largest] = (
                means[largest] * (1 + shift),
                means[largest] * (1 - shift),
            )
            sizes[place] = sizes[largest] = sizes[largest] / 2
        return means


def _tensor(data: Any) -> torch.Tensor:
    if isinstance(data, pa.ChunkedArray):
        data = data.combine_chunks()
    if isinstance(data, pa.Array):
        data = matrix(data)[0]
    if isinstance(data, np.ndarray):
        return torch.tensor(data)
    if isinstance(data, torch.Tensor):
        return data
    raise InvalidInputError(
        f"KMeans: expected fixed-size lists of pyarrow, an array of numpy or a tensor, found "
        f"{type(data).__name__}"
    )
