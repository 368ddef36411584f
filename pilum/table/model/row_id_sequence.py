"""The row ids of a fragment: one per physical row, deleted ones included.

    segments    0..3 | 9 3 5
    offsets     0 1 2  3 4 5       ids  0 1 2 9 3 5

Segments follow each other in row order. Ranges are kept as ranges, so that the sequence of an
appended fragment needs almost no memory. Source: docs/format/table.md, "Row ids".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.format.pb import row_ids_pb2
from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.model.row_id_segments import (
    MAX_ROWS,
    Ids,
    Piece,
    pack_segment,
    parse_segment,
    segment_length,
)

__all__ = ["RowIdSequence"]

_SEGMENT_IDS = 4096
_FREE_IDS = 1 << 22
_IDS_PER_BYTE = 64
"""Limit of listed ids: a small constant, plus this number per byte of the message."""

_NO_IDS: Ids = np.empty(0, dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class RowIdSequence:
    """A sequence of row ids in row order.

    Attributes:
        pieces: Non-empty pieces: ranges of step 1, and arrays of uint64.
    """

    pieces: tuple[Piece, ...] = ()

    @classmethod
    def of(cls, ids: Piece) -> RowIdSequence:
        """Build a sequence of one piece: a range, or uint64 of shape (n,)."""
        return cls((ids,) if len(ids) else ())

    @classmethod
    def concatenate(cls, sequences: Iterable[RowIdSequence]) -> RowIdSequence:
        """Concatenate sequences; adjacent ranges are merged."""
        return cls(tuple(_joined(piece for one in sequences for piece in one.pieces)))

    @classmethod
    def from_bytes(cls, data: bytes, max_rows: int) -> RowIdSequence:
        """Parse a `RowIdSequence` message.

        Args:
            data: The serialized message.
            max_rows: Maximum number of rows of the fragment.

        Raises:
            CorruptFileError: If it does not parse, contradicts itself, or has more ids than that.
        """
        try:
            message = row_ids_pb2.RowIdSequence.FromString(data)
        except DecodeError as error:
            raise CorruptFileError(f"row ids: {error}") from error
        pieces: list[Piece] = []
        left, most_listed = min(max_rows, MAX_ROWS), _FREE_IDS + _IDS_PER_BYTE * len(data)
        for segment in message.segments:
            left -= segment_length(segment)
            if left < 0:
                raise CorruptFileError(f"row ids: more than the {max_rows} of the rows")
            found = parse_segment(segment, most_listed)
            most_listed -= sum(len(ids) for ids in found if not isinstance(ids, range))
            pieces.extend(found)
        return cls(tuple(piece for piece in pieces if len(piece)))

    def to_bytes(self) -> bytes:
        """Return the message; long pieces become several segments, each in its smallest form."""
        parts = (part for piece in self.pieces for part in _parts(piece))
        message = row_ids_pb2.RowIdSequence(segments=map(pack_segment, parts))
        data: bytes = message.SerializeToString()
        return data

    def __len__(self) -> int:
        return int(self._bounds[-1])

    @cached_property
    def _bounds(self) -> NDArray[np.int64]:
        """Return the offset of the first id of each piece, followed by the total number of ids."""
        return np.cumsum([0, *map(len, self.pieces)], dtype=np.int64)

    @property
    def size_bytes(self) -> int:
        """The approximate memory size of the sequence."""
        arrays = (8 * len(piece) for piece in self.pieces if isinstance(piece, np.ndarray))
        return sum(arrays) + 64 * len(self.pieces)

    @property
    def highest(self) -> int:
        """The highest id, -1 if there is none."""
        return max((_highest(piece) for piece in self.pieces), default=-1)

    def ids(self) -> Ids:
        """Return all ids, uint64, shape (number of rows,)."""
        listed = [_listed(piece) for piece in self.pieces]
        return listed[0] if len(listed) == 1 else np.concatenate([_NO_IDS, *listed])

    def at(self, offsets: NDArray[np.int64]) -> Ids:
        """Return the ids at offsets, all of which must exist."""
        if len(self.pieces) == 1:
            return _picked(self.pieces[0], offsets)
        numbers = self._bounds.searchsorted(offsets, side="right") - 1
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        found = np.empty(len(offsets), dtype=np.uint64)
        for places in np.split(order, cuts) if len(order) else ():
            number = numbers[places[0]]
            found[places] = _picked(self.pieces[number], offsets[places] - self._bounds[number])
        return found

    def joined(self) -> RowIdSequence:
        """Return the same ids, with adjacent arrays joined."""
        groups = groupby(self.pieces, key=lambda piece: isinstance(piece, range))
        pieces: list[Piece] = []
        for is_range, group in groups:
            pieces.extend(group if is_range else [np.concatenate(list(group))])
        return RowIdSequence(tuple(pieces))

    def find(self, ids: Ids) -> NDArray[np.int64]:
        """Return the offset of each given id; -1 for ids that are not in the sequence."""
        found = np.full(len(ids), -1, dtype=np.int64)
        for piece, first in zip(self.pieces, self._bounds.tolist(), strict=False):
            places, offsets = _found(piece, ids)
            found[places] = offsets + first
        return found

    def slice(self, start: int, stop: int) -> RowIdSequence:
        """Return the ids at the offsets from `start` up to, but excluding, `stop`."""
        bounds = self._bounds.tolist()
        cut = (
            piece[max(start - first, 0) : max(stop - first, 0)]
            for piece, first in zip(self.pieces, bounds[:-1], strict=True)
        )
        return RowIdSequence(tuple(piece for piece in cut if len(piece)))

    def without(self, deleted: DeletionVector | None) -> RowIdSequence:
        """Return the ids of the rows that are not deleted."""
        if deleted is None or not len(deleted):
            return self
        return RowIdSequence(tuple(_joined(self._without(deleted.offsets.astype(np.int64)))))

    def _without(self, deleted: NDArray[np.int64]) -> Iterator[Piece]:
        bounds = self._bounds
        cuts = deleted.searchsorted(bounds).tolist()
        for number, piece in enumerate(self.pieces):
            here = deleted[cuts[number] : cuts[number + 1]] - bounds[number]
            yield from _cut(piece, here)


def _cut(piece: Piece, offsets: NDArray[np.int64]) -> Iterator[Piece]:
    """Remove ids from a piece; a range becomes ranges if they are few, otherwise an array."""
    if not len(offsets):
        yield piece
        return
    first, last = int(offsets[0]), int(offsets[-1])
    yield piece[:first]
    if last - first + 1 > len(offsets):
        yield np.delete(_listed(piece[first:last]), offsets[:-1] - first)
    yield piece[last + 1 :]


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Return the non-empty pieces, with adjacent ranges merged."""
    held: Piece = range(0)
    for piece in pieces:
        if isinstance(held, range) and isinstance(piece, range) and held.stop == piece.start:
            held = range(held.start, piece.stop)
        elif len(piece):
            if len(held):
                yield held
            held = piece
    if len(held):
        yield held


