"""Pairs of rows whose vectors are nearly equal, by the codes of an index.

    partition ──▶ codes of its live rows ──▶ vectors ──▶ distances, block by block ──▶ pairs

Rows of different partitions or segments are not compared, so that some pairs are missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arguments import optional_count
from pilum.dataset.base import DatasetBase
from pilum.errors import IndexNotFoundError, InvalidInputError, UnsupportedTypeError
from pilum.format.rows import Addresses
from pilum.index.vector.metrics import Metric
from pilum.index.vector.row_masks import RowMask
from pilum.index.vector.segment import VectorIndex
from pilum.index.vector.vectors import VectorType, normalized
from pilum.table.indices.index_use import ANY_INDEX
from pilum.table.indices.live import live_rows
from pilum.table.indices.rows import existing_fragments, indexed_column
from pilum.table.indices.segments import OpenSegment
from pilum.table.indices.vector_segments import VectorSegments, vector_segments

__all__ = ["duplicate_pairs", "partition_sizes"]

_SCHEMA = pa.schema(
    [
        pa.field("row_id_a", pa.uint64(), nullable=False),
        pa.field("row_id_b", pa.uint64(), nullable=False),
        pa.field("distance", pa.float32(), nullable=False),
    ]
)
_DEFAULT_BYTES = 256 << 20
_BYTES_OF_PAIR = 48
"""Memory of a product, what is computed from it, and the numbers of its rows."""

_BYTES_OF_ELEMENT = 28
"""Memory of an element of two vectors whose exact distance is computed."""

_SLACK = 1e-5
"""Share of the squared lengths by which a squared distance from products may be wrong."""


def duplicate_pairs(
    dataset: DatasetBase, column: str, most: float, memory_limit: int | None
) -> pa.RecordBatchReader:
    """Return the pairs of rows; see `pilum.vector.find_duplicate_pairs`."""
    snapshot = dataset.snapshot
    if not np.isfinite(most):
        raise InvalidInputError(f"distance_threshold: expected a finite number, found {most!r}")
    limit = optional_count("memory_limit", memory_limit, 1) or _DEFAULT_BYTES
    kind = indexed_column(snapshot, column).arrow.type
    if VectorType.of(column, kind).is_multi:
        raise UnsupportedTypeError(
            f"column {column!r} has type {kind}; pairs are found of rows with one vector each"
        )
    found = vector_segments(snapshot, column, ANY_INDEX)
    if found is None:
        raise IndexNotFoundError(f"{snapshot.store.uri}: column {column!r} has no index of vectors")
    if missing := existing_fragments(snapshot) - found.fragments:
        raise InvalidInputError(
            f"index {found.name!r} does not cover the fragments {list(missing)[:5]}: call "
            "optimize.optimize_indices"
        )
    return pa.RecordBatchReader.from_batches(_SCHEMA, _batches(found, float(most), limit))


def partition_sizes(
    index_segments: Mapping[str, Any], uuids: frozenset[str] | None
) -> list[dict[str, int]]:
    """Return the number of each partition and its rows, given the statistics of an index."""
    segments = index_segments["indices"]
    if uuids is not None:
        if unknown := uuids - {one["uuid"] for one in segments}:
            raise InvalidInputError(f"index_segments: the index has no segments {sorted(unknown)}")
        segments = [one for one in segments if one["uuid"] in uuids]
    sizes: dict[int, int] = {}
    for segment in segments:
        if "partitions" not in segment:
            raise InvalidInputError("the index has no partitions: it is not one of vectors")
        for number, one in enumerate(segment["partitions"]):
            sizes[number] = sizes.get(number, 0) + one["size"]
    return [{"partition_id": number, "size": size} for number, size in sizes.items()]


def _batches(found: VectorSegments, most: float, limit: int) -> Iterator[pa.RecordBatch]:
    for segment, index in found.segments:
        assert isinstance(index, VectorIndex)
        # All rows are read, also those of fragments that other segments cover since.
        live = live_rows(segment, index.references, has_others=True)
        mask = None if live is None else RowMask(live)
        for number in np.flatnonzero(index.partitions.lengths).tolist():
            rows = _read(segment, index, number, mask)
            yield from rows.pairs(most, limit)


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a partition.

    Attributes:
        ids: Their ids.
        vectors: Their vectors, float32; for hamming, a number for each bit.
        metric: The metric of the index.
    """

    ids: Addresses
    vectors: NDArray[np.float32]
    metric: Metric

    def pairs(self, most: float, limit: int) -> Iterator[pa.RecordBatch]:
        """Yield the pairs at a distance of at most `most`."""
        count = len(self.ids)
        size = max(1, limit // (_BYTES_OF_PAIR * max(count, 1)))
        squares = np.einsum("ij,ij->i", self.vectors, self.vectors)
        step = max(1, limit // (_BYTES_OF_ELEMENT * self.vectors.shape[1]))
        for start in range(0, count, size):
            one, other = self._candidates(start, min(start + size, count), squares, most)
            for first in range(0, len(one), step):
                part = slice(first, first + step)
                yield from self._near(one[part], other[part], most)

    def _near(
        self, one: NDArray[np.int64], other: NDArray[np.int64], most: float
    ) -> Iterator[pa.RecordBatch]:
        """Yield those of some pairs that are at a distance of at most `most`, if there are any."""
        distances = self._distances(one, other)
        kept = distances <= most
        if kept.any():
            columns = [self.ids[one[kept]], self.ids[other[kept]], distances[kept]]
            yield pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=_SCHEMA)

    def _candidates(
        self, start: int, stop: int, squares: NDArray[np.float32], most: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return pairs of a block with all later rows, and a few that are farther apart."""
        products = self.vectors[start:stop] @ self.vectors[start:].T
        sums = squares[start:stop, np.newaxis] + squares[start:]
        slack = _SLACK * (sums + 1)
        if self.metric in (Metric.L2, Metric.HAMMING):
            is_near = sums - 2 * products <= most + slack
        else:
            is_near = 1 - products <= most + slack
        one, other = np.nonzero(np.triu(is_near, 1))
        return one + start, other + start

    def _distances(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.float32]:
        left, right = self.vectors[one].astype(np.float64), self.vectors[other]
        if self.metric in (Metric.L2, Metric.HAMMING):
            return np.asarray(((left - right) ** 2).sum(axis=1), np.float32)
        return np.asarray(1 - np.einsum("ij,ij->i", left, right), np.float32)


def _read(segment: OpenSegment, index: VectorIndex, number: int, mask: RowMask | None) -> _Rows:
    references, columns = index.read(number)
    if mask is not None:
        kept = mask.of(references)
        references = references[kept]
        columns = {name: column[kept] for name, column in columns.items()}
    partitions = np.full(len(references), number, np.uint32)
    stored: NDArray[Any] = index.quantizer.decoded(columns, partitions, index.model.centroids)
    metric = index.model.metric
    if metric is Metric.HAMMING:
        stored = np.unpackbits(stored, axis=1)
    vectors = stored.astype(np.float32, copy=False)
    if metric is Metric.COSINE:
        vectors = normalized(vectors)
    ids = references if segment.has_ids else segment.addresses(references)[0]
    return _Rows(ids, vectors, metric)
