"""`IndicesBuilder`: models of vector indices, trained apart from the index.

Several processes build segments of one index with `create_index_uncommitted` and the same models.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from pilum.arguments import optional_count, require_count
from pilum.dataset.base import DatasetBase
from pilum.dataset.vector_models import IvfModel, PqModel
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.index.base import References
from pilum.index.vector.ivf import IvfModel as Centroids
from pilum.index.vector.messages import PQ, Compression
from pilum.index.vector.metrics import Metric
from pilum.index.vector.parameters import given_centroids
from pilum.index.vector.training import indexed_vectors, train_centroids, train_codebook
from pilum.index.vector.vectors import Matrix, VectorType, vector_column
from pilum.table.indices.build import ignore_rows
from pilum.table.indices.rows import existing_fragments, index_rows, indexed_column

__all__ = ["IndicesBuilder"]

_FEWEST_ROWS = 2


class IndicesBuilder:
    """Trains the models of an index of one column.

    Args:
        dataset: The table.
        column: Name of the column of vectors.
    """

    def __init__(self, dataset: DatasetBase, column: str) -> None:
        """Check the column.

        Raises:
            ColumnNotFoundError: If it does not exist.
            UnsupportedTypeError: If it has no vectors.
        """
        self.dataset = dataset
        self._column = indexed_column(dataset.snapshot, column)
        self._vectors = VectorType.of(column, self._column.arrow.type)

    @property
    def dimension(self) -> int:
        """The number of elements of a vector."""
        return self._vectors.dimension

    def train_ivf(
        self,
        num_partitions: int | None = None,
        *,
        distance_type: str = "l2",
        accelerator: Any = None,
        sample_rate: int = 256,
        max_iters: int = 50,
        fragment_ids: Collection[int] | None = None,
    ) -> IvfModel:
        """Train the centroids of partitions.

        Args:
            num_partitions: Number of partitions; None for the square root of the number of rows.
            distance_type: "l2", "cosine", "dot" or "hamming".
            accelerator: Must be None: processors train.
            sample_rate: Number of rows per centroid that are sampled.
            max_iters: Maximum number of iterations.
            fragment_ids: Fragments whose rows are sampled; None for all.

        Raises:
            InvalidInputError: If an argument is invalid, or there are too few rows.
            UnsupportedFeatureError: If an accelerator is requested.
        """
        if accelerator is not None:
            raise UnsupportedFeatureError(f"accelerator={accelerator!r}: omit it; processors train")
        metric = Metric.named(distance_type)
        rate = require_count("sample_rate", sample_rate, _FEWEST_ROWS)
        num_rows = self._num_rows(fragment_ids)
        count = optional_count("num_partitions", num_partitions, 1)
        if count is None:
            count = max(1, round(math.sqrt(num_rows)))
        sample = self._sample(count, rate, metric, fragment_ids, "centroids")
        found = train_centroids(sample, count, metric, require_count("max_iters", max_iters, 1))
        return IvfModel(vector_column(found), metric.value)

    def train_pq(
        self,
        ivf_model: IvfModel,
        num_subvectors: int | None = None,
        *,
        sample_rate: int = 256,
        max_iters: int = 50,
        num_bits: int = 8,
        fragment_ids: Collection[int] | None = None,
    ) -> PqModel:
        """Train the codebook of a product quantizer.

        Args:
            ivf_model: The centroids of partitions.
            num_subvectors: Number of sub-vectors; None for a sixteenth of the dimension or, if it
                is not divisible by 16, an eighth.
            sample_rate: Number of rows per codeword that are sampled.
            max_iters: Maximum number of iterations.
            num_bits: Bits of a code: 8 or 4.
            fragment_ids: Fragments whose rows are sampled; None for all.

        Raises:
            InvalidInputError: If an argument is invalid, or there are too few rows.
        """
        metric = Metric.named(ivf_model.distance_type)
        if num_bits not in (4, 8):
            raise InvalidInputError(f"num_bits: expected 4 or 8, found {num_bits!r}")
        compression = Compression(PQ, num_bits, self._num_sub_vectors(num_subvectors))
        rate = require_count("sample_rate", sample_rate, _FEWEST_ROWS)
        rows = self._sample(2**num_bits, rate, metric, fragment_ids, "the codebook")
        ivf = Centroids(given_centroids(ivf_model.centroids, self._vectors), metric)
        if metric.has_residuals:
            rows = (rows - ivf.centroids[ivf.assign(rows)[0]]).astype(rows.dtype)
        iterations = require_count("max_iters", max_iters, 1)
        found = train_codebook(rows, compression.num_sub_vectors, num_bits, iterations)
        codebook = vector_column(found.reshape(-1, self.dimension))
        return PqModel(compression.num_sub_vectors, codebook, num_bits=num_bits)

    def prepare_global_ivf_pq(
        self,
        num_partitions: int | None,
        num_subvectors: int | None,
        *,
        distance_type: str = "l2",
        accelerator: Any = None,
        sample_rate: int = 256,
        max_iters: int = 50,
        num_bits: int = 8,
        fragment_ids: Collection[int] | None = None,
    ) -> dict[str, pa.FixedSizeListArray]:
        """Train both models; see `train_ivf` and `train_pq`.

        Returns:
            `ivf_centroids` and `pq_codebook`, as `create_index_uncommitted` takes them.
        """
        ivf = self.train_ivf(
            num_partitions,
            distance_type=distance_type,
            accelerator=accelerator,
            sample_rate=sample_rate,
            max_iters=max_iters,
            fragment_ids=fragment_ids,
        )
        pq = self.train_pq(
            ivf,
            num_subvectors,
            sample_rate=sample_rate,
            max_iters=max_iters,
            num_bits=num_bits,
            fragment_ids=fragment_ids,
        )
        return {"ivf_centroids": ivf.centroids, "pq_codebook": pq.codebook}

    def _num_sub_vectors(self, given: int | None) -> int:
        dimension = self.dimension
        count = optional_count("num_subvectors", given, 1)
        if count is None:
            divisor = 16 if dimension % 16 == 0 else 8
            count = dimension // divisor if dimension % divisor == 0 else None
        if count is None or dimension % count:
            raise InvalidInputError(
                f"num_subvectors: {given}; the dimension ({dimension}) must be divisible by it, "
                "and by 8 if it is None"
            )
        return count

    def _fragments(self, fragment_ids: Collection[int] | None) -> BitMap:
        existing = existing_fragments(self.dataset.snapshot)
        if fragment_ids is None:
            return existing
        wanted = BitMap([require_count("fragment_ids", number) for number in fragment_ids])
        if missing := wanted - existing:
            raise InvalidInputError(f"fragment_ids: the table has no fragments {list(missing)}")
        return wanted

    def _num_rows(self, fragment_ids: Collection[int] | None) -> int:
        wanted = self._fragments(fragment_ids)
        fragments = self.dataset.snapshot.manifest.fragments
        return sum(one.num_rows for one in fragments if one.id in wanted)

    def _sample(
        self,
        count: int,
        sample_rate: int,
        metric: Metric,
        fragment_ids: Collection[int] | None,
        what: str,
    ) -> Matrix:
        """Return as many rows as a training needs.

        Raises:
            InvalidInputError: If there are fewer, or their type does not have the metric.
        """
        if self._vectors.is_binary != (metric is Metric.HAMMING) or self._vectors.dtype == np.int8:
            raise InvalidInputError(f"metric {metric.value!r} for vectors of {self._vectors.dtype}")
        num_rows, wanted = self._num_rows(fragment_ids), count * sample_rate
        if num_rows < wanted:
            raise InvalidInputError(
                f"There are not enough rows in the dataset to train {what}: {count} of them with a "
                f"sample rate of {sample_rate} need {wanted} rows, and there are {num_rows}"
            )
        rows = index_rows(
            self.dataset.snapshot,
            self._column,
            References.ADDRESSES,
            self._fragments(fragment_ids),
            ignore_rows,
        )
        found, _ = indexed_vectors(rows.sample(wanted), self._vectors, metric)
        if len(found) < count:
            raise InvalidInputError(f"{len(found)} vectors to train {count} of {what}")
        return found
