"""Builds of indices: arguments are checked, files written, and segments committed.

    create_scalar_index         train, commit in the place of the index of that name
    create_index_uncommitted    train on some fragments, for a commit by the caller

Files are durable before the commit that refers to them. If a build fails, its files are deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from pyroaring import BitMap

from pilum.dataset.base import DatasetBase
from pilum.dataset.index_forms import IndexConfig
from pilum.dataset.index_reports import OnProgress, reported
from pilum.dataset.index_requests import (
    existing_of,
    one_column,
    request_of,
    segment_uuid,
    type_and_parameters,
)
from pilum.dataset.metadata import Index
from pilum.dataset.segment_commits import commit_new
from pilum.dataset.staged_vectors import fragments_of_files, load_sorted, rows_of_files
from pilum.dataset.vector_models import IvfModel
from pilum.errors import IndexNotFoundError, InvalidInputError, UnsupportedFeatureError
from pilum.format.rows import Addresses, fragment_ids_of
from pilum.index.base import References
from pilum.index.inverted.inverted import INVERTED
from pilum.index.registry import index_type
from pilum.index.vector.segment import VectorIndex
from pilum.index.vector.vectors import vector_column
from pilum.storage.local import durable_at_commit
from pilum.table.commit.operations.create_index import CreateIndex
from pilum.table.indices.build import (
    NewIndex,
    ignore_rows,
    merge_staged_partitions,
    stage_partitions,
    write_segment,
)
from pilum.table.indices.open_segments import open_segment
from pilum.table.indices.rows import existing_fragments, index_rows, indexed_column
from pilum.table.indices.segments import named_segments
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import addresses_of_ids

__all__ = [
    "centroids_of",
    "create",
    "create_of_files",
    "create_uncommitted",
    "merge_staged",
    "shared_models",
    "stage",
]


def create(
    dataset: DatasetBase,
    column: str | Sequence[str],
    kind: str | IndexConfig,
    name: str | None,
    keywords: Mapping[str, Any],
    *,
    replaces: bool,
    trains: bool,
    index_uuid: str | None,
    on_progress: OnProgress | None,
) -> None:
    """Build an index of all rows and commit it; the dataset moves to the new version.

    The arguments are those of `LanceDataset.create_index`. An index of the name is replaced if
    `replaces`, and empty unless `trains`; `index_uuid` is the folder of the segment.
    """
    read = dataset.snapshot
    request = request_of(read, column, kind, name, keywords, replaces, index_uuid)
    with durable_at_commit(read.store) as store:
        snapshot = replace(read, store=store)
        fragments = existing_fragments(snapshot) if trains else BitMap()
        with reported(snapshot, fragments, on_progress) as report:
            segment = request.train(snapshot, fragments, report)
        commit_new(dataset, snapshot, CreateIndex((segment,), request.replaced))


def create_of_files(
    dataset: DatasetBase,
    column: str,
    name: str | None,
    keywords: Mapping[str, Any],
    paths: Sequence[str],
) -> None:
    """Commit an IVF_PQ index of the rows of files, which `staged_vectors` wrote.

    Args:
        dataset: The dataset, which moves to the new version.
        column: The column.
        name: As for `create`.
        keywords: As for `create`, with the models.
        paths: Locations of the files.
    """
    read = dataset.snapshot
    request = request_of(read, column, "IVF_PQ", name, keywords, False, None)
    parameters = request.parameters
    num_partitions, options = len(parameters.centroids), read.store.options
    with durable_at_commit(read.store) as store:
        snapshot = replace(read, store=store)
        covered: BitMap = BitMap()
        for batch in rows_of_files(paths, options, num_partitions):
            covered |= _fragments_of(snapshot, batch.references)
        known = fragments_of_files(paths, options)
        if known is not None:  # a row that keeps its id may have moved among other rows
            covered &= known
        version = snapshot.manifest.version
        new = NewIndex(request.name, request.path, request.type, version, request.uuid)
        load = partial(load_sorted, paths, options, parameters)
        segment = write_segment(snapshot, new, covered, load)
        commit_new(dataset, snapshot, CreateIndex((segment,), request.replaced))


def create_uncommitted(
    dataset: DatasetBase,
    column: str | Sequence[str],
    kind: str | IndexConfig,
    name: str | None,
    keywords: Mapping[str, Any],
    *,
    replaces: bool,
    trains: bool,
    fragment_ids: Collection[int] | None,
    index_uuid: str | None,
    on_progress: OnProgress | None,
) -> Index:
    """Build a segment of some fragments without a commit; see `create` for the arguments."""
    if fragment_ids is None:
        raise InvalidInputError(
            "create_index_uncommitted needs fragment_ids: the fragments that the segment covers"
        )
    snapshot = dataset.snapshot
    wanted = existing_of(snapshot, fragment_ids)
    request = request_of(snapshot, column, kind, name, keywords, replaces, index_uuid)
    with durable_at_commit(snapshot.store) as store:
        snapshot = replace(snapshot, store=store)
        fragments = wanted if trains else BitMap()
        with reported(snapshot, fragments, on_progress) as report:
            return Index.from_table(request.train(snapshot, fragments, report))


def stage(
    dataset: DatasetBase,
    column: str,
    kind: str | IndexConfig,
    name: str | None,
    keywords: Mapping[str, Any],
    *,
    fragment_ids: Collection[int],
    index_uuid: str | None,
    on_progress: OnProgress | None,
) -> None:
    """Write a part of a full-text segment without a commit; see `create` for the arguments."""
    snapshot = dataset.snapshot
    fragments = existing_of(snapshot, fragment_ids)
    request = request_of(snapshot, column, kind, name, keywords, True, index_uuid)
    if request.type is not INVERTED:
        raise InvalidInputError(
            f"fragment_ids: segments of {kind!r} are built with create_index_uncommitted("
            "..., fragment_ids=...)"
        )
    if index_uuid is None or not fragments:
        raise InvalidInputError(
            "fragment_ids: pass at least one, and one index_uuid for all parts of the segment"
        )
    with durable_at_commit(snapshot.store) as store:
        snapshot = replace(snapshot, store=store)
        with reported(snapshot, fragments, on_progress) as report:
            version = snapshot.manifest.version
            new = NewIndex(
                request.name, request.path, request.type, version, request.uuid, report.read
            )
            stage_partitions(snapshot, new, request.parameters, fragments)


def merge_staged(dataset: DatasetBase, index_uuid: str, kind: str) -> None:
    """Merge the parts of a segment that `stage` wrote."""
    if index_type(kind) is not INVERTED:
        raise UnsupportedFeatureError(
            f"merge_index_metadata: segments of {kind!r} are built with create_index_uncommitted, "
            "and committed with commit_existing_index_segments"
        )
    snapshot = dataset.snapshot
    with durable_at_commit(snapshot.store) as store:
        merge_staged_partitions(replace(snapshot, store=store), segment_uuid(index_uuid))


def shared_models(
    snapshot: Snapshot,
    column: str,
    kind: str | IndexConfig,
    keywords: Mapping[str, Any],
) -> dict[str, Any]:
    """Train what all segments of an index should have in common; return further keywords."""
    path = one_column(column)
    type, given = type_and_parameters(kind, keywords)
    found = indexed_column(snapshot, path)
    parameters = type.parameters(given, found.arrow.type)
    everything = existing_fragments(snapshot)
    rows = index_rows(snapshot, found, References.ADDRESSES, everything, ignore_rows)
    return type.shared_models(rows, parameters)


def centroids_of(snapshot: Snapshot, name: str) -> IvfModel:
    """Return the centroids of the first segment of an index; see `Indices.get_ivf_model`."""
    usable = [one for one in named_segments(snapshot, name)[1] if one.entry.size_bytes]
    if not usable:
        raise IndexNotFoundError(f"{snapshot.store.uri}: index {name!r} has no files")
    index = open_segment(snapshot, usable[0]).index
    if not isinstance(index, VectorIndex):
        raise InvalidInputError(f"index {name!r} is not one of vectors")
    return IvfModel(vector_column(index.model.centroids), index.model.metric.value)


def _fragments_of(snapshot: Snapshot, ids: Addresses) -> BitMap:
    """Return the fragments that contain rows, by their ids; of those, what still exists."""
    addresses = addresses_of_ids(snapshot, ids)[0] if snapshot.has_stable_row_ids else ids
    found = BitMap(np.unique(fragment_ids_of(addresses)).tolist())
    if missing := found - existing_fragments(snapshot):
        raise InvalidInputError(
            f"the files have rows of fragments {list(missing)[:5]}, which the table does not have: "
            "transform the vectors of this version again"
        )
    return found
