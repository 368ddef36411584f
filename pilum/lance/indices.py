"""Training of the models of vector indices by functions, as lance-ray calls them."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from pilum.dataset.base import DatasetBase
from pilum.dataset.indices_builder import IndicesBuilder
from pilum.dataset.vector_models import IvfModel
from pilum.errors import InvalidInputError
from pilum.index.vector.metrics import Metric
from pilum.index.vector.rabitq import Rabitq

__all__ = ["build_rq_model", "train_ivf_model", "train_pq_model"]


def train_ivf_model(
    dataset: DatasetBase,
    column: str,
    dimension: int,
    num_partitions: int,
    distance_type: str,
    sample_rate: int,
    max_iters: int,
    fragment_ids: Collection[int] | None = None,
) -> pa.FixedSizeListArray:
    """Return the centroids of partitions; see `IndicesBuilder.train_ivf`."""
    model = _builder(dataset, column, dimension).train_ivf(
        num_partitions,
        distance_type=distance_type,
        sample_rate=sample_rate,
        max_iters=max_iters,
        fragment_ids=fragment_ids,
    )
    return model.centroids


def train_pq_model(
    dataset: DatasetBase,
    column: str,
    dimension: int,
    num_subvectors: int,
    distance_type: str,
    sample_rate: int,
    max_iters: int,
    ivf_centroids: pa.FixedSizeListArray,
    fragment_ids: Collection[int] | None = None,
    *,
    num_bits: int = 8,
) -> pa.FixedSizeListArray:
    """Return the codebook of a product quantizer; see `IndicesBuilder.train_pq`."""
    model = _builder(dataset, column, dimension).train_pq(
        IvfModel(ivf_centroids, distance_type),
        num_subvectors,
        sample_rate=sample_rate,
        max_iters=max_iters,
        num_bits=num_bits,
        fragment_ids=fragment_ids,
    )
    return model.codebook


def build_rq_model(*, dimension: int, num_bits: int = 1) -> str:
    """Return a random rotation for the codes of RaBitQ, as JSON.

    Args:
        dimension: Number of elements of a vector.
        num_bits: Bits of a code for each element.
    """
    return Rabitq.new(dimension, Metric.L2, num_bits).model()


def _builder(dataset: DatasetBase, column: str, dimension: int) -> IndicesBuilder:
    builder = IndicesBuilder(dataset, column)
    if builder.dimension != dimension:
        raise InvalidInputError(
            f"column {column!r}: vectors of {builder.dimension} elements, not {dimension}"
        )
    return builder
