"""Segments of indices: from the entries of a manifest to answers about the rows of its version.

    entry       type, by its details or, in old tables, by its files     unknown: left alone
                fragments that it covers: after moves, and still there
    search      references ──▶ addresses of rows in these fragments

A stable row id leads to the row that has it now. If this row is not in a fragment that the segment
covers, the row was updated, and the segment contains its old value. The same holds for an address
in a fragment that is not covered any more. So no answer contains rows outside of the covered
fragments. It may contain deleted rows: every reader leaves them out.

Source: docs/format/table.md, "Indices".
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from pilum.errors import CorruptFileError, NotFoundError
from pilum.format.row_address import Addresses, fragment_ids_of
from pilum.format.schema import FieldId
from pilum.index.answers import Answer, RowSet
from pilum.index.base import Index, IndexType, Part, References
from pilum.index.files import IndexFolder
from pilum.index.queries import Query
from pilum.index.registry import index_type_of, index_type_of_files
from pilum.table.indices.moved_rows import MovedRows, moved_rows
from pilum.table.model.base_paths import index_place
from pilum.table.model.index_segments import IndexSegment, index_segments, is_system_index
from pilum.table.read.columns import ScanColumn
from pilum.table.read.row_id_index import row_id_index
from pilum.table.read.snapshot import Snapshot

__all__ = [
    "OpenSegment",
    "Segment",
    "folder_of",
    "located",
    "open_segment",
    "open_segments",
    "segments",
    "type_of_segment",
]

_LAST = np.uint64(2**32 - 1)


@dataclass(frozen=True, eq=False)
class Segment:
    """A segment that this library can use.

    Attributes:
        entry: Its entry in the manifest.
        type: Its type.
        references: What identifies a row in its files.
        fragments: The existing fragments that it covers.
    """

    entry: IndexSegment
    type: IndexType[Any]
    references: References
    fragments: BitMap

    @property
    def name(self) -> str:
        """The name of the index, which several segments may share."""
        return self.entry.name


@dataclass(frozen=True, eq=False)
class OpenSegment:
    """An open segment, for one version of the table.

    Attributes:
        snapshot: The version.
        segment: The segment.
        index: Its content.
        moved: The moves that compactions recorded; None for none.
    """

    snapshot: Snapshot
    segment: Segment
    index: Index
    moved: MovedRows | None

    @property
    def name(self) -> str:
        """The name of the index, which several segments may share."""
        return self.segment.name

    @property
    def type(self) -> IndexType[Any]:
        """The type of the index."""
        return self.segment.type

    @property
    def fragments(self) -> BitMap:
        """The existing fragments that it covers."""
        return self.segment.fragments

    def search(self, query: Query) -> Answer | None:
        """Return the rows that match, as addresses in the covered fragments.

        Returns:
            The answer; None if it cannot say more than that all covered rows may match. A set that
            is a complement may contain rows of other fragments.

        Raises:
            CorruptFileError: If a file is damaged.
        """
        found = self.index.search(query)
        cache = self.snapshot.session.indices
        cache.resize(_key(self.snapshot, self.segment.entry), self.index, self.index.size_bytes)
        return None if found is None else self.answer(found)

    def answer(self, found: Answer) -> Answer:
        """Return an answer of the index with addresses instead of its own references."""
        return Answer(self._located(found.rows), self._located(found.nulls), found.is_exact)

    def part(self) -> Part[Any]:
        """Return the segment for a merge, without rows outside of the covered fragments."""
        return Part(self.index, self.current)

    def current(self, references: Addresses) -> tuple[Addresses, NDArray[np.bool_]]:
        """Return the current references of rows, and which of them are in covered fragments."""
        addresses, is_there = self.addresses(references)
        is_there = is_there & _is_covered(addresses, self.fragments)
        return (references if self._has_ids else addresses), is_there

    def addresses(self, references: Addresses) -> tuple[Addresses, NDArray[np.bool_]]:
        """Return the addresses of rows of any fragment, and which of the rows exist."""
        if self._has_ids:
            return row_id_index(self.snapshot).find(references)
        if self.moved is not None:
            return self.moved(references)
        return references, np.ones(len(references), np.bool_)

    @property
    def _has_ids(self) -> bool:
        return self.segment.references is References.ROW_IDS

    def _located(self, rows: RowSet) -> RowSet:
        addresses = rows.listed
        if self._has_ids or self.moved is not None:
            addresses, is_there = self.addresses(addresses)
            addresses = RowSet.of(addresses[is_there]).listed
        return RowSet(located(addresses, self.fragments), rows.is_complement)


def segments(snapshot: Snapshot) -> tuple[Segment, ...]:
    """Return the segments of a version that can be used, in the order of the manifest.

    Segments of unknown types and versions are left out, and those whose coverage is unknown.

    Raises:
        CorruptFileError: If an entry of the manifest is damaged.
    """
    manifest = snapshot.manifest
    if not manifest.index_section:
        return ()
    cache = snapshot.session.indices
    key = (Segment, snapshot.store.identity, manifest.version, manifest.transaction_file)
    found: tuple[Segment, ...] | None = cache.get(key)
    if found is None:
        size_bytes = len(manifest.index_section) + 4 * len(manifest.fragments)
        found = cache.put_if_absent(key, tuple(_usable(snapshot)), size_bytes)
    return found


def open_segments(snapshot: Snapshot, path: str) -> list[OpenSegment]:
    """Open the segments of all indices on a field, in the order of the manifest.

    A segment whose files are damaged or missing is left out, with a warning that names it. The
    fragments that it covers then count as not indexed.

    Args:
        snapshot: The version.
        path: Name of a column, or the dotted path of a member of a struct.

    Raises:
        ColumnNotFoundError: If the column does not exist.
        CorruptFileError: If an entry of the manifest is damaged.
    """
    field = ScanColumn(snapshot.schema, path).leaf
    if field is None:
        return []
    found = []
    for segment in segments(snapshot):
        if segment.entry.field_ids[:1] != (field.id,) or not segment.fragments:
            continue
        try:
            found.append(open_segment(snapshot, segment))
        except (CorruptFileError, NotFoundError) as error:
            warnings.warn(
                f"index {segment.name!r}, segment {segment.entry.uuid}, is not used, as it cannot "
                f"be read; drop it and create it again: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
    return found


def open_segment(snapshot: Snapshot, segment: Segment) -> OpenSegment:
    """Open a segment; open indices are kept by the session.

    Raises:
        NotFoundError: If a file is missing.
        CorruptFileError: If a file is damaged.
    """
    cache, key = snapshot.session.indices, _key(snapshot, segment.entry)
    index: Index | None = cache.get(key)
    if index is None:
        message = segment.entry.message
        opened = segment.type.open(
            folder_of(snapshot, segment.entry), message.index_details.value, message.index_version
        )
        index = cache.put_if_absent(key, opened, opened.size_bytes)
    return OpenSegment(snapshot, segment, index, moved_rows(snapshot))


def folder_of(snapshot: Snapshot, entry: IndexSegment) -> IndexFolder:
    """Return the folder of a segment.

    Raises:
        CorruptFileError: If its base path is not in the manifest.
    """
    store, path = index_place(snapshot.store, entry.message)
    return IndexFolder(store, path, {file.path: file.size_bytes for file in entry.message.files})


def type_of_segment(snapshot: Snapshot, entry: IndexSegment) -> IndexType[Any] | None:
    """Return the type of a segment; None if this library does not know it."""
    if entry.type_url:
        return index_type_of(entry.type_url)
    field = snapshot.schema.find(FieldId(next(iter(entry.field_ids), -1)))
    if field is None:
        return None
    folder = folder_of(snapshot, entry)
    names = set(folder.sizes) or set(folder.store.names(folder.path))
    return index_type_of_files(names, field.arrow_type)


def located(addresses: Addresses, fragments: BitMap) -> Addresses:
    """Return those of some sorted addresses that are in fragments."""
    if not len(addresses):
        return addresses
    numbers = np.array(fragments.to_array(), np.uint64)
    if len(numbers) > len(addresses):
        return addresses[_is_covered(addresses, fragments)]
    starts = addresses.searchsorted(numbers << np.uint64(32))
    stops = addresses.searchsorted((numbers << np.uint64(32)) + _LAST, side="right")
    if int((stops - starts).sum()) == len(addresses):
        return addresses
    kept = [addresses[start:stop] for start, stop in zip(starts, stops, strict=True)]
    return np.concatenate([addresses[:0], *kept])


def _is_covered(addresses: Addresses, fragments: BitMap) -> NDArray[np.bool_]:
    numbers = np.array(fragments.to_array(), np.int64)
    return np.isin(fragment_ids_of(addresses), numbers)


def _usable(snapshot: Snapshot) -> Sequence[Segment]:
    manifest = snapshot.manifest
    if manifest.has_doubtful_coverage or not manifest.fragments.are_distinct:
        return []
    moved = moved_rows(snapshot)
    existing = BitMap([fragment.id for fragment in manifest.fragments])
    found = []
    for entry in index_segments(manifest.index_section):
        covered = entry.fragments
        type = None if is_system_index(entry.message) else type_of_segment(snapshot, entry)
        if type is None or covered is None or not entry.field_ids:
            continue
        references = type.references_of(entry.message.index_version)
        if references is None:
            continue
        if references is References.ROW_IDS and not snapshot.has_stable_row_ids:
            references = References.ADDRESSES
        covered = covered if moved is None else moved.covered(covered)
        found.append(Segment(entry, type, references, covered & existing))
    return found


def _key(snapshot: Snapshot, entry: IndexSegment) -> tuple[object, ...]:
    return Index, snapshot.store.identity, entry.message.base_id, entry.uuid
