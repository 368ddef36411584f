"""Addresses of rows after compactions that recorded their moves.

    compaction of version 4     fragments 0 and 1 ──▶ 7     live rows, in order
    address 0:3 ──▶ its rank among these ──▶ 7:2            a deleted row has none

Source: docs/format/table.md, "The fragment-reuse index".
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap, BitMap64

from pilum.encodings.base import demand
from pilum.errors import CorruptFileError
from pilum.format.pb import reuse_pb2, table_pb2
from pilum.format.rows import (
    MAX_FRAGMENT_ID,
    Addresses,
    addresses_of_rows,
    fragment_ids_of,
    rows_of,
)
from pilum.table.model.index_segments import IndexSegment, index_segments, is_system_index
from pilum.table.model.reuse_index import load_moves, reuse_entry
from pilum.table.read.snapshot import Snapshot

__all__ = ["MovedRows", "moved_rows", "record_of_moves", "segments_that_move"]

_Version = reuse_pb2.FragmentReuseIndexDetails.Version
_Group = reuse_pb2.FragmentReuseIndexDetails.Group

_EMPTY = np.empty(0, np.uint64)
_ROW_BITS = 32
_GONE = np.uint64(2**64 - 1)
"""The place of a row that does not exist any more."""
_MOST_PLACES_PER_ROW = 8


class _Moves:
    """The moves of one compaction: for each row of the old fragments, its new address.

    If only few rows were alive, their old addresses are kept and searched; otherwise there is a
    place for each row.

    Raises:
        CorruptFileError: If the record is damaged.
    """

    def __init__(self, version: _Version) -> None:
        self.groups = [_fragments(group) for group in version.groups]
        moved = [_moved(group) for group in version.groups]
        alive = np.concatenate([_EMPTY, *(old for old, _ in moved)])
        places = np.concatenate([_EMPTY, *(new for _, new in moved)])
        order = np.argsort(alive, kind="stable")  # fast, as the parts are sorted
        alive, places = alive[order], places[order]
        fragments = np.array(BitMap().union(*(old for old, _ in self.groups)).to_array(), np.int64)
        is_own = np.isin(fragment_ids_of(alive), fragments)
        demand(bool(is_own.all()), "moved rows: rows of other fragments")
        self._fragments = fragments
        stops = alive.searchsorted(((fragments + 1) << _ROW_BITS).astype(np.uint64))
        sizes = np.zeros(len(fragments), np.int64)
        has_rows = np.diff(stops, prepend=0) > 0
        sizes[has_rows] = rows_of(alive[stops[has_rows] - 1]) + 1
        self._starts = np.cumsum([0, *sizes])
        self._alive: Addresses | None = None
        if self._starts[-1] > _MOST_PLACES_PER_ROW * len(alive):
            self._alive, self._places = alive, np.append(places, _GONE)
            return
        self._places = np.full(int(self._starts[-1]) + 1, _GONE)  # the last is that of no row
        own = fragments.searchsorted(fragment_ids_of(alive))
        self._places[self._starts[own] + rows_of(alive)] = places

    @property
    def size_bytes(self) -> int:
        """The memory size of the moves."""
        return self._places.nbytes + (0 if self._alive is None else self._alive.nbytes)

    def follow(self, addresses: Addresses) -> Addresses:
        """Return the new addresses of rows; those of other fragments stay."""
        if not len(self._fragments):
            return addresses
        numbers = fragment_ids_of(addresses)
        own = np.minimum(self._fragments.searchsorted(numbers), len(self._fragments) - 1)
        is_old = self._fragments[own] == numbers
        if self._alive is None:
            places = self._starts[own] + rows_of(addresses)
            places[~is_old | (places >= self._starts[own + 1])] = self._starts[-1]
        else:
            places = self._alive.searchsorted(addresses)
            places[self._alive[np.minimum(places, len(self._alive) - 1)] != addresses] = -1
        return np.where(is_old, self._places[places], addresses)


class MovedRows:
    """Recorded moves of rows, oldest first; a function from old addresses to current ones.

    Args:
        versions: The record of each compaction.

    Raises:
        CorruptFileError: If a record is damaged.
    """

    def __init__(self, versions: Iterable[_Version]) -> None:
        self._moves = [_Moves(version) for version in versions]

    @property
    def size_bytes(self) -> int:
        """The memory size of the moves."""
        return sum(moves.size_bytes for moves in self._moves)

    def __call__(self, addresses: Addresses) -> tuple[Addresses, NDArray[np.bool_]]:
        """Return the current addresses of rows, and which of the rows still exist.

        Args:
            addresses: uint64, shape (n,), in any order.

        Returns:
            uint64 and bool, each of shape (n,).
        """
        found = addresses
        for moves in self._moves:
            found = moves.follow(found)
        return found, found != _GONE

    @property
    def new_fragments(self) -> BitMap:
        """The fragments that rows were moved to, by any compaction."""
        return BitMap().union(*(new for moves in self._moves for _, new in moves.groups))

    def covered(self, fragments: BitMap) -> BitMap:
        """Return the fragments that an index covers after the moves.

        Fragments that were rewritten together with one that it does not cover are left out.
        """
        for moves in self._moves:
            for old, new in moves.groups:
                fragments = (fragments - old) | new if old <= fragments else fragments - old
        return fragments


def moved_rows(snapshot: Snapshot) -> MovedRows | None:
    """Return the moves that a version records, cached in its session; None if it records none.

    Raises:
        CorruptFileError: If the record is damaged.
    """
    section = table_pb2.IndexSection.FromString(snapshot.manifest.index_section)
    entry = reuse_entry(section)
    if entry is None:
        return None
    cache, key = snapshot.session.indices, (MovedRows, snapshot.store.identity, entry.uuid.uuid)
    found: MovedRows | None = cache.get(key)
    if found is None:
        try:
            made = MovedRows(load_moves(snapshot.store, section) or [])
        except CorruptFileError as error:
            raise error if error.where else error.at(f"index {entry.name}") from None
        found = cache.put_if_absent(key, made, made.size_bytes)
    return found


def segments_that_move(snapshot: Snapshot) -> frozenset[str]:
    """Return the uuids of the segments whose files may have addresses from before a move.

    Raises:
        CorruptFileError: If an entry or the record is damaged.
    """
    moved = moved_rows(snapshot)
    if moved is None:
        return frozenset()
    new, found = moved.new_fragments, []
    for entry in index_segments(snapshot.manifest.index_section):
        if is_system_index(entry.message):
            continue
        covered = entry.fragments
        if covered is None or not moved.covered(covered).isdisjoint(new):
            found.append(entry.uuid)
    return frozenset(found)


def record_of_moves(snapshot: Snapshot) -> IndexSegment | None:
    """Return the entry of a version that records moves; None if it records none."""
    section = table_pb2.IndexSection.FromString(snapshot.manifest.index_section)
    entry = reuse_entry(section)
    return None if entry is None else IndexSegment(entry)


def _fragments(group: _Group) -> tuple[BitMap, BitMap]:
    """Return the old and new fragments of a group."""
    fragments = [*group.old_fragments, *group.new_fragments]
    is_sound = all(max(one.id, one.physical_rows) <= MAX_FRAGMENT_ID for one in fragments)
    demand(is_sound, "moved rows: a fragment id or a number of rows of more than 32 bits")
    old, new = ([one.id for one in some] for some in (group.old_fragments, group.new_fragments))
    return BitMap(old), BitMap(new)


def _moved(group: _Group) -> tuple[Addresses, Addresses]:
    """Return the old addresses of the rows of a group, ascending, and the new ones."""
    try:
        bitmap = BitMap64.deserialize(group.changed_row_addrs)
    except (ValueError, IndexError) as error:
        raise CorruptFileError(f"moved rows: {error}") from error
    bounds = np.cumsum([0, *(fragment.physical_rows for fragment in group.new_fragments)])
    # Before the rows are written out: a few bytes can claim very many.
    demand(int(bounds[-1]) >= len(bitmap), "moved rows: the new fragments have fewer rows")
    old = np.array(bitmap.to_array(), np.uint64)
    numbers = np.array([fragment.id for fragment in group.new_fragments], np.int64)
    ranks = np.arange(len(old))
    part = np.searchsorted(bounds, ranks, side="right") - 1
    return old, addresses_of_rows(numbers[part], ranks - bounds[part])
