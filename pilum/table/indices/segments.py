"""Segments of indices: the entries of a manifest that can be used, and what they cover.

    entry       type, by its details or, in old tables, by its files     unknown: left alone
                fragments that it covers: after moves, and still there

Source: docs/format/table.md, "Indices".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyroaring import BitMap, BitMap64

from pilum.bitmap import roaring
from pilum.errors import CorruptFileError, IndexNotFoundError
from pilum.format.fields import FieldId
from pilum.format.rows import first_address
from pilum.index.base import IndexType, References
from pilum.index.files import IndexFolder
from pilum.lazy import cached_property
from pilum.table.indices.moved_rows import moved_rows
from pilum.table.model.base_paths import index_place
from pilum.table.model.index_segments import IndexSegment, is_system_index
from pilum.table.read.snapshot import Snapshot

__all__ = [
    "Segment",
    "column_of",
    "folder_of",
    "named_segments",
    "segments",
    "segments_of",
    "type_of_segment",
    "usable_segment",
]


@dataclass(frozen=True, eq=False)
class Segment:
    """A segment that this library can use.

    Attributes:
        entry: Its entry in the manifest.
        type: Its type.
        references: What identifies a row in its files.
        fragments: The existing fragments that it covers.
        sizes: The number of physical rows of each of them.
        num_rows: The number of live rows of all of them.
    """

    entry: IndexSegment
    type: IndexType[Any]
    references: References
    fragments: BitMap
    sizes: tuple[int, ...]
    num_rows: int

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        entry: IndexSegment,
        type: IndexType[Any],
        references: References,
        covered: BitMap,
    ) -> Segment:
        """Return a segment that covers those of some fragments that exist."""
        existing = snapshot.manifest.fragments
        ids, sizes, rows = existing.ids, existing.physical_rows, np.diff(existing.bounds)
        fragments = roaring(ids.astype(np.uint32)) & covered
        if len(fragments) < len(ids):
            own = np.isin(ids, np.array(fragments.to_array(), np.int64))
            ids, sizes, rows = ids[own], sizes[own], rows[own]
        ordered = sizes if existing.are_ascending else sizes[np.argsort(ids)]
        return cls(entry, type, references, fragments, tuple(ordered.tolist()), int(rows.sum()))

    def reduced(self, snapshot: Snapshot, gone: BitMap) -> Segment:
        """Return the segment as if it did not cover some fragments."""
        covered = self.fragments - gone
        return Segment.of(snapshot, self.entry, self.type, self.references, covered)

    @property
    def name(self) -> str:
        """The name of the index, which several segments may share."""
        return self.entry.name

    @cached_property
    def addresses(self) -> BitMap64:
        """The addresses in the covered fragments, deleted rows included."""
        found = BitMap64()
        for number, num_rows in zip(self.fragments, self.sizes, strict=True):
            found.add_range(first_address(number), first_address(number) + num_rows)
        return found

    @cached_property
    def sizes_by_fragment(self) -> dict[int, int]:
        """The number of physical rows of each covered fragment."""
        return dict(zip(self.fragments, self.sizes, strict=True))

    @property
    def field_id(self) -> FieldId:
        """The id of the indexed field."""
        return FieldId(self.entry.field_ids[0])


def segments(snapshot: Snapshot) -> tuple[Segment, ...]:
    """Return the segments of a version that can be used, in the order of the manifest.

    Left out are segments of unknown types and versions, of several columns, and those whose
    coverage is unknown.

    Raises:
        CorruptFileError: If an entry of the manifest is damaged.
    """
    manifest = snapshot.manifest
    if not manifest.index_section:
        return ()
    cache, key = snapshot.session.indices, _version_key(snapshot)
    found: tuple[Segment, ...] | None = cache.get(key)
    if found is None:
        found = _usable(snapshot, snapshot.index_segments)
        found = cache.put_if_absent(key, found, _size_bytes(snapshot))
    return found


def segments_of(snapshot: Snapshot, field_id: FieldId) -> tuple[Segment, ...]:
    """Return those of `segments` that are of one field; the entries of others are not examined."""
    section = snapshot.manifest.index_section
    if not section:
        return ()
    cache, key = snapshot.session.indices, _version_key(snapshot)
    every: tuple[Segment, ...] | None = cache.get(key)
    if every is not None:
        return tuple(one for one in every if one.field_id == field_id)
    key = *key, field_id
    found: tuple[Segment, ...] | None = cache.get(key)
    if found is None:
        entries = [one for one in snapshot.index_segments if one.field_ids == (field_id,)]
        found = cache.put_if_absent(key, _usable(snapshot, entries), _size_bytes(snapshot))
    return found


def _version_key(snapshot: Snapshot) -> tuple[object, ...]:
    manifest = snapshot.manifest
    return Segment, snapshot.store.identity, manifest.version, manifest.transaction_file


def _size_bytes(snapshot: Snapshot) -> int:
    """Return the approximate memory of the segments of a version."""
    return len(snapshot.manifest.index_section) + 4 * len(snapshot.manifest.fragments)


def named_segments(snapshot: Snapshot, name: str) -> tuple[list[IndexSegment], list[Segment]]:
    """Return the entries of an index, and those of its segments that can be used.

    Raises:
        IndexNotFoundError: If there is no such index.
        CorruptFileError: If an entry of the manifest is damaged.
    """
    entries = snapshot.index_segments
    found = [one for one in entries if one.name == name]
    if not found:
        names = sorted({one.name for one in entries})
        where = f"{snapshot.store.uri}, version {snapshot.manifest.version}"
        raise IndexNotFoundError(f"{where}: no index {name!r}; there are {names}")
    return found, [one for one in segments(snapshot) if one.name == name]


def folder_of(snapshot: Snapshot, entry: IndexSegment) -> IndexFolder:
    """Return the folder of a segment.

    Raises:
        CorruptFileError: If its base path is not in the manifest.
    """
    store, path = index_place(snapshot.store, entry.message)
    return IndexFolder(store, path, {file.path: file.size_bytes for file in entry.message.files})


def type_of_segment(snapshot: Snapshot, entry: IndexSegment) -> IndexType[Any] | None:
    """Return the type of a segment; None if this library does not know it."""
    from pilum.index.registry import index_type_of, index_type_of_files  # all types, which are many

    if entry.type_url:
        return index_type_of(entry.type_url, entry.message.index_details.value)
    field = snapshot.schema.find(FieldId(next(iter(entry.field_ids), -1)))
    if field is None:
        return None
    folder = folder_of(snapshot, entry)
    names = set(folder.sizes) or set(folder.store.names(folder.path))
    return index_type_of_files(names, field.arrow_type)


def column_of(snapshot: Snapshot, segment: Segment) -> str:
    """Return the dotted path of the indexed column.

    Raises:
        CorruptFileError: If the schema does not have it: an index is dropped with its column.
    """
    path = snapshot.schema.path(segment.field_id)
    if path is None:
        raise CorruptFileError(
            f"the schema has no field {segment.field_id}",
            f"index {segment.name!r}, segment {segment.entry.uuid}",
        )
    return path


def usable_segment(snapshot: Snapshot, entry: IndexSegment) -> Segment | None:
    """Return a segment that need not be in the manifest; None if it cannot be used.

    Raises:
        CorruptFileError: If the entry is damaged.
    """
    covered = entry.fragments
    type = None if is_system_index(entry.message) else type_of_segment(snapshot, entry)
    is_plain = len(entry.field_ids) == 1 and not entry.message.covering_fields
    if type is None or covered is None or not is_plain:
        return None
    references = type.references_of(entry.message.index_version)
    if references is None:
        return None
    if references is References.ROW_IDS and not snapshot.has_stable_row_ids:
        references = References.ADDRESSES
    moved = moved_rows(snapshot)
    covered = covered if moved is None else moved.covered(covered)
    return Segment.of(snapshot, entry, type, references, covered)


def _usable(snapshot: Snapshot, entries: Sequence[IndexSegment]) -> tuple[Segment, ...]:
    manifest = snapshot.manifest
    if manifest.has_doubtful_coverage or not manifest.fragments.are_distinct:
        return ()
    found = (usable_segment(snapshot, one) for one in entries)
    return tuple(segment for segment in found if segment is not None)
