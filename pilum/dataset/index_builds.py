"""Builds of indices: arguments are checked, files written, and segments committed.

    create_scalar_index             train, commit in the place of the index of that name
    create_index_uncommitted        train on some fragments, for a commit by the caller
    merge_existing_index_segments   merge segments of such builds, also without a commit
    commit_existing_index_segments  commit them as the segments of one index
    optimize_indices                merge segments and rows that are not covered, commit

Files are durable before the commit that refers to them. If a build fails, its files are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from threading import Lock
from typing import Any, Literal
from uuid import UUID, uuid4

import numpy as np
from pyroaring import BitMap

from pilum.arguments import require_count
from pilum.dataset.base import DatasetBase, commit_operation
from pilum.dataset.index_forms import IndexConfig
from pilum.dataset.index_forms import IndexSegment as SegmentFolder
from pilum.dataset.metadata import Index, IndexFile
from pilum.dataset.staged_vectors import fragments_of_files, load_sorted, rows_of_files
from pilum.dataset.vector_arguments import vector_keywords
from pilum.dataset.vector_models import IvfModel
from pilum.errors import (
    IndexAlreadyExistsError,
    IndexNotFoundError,
    InvalidInputError,
    NotFoundError,
    UnsupportedFeatureError,
)
from pilum.format.rows import Addresses, fragment_ids_of
from pilum.index.base import IndexType, References
from pilum.index.files import IndexFolder
from pilum.index.inverted.inverted import INVERTED
from pilum.index.registry import index_type, index_type_of
from pilum.index.vector.segment import VectorIndex
from pilum.index.vector.types import VectorIndexType, details_of
from pilum.index.vector.vectors import vector_column
from pilum.progress import IndexProgress
from pilum.progress_display import progress
from pilum.storage.local import durable_at_commit
from pilum.table.commit.operations.create_index import CreateIndex, changed_fragments
from pilum.table.commit.publish import NOT_COMMITTED
from pilum.table.indices.build import (
    NewIndex,
    discard_segments,
    ignore_rows,
    merge_segments,
    merge_staged_partitions,
    stage_partitions,
    train_segment,
    write_segment,
)
from pilum.table.indices.moved_rows import record_of_moves, segments_that_move
from pilum.table.indices.optimize import MergePlan, plan_optimization, run_optimization
from pilum.table.indices.rows import (
    OnRows,
    document_type,
    existing_fragments,
    index_rows,
    indexed_column,
)
from pilum.table.indices.segments import (
    OpenSegment,
    folder_of,
    named_segments,
    open_segment,
    usable_segment,
)
from pilum.table.model.base_paths import own_store
from pilum.table.model.index_segments import IndexSegment, index_segments, is_system_index
from pilum.table.model.names import index_folder
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import addresses_of_ids
from pilum.table.versions.history import load_version

__all__ = [
    "OnProgress",
    "centroids_of",
    "commit_optimized",
    "commit_segments",
    "create",
    "create_of_files",
    "create_uncommitted",
    "index_name",
    "keywords_of",
    "merge_staged",
    "merge_uncommitted",
    "optimization_plans",
    "optimize",
    "require_creatable",
    "shared_models",
    "stage",
    "type_and_parameters",
]

OnProgress = Callable[[IndexProgress], None]
_READ, _INSERT = "load_data", "build_graphs"
"""Stages of a build."""


@dataclass(frozen=True)
class _Request:
    """A checked request for a segment."""

    snapshot: Snapshot
    name: str
    path: str
    type: IndexType[Any]
    parameters: Any
    uuid: UUID
    replaced: tuple[IndexSegment, ...]

    def train(self, snapshot: Snapshot, fragments: BitMap, report: _Report) -> IndexSegment:
        version = snapshot.manifest.version
        new = NewIndex(
            self.name, self.path, self.type, version, self.uuid, report.read, report.insert
        )
        return train_segment(snapshot, new, self.parameters, fragments)


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
    request = _request(dataset.snapshot, column, kind, name, keywords, replaces, index_uuid)
    with durable_at_commit(dataset.snapshot.store) as store:
        snapshot = replace(dataset.snapshot, store=store)
        fragments = existing_fragments(snapshot) if trains else BitMap()
        with _reported(snapshot, fragments, on_progress) as report:
            segment = request.train(snapshot, fragments, report)
        _commit(dataset, snapshot, CreateIndex((segment,), request.replaced))


def require_creatable(
    snapshot: Snapshot,
    column: str,
    kind: str | IndexConfig,
    name: str | None,
    keywords: Mapping[str, Any],
    *,
    replaces: bool,
) -> None:
    """Raise the errors that `create` raises before it reads rows; see there for the arguments."""
    _request(snapshot, column, kind, name, keywords, replaces, None)


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
    request = _request(dataset.snapshot, column, "IVF_PQ", name, keywords, False, None)
    parameters = request.parameters
    num_partitions = len(parameters.centroids)
    with durable_at_commit(dataset.snapshot.store) as store:
        snapshot = replace(dataset.snapshot, store=store)
        covered: BitMap = BitMap()
        for batch in rows_of_files(paths, num_partitions):
            covered |= _fragments_of(snapshot, batch.references)
        known = fragments_of_files(paths)
        if known is not None:  # a row that keeps its id may have moved among other rows
            covered &= known
        version = snapshot.manifest.version
        new = NewIndex(request.name, request.path, request.type, version, request.uuid)
        segment = write_segment(snapshot, new, covered, partial(load_sorted, paths, parameters))
        _commit(dataset, snapshot, CreateIndex((segment,), request.replaced))


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
    wanted = _existing(snapshot, fragment_ids)
    request = _request(snapshot, column, kind, name, keywords, replaces, index_uuid)
    with durable_at_commit(snapshot.store) as store:
        snapshot = replace(snapshot, store=store)
        fragments = wanted if trains else BitMap()
        with _reported(snapshot, fragments, on_progress) as report:
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
    fragments = _existing(snapshot, fragment_ids)
    request = _request(snapshot, column, kind, name, keywords, True, index_uuid)
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
        with _reported(snapshot, fragments, on_progress) as report:
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
        merge_staged_partitions(replace(snapshot, store=store), _uuid(index_uuid))


def shared_models(
    snapshot: Snapshot,
    column: str,
    kind: str | IndexConfig,
    keywords: Mapping[str, Any],
) -> dict[str, Any]:
    """Train what all segments of an index should have in common; return further keywords."""
    path = _one_column(column)
    type, given = type_and_parameters(kind, keywords)
    found = indexed_column(snapshot, path)
    parameters = type.parameters(given, found.arrow.type)
    everything = existing_fragments(snapshot)
    rows = index_rows(snapshot, found, References.ADDRESSES, everything, ignore_rows)
    return type.shared_models(rows, parameters)


def merge_uncommitted(dataset: DatasetBase, segments: Sequence[Index]) -> Index:
    """Merge segments that were built for one index into a new one, without a commit.

    Fragments whose values changed since a segment was built are left out.
    """
    snapshot = dataset.snapshot
    opened = [_opened(snapshot, one.to_table()) for one in segments]
    if not opened:
        raise InvalidInputError("segments: expected at least one")
    last = opened[-1].segment
    if any((one.type, one.segment.field_id) != (last.type, last.field_id) for one in opened):
        raise InvalidInputError("segments of different types or columns cannot be merged")
    _require_disjoint([one.fragments for one in opened])
    path = snapshot.schema.path(last.field_id)
    assert path is not None  # `_opened` has checked it
    new = NewIndex(last.name, path, last.type, snapshot.manifest.version)
    with durable_at_commit(snapshot.store) as store:
        merged = merge_segments(replace(snapshot, store=store), new, opened, BitMap())
        return Index.from_table(merged)


def commit_segments(
    dataset: DatasetBase,
    name: str,
    column: str,
    segments: Sequence[Index | SegmentFolder],
    properties: Mapping[str, str] | None = None,
) -> None:
    """Commit segments as those of one index, in the place of an index of that name."""
    snapshot = dataset.snapshot
    leaf = indexed_column(snapshot, column).leaf
    assert leaf is not None
    given = [_described(snapshot, one, leaf.id) for one in segments]
    new = tuple(replace(one, name=index_name(name)).to_table() for one in given)
    if not new:
        raise InvalidInputError("segments: expected at least one")
    for one in new:
        if one.field_ids != (leaf.id,):
            raise InvalidInputError(f"segment {one.uuid} is not one of column {column!r}")
        folder = folder_of(snapshot, one)
        if missing := set(folder.sizes).difference(folder.store.names(folder.path)):
            raise NotFoundError(f"segment {one.uuid}: no files {sorted(missing)} in {folder.path}")
    if len({one.type_url for one in new}) > 1:
        raise InvalidInputError("segments of one index must have the same type")
    details = [one.message.index_details.value for one in new]
    if (type := index_type_of(new[0].type_url, details[0])) is not None:
        type.require_same_parameters(details)
    _require_disjoint([one.fragments or BitMap() for one in new])
    commit_operation(dataset, CreateIndex(new, _segments_named(snapshot, name)), properties)


def _described(snapshot: Snapshot, segment: Index | SegmentFolder, field_id: int) -> Index:
    """Return a segment with everything that its files say about it."""
    if not isinstance(segment, SegmentFolder):
        return segment
    path = index_folder(str(_uuid(segment.uuid)))
    store = own_store(snapshot.store)
    sizes = {entry.name: entry.size for entry in store.list(path)}
    if not sizes:
        raise NotFoundError(f"segment {segment.uuid}: no files in {path}")
    details = details_of(IndexFolder(store, path, sizes))
    return Index(
        segment.uuid,
        "",
        [field_id],
        snapshot.manifest.version,
        segment.fragment_ids,
        segment.index_version,
        datetime.now(UTC),
        files=[IndexFile(name, size) for name, size in sizes.items()],
        index_details=(VectorIndexType.type_url, details),
    )


def optimize(
    dataset: DatasetBase,
    names: Collection[str] | None,
    num_to_merge: int | None,
    *,
    retrain: bool,
) -> None:
    """Merge segments and add rows that are not covered; one commit, or none."""
    read = dataset.snapshot
    plans = optimization_plans(read, names, num_to_merge, retrain=retrain)
    if not plans:
        return
    num_rows = sum(_num_rows(read, plan.fragments) for plan in plans)
    with durable_at_commit(read.store) as store:
        snapshot = replace(read, store=store)
        with progress("Optimizing", num_rows) as on_rows:
            new = run_optimization(snapshot, plans, on_rows)
        commit_optimized(dataset, snapshot, plans, new)


def optimization_plans(
    snapshot: Snapshot,
    names: Collection[str] | None,
    num_to_merge: int | None,
    *,
    retrain: bool,
) -> list[MergePlan]:
    """Check the arguments of an optimization, and plan it."""
    if isinstance(names, str):
        raise InvalidInputError(f"index_names: expected a list of names, found {names!r}")
    if num_to_merge is not None:
        num_to_merge = require_count("num_indices_to_merge", num_to_merge)
    plans = plan_optimization(snapshot, names, num_to_merge, retrain=retrain)
    if plans:
        _require_continuable(snapshot)
    return plans


def commit_optimized(
    dataset: DatasetBase,
    snapshot: Snapshot,
    plans: Sequence[MergePlan],
    new: Sequence[IndexSegment],
) -> None:
    """Commit the segments of plans, which were made from a version.

    If no segment needs the moves that compactions recorded any more, the record is removed.
    """
    removed = tuple(segment.entry for plan in plans for segment in plan.merged)
    made_of = {one.dataset_version: snapshot.manifest for one in new}
    _commit(dataset, snapshot, CreateIndex(tuple(new), removed, made_of))
    _forget_moves(dataset, snapshot, {one.uuid for one in new})


def _forget_moves(dataset: DatasetBase, made_of: Snapshot, new: Collection[str]) -> None:
    """Remove the record of moves if only new segments, which followed them, cover moved rows.

    It stays if a compaction has added moves since the version that the new segments are made of.
    """
    record, latest = record_of_moves(made_of), record_of_moves(dataset.snapshot)
    if record is None or latest is None or record.uuid != latest.uuid:
        return
    if not segments_that_move(dataset.snapshot) <= set(new):
        return
    with suppress(*NOT_COMMITTED):  # the next optimization removes it
        commit_operation(dataset, CreateIndex(removed=(latest,), made_of={}))


def index_name(name: Any) -> str:
    """Return the name of an index; raise InvalidInputError if it is empty, or a system index's."""
    if not isinstance(name, str) or not name or name.startswith("__lance_"):
        raise InvalidInputError(f"name: {name!r} cannot be the name of an index")
    return name


