"""Merges and commits of segments that were built without a commit.

    merge_existing_index_segments   merge segments into a new one, which is not committed either
    commit_existing_index_segments  commit them as the segments of one index

Files are durable before the commit that refers to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pyroaring import BitMap

from pilum.arguments import require_list
from pilum.dataset.base import DatasetBase, commit_operation
from pilum.dataset.index_forms import IndexSegment as SegmentFolder
from pilum.dataset.index_requests import index_name, segment_uuid, segments_named
from pilum.dataset.metadata import Index, IndexFile
from pilum.errors import InvalidInputError, NotFoundError
from pilum.index.files import IndexFolder
from pilum.index.registry import index_type_of
from pilum.index.vector.types import VectorIndexType, details_of
from pilum.storage.local import durable_at_commit
from pilum.table.commit.operations.create_index import CreateIndex, changed_fragments
from pilum.table.commit.publish import NOT_COMMITTED
from pilum.table.indices.build import NewIndex, discard_segments, merge_segments
from pilum.table.indices.open_segments import OpenSegment, open_segment
from pilum.table.indices.rows import indexed_column
from pilum.table.indices.segments import folder_of, usable_segment
from pilum.table.model.base_paths import own_store
from pilum.table.model.index_segments import IndexSegment
from pilum.table.model.names import index_folder
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.history import load_version

__all__ = ["commit_new", "commit_segments", "merge_uncommitted"]


def merge_uncommitted(dataset: DatasetBase, segments: Sequence[Index]) -> Index:
    """Merge segments that were built for one index into a new one, without a commit.

    Fragments whose values changed since a segment was built are left out.
    """
    snapshot = dataset.snapshot
    given = require_list("segments", segments)
    opened = [_opened(snapshot, _index(one).to_table()) for one in given]
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
    given = [_described(snapshot, one, leaf.id) for one in require_list("segments", segments)]
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
    commit_operation(
        dataset, snapshot, CreateIndex(new, segments_named(snapshot, name)), properties
    )


def commit_new(dataset: DatasetBase, snapshot: Snapshot, operation: CreateIndex) -> Snapshot:
    """Commit new segments as a version, which is returned; delete their files if that fails."""
    try:
        return commit_operation(dataset, snapshot, operation)
    except NOT_COMMITTED:
        discard_segments(snapshot, operation.new)
        raise


def _described(snapshot: Snapshot, segment: Index | SegmentFolder, field_id: int) -> Index:
    """Return a segment with everything that its files say about it."""
    if not isinstance(segment, SegmentFolder):
        return _index(segment)
    path = index_folder(str(segment_uuid(segment.uuid)))
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


def _index(segment: object) -> Index:
    if not isinstance(segment, Index):
        raise InvalidInputError(f"segments: expected an Index, found {segment!r:.80}")
    return segment


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


def _require_disjoint(covered: Sequence[BitMap]) -> None:
    if twice := [*(a & b for n, a in enumerate(covered) for b in covered[:n] if a & b)]:
        raise InvalidInputError(f"several segments cover the fragments {list(twice[0])}")
