"""Public forms of indices: what to build, how far the work is, and what a table records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypedDict

from pyroaring import BitMap

from pilum.format.fields import FieldId
from pilum.index.vector.messages import VectorDetails
from pilum.table.model.index_segments import IndexSegment as StoredSegment
from pilum.table.model.index_segments import index_segments
from pilum.table.read.snapshot import Snapshot

__all__ = [
    "IndexConfig",
    "IndexDescription",
    "IndexFileVersion",
    "IndexInformation",
    "IndexSegment",
    "IndexSegmentDescription",
    "SupportedDistributedIndices",
    "descriptions",
    "information",
    "sorted_segments",
]

_VECTOR = "Vector"


@dataclass
class IndexConfig:
    """A type of index with parameters.

    Attributes:
        index_type: Name of the type, in upper or lower case.
        parameters: Parameters of the type, by name.
    """

    index_type: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


class IndexFileVersion(StrEnum):
    """The layout of the files of an index of vectors, for `index_file_version`."""

    LEGACY = "Legacy"
    V3 = "V3"


class SupportedDistributedIndices(StrEnum):
    """Types of indices of which the reference merges segments; this library merges all types."""

    BTREE = "BTREE"
    INVERTED = "INVERTED"
    IVF_FLAT = "IVF_FLAT"
    IVF_PQ = "IVF_PQ"
    IVF_SQ = "IVF_SQ"
    VECTOR = "VECTOR"


@dataclass(frozen=True)
class IndexSegment:
    """The folder of a segment of an index of vectors, to be committed.

    `create_index_uncommitted` returns an `Index`, which says more about a segment.

    Attributes:
        uuid: Name of the folder below `_indices/`.
        fragment_ids: Fragments that it covers.
        index_version: Version of the index format.
    """

    uuid: str
    fragment_ids: Iterable[int]
    index_version: int


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
        details: Parameters of the index, for types that record them in the manifest.
        segments: The segments of the index.
        total_size_bytes: Total size of all files; None if sizes are not recorded.
    """

    name: str
    index_type: str
    type_url: str
    num_rows_indexed: int
    fields: list[int]
    field_names: list[str]
    details: dict[str, Any]
    segments: list[IndexSegmentDescription]
    total_size_bytes: int | None


def sorted_segments(snapshot: Snapshot) -> list[StoredSegment]:
    """Return the entries of a version, sorted by name."""
    segments = index_segments(snapshot.manifest.index_section)
    return sorted(segments, key=lambda segment: segment.name)


def information(snapshot: Snapshot, segment: StoredSegment) -> IndexInformation:
    """Describe one segment."""
    return IndexInformation(
        name=segment.name,
        type=_kind(segment),
        uuid=segment.uuid,
        fields=_paths(snapshot, segment.field_ids),
        version=segment.dataset_version,
        fragment_ids=segment.fragments,
        base_id=segment.base_id,
    )


def descriptions(snapshot: Snapshot) -> list[IndexDescription]:
    """Describe all indices of a version by name."""
    by_name: dict[str, list[StoredSegment]] = {}
    for segment in sorted_segments(snapshot):
        by_name.setdefault(segment.name, []).append(segment)
    return [_description(snapshot, segments) for segments in by_name.values()]


def _description(snapshot: Snapshot, segments: list[StoredSegment]) -> IndexDescription:
    first = segments[0]
    covered: BitMap = BitMap().union(*(one.fragments or BitMap() for one in segments))
    rows = (part.num_rows for part in snapshot.manifest.fragments if part.id in covered)
    sizes = [segment.size_bytes for segment in segments]
    return IndexDescription(
        name=first.name,
        index_type=_kind(first),
        type_url=first.type_url,
        num_rows_indexed=sum(rows),
        fields=list(first.field_ids),
        field_names=_paths(snapshot, first.field_ids),
        details=_details(first),
        segments=[_segment(segment) for segment in segments],
        total_size_bytes=None if None in sizes else sum(size or 0 for size in sizes),
    )


def _details(segment: StoredSegment) -> dict[str, Any]:
    from pilum.index.registry import index_type_of

    details = segment.message.index_details.value
    type = index_type_of(segment.type_url, details)
    return {} if type is None else type.described(details)


def _kind(segment: StoredSegment) -> str:
    """Return the name of the type; that of vector indices is in their details."""
    details = segment.message.index_details.value
    if segment.kind != _VECTOR or not details:
        return segment.kind
    return VectorDetails.parse(details, f"index {segment.name!r}").name


def _segment(segment: StoredSegment) -> IndexSegmentDescription:
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
