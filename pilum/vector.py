"""Tables of vectors, pairs and clusters of nearly equal ones, and the partitions of an index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from pilum.arguments import optional_count
from pilum.dataset.base import DatasetBase
from pilum.dataset.duplicates import (
    duplicate_pairs,
    duplicate_pairs_in_partition,
    partition_sizes,
)
from pilum.dataset.explain import LanceStats
from pilum.dataset.hash_clusters import (
    clusters_of_partition,
    clusters_of_range,
    clusters_of_sample,
)
from pilum.dataset.reading import Reading
from pilum.errors import InvalidInputError

__all__ = [
    "find_duplicate_pairs",
    "find_duplicate_pairs_in_partition",
    "get_ivf_partition_info",
    "hamming_clustering_for_ivf_partition",
    "hamming_clustering_for_range",
    "hamming_clustering_for_sample",
    "vec_to_table",
]


def vec_to_table(
    data: Mapping[str, Any] | Sequence[Any] | Any,
    names: str | Sequence[str] | None = None,
    ndim: int | None = None,
    check_ndim: bool = True,
) -> pa.Table:
    """Return vectors as a table with a column of fixed-size lists of float32.

    Args:
        data: A dict from ids to vectors, a list of vectors, or an array of shape (n, D).
        names: Names of the columns: of ids and vectors for a dict, "id" and "vector" by default;
            otherwise of vectors, "vector" by default.
        ndim: Number of elements of a vector; None for that of the first one.
        check_ndim: Whether all vectors are checked to have as many; otherwise longer ones are
            cut into several rows.

    Raises:
        InvalidInputError: If a vector has another number of elements, or names do not fit.
    """
    is_named = isinstance(data, Mapping)
    columns = ["id", "vector"] if is_named else ["vector"]
    if names is not None:
        columns = [names] if isinstance(names, str) else list(names)
        if len(columns) != (2 if is_named else 1):
            raise InvalidInputError(f"names: {columns} do not fit; a dict has two, others have one")
    given = data.values() if isinstance(data, Mapping) else data
    rows = [np.asarray(one, np.float32).reshape(-1) for one in given]
    width = ndim if ndim is not None else (len(rows[0]) if rows else 0)
    if width < 1:
        raise InvalidInputError(f"ndim: vectors of {width} elements")
    if check_ndim and (wrong := {len(one) for one in rows} - {width}):
        raise InvalidInputError(f"vectors of {sorted(wrong)} elements, expected {width}")
    elements = np.concatenate(rows) if rows else np.empty(0, np.float32)
    if len(elements) % width:
        raise InvalidInputError(f"{len(elements)} elements are no vectors of {width}")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(elements), width)
    arrays = [pa.array(list(data)), vectors] if is_named else [vectors]
    return pa.table(arrays, names=columns)


def find_duplicate_pairs(
    dataset: DatasetBase,
    column: str,
    distance_threshold: float,
    *,
    memory_limit: int | None = None,
    max_concurrency: int | None = None,
) -> pa.RecordBatchReader:
    """Return pairs of rows whose vectors are nearly equal, by an index that covers all rows.

    Distances are those between the decoded codes of the index. Only rows of the same partition are
    compared, so that some pairs are missed.

    Args:
        dataset: The dataset.
        column: Name of the column of vectors.
        distance_threshold: The greatest distance, by the metric of the index: squared for l2, 1
            minus the cosine, 1 minus the product, or the number of different bits.
        memory_limit: Approximate memory in bytes; 256 MiB if None.
        max_concurrency: Has no effect.

    Returns:
        The columns `row_id_a`, `row_id_b` and `distance`; each pair once.

    Raises:
        IndexNotFoundError: If the column has no index of vectors.
        InvalidInputError: If the index does not cover all rows, or an argument is invalid.
        UnsupportedTypeError: If the column does not have one vector per row.
        CorruptFileError: If a file of the index is damaged.
    """
    optional_count("max_concurrency", max_concurrency, 1)
    return duplicate_pairs(dataset, column, distance_threshold, memory_limit)


def find_duplicate_pairs_in_partition(
    dataset: DatasetBase,
    column: str,
    segment_id: str | UUID,
    partition_id: int,
    distance_threshold: float,
    *,
    memory_limit: int | None = None,
    max_concurrency: int | None = None,
) -> pa.RecordBatchReader:
    """Return those pairs of `find_duplicate_pairs` that are in one partition of one segment.

    The index need not cover all rows. Several processes may share the partitions of a version.

    Args:
        dataset: The dataset.
        column: Name of the column of vectors.
        segment_id: Uuid of the segment, as in `LanceDataset.describe_indices`.
        partition_id: Number of the partition in the segment.
        distance_threshold: As in `find_duplicate_pairs`.
        memory_limit: As in `find_duplicate_pairs`.
        max_concurrency: Has no effect.

    Returns:
        As `find_duplicate_pairs`.

    Raises:
        IndexNotFoundError: If the column has no index of vectors.
        InvalidInputError: If there is no such segment or partition, or an argument is invalid.
        UnsupportedTypeError: If the column does not have one vector per row.
        CorruptFileError: If a file of the index is damaged.
    """
    optional_count("max_concurrency", max_concurrency, 1)
    return duplicate_pairs_in_partition(
        dataset, column, str(segment_id), partition_id, distance_threshold, memory_limit
    )


def hamming_clustering_for_ivf_partition(
    dataset: Reading,
    index_name: str,
    partition_id: int,
    hamming_threshold: int,
    *,
    index_segments: Iterable[str | UUID] | None = None,
) -> pa.RecordBatchReader:
    """Return clusters of rows with nearly equal hashes, in one partition of an index.

    Two rows are in one cluster if a chain of rows leads from one to the other, in which adjacent
    ones differ in at most `hamming_threshold` bits. All rows of the partition are in memory.
    Deleted rows are left out; the reference returns them.

    Args:
        dataset: The dataset.
        index_name: Name of an IVF_FLAT index with the metric hamming.
        partition_id: Number of the partition, the same in all segments.
        hamming_threshold: The greatest number of different bits.
        index_segments: Uuids of the segments whose rows are compared; None for all.

    Returns:
        The columns `representative`, uint64: the least row id of a cluster; and `duplicates`,
        list<uint64>: the others, ascending. Clusters ascend by representatives.

    Raises:
        IndexNotFoundError: If there is no such index.
        InvalidInputError: If it is of another kind, its segments have different centroids, it has
            no such segment or partition, or an argument is invalid.
        CorruptFileError: If a file of the index is damaged.
    """
    uuids = None if index_segments is None else frozenset(map(str, index_segments))
    return clusters_of_partition(dataset, index_name, partition_id, hamming_threshold, uuids)


def hamming_clustering_for_sample(
    dataset: Reading,
    column: str,
    sample_size: int | None = None,
    hamming_threshold: int = 10,
) -> pa.RecordBatchReader:
    """Return clusters of rows with nearly equal hashes, among rows drawn at random.

    Each pair of rows is compared, so the time grows with the square of their number. Rows whose
    hash is null are left out; the reference compares them as hashes of zeros.

    Args:
        dataset: The dataset.
        column: Name of the column of hashes, fixed-size lists of uint8.
        sample_size: Number of rows; None for all.
        hamming_threshold: As in `hamming_clustering_for_ivf_partition`.

    Returns:
        As `hamming_clustering_for_ivf_partition`.

    Raises:
        ColumnNotFoundError: If there is no such column.
        UnsupportedTypeError: If it does not have hashes.
        InvalidInputError: If an argument is invalid.
    """
    return clusters_of_sample(dataset, column, sample_size, hamming_threshold)


def hamming_clustering_for_range(
    dataset: Reading,
    column: str,
    fragment_id: int,
    start_row: int,
    num_rows: int,
    hamming_threshold: int = 10,
) -> pa.RecordBatchReader:
    """Return clusters of rows with nearly equal hashes, among consecutive rows of a fragment.

    Args:
        dataset: The dataset.
        column: As in `hamming_clustering_for_sample`.
        fragment_id: The id of the fragment.
        start_row: Number of the first row in it; deleted rows do not count.
        num_rows: The number of rows; fewer at the end of the fragment.
        hamming_threshold: As in `hamming_clustering_for_ivf_partition`.

    Returns:
        As `hamming_clustering_for_ivf_partition`.

    Raises:
        ColumnNotFoundError: If there is no such column.
        UnsupportedTypeError: If it does not have hashes.
        InvalidInputError: If there is no such fragment or first row, or an argument is invalid.
    """
    return clusters_of_range(dataset, column, fragment_id, start_row, num_rows, hamming_threshold)


def get_ivf_partition_info(
    dataset: DatasetBase,
    index_name: str,
    *,
    index_segments: Iterable[str | UUID] | None = None,
) -> list[dict[str, int]]:
    """Return the `partition_id` and the `size` of each partition of an index of vectors.

    Args:
        dataset: The dataset.
        index_name: Name of the index.
        index_segments: Uuids of the segments whose rows are counted; None for all.

    Raises:
        IndexNotFoundError: If there is no such index.
        InvalidInputError: If it is not one of vectors, or does not have one of the segments.
    """
    uuids = None if index_segments is None else frozenset(map(str, index_segments))
    return partition_sizes(LanceStats(dataset.snapshot).index_stats(index_name), uuids)
