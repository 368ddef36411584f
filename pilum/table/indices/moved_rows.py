"""Addresses of rows after compactions that recorded their moves.

    compaction of version 4     fragments 0 and 1 ──▶ 7     live rows, in order
    address 0:3 ──▶ its rank among these ──▶ 7:2            a deleted row has none

Source: docs/format/table.md, "The fragment-reuse index".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap, BitMap64

from pilum.encodings.base import demand
from pilum.errors import CorruptFileError
from pilum.format.pb import reuse_pb2, table_pb2
from pilum.format.row_address import MAX_FRAGMENT_ID, Addresses, addresses_of_rows, fragment_ids_of
from pilum.table.model.reuse_index import load_moves, reuse_entry
from pilum.table.read.snapshot import Snapshot

__all__ = ["MovedRows", "moved_rows"]

_Version = reuse_pb2.FragmentReuseIndexDetails.Version
_Group = reuse_pb2.FragmentReuseIndexDetails.Group


@dataclass(frozen=True, eq=False)
class _Move:
    """The rows of some fragments, and where they are now.

    Attributes:
        old: int64: fragments that contained the rows.
        alive: uint64, ascending: addresses that the rows had.
        new: int64: fragments that contain them now, in order.
        bounds: int64, one more than `new`: first row of each new fragment, and the end.
    """

    old: NDArray[np.int64]
    alive: Addresses
    new: NDArray[np.int64]
    bounds: NDArray[np.int64]

    @classmethod
    def of(cls, group: _Group) -> _Move:
        """Read a move.

        Raises:
            CorruptFileError: If it is damaged.
        """
        alive = _alive(group.changed_row_addrs)
        fragments = [*group.old_fragments, *group.new_fragments]
        is_sound = all(max(one.id, one.physical_rows) <= MAX_FRAGMENT_ID for one in fragments)
        demand(is_sound, "moved rows: a fragment id or a number of rows of more than 32 bits")
        bounds = np.cumsum([0, *(fragment.physical_rows for fragment in group.new_fragments)])
        demand(int(bounds[-1]) >= len(alive), "moved rows: the new fragments have fewer rows")
        return cls(
            np.array([fragment.id for fragment in group.old_fragments], np.int64),
            alive,
            np.array([fragment.id for fragment in group.new_fragments], np.int64),
            bounds,
        )

    def follow(self, before: Addresses, found: Addresses, is_there: NDArray[np.bool_]) -> None:
        """Replace the addresses in the old fragments by the new ones."""
        here = np.flatnonzero(np.isin(fragment_ids_of(before), self.old) & is_there)
        if not len(here):
            return
        ranks = np.searchsorted(self.alive, before[here])
        kept = ranks < len(self.alive)
        kept[kept] = self.alive[ranks[kept]] == before[here][kept]
        is_there[here[~kept]] = False
        part = np.searchsorted(self.bounds, ranks[kept], side="right") - 1
        found[here[kept]] = addresses_of_rows(self.new[part], ranks[kept] - self.bounds[part])


class MovedRows:
    """Recorded moves of rows, oldest first; a function from old addresses to current ones.

    Args:
        versions: The record of each compaction.

    Raises:
        CorruptFileError: If a record is damaged.
    """

    def __init__(self, versions: Iterable[_Version]) -> None:
        self._versions = [[_Move.of(group) for group in one.groups] for one in versions]

    @property
    def size_bytes(self) -> int:
        """The memory size of the moves."""
        return sum(
            sum(part.nbytes for part in (move.old, move.alive, move.new, move.bounds))
            for moves in self._versions
            for move in moves
        )

    def __call__(self, addresses: Addresses) -> tuple[Addresses, NDArray[np.bool_]]:
        """Return the current addresses of rows, and which of the rows still exist.

        Args:
            addresses: uint64, shape (n,), in any order.

        Returns:
            uint64 and bool, each of shape (n,).
        """
        found = addresses.copy()
        is_there = np.ones(len(found), np.bool_)
        for moves in self._versions:
            before = found.copy()
            for move in moves:
                move.follow(before, found, is_there)
        return found, is_there

    @property
    def new_fragments(self) -> BitMap:
        """The fragments that rows were moved to, by any compaction."""
        return BitMap([number for moves in self._versions for one in moves for number in one.new])

    def covered(self, fragments: BitMap) -> BitMap:
        """Return the fragments that an index covers after the moves.

        Fragments that were rewritten together with one that it does not cover are left out.
        """
        for moves in self._versions:
            for move in moves:
                old = BitMap(move.old.tolist())
                if old <= fragments:
                    fragments = (fragments - old) | BitMap(move.new.tolist())
                else:
                    fragments = fragments - old
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
        made = MovedRows(load_moves(snapshot.store, section) or [])
        found = cache.put_if_absent(key, made, made.size_bytes)
    return found


def _alive(data: bytes) -> Addresses:
    """Return the addresses in a 64-bit Roaring bitmap, ascending."""
    try:
        return np.array(BitMap64.deserialize(data).to_array(), np.uint64)
    except ValueError as error:
        raise CorruptFileError(f"moved rows: {error}") from error