def _request(
    snapshot: Snapshot,
    column: str | Sequence[str],
    kind: str | IndexConfig,
    name: str | None,
    keywords: Mapping[str, Any],
    replaces: bool,
    index_uuid: str | None,
) -> _Request:
    _require_continuable(snapshot)
    path = _one_column(column)
    type, given = type_and_parameters(kind, keywords)
    found = indexed_column(snapshot, path)
    value_type = document_type(found) if type is INVERTED else found.arrow.type
    type.require_supported(path, value_type)
    parameters = type.parameters(given, value_type)
    name = index_name(type.default_name(path, parameters) if name is None else name)
    replaced = _segments_named(snapshot, name)
    if replaced and not replaces:
        raise IndexAlreadyExistsError(
            f"Index name {name!r} already exists, please specify a different name or use "
            "replace=True"
        )
    return _Request(snapshot, name, path, type, parameters, _uuid(index_uuid), replaced)


def _one_column(column: str | Sequence[str]) -> str:
    columns = [column] if isinstance(column, str) else list(column)
    if len(columns) != 1:
        raise UnsupportedFeatureError(f"an index of several columns: {columns}; pass one")
    return columns[0]


def type_and_parameters(
    kind: str | IndexConfig, keywords: Mapping[str, Any]
) -> tuple[IndexType[Any], dict[str, Any]]:
    """Return the type and its parameters; enums are passed on by their values."""
    given = {key: one.value if isinstance(one, Enum) else one for key, one in keywords.items()}
    name: Any = getattr(kind, "index_type", kind)  # the config of the reference has it too
    if not isinstance(kind, str):
        given = {**dict(getattr(kind, "parameters", None) or {}), **given}
    if not isinstance(name, str):
        raise InvalidInputError(f"index_type: expected a name or an IndexConfig, found {kind!r}")
    if given.get("document_granularity") == "row":  # the only one that most types have
        del given["document_granularity"]
    return index_type(name), given


