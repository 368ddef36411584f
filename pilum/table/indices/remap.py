"""Remap of indices: segments are rewritten for rows that a compaction moves.

    type refers to    tables without stable row ids        tables with stable row ids
    addresses         rewritten                            rewritten
    row ids           rewritten: they are addresses        unchanged
    zones             left: they no longer cover the rows  left

The new segment is merged from the old one alone. Moves that earlier compactions recorded are
followed first. Source: docs/format/table.md, "Compaction".
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from pilum.format.pb import reuse_pb2
from pilum.format.rows import Addresses
from pilum.index.base import Moves, References
from pilum.table.indices.build import NewIndex, discard_segments, write_merged
from pilum.table.indices.moved_rows import MovedRows
from pilum.table.indices.open_segments import UNREADABLE, open_segment
from pilum.table.indices.segments import Segment, column_of, segments
from pilum.table.model.index_segments import IndexSegment, RewrittenIndex
from pilum.table.model.reuse_index import Move, move_group
from pilum.table.read.snapshot import Snapshot

__all__ = ["Remap", "remap_indices"]


@dataclass(frozen=True, slots=True)
class Remap:
    """The segments of the indices on rows that move.

    Attributes:
        rewritten: Segments with new files.
        left: Uuids of segments that no longer cover the rows.
    """

    rewritten: tuple[RewrittenIndex, ...] = ()
    left: tuple[str, ...] = ()

    def discard(self, snapshot: Snapshot) -> None:
        """Delete the new files after a commit that failed."""
        discard_segments(snapshot, [IndexSegment(one.new) for one in self.rewritten])


def remap_indices(snapshot: Snapshot, moves: Sequence[Move]) -> Remap:
    """Rewrite the segments that a compaction makes invalid.

    Segments that this library cannot read are neither rewritten nor left. Damaged ones are not
    either, and a warning names them.

    Args:
        snapshot: The version before the moves.
        moves: The moves, with the ids of the new fragments.
    """
    moves = [move for move in moves if move.new]
    old: BitMap = BitMap([fragment.id for move in moves for fragment in move.old])
    touched = [one for one in segments(snapshot) if not old.isdisjoint(one.fragments)]
    left = [one.entry.uuid for one in touched if one.references is References.ZONES]
    rewritten: list[RewrittenIndex] = []
    if any(map(_needs_files, touched)):
        groups = [move_group(snapshot.store, move) for move in moves]
        version = reuse_pb2.FragmentReuseIndexDetails.Version(groups=groups)
        moved = MovedRows([version])
        try:
            for segment in filter(_needs_files, touched):
                rewritten.extend(_rewritten(snapshot, segment, moved))
        except BaseException:
            Remap(tuple(rewritten)).discard(snapshot)
            raise
    return Remap(tuple(rewritten), tuple(left))


def _needs_files(segment: Segment) -> bool:
    return segment.references is References.ADDRESSES


def _rewritten(snapshot: Snapshot, segment: Segment, moved: MovedRows) -> list[RewrittenIndex]:
    """Rewrite one segment; return nothing if it cannot be read."""
    try:
        path = column_of(snapshot, segment)
        new = NewIndex(segment.name, path, segment.type, segment.entry.dataset_version)
        part = open_segment(snapshot, segment).part(References.ADDRESSES)
        assert part.moves is not None
        part = replace(part, moves=_both(part.moves, moved))
        covered = moved.covered(segment.fragments)
        entry = write_merged(snapshot, new, [part], None, covered)
    except UNREADABLE as error:
        warnings.warn(
            f"index {segment.name!r}, segment {segment.entry.uuid}, is not rewritten for rows that "
            f"a compaction moves, as it cannot be read: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return []
    return [RewrittenIndex(segment.entry.uuid, entry.message)]


def _both(first: Moves, second: Moves) -> Moves:
    """Return the composition of moves."""

    def follow(old: Addresses) -> tuple[Addresses, NDArray[np.bool_]]:
        between, was_there = first(old)
        found, is_there = second(between)
        return found, was_there & is_there

    return follow