def _parts(piece: Piece) -> Iterator[Piece]:
    """Split an array into parts of ids that are likely close together, and so need fewer bytes."""
    if isinstance(piece, range):
        yield piece
        return
    for start in range(0, len(piece), _SEGMENT_IDS):
        yield piece[start : start + _SEGMENT_IDS]


def _listed(piece: Piece) -> Ids:
    if isinstance(piece, range):
        return np.arange(len(piece), dtype=np.uint64) + np.uint64(piece.start)
    return piece


def _picked(piece: Piece, offsets: NDArray[np.int64]) -> Ids:
    if isinstance(piece, range):
        return offsets.astype(np.uint64) + np.uint64(piece.start)
    return piece[offsets]


def _found(piece: Piece, ids: Ids) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which of the ids are in a piece, as positions, and their offsets in it."""
    if isinstance(piece, range):
        places = np.flatnonzero((ids >= piece.start) & (ids < piece.stop))
        return places, (ids[places] - np.uint64(piece.start)).astype(np.int64)
    order = np.argsort(piece)
    nearest = order[np.minimum(piece.searchsorted(ids, sorter=order), len(piece) - 1)]
    places = np.flatnonzero(piece[nearest] == ids)
    return places, nearest[places]


def _highest(piece: Piece) -> int:
    return piece[-1] if isinstance(piece, range) else int(piece.max())
