"""Points in time as users write them, k-means, and a check of an index of vectors."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arguments import require_count
from pilum.dataset.lance_dataset import LanceDataset
from pilum.dataset.versions import moment, td_to_micros
from pilum.errors import InvalidInputError
from pilum.index.vector.ivf import IvfModel
from pilum.index.vector.metrics import Metric
from pilum.index.vector.training import train_centroids
from pilum.index.vector.vectors import Matrix, vector_column

__all__ = ["KMeans", "sanitize_ts", "td_to_micros", "validate_vector_index"]

_NO_DISTANCE = 1e-6


def sanitize_ts(ts: Any) -> datetime:
    """Return a point in time, given as a text, a datetime or a timestamp of pandas.

    Raises:
        InvalidInputError: If it is none of these, or a text of another form.
    """
    return moment(ts)


class KMeans:
    """Clusters of vectors of float32.

    Args:
        k: Number of clusters.
        metric_type: "l2", "cosine" or "dot".
        max_iters: Maximum number of iterations.
        centroids: Centroids that are known already, as fixed-size lists; None to train them.
    """

    def __init__(
        self,
        k: int,
        metric_type: str = "l2",
        max_iters: int = 50,
        centroids: pa.FixedSizeListArray | None = None,
    ) -> None:
        """Check the arguments.

        Raises:
            InvalidInputError: If one is invalid.
        """
        self.k = require_count("k", k, 1)
        self._metric = Metric.named(metric_type)
        if self._metric is Metric.HAMMING:
            raise InvalidInputError("metric_type: expected l2, cosine or dot")
        self._max_iters = require_count("max_iters", max_iters, 1)
        self._centroids = None if centroids is None else _matrix(centroids)

    def __repr__(self) -> str:
        return f"KMeans(k={self.k}, metric_type={self._metric.value!r})"

    @property
    def centroids(self) -> pa.FixedSizeListArray | None:
        """The centroids; None before `fit`."""
        return None if self._centroids is None else vector_column(self._centroids)

    def fit(self, data: pa.FixedSizeListArray | pa.FixedShapeTensorArray | NDArray[Any]) -> None:
        """Train the centroids.

        Args:
            data: Vectors, of shape (n, D) if they are an array of numpy.

        Raises:
            InvalidInputError: If there are fewer vectors than clusters.
        """
        vectors = self._scaled(_matrix(data))
        if len(vectors) < self.k:
            raise InvalidInputError(f"{len(vectors)} vectors are too few for {self.k} clusters")
        self._centroids = train_centroids(vectors, self.k, self._metric, self._max_iters)

    def predict(
        self, data: pa.FixedSizeListArray | pa.FixedShapeTensorArray | NDArray[Any]
    ) -> pa.UInt32Array:
        """Return the number of the nearest cluster of each vector.

        Raises:
            InvalidInputError: If the centroids are not trained, or have another number of elements.
        """
        if self._centroids is None:
            raise InvalidInputError("the clusters are not trained; call fit first")
        vectors = self._scaled(_matrix(data))
        if vectors.shape[1] != self._centroids.shape[1]:
            raise InvalidInputError(
                f"vectors of {vectors.shape[1]} elements, centroids of {self._centroids.shape[1]}"
            )
        return pa.array(IvfModel(self._centroids, self._metric).assign(vectors)[0], pa.uint32())

    def _scaled(self, vectors: Matrix) -> Matrix:
        if not self._metric.is_normalizing:
            return vectors
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        scaled: Matrix = vectors / np.where(lengths == 0, 1, lengths)
        return scaled


def _matrix(data: Any) -> Matrix:
    """Return vectors as float32 of shape (n, D)."""
    if isinstance(data, pa.FixedShapeTensorArray):
        data = data.storage
    if isinstance(data, pa.FixedSizeListArray):
        if data.null_count:
            raise InvalidInputError(f"{data.null_count} vectors are null")
        data = data.flatten().to_numpy(zero_copy_only=False).reshape(len(data), -1)
    found = np.asarray(data, np.float32)
    if found.ndim != 2:
        raise InvalidInputError(f"expected vectors of shape (n, D), found {found.shape}")
    return found


def validate_vector_index(
    dataset: LanceDataset,
    column: str,
    refine_factor: int = 5,
    sample_size: int | None = None,
    pass_threshold: float = 1.0,
) -> None:
    """Search vectors of a table by themselves, and check that the index finds them.

    Args:
        dataset: The dataset.
        column: Name of the column of vectors.
        refine_factor: As in searches: the number of candidates for each result that is compared
            exactly.
        sample_size: Number of rows that are searched; None for all.
        pass_threshold: The share of searches that have to find a vector without any distance.

    Raises:
        InvalidInputError: If fewer do.
    """
    rows = dataset.to_table([column]) if sample_size is None else dataset.sample(sample_size)
    vectors = [vector for vector in rows[column].to_pylist() if vector is not None]
    searched = [vector for vector in vectors if not np.isnan(vector).any()]
    found = sum(_is_found(dataset, column, vector, refine_factor) for vector in searched)
    if searched and found / len(searched) < pass_threshold:
        raise InvalidInputError(
            f"the index of {column!r} found {found} of {len(searched)} vectors; build it again"
        )


def _is_found(dataset: LanceDataset, column: str, vector: Any, refine_factor: int) -> bool:
    nearest = {"column": column, "q": vector, "k": 1, "nprobes": 1, "refine_factor": refine_factor}
    distances = dataset.to_table(nearest=nearest)["_distance"].to_pylist()
    return bool(distances) and abs(distances[0]) < _NO_DISTANCE
