"""The chunk table of a mini-block page: positions of the chunks, and the rows that they hold.

Chunk words (buffer 0; u16, or u32 with large chunks), one per chunk:

    bits 4..    bytes of the chunk / 8 - 1      bits 0..3    log2 of its number of values

The last chunk has the remaining values of the page; its logarithm is not read. With lists, the
repetition index (last buffer) has two u64 per chunk: rows that end in it, and entries of the row
that continues. From them, for each chunk:

    trailer     its last row continues in the next chunk
    preamble    it begins in the middle of a row (the chunk before has a trailer)
    rows        that start in it = ends + trailer - preamble

Source: docs/format/encodings-2.1.md, "Mini-block".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum.encodings.base import demand
from pilum.format.rows import RowRanges

__all__ = ["ChunkTable"]

_DENSE = 2
"""Up to this many chunks per range of rows count as dense."""

_FEW = 8
_MAX_VALUES = 32_768


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """All chunks of a page.

    Attributes:
        table: int64, shape (chunks, 5), contiguous: position in buffer 1, bytes, values, the first
            row that starts in the chunk (or would), and how many rows start in it.
        row_ends: int64, the row after the last one that starts in each chunk.
        last_chunks: int64, the chunk in which the last row of each chunk ends; None without lists.
    """

    table: NDArray[np.int64]
    row_ends: NDArray[np.int64]
    last_chunks: NDArray[np.int64] | None

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
        """Read the chunk words and the repetition index of a page.

        Raises:
            CorruptFileError: If they contradict each other, the page or the size of its chunks.
        """
        word_bytes = 4 if large else 2
        demand(
            len(words) > 0 and len(words) % word_bytes == 0,
            f"chunk words, bytes: expected a multiple of {word_bytes}, found {len(words)}",
        )
        stored = words.view(np.uint32 if large else np.uint16)
        if index is None and len(stored) <= _FEW:
            return cls._of_few(stored.tolist(), num_items, num_rows, body_bytes)
        numbers = stored.astype(np.int64)
        sizes = ((numbers >> 4) + 1) * 8
        behind = sizes.cumsum()
        values = np.int64(1) << (numbers & 15)
        values[-1] = 0
        rest = num_items - int(values.sum())
        _check_chunks(int(behind[-1]), body_bytes, rest)
        values[-1] = rest
        rows, last_chunks = values, None
        if index is not None:
            rows, last_chunks = _rows_of(index, len(sizes), num_rows)
        ends = rows.cumsum()
        demand(int(ends[-1]) == num_rows, f"rows: expected {num_rows}, found {int(ends[-1])}")
        table = np.empty((len(sizes), 5), dtype=np.int64)
        for column, entries in enumerate((behind - sizes, sizes, values, ends - rows, rows)):
            table[:, column] = entries
        return cls(table, ends, last_chunks)

    @classmethod
    def _of_few(
        cls, numbers: list[int], num_items: int, num_rows: int, body_bytes: int
    ) -> ChunkTable:
        """Build the table of few chunks without lists, where NumPy's call overhead dominates."""
        lines: list[tuple[int, int, int, int, int]] = []
        behind = first = 0
        for number in numbers:
            size = ((number >> 4) + 1) * 8
            values = 1 << (number & 15) if len(lines) + 1 < len(numbers) else num_items - first
            lines.append((behind, size, values, first, values))
            behind += size
            first += values
        _check_chunks(behind, body_bytes, values)
        demand(first == num_rows, f"rows: expected {num_rows}, found {first}")
        table = np.array(lines, dtype=np.int64)
        return cls(table, table[:, 3] + table[:, 4], None)

    @property
    def size_bytes(self) -> int:
        """Bytes of the table."""
        last = 0 if self.last_chunks is None else self.last_chunks.nbytes
        return self.table.nbytes + self.row_ends.nbytes + last

    def covering(self, rows: RowRanges) -> NDArray[np.int64] | slice:
        """Return the numbers of the chunks that contain the rows, ascending.

        Where the rows are dense, chunks in between that hold none are included: leaving them out
        would cost more than reading them.
        """
        if len(self.table) == 1:
            return slice(0, 1)
        first = int(self._first(rows.bounds[0, 0]))
        behind = int(self._last(rows.bounds[-1, 1] - 1)) + 1
        if _DENSE * len(rows.bounds) >= behind - first:
            return slice(first, behind)
        steps = np.zeros(len(self.table) + 1, dtype=np.int64)
        np.add.at(steps, self._first(rows.starts), 1)
        np.add.at(steps, self._last(rows.stops - 1) + 1, -1)
        return np.flatnonzero(np.cumsum(steps))

    def _first(self, rows: Any) -> Any:
        """Return the chunk in which each row starts."""
        return self.row_ends.searchsorted(rows, side="right")

    def _last(self, rows: Any) -> Any:
        """Return the chunk in which each row ends."""
        chunks = self._first(rows)
        if self.last_chunks is None:
            return chunks
        return np.where(rows == self.row_ends[chunks] - 1, self.last_chunks[chunks], chunks)


def _check_chunks(size: int, body_bytes: int, last_values: int) -> None:
    demand(size <= body_bytes, f"chunks, bytes: expected at most {body_bytes}, found {size}")
    demand(
        0 < last_values <= _MAX_VALUES,
        f"values of the last chunk: expected 1 to {_MAX_VALUES}, found {last_values}",
    )


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
    demand(not trailer[-1] and bool((rows >= 0).all()), "repetition index: rows without an end")
    stops = np.flatnonzero((rows > 0) | ~trailer)
    numbers = np.arange(num_chunks, dtype=np.int64)
    following = stops[np.minimum(np.searchsorted(stops, numbers + 1), len(stops) - 1)]
    return rows, np.where(trailer, following, numbers)
