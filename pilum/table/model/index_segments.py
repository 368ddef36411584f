"""The manifest entries of indices: one entry for each segment.

An index consists of one or more segments with the same name. Each segment has its own folder
`_indices/{uuid}/` and covers some fragments. Fragments that no segment covers are searched without
the index. Source: docs/format/table.md, "Indices".
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from pyroaring import BitMap

from pilum.errors import CorruptFileError
from pilum.format.pb import table_pb2

__all__ = [
    "IndexSegment",
    "RewrittenIndex",
    "covered_fragments",
    "index_segments",
    "is_system_index",
    "with_rewritten_indices",
]

_SYSTEM_PREFIX = "__lance_"
_DETAILS = "IndexDetails"
_UUID_BYTES = 16


@dataclass(frozen=True, slots=True)
class IndexSegment:
    """A segment of an index: its manifest entry, with any members that newer writers added."""

    message: table_pb2.IndexMetadata

    @property
    def uuid(self) -> str:
        """The uuid, which is the name of the folder below `_indices/`."""
        return str(UUID(bytes=self.message.uuid.uuid))

    @property
    def name(self) -> str:
        """The name of the index; several segments may share it."""
        return str(self.message.name)

    @property
    def field_ids(self) -> tuple[int, ...]:
        """The ids of the indexed fields."""
        return tuple(self.message.fields)

    @property
    def dataset_version(self) -> int:
        """The version whose rows are indexed."""
        return int(self.message.dataset_version)

    @property
    def type_url(self) -> str:
        """The type URL of the index; empty in old tables."""
        return str(self.message.index_details.type_url)

    @property
    def kind(self) -> str:
        """The type name without its package: "BTree", "Bitmap", "Vector", …; "Unknown" if unset."""
        last = self.type_url.rpartition("/")[2].rpartition(".")[2]
        return last.removesuffix(_DETAILS) or "Unknown"

    @property
    def fragments(self) -> BitMap | None:
        """The ids of the covered fragments; see `covered_fragments`."""
        return covered_fragments(self.message)

    @property
    def created_at(self) -> datetime | None:
        """The time at which the segment was created; None in old tables."""
        if not self.message.HasField("created_at"):
            return None
        try:
            return datetime.fromtimestamp(self.message.created_at / 1000, UTC)
        except (ValueError, OverflowError, OSError) as error:
            raise CorruptFileError(
                f"created at {self.message.created_at} ms", f"index {self.name!r}"
            ) from error

    @property
    def base_id(self) -> int | None:
        """The base path that contains the folder; None for the table's own."""
        return self.message.base_id if self.message.HasField("base_id") else None

    @property
    def size_bytes(self) -> int | None:
        """The total size of the segment's files; None in old tables."""
        return sum(file.size_bytes for file in self.message.files) or None


@dataclass(frozen=True, slots=True)
class RewrittenIndex:
    """A segment whose files were rewritten because its rows moved.

    Attributes:
        old_uuid: The uuid of the segment that it replaces.
        new: Its uuid, details, index version and files; other members do not count.
    """

    old_uuid: str
    new: table_pb2.IndexMetadata


def with_rewritten_indices(
    section: table_pb2.IndexSection, rewritten: Iterable[RewrittenIndex]
) -> None:
    """Replace segments in a section; their names and fragments stay."""
    by_uuid = {one.old_uuid: one.new for one in rewritten}
    for index in section.indices if by_uuid else ():
        new = by_uuid.get(IndexSegment(index).uuid)
        if new is None:
            continue
        index.uuid.CopyFrom(new.uuid)
        index.index_details.CopyFrom(new.index_details)
        index.index_version = new.index_version
        index.created_at = time.time_ns() // 10**6
        index.ClearField("base_id")
        del index.files[:]
        index.files.extend(new.files)


def index_segments(section: bytes) -> tuple[IndexSegment, ...]:
    """Return the segments of an `IndexSection`."""
    indices = table_pb2.IndexSection.FromString(section).indices
    for index in indices:
        if len(index.uuid.uuid) != _UUID_BYTES:
            raise CorruptFileError(
                f"a uuid of {len(index.uuid.uuid)} bytes", f"index {index.name!r}"
            )
    return tuple(map(IndexSegment, indices))


def covered_fragments(index: table_pb2.IndexMetadata) -> BitMap | None:
    """Return the ids of the covered fragments, including removed ones; None if unknown."""
    if not index.fragment_bitmap:
        return None
    try:
        return BitMap.deserialize(index.fragment_bitmap)
    except (ValueError, IndexError) as error:
        raise CorruptFileError(
            f"not a Roaring bitmap of fragments: {error}", f"index {index.name!r}"
        ) from error


def is_system_index(index: table_pb2.IndexMetadata) -> bool:
    """Return whether an index is internal, that is, not created by a user."""
    return str(index.name).startswith(_SYSTEM_PREFIX)
