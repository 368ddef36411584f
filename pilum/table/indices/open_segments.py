"""Open segments of indices: answers about the rows of a version.

    search      references ──▶ addresses of rows in the fragments that the segment covers

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
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap

from pilum.errors import (
    CorruptFileError,
    NotFoundError,
    UnsupportedFeatureError,
    UnsupportedFormatError,
    UnsupportedTypeError,
)
from pilum.format.rows import Addresses, fragment_ids_of, rows_of
from pilum.index.answers import Answer, RowSet
from pilum.index.base import Counted, Index, IndexType, Part, References
from pilum.index.files import IndexFolder
from pilum.index.queries import Between, IsNull, Query
from pilum.lazy import cached_property
from pilum.table.indices.moved_rows import MovedRows, moved_rows
from pilum.table.indices.segments import Segment, folder_of, segments_of
from pilum.table.read.columns import ScanColumn
from pilum.table.read.row_id_index import row_id_index
from pilum.table.read.snapshot import Snapshot

__all__ = [
    "UNREADABLE",
    "OpenSegment",
    "are_all_open",
    "located",
    "no_such_rows",
    "open_outlived_segments",
    "open_segment",
    "open_segments",
]

_FEW = 16
_ROW_BITS = 32
_LAST = 2**_ROW_BITS - 1

UNREADABLE = (
    CorruptFileError,
    NotFoundError,
    UnsupportedFeatureError,
    UnsupportedFormatError,
    UnsupportedTypeError,
)
"""Errors of files that are damaged, missing, or newer than this library."""


@dataclass(frozen=True, eq=False)
class OpenSegment:
    """A segment that was opened, for one version of the table.

    Attributes:
        snapshot: The version.
        segment: The segment.
        moved: The moves that compactions recorded; None for none.
    """

    snapshot: Snapshot
    segment: Segment
    moved: MovedRows | None

    @property
    def index(self) -> Index:
        """The content, which the session keeps; it is opened again if it was evicted.

        Raises:
            NotFoundError: If a file is missing.
            CorruptFileError: If a file is damaged.
        """
        cache = self.snapshot.session.indices
        found: Index | None = cache.get(self._key)
        if found is None:
            message = self.segment.entry.message
            folder = self._folder
            try:
                found = self.type.open(folder, message.index_details.value, message.index_version)
            except CorruptFileError as error:
                raise error if error.where else error.at(folder.path) from None
            found.counted_bytes = found.size_bytes
            found = cache.put_if_absent(self._key, found, found.counted_bytes)
        return found

    @property
    def _folder(self) -> IndexFolder:
        return folder_of(self.snapshot, self.segment.entry)

    @cached_property
    def _key(self) -> tuple[object, ...]:
        message = self.segment.entry.message
        return Index, self.snapshot.store.identity, message.base_id, message.uuid.uuid

    @cached_property
    def version_key(self) -> tuple[object, ...]:
        """A key of the segment and of the version, for what depends on both."""
        manifest = self.snapshot.manifest
        return *self._key, manifest.version, manifest.transaction_file

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

    def search(self, query: Query, most_rows: int | None = None) -> Answer | None:
        """Return the rows that match, as addresses in the covered fragments.

        Args:
            query: The query.
            most_rows: Maximum number of rows that it may be estimated to find; None for any number.

        Returns:
            The answer; None if it cannot say more than that all covered rows may match, or if they
            may be too many. A set that is a complement may contain rows of other fragments.

        Raises:
            CorruptFileError: If a file is damaged.
        """
        index = self.index
        if most_rows is not None:
            num_rows = index.estimate(query)
            if num_rows is None or num_rows > most_rows:
                return None
        found = index.search(query)
        self.count_grown(index)
        return None if found is None else self.answer(found)

    def pairs(self, values: pa.Array) -> tuple[NDArray[np.int64], Addresses] | None:
        """Return the pairs of a value and the address of a row with this value; see `Index.pairs`.

        Raises:
            CorruptFileError: If a file is damaged.
        """
        found = self.index.pairs(values)
        self.count_bytes()
        if found is None:
            return None
        addresses, is_there = self.addresses(found[1])
        is_there = is_there & _is_covered(addresses, self.fragments)
        if is_there.all():
            return found[0], addresses
        return found[0][is_there], addresses[is_there]

    def answer(self, found: Answer) -> Answer:
        """Return an answer of the index with addresses instead of its own references."""
        return Answer(self._located(found.rows), lambda: self._located(found.nulls), found.is_exact)

    def prewarm(self) -> None:
        """Load everything into memory.

        Raises:
            CorruptFileError: If a file is damaged.
        """
        try:
            self.index.prewarm()
        except CorruptFileError as error:
            raise error if error.where else error.at(self._folder.path) from None
        self.count_bytes()

    def part(self, references: References) -> Part[Any]:
        """Return the segment for a merge, without rows outside of the covered fragments.

        Args:
            references: What identifies a row in the merged segment.
        """
        keeps_ids = self.has_ids and references is References.ROW_IDS
        fragments, has_zones = self.lasting_fragments, references is References.ZONES

        def current(old: Addresses) -> tuple[Addresses, NDArray[np.bool_]]:
            if has_zones:
                return old, _is_covered(old, fragments)
            addresses, is_there = self.addresses(old)
            is_there = is_there & _is_covered(addresses, fragments)
            return (old if keeps_ids else addresses), is_there

        return Part(self.index, current, bool(fragments))

    @property
    def lasting_fragments(self) -> BitMap:
        """The covered fragments that a merge still covers: zones of rows that moved are lost."""
        if self.moved is None or self.segment.references is not References.ZONES:
            return self.fragments
        return self.fragments - self.moved.new_fragments

    def addresses(self, references: Addresses) -> tuple[Addresses, NDArray[np.bool_]]:
        """Return the addresses of rows of any fragment, and which of the rows exist."""
        if self.has_ids:
            return row_id_index(self.snapshot).find(references)
        if self.moved is not None:
            return self.moved(references)
        return references, np.ones(len(references), np.bool_)

    @cached_property
    def has_ids(self) -> bool:
        """Whether its references are stable row ids, which are no addresses."""
        return self.segment.references is References.ROW_IDS

    def count_grown(self, index: Counted) -> None:
        """Update the size of the index in the cache if it has changed."""
        if index.size_bytes != index.counted_bytes:
            self.count_bytes()

    def count_bytes(self) -> None:
        """Update the size in the cache: an index reads parts of its files when it needs them."""
        cache = self.snapshot.session.indices
        index: Index | None = cache.get(self._key)
        if index is not None and index.counted_bytes != (size_bytes := index.size_bytes):
            index.counted_bytes = size_bytes
            cache.resize(self._key, index, size_bytes)

    def _located(self, rows: RowSet) -> RowSet:
        if self.has_ids or self.moved is not None:
            listed = rows.listed
            if self.has_ids and len(listed) and listed[-1] >= self.snapshot.manifest.next_row_id:
                raise no_such_rows(self.segment)
            addresses, is_there = self.addresses(listed)
            addresses = RowSet.of(addresses[is_there]).listed
        elif rows.bitmap is not None:
            return RowSet(rows.bitmap & self.segment.addresses, rows.is_complement)
        else:
            addresses = rows.listed
        return RowSet(located(addresses, self), rows.is_complement)


def open_segments(snapshot: Snapshot, path: str) -> Sequence[OpenSegment]:
    """Open the segments of all indices on a field, in the order of the manifest.

    A segment whose files are damaged or missing is left out, with a warning that names it. The
    fragments that it covers then count as not indexed. The version remembers the others, unless
    one was left out.

    Args:
        snapshot: The version.
        path: Name of a column, or the dotted path of a member of a struct.

    Raises:
        ColumnNotFoundError: If the column does not exist.
        CorruptFileError: If an entry of the manifest is damaged.
    """
    key = open_segments, path
    known: Sequence[OpenSegment] | None = snapshot.prepared.get(key)
    if known is not None:
        return known
    wanted = [segment for segment in _segments_at(snapshot, path) if segment.fragments]
    found = _opened(snapshot, wanted)
    if len(found) == len(wanted):
        snapshot.prepared.put(key, found, 1)
    return found


def open_outlived_segments(snapshot: Snapshot, path: str) -> Sequence[OpenSegment]:
    """Open the segments of a field of whose fragments none exists any more; see `open_segments`.

    They find nothing, but have the parameters of their index.
    """
    own = _segments_at(snapshot, path)
    return _opened(snapshot, [segment for segment in own if not segment.fragments])


def _segments_at(snapshot: Snapshot, path: str) -> tuple[Segment, ...]:
    field = ScanColumn(snapshot.schema, path).leaf
    return () if field is None else segments_of(snapshot, field.id)


def _opened(snapshot: Snapshot, wanted: Sequence[Segment]) -> list[OpenSegment]:
    found = []
    for segment in wanted:
        try:
            found.append(open_segment(snapshot.twin, segment))
        except UNREADABLE as error:
            warnings.warn(
                f"index {segment.name!r}, segment {segment.entry.uuid}, is not used, as it cannot "
                f"be read; drop it and create it again: {error}",
                RuntimeWarning,
                stacklevel=3,
            )
    return found


def are_all_open(snapshot: Snapshot, path: str) -> bool:
    """Return whether `open_segments` left out no segment of a field, the last time."""
    return snapshot.prepared.get((open_segments, path)) is not None


def open_segment(snapshot: Snapshot, segment: Segment) -> OpenSegment:
    """Open a segment; open indices are kept by the session.

    Raises:
        NotFoundError: If a file is missing.
        CorruptFileError: If a file is damaged, or has fewer rows than the segment covers.
    """
    found = OpenSegment(snapshot, segment, moved_rows(snapshot))
    found.index  # noqa: B018 - opened, and kept
    _require_complete(found)
    return found


def _require_complete(opened: OpenSegment) -> None:
    """Check that a segment contains all rows that it covers, if it may be one that does not.

    If an index is rewritten at once by the reference after a compaction whose moves were recorded,
    the recorded moves are ignored. The index then finds no rows of the fragments that it covers.

    Raises:
        CorruptFileError: If rows are missing.
    """
    segment, moved, cache = opened.segment, opened.moved, opened.snapshot.session.indices
    if moved is None or segment.references is not References.ADDRESSES:
        return
    if not segment.fragments - moved.new_fragments:
        return
    key = ("complete", opened._key, segment.fragments.serialize())
    if cache.get(key):
        return
    answers = [opened.search(query) for query in (Between(), IsNull())]
    if all(answer is not None and answer.is_exact for answer in answers):
        num_rows = sum(answer.rows.num_listed for answer in answers if answer is not None)
        if num_rows < segment.num_rows:
            raise CorruptFileError(
                f"the index finds {num_rows} of the {segment.num_rows} rows that it covers",
                f"index {segment.name!r}, segment {segment.entry.uuid}",
            )
    cache.put(key, True, len(key[-1]))


def located(addresses: Addresses, opened: OpenSegment) -> Addresses:
    """Return those of some sorted addresses that are in the covered fragments.

    Raises:
        CorruptFileError: If a covered fragment has no such row, or no fragment ever had the id.
    """
    segment, fragments = opened.segment, opened.fragments
    if len(addresses) <= _FEW:
        sizes = segment.sizes_by_fragment
        for address in addresses.tolist():
            if address & _LAST >= sizes.get(address >> _ROW_BITS, 0):
                break
        else:
            return addresses
    if int(addresses[-1]) >> _ROW_BITS > opened.snapshot.manifest.highest_possible_fragment_id:
        raise no_such_rows(segment)
    numbers, sizes_in_order = np.array(fragments.to_array(), np.uint64), np.array(segment.sizes)
    if len(numbers) > len(addresses):
        kept = addresses[_is_covered(addresses, fragments)]
        places = numbers.searchsorted(fragment_ids_of(kept))
        if (rows_of(kept) >= sizes_in_order[places]).any():
            raise no_such_rows(segment)
        return kept
    firsts = numbers << np.uint64(_ROW_BITS)
    starts = addresses.searchsorted(firsts)
    stops = addresses.searchsorted(firsts + sizes_in_order.astype(np.uint64))
    if int((stops - starts).sum()) == len(addresses):
        return addresses
    if (addresses.searchsorted(firsts + np.uint64(_LAST), side="right") > stops).any():
        raise no_such_rows(segment)
    parts = [addresses[start:stop] for start, stop in zip(starts, stops, strict=True)]
    return np.concatenate([addresses[:0], *parts])


def no_such_rows(segment: Segment) -> CorruptFileError:
    """Return the error of an index that names rows beyond the end of a fragment."""
    return CorruptFileError(
        "the index names rows that do not exist",
        f"index {segment.name!r}, segment {segment.entry.uuid}",
    )


def _is_covered(addresses: Addresses, fragments: BitMap) -> NDArray[np.bool_]:
    numbers = fragment_ids_of(addresses)
    if not fragments:
        return np.zeros(len(numbers), np.bool_)
    first, last = fragments.min(), fragments.max()
    if last - first + 1 == len(fragments):  # most tables
        return (numbers >= first) & (numbers <= last)
    return np.isin(numbers, np.array(fragments.to_array(), np.int64))
