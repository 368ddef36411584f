"""Indices: listing and dropping them. Creating and using indices is not supported yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn, TypedDict

import pyarrow as pa
from pyroaring import BitMap

from pilum.dataset.base import DatasetBase
from pilum.dataset.commits import commit_operation
from pilum.errors import IndexNotFoundError, InvalidInputError, UnsupportedFeatureError
from pilum.format.schema import FieldId
from pilum.table.commit.operations.create_index import CreateIndex
from pilum.table.model.index_segments import IndexSegment, index_segments
from pilum.table.read.snapshot import Snapshot

__all__ = ["IndexDescription", "IndexInformation", "IndexSegmentDescription", "Indices"]


class IndexInformation(TypedDict):
    """One segment of an index.

    `fragment_ids` is None if unknown; it may contain ids of fragments that no longer exist.
    """

    name: str
    type: str
    uuid: str
    fields: list[str]
    version: int
    fragment_ids: BitMap | None
    base_id: int | None


@dataclass(frozen=True)
class IndexSegmentDescription:
    """One segment of an index.

    Attributes:
        uuid: Name of its folder below `_indices/`.
        dataset_version_at_last_update: The version whose rows it indexes.
        fragment_ids: Fragments that it covers, which may include fragments that no longer exist;
            None if unknown.
        index_version: Version of the index format.
        created_at: When it was created; None in old tables.
        size_bytes: Total size of its files; None in old tables.
        base_id: Base path that contains its files; None for the table's own folder.
        covering_fields: Ids of fields whose values it stores but does not search.
    """

    uuid: str
    dataset_version_at_last_update: int
    fragment_ids: BitMap | None
    index_version: int
    created_at: datetime | None
    size_bytes: int | None
    base_id: int | None
    covering_fields: list[int]


@dataclass(frozen=True)
class IndexDescription:
    """An index.

    Attributes:
        name: Unique in the table.
        index_type: "BTree", "Bitmap", "Vector", …; "Unknown" in old tables.
        type_url: Type URL of the index details in the manifest.
        num_rows_indexed: Number of rows in the fragments that it covers, without deleted rows.
        fields: Ids of the indexed fields.
        field_names: Paths of the indexed fields.
        segments: The segments of the index.
        total_size_bytes: Total size of all files; None if sizes are not recorded.
    """

    name: str
    index_type: str
    type_url: str
    num_rows_indexed: int
    fields: list[int]
    field_names: list[str]
    segments: list[IndexSegmentDescription]
    total_size_bytes: int | None


class Indices(DatasetBase):
    """Methods of `LanceDataset` for indices."""

    @property
    def has_index(self) -> bool:
        """Return whether the table has an index."""
        return bool(self._snapshot.manifest.index_section)

    def list_indices(self) -> list[IndexInformation]:
        """Return all segments of all indices, from the manifest alone.

        Raises:
            CorruptFileError: If an entry is damaged.
        """
        return [_information(self._snapshot, one) for one in _segments(self._snapshot)]

    def describe_indices(self) -> list[IndexDescription]:
        """Describe all indices by name, from the manifest alone.

        Raises:
            CorruptFileError: If an entry is damaged.
        """
        by_name: dict[str, list[IndexSegment]] = {}
        for segment in _segments(self._snapshot):
            by_name.setdefault(segment.name, []).append(segment)
        return [_description(self._snapshot, segments) for segments in by_name.values()]

    def drop_index(self, name: str) -> None:
        """Drop all segments of an index and move this dataset to the new version.

        The index files remain as long as an older version needs them.

        Raises:
            IndexNotFoundError: If the index does not exist.
            CommitConflictError: If a concurrent commit changed the index.
            CorruptFileError: If an entry is damaged.
        """
        segments = _segments(self._snapshot)
        dropped = tuple(segment for segment in segments if segment.name == name)
        if not dropped:
            names = sorted({segment.name for segment in segments})
            raise IndexNotFoundError(f"{self._uri}: no index {name!r}; there are {names}")
        commit_operation(self, CreateIndex(removed=dropped))

    def remap_row_addrs(self, addrs: pa.Array) -> pa.Array | None:
        """Map row addresses from before compactions to addresses in this version.

        Only moves that a compaction recorded for indices are known.

        Args:
            addrs: Values of `_rowaddr` in an older version, as uint64.

        Returns:
            Addresses in this version as uint64, null for rows that no longer exist. Addresses of
            rows that never moved are unchanged. None if no move was recorded.

        Raises:
            InvalidInputError: If `addrs` is not a uint64 array.
            CorruptFileError: If the recorded moves are damaged.
        """
        if not isinstance(addrs, pa.Array) or addrs.type != pa.uint64():
            raise InvalidInputError(f"addrs: expected an array of uint64, found {addrs!r:.80}")
        from pilum.table.indices.moved_rows import moved_rows

        moved = moved_rows(self._snapshot)
        if moved is None:
            return None
        found, is_there = moved(addrs.fill_null(0).to_numpy())
        return pa.array(found, mask=~is_there | addrs.is_null().to_numpy(zero_copy_only=False))

    def create_index(self, *_: Any, **__: Any) -> NoReturn:
        """Raise UnsupportedFeatureError: creating and reading indices is not supported yet.

        Raises:
            UnsupportedFeatureError: Always, as do the methods below.
        """
        raise UnsupportedFeatureError(
            "indices cannot be made yet, nor searched or read; those that exist are kept"
        )

    create_scalar_index = create_index
    create_index_uncommitted = create_index
    commit_existing_index_segments = create_index
    merge_existing_index_segments = create_index
    merge_index_metadata = create_index
    prewarm_index = create_index
    index_statistics = create_index
    get_ivf_model = create_index
    centroids = create_index

    def initialize_mem_wal(self, *_: Any, **__: Any) -> NoReturn:
        """Raise UnsupportedFeatureError: the MemWAL is not supported.

        Raises:
            UnsupportedFeatureError: Always, as do the methods below.
        """
        raise UnsupportedFeatureError("a log in memory (MemWAL) is not supported; use insert")

    mem_wal_writer = initialize_mem_wal
    mem_wal_index_details = initialize_mem_wal


def _segments(snapshot: Snapshot) -> list[IndexSegment]:
    segments = index_segments(snapshot.manifest.index_section)
    return sorted(segments, key=lambda segment: segment.name)


def _information(snapshot: Snapshot, segment: IndexSegment) -> IndexInformation:
    return IndexInformation(
        name=segment.name,
        type=segment.kind,
        uuid=segment.uuid,
        fields=_paths(snapshot, segment.field_ids),
        version=segment.dataset_version,
        fragment_ids=segment.fragments,
        base_id=segment.base_id,
    )


def _description(snapshot: Snapshot, segments: list[IndexSegment]) -> IndexDescription:
    first = segments[0]
    covered: BitMap = BitMap().union(*(one.fragments or BitMap() for one in segments))
    rows = (part.num_rows for part in snapshot.manifest.fragments if part.id in covered)
    sizes = [segment.size_bytes for segment in segments]
    return IndexDescription(
        name=first.name,
        index_type=first.kind,
        type_url=first.type_url,
        num_rows_indexed=sum(rows),
        fields=list(first.field_ids),
        field_names=_paths(snapshot, first.field_ids),
        segments=[_segment(segment) for segment in segments],
        total_size_bytes=None if None in sizes else sum(size or 0 for size in sizes),
    )


def _segment(segment: IndexSegment) -> IndexSegmentDescription:
    return IndexSegmentDescription(
        uuid=segment.uuid,
        dataset_version_at_last_update=segment.dataset_version,
        fragment_ids=segment.fragments,
        index_version=segment.message.index_version,
        created_at=segment.created_at,
        size_bytes=segment.size_bytes,
        base_id=segment.base_id,
        covering_fields=list(segment.message.covering_fields),
    )


def _paths(snapshot: Snapshot, field_ids: Iterable[int]) -> list[str]:
    """Return the paths of fields, without those that the schema lacks."""
    paths = (snapshot.schema.path(FieldId(number)) for number in field_ids)
    return [path for path in paths if path is not None]