def keywords_of(
    kind: str | IndexConfig, given: Mapping[str, Any], metric: str, *, is_shard: bool = False
) -> Mapping[str, Any]:
    """Return the keywords of `create_index` for its type; see `vector_keywords`."""
    type, found = type_and_parameters(kind, given)
    if not isinstance(type, VectorIndexType):
        return given
    return vector_keywords(found, metric, is_shard=is_shard)


def centroids_of(snapshot: Snapshot, name: str) -> IvfModel:
    """Return the centroids of the first segment of an index; see `Indices.get_ivf_model`."""
    usable = [one for one in named_segments(snapshot, name)[1] if one.entry.size_bytes]
    if not usable:
        raise IndexNotFoundError(f"{snapshot.store.uri}: index {name!r} has no files")
    index = open_segment(snapshot, usable[0]).index
    if not isinstance(index, VectorIndex):
        raise InvalidInputError(f"index {name!r} is not one of vectors")
    return IvfModel(vector_column(index.model.centroids), index.model.metric.value)


def _uuid(text: str | None) -> UUID:
    if text is None:
        return uuid4()
    try:
        return UUID(text)
    except (ValueError, TypeError, AttributeError):
        raise InvalidInputError(f"index_uuid: {text!r} is not a uuid") from None


def _segments_named(snapshot: Snapshot, name: str) -> tuple[IndexSegment, ...]:
    entries = index_segments(snapshot.manifest.index_section)
    return tuple(one for one in entries if one.name == name and not is_system_index(one.message))


