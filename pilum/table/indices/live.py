"""Rows that a search may return: those that are live, and those that match a prefilter.

A segment refers to rows as they were when it was built. Rows that were deleted or updated since
are left out, and so are rows of fragments that it no longer covers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from pilum.expressions.filter import BoundFilter
from pilum.format.rows import Addresses, addresses_in, first_address, fragment_ids_of, rows_of
from pilum.index.answers import RowBits, RowSet, is_among
from pilum.table.indices.index_use import IndexUse
from pilum.table.indices.open_segments import OpenSegment, no_such_rows
from pilum.table.indices.use import with_selection
from pilum.table.model.fragments import Fragments
from pilum.table.read.columns import MAX_SIGNED_ID, window_addresses
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.scan import ScanOptions, scan_addresses, windows_of_matches
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.windows import Window

__all__ = [
    "allowed_rows",
    "has_only_covered",
    "is_plain",
    "live_addresses",
    "live_rows",
    "matching_rows",
    "require_rows",
]

_NO_ADDRESSES = np.empty(0, dtype=np.uint64)
_ADDRESS_BITS = 64

AllReferences = Callable[[], Addresses]
"""Function that returns all rows that an index refers to; they may repeat."""


def matching_rows(
    snapshot: Snapshot,
    filter: BoundFilter | None,
    fragment_ids: tuple[int, ...] | None,
    use: IndexUse,
) -> RowSet | None:
    """Return the addresses of the live rows of fragments that match a filter.

    Args:
        snapshot: The version.
        filter: The filter; None for none.
        fragment_ids: Ids of the fragments; None for all.
        use: Which indices may be used for the filter.

    Returns:
        The addresses; None for all rows of the version.
    """
    if filter is None and fragment_ids is None:
        return None
    asked = ScanOptions(filter=filter, fragment_ids=fragment_ids)
    others = use if use.segments is None else replace(use, segments=None)
    asked = with_selection(snapshot, asked, others)
    are_ascending = snapshot.manifest.fragments.are_ascending
    if fragment_ids is not None and are_ascending:
        are_ascending = all(one < other for one, other in pairwise(fragment_ids))
    if filter is None or asked.selection is not None:
        parts = scan_addresses(snapshot, asked)
    else:
        windows = windows_of_matches(snapshot, asked, filter)
        bits = _bits_of(windows) if are_ascending else None
        if bits is not None:
            return RowSet.of_bits(bits)
        parts = [window_addresses(fragment, window.wanted) for fragment, window in windows]
    found = parts[0] if len(parts) == 1 else np.concatenate([_NO_ADDRESSES, *parts])
    return RowSet(found if are_ascending else np.sort(found))


def _bits_of(windows: Sequence[tuple[FragmentReader, Window]]) -> list[RowBits] | None:
    """Return the rows of windows as bits; None if that takes more memory than to list them."""
    bits: list[RowBits] = []
    for fragment, window in windows:
        kept, bounds = window.kept, window.rows.bounds
        if kept is None or len(bounds) != 1 or fragment.id > MAX_SIGNED_ID:
            return None
        bitmap = np.frombuffer(kept.buffers()[1], np.uint8)
        first = first_address(fragment.id) + int(bounds[0, 0])
        bits.append(RowBits(first, bitmap, kept.offset, len(kept), window.num_rows))
    num_rows, num_set = sum([run.num_rows for run in bits]), sum([run.num_set for run in bits])
    return bits if num_set * _ADDRESS_BITS > num_rows else None


def allowed_rows(
    segment: OpenSegment,
    references: AllReferences,
    matching: RowSet | None,
    *,
    has_others: bool = False,
) -> RowSet | None:
    """Return the rows of a segment that may be returned, as it refers to them; None for all.

    Args:
        segment: The segment.
        references: Returns all rows that the index refers to.
        matching: Addresses of the rows to search; None for all.
        has_others: As in `live_rows`.
    """
    allowed = live_rows(segment, references, has_others=has_others)
    if matching is None:
        return allowed
    if is_plain(segment):
        own = matching
    else:
        known = np.unique(references())
        addresses, is_there = segment.addresses(known)
        own = RowSet(known[is_there & np.isin(addresses, matching.listed)])
    return own if allowed is None else own & allowed


def is_plain(segment: OpenSegment) -> bool:
    """Return whether the index refers to rows by addresses that did not change."""
    return segment.moved is None and not segment.has_ids


def live_rows(
    segment: OpenSegment, references: AllReferences, *, has_others: bool = False
) -> RowSet | None:
    """Return the rows of a segment that still exist, as it refers to them; None for all.

    The result is kept in the session.

    Args:
        segment: The segment.
        references: Returns all rows that the index refers to.
        has_others: Whether it is known to have old values of fragments that are no longer covered,
            because files or overlays with other values were added to them.
    """
    cache = segment.snapshot.session.indices
    key = live_rows, segment.version_key, has_others
    found: tuple[RowSet | None] | None = cache.get(key)
    if found is None:
        rows = _live_rows(segment, references, has_others)
        size_bytes = 64 if rows is None else rows.listed.nbytes + 64
        found = cache.put_if_absent(key, (rows,), size_bytes)
    return found[0]


def _live_rows(segment: OpenSegment, references: AllReferences, has_others: bool) -> RowSet | None:
    if is_plain(segment) and not has_others and has_only_covered(segment):
        if not segment.snapshot.manifest.fragments.have_deletions:
            return None
        deleted = _covered(segment).deleted
        return RowSet(deleted, True) if len(deleted) else None
    known = np.unique(references())
    _, is_live = live_addresses(segment, known)
    return None if is_live.all() else RowSet(known[is_live])


def live_addresses(
    segment: OpenSegment, references: Addresses
) -> tuple[Addresses, NDArray[np.bool_]]:
    """Return the addresses of rows, and which of them are live rows of covered fragments."""
    addresses, is_there = segment.addresses(references)
    covered = _covered(segment)
    is_live = is_there & is_among(fragment_ids_of(addresses), covered.fragments)
    if len(covered.deleted):
        is_live &= ~is_among(addresses, covered.deleted)
    return addresses, is_live


def require_rows(segment: OpenSegment, addresses: Addresses) -> None:
    """Check that the fragments that a segment covers have some rows, which are in them.

    Raises:
        CorruptFileError: If they do not.
    """
    covered = _covered(segment)
    places = covered.fragments.searchsorted(fragment_ids_of(addresses))
    if (rows_of(addresses) >= covered.sizes[places]).any():
        raise no_such_rows(segment.segment)


def has_only_covered(segment: OpenSegment) -> bool:
    """Return whether a segment refers to no rows but those of existing fragments that it covers.

    False if it covers fragments that are gone, or lost one whose values changed in place: one with
    overlays or several files, or one before others that it covers, as new ones have higher ids.
    """
    covered = segment.fragments
    if covered != segment.segment.entry.fragments:
        return False
    fragments = segment.snapshot.manifest.fragments
    highest = covered.max() if covered else -1
    others = [number for number in fragments.ids.tolist() if number not in covered]
    return not any(number < highest or _has_changed(fragments, number) for number in others)


def _has_changed(fragments: Fragments, number: int) -> bool:
    found = fragments.find(number)
    return found is not None and len(found.all_files) > 1


@dataclass(frozen=True, slots=True, eq=False)
class _Covered:
    """The fragments that a segment covers, in ascending order.

    Attributes:
        fragments: Their ids, int64.
        sizes: Their numbers of physical rows, int64.
        deleted: The addresses of their deleted rows, ascending.
    """

    fragments: NDArray[np.int64]
    sizes: NDArray[np.int64]
    deleted: Addresses


def _covered(segment: OpenSegment) -> _Covered:
    """Return what a segment covers, which the session keeps."""
    cache, key = segment.snapshot.session.indices, (_Covered, segment.version_key)
    known: _Covered | None = cache.get(key)
    if known is None:
        known = _Covered(
            np.array(segment.fragments.to_array(), np.int64),
            np.array(segment.segment.sizes, np.int64),
            _deleted(segment.snapshot, segment.fragments),
        )
        cache.put(key, known, 2 * known.fragments.nbytes + known.deleted.nbytes + 64)
    return known


def _deleted(snapshot: Snapshot, fragment_ids: BitMap) -> Addresses:
    """Return the addresses of the deleted rows of fragments, ascending."""
    found, fragments = [np.empty(0, dtype=np.uint64)], snapshot.manifest.fragments
    if not fragments.have_deletions:
        return found[0]
    for fragment in sorted(fragments, key=lambda one: one.id):
        deletions = snapshot.deletions(fragment) if fragment.id in fragment_ids else None
        if deletions is not None:
            found.append(addresses_in(fragment.id, deletions.offsets))
    return np.concatenate(found)
