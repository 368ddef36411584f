"""Pairs of rows whose vectors are nearly equal, by the codes of an index.

    partition ──▶ codes of its live rows ──▶ vectors ──▶ distances, block by block ──▶ pairs

Rows of different partitions or segments are not compared, so that some pairs are missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pilum.arguments import optional_count, require_count
from pilum.dataset.base import DatasetBase
from pilum.dataset.coded_rows import CodedSegment
from pilum.errors import IndexNotFoundError, InvalidInputError, UnsupportedTypeError
from pilum.index.vector.segment import VectorIndex
from pilum.index.vector.vectors import VectorType
from pilum.table.indices.index_use import ANY_INDEX
from pilum.table.indices.rows import existing_fragments, indexed_column
from pilum.table.indices.vector_segments import VectorSegments, vector_segments
from pilum.table.read.snapshot import Snapshot

__all__ = [
    "DEFAULT_BYTES",
    "duplicate_pairs",
    "duplicate_pairs_in_partition",
    "partition_sizes",
]

_SCHEMA = pa.schema(
    [
        pa.field("row_id_a", pa.uint64(), nullable=False),
        pa.field("row_id_b", pa.uint64(), nullable=False),
        pa.field("distance", pa.float32(), nullable=False),
    ]
)
DEFAULT_BYTES = 256 << 20
"""Approximate memory of a search, if none is given."""


def duplicate_pairs(
    dataset: DatasetBase, column: str, most: float, memory_limit: int | None
) -> pa.RecordBatchReader:
    """Return the pairs of rows; see `pilum.vector.find_duplicate_pairs`."""
    limit = _memory(most, memory_limit)
    snapshot = dataset.snapshot
    found = _searched(snapshot, column)
    if missing := existing_fragments(snapshot) - found.fragments:
        raise InvalidInputError(
            f"index {found.name!r} does not cover the fragments {list(missing)[:5]}: call "
            "optimize.optimize_indices"
        )
    batches = (
        batch
        for segment in _coded(found)
        for batch in _pairs_of_partitions(segment, _filled(segment), float(most), limit)
    )
    return pa.RecordBatchReader.from_batches(_SCHEMA, batches)


def duplicate_pairs_in_partition(
    dataset: DatasetBase,
    column: str,
    segment_id: str,
    partition_id: int,
    most: float,
    memory_limit: int | None,
) -> pa.RecordBatchReader:
    """Return those of one partition; see `pilum.vector.find_duplicate_pairs_in_partition`."""
    limit = _memory(most, memory_limit)
    found = {one.uuid: one for one in _coded(_searched(dataset.snapshot, column))}
    if segment_id not in found:
        raise InvalidInputError(
            f"segment_id: the index of column {column!r} has the segments {sorted(found)}, not "
            f"{segment_id!r}"
        )
    segment = found[segment_id]
    number = require_count("partition_id", partition_id)
    if number >= segment.num_partitions:
        raise InvalidInputError(
            f"partition_id: segment {segment_id} has {segment.num_partitions} partitions, not "
            f"number {number}"
        )
    batches = _pairs_of_partitions(segment, [number], float(most), limit)
    return pa.RecordBatchReader.from_batches(_SCHEMA, batches)


def _memory(most: float, memory_limit: int | None) -> int:
    """Check the arguments of a search, and return the bytes that it may take."""
    if not np.isfinite(most):
        raise InvalidInputError(f"distance_threshold: expected a finite number, found {most!r}")
    return optional_count("memory_limit", memory_limit, 1) or DEFAULT_BYTES


def _searched(snapshot: Snapshot, column: str) -> VectorSegments:
    kind = indexed_column(snapshot, column).arrow.type
    if VectorType.of(column, kind).is_multi:
        raise UnsupportedTypeError(
            f"column {column!r} has type {kind}; pairs are found of rows with one vector each"
        )
    found = vector_segments(snapshot, column, ANY_INDEX)
    if found is None:
        raise IndexNotFoundError(f"{snapshot.store.uri}: column {column!r} has no index of vectors")
    return found


def _coded(found: VectorSegments) -> Iterator[CodedSegment]:
    for segment, index in found.segments:
        assert isinstance(index, VectorIndex)
        yield CodedSegment(segment, index)


def _filled(segment: CodedSegment) -> list[int]:
    """Return the numbers of the partitions that have rows."""
    numbers: list[int] = np.flatnonzero(segment.index.partitions.lengths).tolist()
    return numbers


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


def _pairs_of_partitions(
    segment: CodedSegment, numbers: Iterable[int], most: float, limit: int
) -> Iterator[pa.RecordBatch]:
    for number in numbers:
        rows = segment.read(number)
        for near in rows.vectors.pairs(most, limit):
            columns = [rows.ids[near.one], rows.ids[near.other], near.distances]
            yield pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=_SCHEMA)
