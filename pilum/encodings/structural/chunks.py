"""Where the chunks of a mini-block page are, and which of them hold some rows.

Chunk words (buffer 0; u16, or u32 with large chunks), one per chunk:

    bits 4..    bytes of the chunk / 8 - 1      bits 0..3    log2 of its number of values

The last chunk holds what is left of the page's values; its logarithm is not read. With lists, the
repetition index (last buffer) has two u64 per chunk: rows that end in it, and entries of the row
that goes on. From them, for each chunk:

    trailer     its last row goes on in the next chunk
    preamble    it begins in the middle of a row (the chunk before has a trailer)
    rows        that start in it = ends + trailer - preamble

Source: docs/format/encodings-2.1.md, "Mini-block".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilum.encodings.base import demand
from pilum.format.rows import RowRanges

__all__ = ["ChunkTable"]


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """All chunks of a page.

    Attributes:
        starts: int64, position of each chunk in buffer 1.
        sizes: int64, bytes.
        num_values: int64.
        first_rows: int64, the first row that starts in each chunk (or would).
        num_rows: int64, rows that start in each chunk.
        last_chunks: int64, the chunk in which the last row of each chunk ends.
    """

    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    num_values: NDArray[np.int64]
    first_rows: NDArray[np.int64]
    num_rows: NDArray[np.int64]
    last_chunks: NDArray[np.int64]

    @classmethod
    def parse(
        cls,
        words: NDArray[np.uint8],
        index: NDArray[np.uint8] | None,
        *,
        large: bool,
        num_items: int,
        num_rows: int,
        body_bytes: int,
    ) -> ChunkTable:
        """Reads the chunk words and the repetition index of a page.

        Raises:
            CorruptFileError: If they contradict each other, the page or the size of its chunks.
        """
        word_bytes = 4 if large else 2
        demand(
            len(words) > 0 and len(words) % word_bytes == 0,
            f"chunk words, bytes: expected a multiple of {word_bytes}, found {len(words)}",
        )
        table = words.view(np.uint32 if large else np.uint16).astype(np.int64)
        sizes = ((table >> 4) + 1) * 8
        demand(
            int(sizes.sum()) <= body_bytes,
            f"chunks, bytes: expected at most {body_bytes}, found {int(sizes.sum())}",
        )
        num_values = np.int64(1) << (table & 15)
        num_values[-1] = num_items - int(num_values[:-1].sum())
        demand(0 < num_values[-1], f"values of the chunks: more than the {num_items} of the page")
        starts = _before(sizes)
        numbers = np.arange(len(sizes), dtype=np.int64)
        if index is None:
            demand(num_items == num_rows, f"values: expected {num_rows}, found {num_items}")
            return cls(starts, sizes, num_values, _before(num_values), num_values, numbers)
        rows, last_chunks = _rows_of(index, len(sizes), num_rows)
        return cls(starts, sizes, num_values, _before(rows), rows, last_chunks)

    def covering(self, rows: RowRanges) -> NDArray[np.int64]:
        """Numbers of the chunks that hold the rows, ascending."""
        ends = self.first_rows + self.num_rows
        first = np.searchsorted(ends, rows.starts, side="right")
        last_row = rows.stops - 1
        last = np.searchsorted(ends, last_row, side="right")
        goes_on = last_row == ends[last] - 1
        last = np.where(goes_on, self.last_chunks[last], last)
        if len(first) == 1:
            return np.arange(first[0], last[0] + 1, dtype=np.int64)
        steps = np.zeros(len(self.sizes) + 1, dtype=np.int64)
        np.add.at(steps, first, 1)
        np.add.at(steps, last + 1, -1)
        return np.flatnonzero(np.cumsum(steps))


def _rows_of(
    index: NDArray[np.uint8], num_chunks: int, num_rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    demand(
        len(index) == 16 * num_chunks,
        f"repetition index, bytes: expected {16 * num_chunks}, found {len(index)}",
    )
    pairs = index.view(np.uint64).reshape(-1, 2)
    trailer = pairs[:, 1] > 0
    preamble = np.concatenate(([False], trailer[:-1]))
    demand(bool((pairs[:, 0] <= num_rows).all()), "repetition index: more rows than the page has")
    rows = pairs[:, 0].astype(np.int64) + trailer - preamble
    total = int(rows.sum())
    consistent = total == num_rows and not trailer[-1] and bool((rows >= 0).all())
    demand(consistent, f"rows of the repetition index: expected {num_rows}, found {total}")
    stops = np.flatnonzero((rows > 0) | ~trailer)
    numbers = np.arange(num_chunks, dtype=np.int64)
    following = stops[np.minimum(np.searchsorted(stops, numbers + 1), len(stops) - 1)]
    return rows, np.where(trailer, following, numbers)


def _before(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Exclusive prefix sums."""
    sums = np.cumsum(counts)
    return np.concatenate((np.zeros(1, dtype=np.int64), sums[:-1]))