def _opened(snapshot: Snapshot, entry: IndexSegment) -> OpenSegment:
    """Open a segment that is not committed, without fragments that changed since it was built."""
    found = usable_segment(snapshot, entry)
    if found is None or snapshot.schema.find(found.field_id) is None:
        raise InvalidInputError(
            f"segment {entry.uuid} is not one of a column and type of the table"
        )
    before = load_version(snapshot.store, entry.dataset_version)
    changed = changed_fragments(before, snapshot.manifest, entry.field_ids)
    return open_segment(snapshot, found.reduced(snapshot, changed))


def _existing(snapshot: Snapshot, fragment_ids: Collection[int]) -> BitMap:
    """Return ids of fragments; raise InvalidInputError if one does not exist."""
    wanted = BitMap([require_count("fragment_ids", number) for number in fragment_ids])
    if missing := wanted - existing_fragments(snapshot):
        raise InvalidInputError(f"fragment_ids: the table has no fragments {list(missing)}")
    return wanted


def _require_disjoint(covered: Sequence[BitMap]) -> None:
    if twice := [*(a & b for n, a in enumerate(covered) for b in covered[:n] if a & b)]:
        raise InvalidInputError(f"several segments cover the fragments {list(twice[0])}")


def _require_continuable(snapshot: Snapshot) -> None:
    manifest = snapshot.manifest
    manifest.require_continuable(f"{snapshot.store.uri}, version {manifest.version}")


