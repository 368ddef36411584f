"""Index of stable row ids: maps an id to the address of its row, for one version.

    ids        0 1 2 3 4   9   12        runs    start    length    address
    addresses  0 1 2 3 4   7   (1, 0)            0        5         (0, 0)
                                                 9        1         (0, 7)
                                                 12       1         (1, 0)

A run is a sequence of consecutive ids in consecutive rows. A fragment that was appended is a single
run, so the index of most tables is tiny. Rows that moved individually take 20 bytes each. Deleted
rows are omitted: the id of a row that moved is in two fragments, and deleted in one of them.
Source: docs/format/table.md, "Row ids".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.format.rows import first_address
from pilum.parallel import submit
from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.model.row_id_sequence import Ids, Piece
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.snapshot import Snapshot

__all__ = ["RowIdIndex", "row_id_index"]


@dataclass(frozen=True, eq=False)
class RowIdIndex:
    """Runs of ids, in ascending order.

    Attributes:
        starts: uint64, shape (n,): first id of each run.
        lengths: uint32, shape (n,): number of ids in each run.
        addresses: uint64, shape (n,): address of the row with the first id of each run.
    """

    starts: NDArray[np.uint64]
    lengths: NDArray[np.uint32]
    addresses: NDArray[np.uint64]

    @property
    def size_bytes(self) -> int:
        """The memory size of the index."""
        return self.starts.nbytes + self.lengths.nbytes + self.addresses.nbytes

    def find(self, ids: Ids) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Find the addresses of the rows with the given ids, and whether each of them exists.

        The ids may be in any order and repeat. Where a row does not exist, its address has no
        meaning.
        """
        if not len(self.starts):
            return np.zeros(len(ids), dtype=np.uint64), np.zeros(len(ids), dtype=np.bool_)
        runs = self.starts.searchsorted(ids, side="right") - 1
        places = ids - self.starts[runs]  # wraps around for ids before the first run
        is_there = (runs >= 0) & (places < self.lengths[runs])
        return self.addresses[runs] + places, is_there


def row_id_index(snapshot: Snapshot) -> RowIdIndex:
    """Return the index of a version, which is cached in its session.

    The table is damaged if two rows have the same id.
    """
    manifest, cache = snapshot.manifest, snapshot.session.indices
    key = (RowIdIndex, snapshot.store.identity, manifest.version, manifest.transaction_file)
    index: RowIdIndex | None = cache.get(key)
    if index is None:
        made = _build(snapshot)
        index = cache.put_if_absent(key, made, made.size_bytes)
    return index


def _build(snapshot: Snapshot) -> RowIdIndex:
    readers = [snapshot.reader(fragment) for fragment in snapshot.manifest.fragments]
    _load_deletions(readers)
    starts, lengths, addresses = _runs(readers)
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")  # fast if long parts are already sorted
        starts, lengths, addresses = starts[order], lengths[order], addresses[order]
    is_twice = starts[1:] - starts[:-1] < lengths[:-1].astype(np.uint64)
    if is_twice.any():
        twice = int(starts[1:][is_twice.argmax()])
        raise CorruptFileError(
            f"two rows have the id {twice}",
            f"{snapshot.store.uri}, version {snapshot.manifest.version}",
        )
    return RowIdIndex(starts, lengths.astype(np.uint32), addresses)


def _load_deletions(readers: list[FragmentReader]) -> None:
    """Read deletion files concurrently: each of them is a request."""
    pending = [
        submit(partial(getattr, reader, "deletions"))
        for reader in readers
        if reader.fragment.deletion_file
    ]
    for future in pending:
        future.result()


_Runs = tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.uint64]]
"""First ids, lengths and first addresses of runs."""


def _runs(readers: list[FragmentReader]) -> _Runs:
    """Return the runs of all fragments, in any order."""
    whole: list[tuple[int, int, int]] = []  # in most tables all runs, so not arrays
    cut: list[_Runs] = []
    for reader in readers:
        deletions = reader.deletions
        base = address = first_address(reader.id)
        for piece in reader.row_ids.pieces:
            if deletions is None and isinstance(piece, range):
                whole.append((piece.start, len(piece), address))
            else:
                first = address - base
                starts, lengths, offsets = _runs_of_piece(piece, _deleted(deletions, first, piece))
                cut.append((starts, lengths, offsets.view(np.uint64) + np.uint64(address)))
            address += len(piece)
    numbers = np.array(whole, dtype=np.uint64).reshape(-1, 3)
    plain = numbers[:, 0], numbers[:, 1].astype(np.int64), numbers[:, 2]
    return (
        np.concatenate([plain[0], *(starts for starts, _, _ in cut)]),
        np.concatenate([plain[1], *(lengths for _, lengths, _ in cut)]),
        np.concatenate([plain[2], *(addresses for _, _, addresses in cut)]),
    )


def _deleted(deletions: DeletionVector | None, first: int, piece: Piece) -> NDArray[np.int64]:
    """Return the offsets of deleted rows in a piece, whose first row is `first`."""
    if deletions is None:
        return np.empty(0, dtype=np.int64)
    low, high = deletions.offsets.searchsorted([first, first + len(piece)])
    return deletions.offsets[low:high].astype(np.int64) - first


def _runs_of_piece(
    piece: Piece, deleted: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the first ids, lengths and first offsets of the runs of rows that are not deleted."""
    if isinstance(piece, range):
        offsets, lengths = _gaps(deleted, len(piece))
        return offsets.view(np.uint64) + np.uint64(piece.start), lengths, offsets
    offsets = np.arange(len(piece))
    ids = piece
    if len(deleted):
        offsets = np.delete(offsets, deleted)
        ids = piece[offsets]
    if not len(ids):
        return ids, offsets, offsets
    is_first = np.ones(len(ids) + 1, dtype=np.bool_)
    np.not_equal(ids[1:] - ids[:-1], 1, out=is_first[1:-1])
    if len(deleted):
        is_first[1:-1] |= offsets[1:] - offsets[:-1] != 1
    bounds = np.flatnonzero(is_first)
    firsts = bounds[:-1]
    return ids[firsts], bounds[1:] - firsts, offsets[firsts]


def _gaps(deleted: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first offsets and lengths of the ranges below `size` that some offsets leave."""
    offsets = np.zeros(len(deleted) + 1, dtype=np.int64)
    np.add(deleted, 1, out=offsets[1:])
    lengths = np.empty_like(offsets)
    np.subtract(deleted, offsets[:-1], out=lengths[:-1])
    lengths[-1] = size - offsets[-1]
    is_empty = lengths == 0
    return (offsets[~is_empty], lengths[~is_empty]) if is_empty.any() else (offsets, lengths)
