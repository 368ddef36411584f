"""The row ids of a fragment: one per physical row, deleted ones included.

    segments    0..3 | 9 3 5
    offsets     0 1 2  3 4 5       ids  0 1 2 9 3 5

Segments follow each other in row order. A segment has one of five forms:

    range              5 6 7 8 9            start 5, end 10
    range with holes   0 1 3 4 … 999        start 0, end 1000, holes 2
    range with bitmap  0 1 12               start 0, end 13, bitmap 03 10, low bits first
    sorted array       7 900 70000          base 7, offsets 0 893 69993 in 4 bytes each
    array              9 3 5                any order

Ranges remain ranges in memory, whatever their length, so that the sequence of an appended fragment
needs almost no memory. Other segments become arrays; their ids are counted before they are listed,
because a few bytes can claim very many. Source: docs/format/table.md, "Row ids".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.format.messages import parse_message
from pilum.format.pb import row_ids_pb2
from pilum.format.rows import MAX_ROWS
from pilum.lazy import cached_property
from pilum.table.model.deletion_vector import DeletionVector

__all__ = ["Ids", "Piece", "RowIdSequence", "segment_length"]

Ids = NDArray[np.uint64]
Piece = range | Ids
"""Row ids in row order: a range of step 1, or uint64 of shape (n,)."""

_SEGMENT_BYTES = 24
_WIDTHS = {"u16_array": "<u2", "u32_array": "<u4", "u64_array": "<u8"}
_MAX_UINT64 = 2**64 - 1
_MAX_UINT32 = 2**32 - 1
_MAX_UINT16 = 2**16 - 1

_SEGMENT_IDS = 4096
_FREE_IDS = 1 << 22
_IDS_PER_BYTE = 64
"""Limit of listed ids: a small constant, plus this number per byte of the message."""

_NO_IDS: Ids = np.empty(0, dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class RowIdSequence:
    """A sequence of row ids in row order.

    Its pieces are not empty: ranges of step 1, and arrays of uint64.
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
        """Parse a `RowIdSequence` message of a fragment with at most this many rows."""
        message = parse_message(row_ids_pb2.RowIdSequence, data, what="row ids")
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


def segment_length(message: row_ids_pb2.U64Segment) -> int:
    """Return the number of ids in a segment, without listing them."""
    match message.WhichOneof("segment"):
        case "range":
            return _length(_span(message.range))
        case "range_with_holes":
            holes = message.range_with_holes
            length = _length(_span(holes)) - _array_length(holes.holes)
            if length < 0:
                raise CorruptFileError("row ids: more holes than ids")
            return length
        case "range_with_bitmap":
            return int(_bits(message.range_with_bitmap).sum())
        case "sorted_array":
            return _array_length(message.sorted_array)
        case "array":
            return _array_length(message.array)
    raise CorruptFileError("row ids: a segment of an unknown kind")


def parse_segment(message: row_ids_pb2.U64Segment, most_listed: int) -> list[Piece]:
    """Return the ids of a segment, whose length has been checked.

    Up to `most_listed` ids, a range with holes becomes an array, which is faster to process. Longer
    ones become the ranges between the holes, which need no more memory than the message.
    """
    match message.WhichOneof("segment"):
        case "range":
            return [_span(message.range)]
        case "range_with_holes":
            return _without_holes(message.range_with_holes, most_listed)
        case "range_with_bitmap":
            bitmap = message.range_with_bitmap
            return [np.flatnonzero(_bits(bitmap)).astype(np.uint64) + np.uint64(bitmap.start)]
        case "sorted_array":
            ids = _parse_array(message.sorted_array)
            if (ids[1:] <= ids[:-1]).any():
                raise CorruptFileError("row ids: a sorted array that is not sorted")
            return [ids]
        case "array":
            return [_parse_array(message.array)]
    raise CorruptFileError("row ids: a segment of an unknown kind")


