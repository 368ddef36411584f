"""Coalesce many ranges into few reads: which parts of a file to read, and their places in a buffer.

Ranges are sorted, and adjacent ones are joined if reading their gap costs less than another read.
Every joined region has the same offset modulo 64 as in the file, so that data which the format
aligns is also aligned in memory.

    wanted     |aa|   |bb| ....... 1 MB ....... |cc|
    regions    |aa----bb|                       |cc|        two reads into one buffer
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["ALIGNMENT_BYTES", "GAP_BYTES", "Layout", "lay_out"]

ALIGNMENT_BYTES = 64

GAP_BYTES = 16 * 1024
"""Copying this many more bytes out of the page cache takes about as long as one more `pread`; other
stores have a gap of their own.
"""

_FEW_RANGES = 32

_Number = TypeVar("_Number", int, NDArray[np.int64])


class Layout(NamedTuple):
    """Disjoint parts of a file that cover some ranges, and their places in one buffer.

    Attributes:
        regions: Offset in the file, size, and place in the buffer of each part.
        starts: int64, shape (ranges,), where each range begins in the buffer.
        size_bytes: Size of the buffer.
    """

    regions: Iterable[tuple[int, int, int]]
    starts: NDArray[np.int64]
    size_bytes: int


def lay_out(
    offsets: NDArray[np.int64],
    sizes: NDArray[np.int64],
    file_size: int,
    gap_bytes: int = GAP_BYTES,
) -> Layout | int:
    """Plan the reads of some ranges; those no further apart than `gap_bytes` are read together.

    Returns:
        The layout, or the index of the first range that does not lie within the file.
    """
    if len(offsets) <= _FEW_RANGES:
        ranges = list(zip(offsets.tolist(), sizes.tolist(), strict=True))
        for index, (offset, size) in enumerate(ranges):
            if offset < 0 or size < 0 or offset + size > file_size:
                return index
        return _lay_out_few(ranges, gap_bytes)
    wrong = (offsets < 0) | (sizes < 0) | (sizes > file_size - offsets)
    return int(wrong.argmax()) if wrong.any() else _lay_out_many(offsets, sizes, gap_bytes)


def _lay_out_few(ranges: list[tuple[int, int]], gap_bytes: int) -> Layout:
    """Return the layout of a few ranges, for which the cost of NumPy's calls would dominate."""
    starts = [0] * len(ranges)
    regions: list[tuple[int, int, int]] = []
    opened = reached = place = 0
    for index in sorted(range(len(ranges)), key=ranges.__getitem__):
        offset, size = ranges[index]
        if not regions or offset > reached + gap_bytes:
            place = _aligned(place + reached - opened) + offset % ALIGNMENT_BYTES
            opened, reached = offset, offset
            regions.append((opened, 0, place))
        reached = max(reached, offset + size)
        regions[-1] = (opened, reached - opened, place)
        starts[index] = place + offset - opened
    return Layout(regions, np.array(starts, dtype=np.int64), place + reached - opened)


def _lay_out_many(offsets: NDArray[np.int64], sizes: NDArray[np.int64], gap_bytes: int) -> Layout:
    """Return the same layout without a Python step for each range."""
    order = offsets.argsort()
    begins = offsets[order]
    reached = np.maximum.accumulate((offsets + sizes)[order])
    opens = np.ones(len(order), dtype=bool)
    np.greater(begins[1:], reached[:-1] + gap_bytes, out=opens[1:])
    opened = begins[opens]
    lengths = reached[np.append(opens[1:], True)] - opened
    before = opened % ALIGNMENT_BYTES
    room = _aligned(before + lengths)
    places = room.cumsum() - room + before
    starts = np.empty_like(offsets)
    starts[order] = begins + (places - opened)[opens.cumsum() - 1]
    regions = zip(opened.tolist(), lengths.tolist(), places.tolist(), strict=True)
    return Layout(regions, starts, int(places[-1] + lengths[-1]))


def _aligned(size: _Number) -> _Number:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
