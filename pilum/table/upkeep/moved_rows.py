"""Addresses of rows after compactions that recorded their moves.

    compaction of version 4     fragments 0 and 1 ──▶ 7     live rows, in order
    address 0:3 ──▶ its rank among these ──▶ 7:2            a deleted row has none

Source: docs/format/table.md, "The fragment-reuse index".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from pilum.encodings.base import demand
from pilum.errors import CorruptFileError
from pilum.format.pb import reuse_pb2, table_pb2
from pilum.format.row_address import Addresses, addresses_of_rows, fragment_ids_of
from pilum.table.model.reuse_index import load_moves
from pilum.table.read.snapshot import Snapshot

__all__ = ["moved_addresses"]


def moved_addresses(
    snapshot: Snapshot, addresses: Addresses
) -> tuple[Addresses, NDArray[np.bool_]] | None:
    """Return the current addresses of rows.

    Args:
        snapshot: The version.
        addresses: uint64, shape (n,): old addresses of the rows.

    Returns:
        Their addresses, and which of them are gone; None if no moves were recorded.

    Raises:
        CorruptFileError: If the record is damaged.
    """
    section = table_pb2.IndexSection.FromString(snapshot.manifest.index_section)
    versions = load_moves(snapshot.store, section)
    if versions is None:
        return None
    found = addresses.copy()
    gone = np.zeros(len(found), np.bool_)
    for version in versions:
        before = found.copy()
        for group in version.groups:
            _follow(group, before, found, gone)
    return found, gone


def _follow(
    group: reuse_pb2.FragmentReuseIndexDetails.Group,
    before: Addresses,
    found: Addresses,
    gone: NDArray[np.bool_],
) -> None:
    """Map the addresses that are in one group of fragments to their new ones."""
    old = np.array([fragment.id for fragment in group.old_fragments], np.int64)
    here = np.flatnonzero(np.isin(fragment_ids_of(before), old) & ~gone)
    if not len(here):
        return
    alive = _alive(group.changed_row_addrs)
    ranks = np.searchsorted(alive, before[here])
    kept = ranks < len(alive)
    kept[kept] = alive[ranks[kept]] == before[here][kept]
    gone[here[~kept]] = True
    bounds = np.cumsum([0, *(fragment.physical_rows for fragment in group.new_fragments)])
    demand(int(bounds[-1]) >= len(alive), "moved rows: the new fragments have fewer rows")
    numbers = np.array([fragment.id for fragment in group.new_fragments], np.int64)
    part = np.searchsorted(bounds, ranks[kept], side="right") - 1
    found[here[kept]] = addresses_of_rows(numbers[part], ranks[kept] - bounds[part])


def _alive(data: bytes) -> Addresses:
    """Return the addresses in a 64-bit Roaring bitmap, ascending."""
    try:
        return np.array(BitMap64.deserialize(data).to_array(), np.uint64)
    except ValueError as error:
        raise CorruptFileError(f"moved rows: {error}") from error