def pack_segment(ids: Piece) -> row_ids_pb2.U64Segment:
    """Return the smallest segment that contains these ids, of which there is at least one."""
    if isinstance(ids, range):
        return _pack_range(ids.start, ids.stop)
    first, last = int(ids.min()), int(ids.max())
    if (ids[1:] <= ids[:-1]).any() or last == _MAX_UINT64:  # no range can end after it
        return row_ids_pb2.U64Segment(array=_pack_array(ids, first, last))
    slots = last - first + 1
    holes = slots - len(ids)
    if holes == 0:
        return _pack_range(first, last + 1)
    # Chosen as if holes took 4 bytes each and ids 2, like the reference, so that files look alike.
    costs = {
        "holes": _SEGMENT_BYTES + 4 * holes,
        "bitmap": _SEGMENT_BYTES + -(-slots // 8),
        "sorted": _SEGMENT_BYTES + 2 * len(ids),
    }
    best = min(costs, key=lambda kind: costs[kind])
    if best == "sorted":
        return row_ids_pb2.U64Segment(sorted_array=_pack_array(ids, first, last))
    present = np.zeros(slots, dtype=np.bool_)
    present[(ids - np.uint64(first)).astype(np.int64)] = True
    if best == "bitmap":
        bits = np.packbits(present, bitorder="little").tobytes()
        bitmap = row_ids_pb2.U64Segment.RangeWithBitmap(start=first, end=last + 1, bitmap=bits)
        return row_ids_pb2.U64Segment(range_with_bitmap=bitmap)
    missing = np.flatnonzero(~present).astype(np.uint64) + np.uint64(first)
    array = _pack_array(missing, int(missing[0]), int(missing[-1]))
    with_holes = row_ids_pb2.U64Segment.RangeWithHoles(start=first, end=last + 1, holes=array)
    return row_ids_pb2.U64Segment(range_with_holes=with_holes)


def _span(
    message: row_ids_pb2.U64Segment.Range
    | row_ids_pb2.U64Segment.RangeWithHoles
    | row_ids_pb2.U64Segment.RangeWithBitmap,
) -> range:
    if message.end < message.start:
        raise CorruptFileError(f"row ids: a range from {message.start} to {message.end}")
    return range(message.start, message.end)


def _length(span: range) -> int:
    return span.stop - span.start  # `len` fails from 2**63 on


def _pack_range(start: int, stop: int) -> row_ids_pb2.U64Segment:
    return row_ids_pb2.U64Segment(range=row_ids_pb2.U64Segment.Range(start=start, end=stop))


def _bits(message: row_ids_pb2.U64Segment.RangeWithBitmap) -> NDArray[np.uint8]:
    """Unpack the bitmap: for each id of the span, 1 if it is present."""
    span = _span(message)
    if len(message.bitmap) != -(-_length(span) // 8):
        raise CorruptFileError(
            f"row ids: a bitmap of {len(message.bitmap)} bytes for {span.start} to {span.stop}"
        )
    bits = np.unpackbits(np.frombuffer(message.bitmap, dtype=np.uint8), bitorder="little")
    if bits[len(span) :].any():
        raise CorruptFileError("row ids: a bitmap with ids beyond its range")
    return bits[: len(span)]


def _without_holes(message: row_ids_pb2.U64Segment.RangeWithHoles, most_listed: int) -> list[Piece]:
    span = _span(message)
    holes = _parse_array(message.holes)
    if not len(holes):
        return [span]
    is_sorted = bool((holes[1:] > holes[:-1]).all())
    if not is_sorted or holes[0] < span.start or holes[-1] >= span.stop:
        raise CorruptFileError("row ids: holes out of order, or outside of their range")
    if _length(span) > most_listed:
        starts = [span.start, *(holes + np.uint64(1)).tolist()]
        stops = [*holes.tolist(), span.stop]
        return [range(start, stop) for start, stop in zip(starts, stops, strict=True)]
    present = np.ones(len(span), dtype=np.bool_)
    present[(holes - np.uint64(span.start)).astype(np.int64)] = False
    return [np.flatnonzero(present).astype(np.uint64) + np.uint64(span.start)]


def _array_length(message: row_ids_pb2.EncodedU64Array) -> int:
    kind = message.WhichOneof("array")
    if kind is None:
        raise CorruptFileError("row ids: an array of an unknown kind")
    size_bytes = len(_array_bytes(message, kind))
    width_bytes = np.dtype(_WIDTHS[kind]).itemsize
    if size_bytes % width_bytes:
        raise CorruptFileError(f"row ids: {size_bytes} bytes of {width_bytes} each")
    return size_bytes // width_bytes


def _array_bytes(message: row_ids_pb2.EncodedU64Array, kind: str) -> bytes:
    if kind == "u64_array":
        return message.u64_array.values
    return message.u16_array.offsets if kind == "u16_array" else message.u32_array.offsets


def _parse_array(message: row_ids_pb2.EncodedU64Array) -> Ids:
    length = _array_length(message)
    kind = message.WhichOneof("array")
    assert kind is not None
    values = np.frombuffer(_array_bytes(message, kind), dtype=_WIDTHS[kind]).astype(np.uint64)
    if kind == "u64_array" or not length:
        return values
    base = message.u16_array.base if kind == "u16_array" else message.u32_array.base
    if base + int(values.max()) > _MAX_UINT64:
        raise CorruptFileError("row ids: an id of more than 64 bits")
    return values + np.uint64(base)


def _pack_array(ids: Ids, first: int, last: int) -> row_ids_pb2.EncodedU64Array:
    if last - first > _MAX_UINT32:
        values = row_ids_pb2.EncodedU64Array.U64Array(values=ids.astype("<u8").tobytes())
        return row_ids_pb2.EncodedU64Array(u64_array=values)
    offsets = ids - np.uint64(first)
    if last - first > _MAX_UINT16:
        wide = row_ids_pb2.EncodedU64Array.U32Array(
            base=first, offsets=offsets.astype("<u4").tobytes()
        )
        return row_ids_pb2.EncodedU64Array(u32_array=wide)
    narrow = row_ids_pb2.EncodedU64Array.U16Array(
        base=first, offsets=offsets.astype("<u2").tobytes()
    )
    return row_ids_pb2.EncodedU64Array(u16_array=narrow)
