"""The arguments of `create_index` that indices of vectors have, and what has to be read for them.

ivf_centroids_file               .npy file         ──▶ ivf_centroids
precomputed_partition_dataset    row_id, partition ──▶ precomputed_partitions
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from io import BytesIO
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.dataset.base import DatasetBase
from pilum.errors import InvalidInputError
from pilum.index.vector.accelerator import accelerated
from pilum.storage.open import open_object
from pilum.table.read.scan import ScanOptions, scan_table

__all__ = ["POSITIONS", "VECTOR_DEFAULTS", "VectorKeywords", "vector_keywords"]

_ROW_ID, _PARTITION = "row_id", "partition"


class VectorKeywords(TypedDict, total=False):
    """The keywords of `create_index` for indices of vectors; see there."""

    num_partitions: int | None
    ivf_centroids: Any
    pq_codebook: Any
    num_sub_vectors: int | None
    accelerator: Any
    index_cache_size: int | None
    shuffle_partition_batches: int | None
    shuffle_partition_concurrency: int | None
    ivf_centroids_file: str | None
    precomputed_partition_dataset: str | None
    storage_options: Mapping[str, str] | None
    filter_nan: bool
    target_partition_size: int | None
    streaming_sample_rate: int | None
    streaming_coreset_rate: int | None
    streaming_refine_passes: int | None
    skip_transpose: bool


POSITIONS = (
    "num_partitions",
    "ivf_centroids",
    "pq_codebook",
    "num_sub_vectors",
    "accelerator",
    "index_cache_size",
    "shuffle_partition_batches",
    "shuffle_partition_concurrency",
    "ivf_centroids_file",
    "precomputed_partition_dataset",
    "storage_options",
    "filter_nan",
    "train",
    "fragment_ids",
    "index_uuid",
)
"""Keywords of `create_index` that may be passed by position, in this order after `replace`."""

VECTOR_DEFAULTS: Mapping[str, Any] = {"filter_nan": True, "skip_transpose": False}


def vector_keywords(
    given: Mapping[str, Any], metric: str, *, is_shard: bool = False
) -> dict[str, Any]:
    """Return the keywords for the type of the index: files and datasets are read.

    Args:
        given: Keywords of `create_index`.
        metric: Its argument `metric`.
        is_shard: Whether the segment is one of several that are merged later.

    Raises:
        InvalidInputError: If arguments contradict each other, or a file has another form.
        MissingDependencyError: If an accelerator is requested, but PyTorch is not installed.
        NotFoundError: If a file does not exist.
    """
    found = {key: value for key, value in given.items() if value is not None}
    found |= {"metric": metric, "is_shard": is_shard}
    if found.pop("index_cache_size", None) is not None:
        warnings.warn(
            "index_cache_size has no effect: caches belong to sessions, see pilum.Session",
            DeprecationWarning,
            stacklevel=4,
        )
    accelerator = found.pop("accelerator", None)
    if accelerator is not None:
        found["find"] = accelerated(accelerator)
    options = found.pop("storage_options", None)
    file = found.pop("ivf_centroids_file", None)
    if file is not None:
        if "ivf_centroids" in found:
            raise InvalidInputError(
                "ivf_centroids and ivf_centroids_file cannot be provided at the same time"
            )
        found["ivf_centroids"] = _centroids(file, options)
    assigned = found.pop("precomputed_partition_dataset", None)
    if assigned is not None:
        if "ivf_centroids" not in found:
            raise InvalidInputError(
                "ivf_centroids must be provided when precomputed_partition_dataset is provided"
            )
        found["precomputed_partitions"] = _assigned(assigned, options)
    return found


def _centroids(file: str, options: Mapping[str, str] | None) -> NDArray[Any]:
    store, name = open_object(file, options)
    try:
        found = np.load(BytesIO(store.read(name)), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InvalidInputError(f"ivf_centroids_file {file}: not a .npy file ({error})") from error
    if not isinstance(found, np.ndarray):
        raise InvalidInputError(f"ivf_centroids_file {file}: expected a .npy file with one array")
    return found


def _assigned(
    uri: str, options: Mapping[str, str] | None
) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Read row ids, sorted, and the partition of each."""
    snapshot = DatasetBase(uri, storage_options=options).snapshot
    where = f"precomputed_partition_dataset {uri}"
    if missing := {_ROW_ID, _PARTITION}.difference(snapshot.schema.names):
        raise InvalidInputError(f"{where}: no columns {sorted(missing)}")
    table = scan_table(snapshot, ScanOptions(columns=(_ROW_ID, _PARTITION)))
    ids, partitions = (_numbers(table.column(name), where) for name in (_ROW_ID, _PARTITION))
    order = np.argsort(ids, kind="stable")
    return ids[order].astype(np.uint64), partitions[order].astype(np.uint32)


def _numbers(column: pa.ChunkedArray, where: str) -> NDArray[Any]:
    if not pt.is_integer(column.type) or column.null_count:
        raise InvalidInputError(f"{where}: expected integers without nulls, found {column.type}")
    return np.asarray(column.to_numpy())
