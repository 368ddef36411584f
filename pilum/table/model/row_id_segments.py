"""The segments of a sequence of row ids: conversion between `U64Segment` and values.

    range              5 6 7 8 9            start 5, end 10
    range with holes   0 1 3 4 … 999        start 0, end 1000, holes 2
    range with bitmap  0 1 12               start 0, end 13, bitmap 03 10, low bits first
    sorted array       7 900 70000          base 7, offsets 0 893 69993 in 4 bytes each
    array              9 3 5                any order

Ranges remain ranges in memory, whatever their length. Other segments become arrays; their ids are
counted before they are listed, because a few bytes can claim very many. Source:
docs/format/table.md, "Row ids".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.format.pb import row_ids_pb2

__all__ = ["MAX_ROWS", "Ids", "Piece", "pack_segment", "parse_segment", "segment_length"]

MAX_ROWS = 2**32
"""Maximum number of rows of a fragment, given by the 32 bits that an address has for the row."""

Ids = NDArray[np.uint64]
Piece = range | Ids
"""Row ids in row order: a range of step 1, or uint64 of shape (n,)."""

_SEGMENT_BYTES = 24
_WIDTHS = {"u16_array": "<u2", "u32_array": "<u4", "u64_array": "<u8"}
_MAX_UINT64 = 2**64 - 1
_MAX_UINT32 = 2**32 - 1
_MAX_UINT16 = 2**16 - 1


def segment_length(message: row_ids_pb2.U64Segment) -> int:
    """Return the number of ids in a segment, without listing them.

    Raises:
        CorruptFileError: If the segment contradicts itself.
    """
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
    """Return the ids of a segment.

    Args:
        message: The segment; its length has been checked.
        most_listed: Up to this number of ids, a range with holes becomes an array, which is faster
            to process. Longer ones become the ranges between the holes, which need no more memory
            than the message.

    Raises:
        CorruptFileError: If the segment contradicts itself.
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
