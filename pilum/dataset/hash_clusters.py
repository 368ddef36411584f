"""Clusters of rows whose hashes differ in few bits: near duplicates of images, texts and the like.

    hashes of some rows ──▶ pairs that differ in few bits ──▶ chains of pairs ──▶ clusters

Two rows are in one cluster if a chain of pairs leads from one to the other. The hashes of all rows
are in memory, and all pairs of them are compared.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.types
from numpy.typing import NDArray

from pilum.arguments import optional_count, require_count
from pilum.dataset.coded_rows import CodedSegment
from pilum.dataset.near_pairs import NearPairs, Vectors
from pilum.dataset.reading import Reading
from pilum.errors import InvalidInputError, UnsupportedTypeError
from pilum.format.rows import Addresses
from pilum.index.vector.flat import FlatQuantizer
from pilum.index.vector.metrics import Metric
from pilum.index.vector.segment import VectorIndex
from pilum.index.vector.vectors import matrix
from pilum.table.indices.open_segments import open_segment
from pilum.table.indices.rows import indexed_column
from pilum.table.indices.segments import named_segments

__all__ = ["clusters_of_partition", "clusters_of_range", "clusters_of_sample"]

_SCHEMA = pa.schema(
    [
        pa.field("representative", pa.uint64(), nullable=False),
        pa.field("duplicates", pa.list_(pa.uint64()), nullable=False),
    ]
)
_BYTES = 256 << 20
"""Approximate memory of the search for pairs."""


def clusters_of_sample(
    dataset: Reading, column: str, sample_size: int | None, most: int
) -> pa.RecordBatchReader:
    """Return the clusters; see `pilum.vector.hamming_clustering_for_sample`."""
    require_count("hamming_threshold", most)
    _require_hashes(dataset, column)
    size = optional_count("sample_size", sample_size)
    wanted = [column, "_rowid"]
    total = dataset.snapshot.num_rows
    if size is None or size >= total:
        rows = dataset.scanner(wanted).to_table()
    else:
        rows = dataset.take(sorted(random.sample(range(total), size)), wanted)
    return _clusters_of_rows(rows, most)


def clusters_of_range(
    dataset: Reading, column: str, fragment_id: int, start: int, count: int, most: int
) -> pa.RecordBatchReader:
    """Return the clusters; see `pilum.vector.hamming_clustering_for_range`."""
    require_count("hamming_threshold", most)
    _require_hashes(dataset, column)
    found = dataset.get_fragment(require_count("fragment_id", fragment_id))
    if found is None:
        raise InvalidInputError(f"fragment_id: the version has no fragment {fragment_id}")
    live = found.count_rows()
    if require_count("start_row", start) >= live:
        raise InvalidInputError(f"start_row: fragment {fragment_id} has {live} rows, not {start}")
    limit = require_count("num_rows", count)
    rows = dataset.scanner(
        [column, "_rowid"], fragments=[found], offset=start, limit=limit
    ).to_table()
    return _clusters_of_rows(rows, most)


def clusters_of_partition(
    dataset: Reading, name: str, number: int, most: int, uuids: Collection[str] | None
) -> pa.RecordBatchReader:
    """Return the clusters; see `pilum.vector.hamming_clustering_for_ivf_partition`."""
    require_count("hamming_threshold", most)
    segments = _segments_of_hashes(dataset, name, uuids)
    count = segments[0].num_partitions
    if require_count("partition_id", number) >= count:
        raise InvalidInputError(
            f"partition_id: index {name!r} has {count} partitions, not {number}"
        )
    rows = [segment.read(number) for segment in segments]
    values = np.concatenate([one.vectors.values for one in rows])
    ids = np.concatenate([one.ids for one in rows])
    return _reader(ids, Vectors(values, Metric.HAMMING), most)


def _require_hashes(dataset: Reading, column: str) -> None:
    kind = indexed_column(dataset.snapshot, column).arrow.type
    if not pyarrow.types.is_fixed_size_list(kind) or kind.value_type != pa.uint8():
        raise UnsupportedTypeError(
            f"column {column!r} has type {kind}; hashes are fixed-size lists of uint8"
        )


def _segments_of_hashes(
    dataset: Reading, name: str, uuids: Collection[str] | None
) -> Sequence[CodedSegment]:
    """Return segments of an index of hashes, which share their centroids.

    Raises:
        IndexNotFoundError: If there is no such index.
        InvalidInputError: If it is not one of hashes, does not have one of the segments, or its
            segments have different centroids.
    """
    snapshot = dataset.snapshot
    _, segments = named_segments(snapshot, name)
    if uuids is not None:
        if unknown := set(uuids) - {one.entry.uuid for one in segments}:
            raise InvalidInputError(f"index_segments: {name!r} has no segments {sorted(unknown)}")
        segments = [one for one in segments if one.entry.uuid in uuids]
    found = []
    for one in segments:
        opened = open_segment(snapshot, one)
        index = opened.index
        if not _is_of_hashes(index):
            raise InvalidInputError(
                f"index {name!r} is not an IVF_FLAT index for hamming distances"
            )
        found.append(CodedSegment(opened, index))
    if not found:
        raise InvalidInputError(f"index_segments: no segment of {name!r} is left")
    models = [one.index.model.centroids for one in found]
    if any(not np.array_equal(models[0], other) for other in models[1:]):
        raise InvalidInputError(
            f"the segments of {name!r} have different centroids: name one in index_segments, or "
            "call optimize.optimize_indices(num_indices_to_merge=...)"
        )
    return found


def _is_of_hashes(index: Any) -> TypeGuard[VectorIndex]:
    return (
        isinstance(index, VectorIndex)
        and isinstance(index.quantizer, FlatQuantizer)
        and index.model.metric is Metric.HAMMING
    )


def _clusters_of_rows(rows: pa.Table, most: int) -> pa.RecordBatchReader:
    """Return the clusters of the rows that have a hash; the columns are hash and row id."""
    hashes, valid = matrix(rows.column(0))
    ids = rows.column(1).to_numpy()
    if valid is not None:
        hashes, ids = hashes[valid], ids[valid]
    return _reader(ids, Vectors.of(hashes, Metric.HAMMING), most)


def _reader(ids: Addresses, vectors: Vectors, most: int) -> pa.RecordBatchReader:
    order = np.argsort(ids, kind="stable")
    ordered = Vectors(vectors.values[order], vectors.metric)
    batch = _batch(ids[order], _roots(len(ids), ordered.pairs(most, _BYTES)))
    return pa.RecordBatchReader.from_batches(_SCHEMA, [batch])


def _roots(count: int, pairs: Iterator[NearPairs]) -> NDArray[np.int64]:
    """Return for each row the first row of its cluster, given all pairs of near rows."""
    roots = np.arange(count)
    for near in pairs:
        _join(roots, near.one, near.other)
    return roots


def _join(roots: NDArray[np.int64], one: NDArray[np.int64], other: NDArray[np.int64]) -> None:
    """Join the clusters of pairs of rows, in place."""
    while True:
        left, right = roots[one], roots[other]
        apart = left != right
        if not apart.any():
            return
        one, other, left, right = one[apart], other[apart], left[apart], right[apart]
        np.minimum.at(roots, np.maximum(left, right), np.minimum(left, right))
        while not np.array_equal(flat := roots[roots], roots):
            roots[:] = flat


def _batch(ids: Addresses, roots: NDArray[np.int64]) -> pa.RecordBatch:
    """Return the clusters of two rows or more, given the ascending ids of the rows."""
    others = np.flatnonzero(roots != np.arange(len(roots)))
    others = others[np.argsort(roots[others], kind="stable")]
    firsts, counts = np.unique(roots[others], return_counts=True)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    duplicates = pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids[others]))
    return pa.RecordBatch.from_arrays([pa.array(ids[firsts]), duplicates], schema=_SCHEMA)