def _commit(dataset: DatasetBase, snapshot: Snapshot, operation: CreateIndex) -> None:
    try:
        commit_operation(dataset, operation, store=snapshot.store)
    except NOT_COMMITTED:
        discard_segments(snapshot, operation.new)
        raise


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


def _num_rows(snapshot: Snapshot, fragments: BitMap) -> int:
    return sum(one.num_rows for one in snapshot.manifest.fragments if one.id in fragments)


class _Report:
    """Shows the rows of a build, and reports them to a callback, stage after stage.

    Args:
        total: Number of rows.
        shown: Function that shows rows that were read.
        callback: Function that is called with messages; None for none.
    """

    def __init__(self, total: int, shown: OnRows, callback: OnProgress | None) -> None:
        self._total = total
        self._shown = shown
        self._callback = callback
        self._done = {_READ: 0}
        self._lock = Lock()
        self._send("start", _READ, 0)

    def read(self, num_rows: int) -> None:
        """Count rows that were read."""
        self._shown(num_rows)
        self._count(_READ, num_rows)

    def insert(self, num_rows: int) -> None:
        """Count rows that were inserted into graphs."""
        if _INSERT not in self._done:
            self._done[_INSERT] = 0
            self._send("start", _INSERT, 0)
        self._count(_INSERT, num_rows)

    def complete(self) -> None:
        """Report that all stages are complete."""
        for stage, done in self._done.items():
            self._send("complete", stage, max(done, self._total))

    def _count(self, stage: str, num_rows: int) -> None:
        with self._lock:
            self._done[stage] += num_rows
            self._send("progress", stage, self._done[stage])

    def _send(self, event: Literal["start", "progress", "complete"], stage: str, done: int) -> None:
        if self._callback is not None:
            total = max(done, self._total)
            self._callback(IndexProgress(event, stage, done, total, "rows"))


@contextmanager
def _reported(
    snapshot: Snapshot, fragments: BitMap, on_progress: OnProgress | None
) -> Iterator[_Report]:
    """Yield what shows and reports the progress of a build."""
    total = _num_rows(snapshot, fragments)
    with progress("Indexing", total) as shown:
        report = _Report(total, shown, on_progress)
        yield report
        report.complete()
