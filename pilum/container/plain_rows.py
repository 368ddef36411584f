"""Rows of values of fixed width that pages store as they are: their bytes, without decoding.

    row ──▶ its page ──▶ offset of the page + (row - first row of the page) x width

Only full-zip pages without levels are stored like this; a column may also have others.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pilum.container.reader import Column
from pilum.encodings.base import Compressive
from pilum.encodings.structural.full_zip import FullZipLayout
from pilum.storage.base import Fetched, Ranges, Source

__all__ = ["PlainRows"]

_UNKNOWN, _ENCODED = -1, -2


class PlainRows:
    """The places of the rows of a column.

    Attributes:
        encoding: How they are stored; None if no page is known yet.

    Args:
        column: The column.
        source: Its file.
        width_bytes: Bytes of a value.
    """

    def __init__(self, column: Column, source: Source, width_bytes: int) -> None:
        self._column = column
        self._source = source
        self._width = width_bytes
        self._offsets = np.full(column.num_pages, _UNKNOWN, np.int64)
        self.encoding: Compressive | None = None

    def offsets(self, rows: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return where rows begin in the file; None if some of their pages are encoded.

        Args:
            rows: Rows of the column, in any order; at least one.

        Raises:
            CorruptFileError: If the file is damaged.
        """
        if len(rows) == 1:
            return self._offset_of(int(rows[0]))
        bounds = self._column.row_bounds
        pages = bounds.searchsorted(rows, side="right") - 1
        offsets = self._offsets[pages]
        if offsets.min() < 0:
            for page in np.unique(pages[offsets == _UNKNOWN]).tolist():
                self._offsets[page] = self._offset(page)
            offsets = self._offsets[pages]
            if (offsets < 0).any():
                return None
        found: NDArray[np.int64] = offsets + (rows - bounds[pages]) * self._width
        return found

    def _offset_of(self, row: int) -> NDArray[np.int64] | None:
        """Return what `offsets` returns for one row, in fewer steps."""
        bounds = self._bounds
        page = bisect_right(bounds, row) - 1
        if int(self._offsets[page]) == _UNKNOWN:
            self._offsets[page] = self._offset(page)
        offset = int(self._offsets[page])
        if offset == _ENCODED:
            return None
        return np.array([offset + (row - bounds[page]) * self._width], np.int64)

    def _offset(self, page: int) -> int:
        """Return where the rows of a page begin in the file."""
        layout = self._column.layout(page)
        offset = self._column.plain_offset(page, self._width)
        if offset is None or not isinstance(layout, FullZipLayout):
            return _ENCODED
        if self.encoding is None:
            self.encoding = layout.values
        return offset if layout.values == self.encoding else _ENCODED

    @cached_property
    def _bounds(self) -> list[int]:
        """The first row of each page, and the end, as numbers."""
        found: list[int] = self._column.row_bounds.tolist()
        return found

    def fetch(self, offsets: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Read rows that begin at some offsets.

        Returns:
            uint8, shape (number of rows, width).

        Raises:
            CorruptFileError: If the file is damaged.
        """
        source, ranges = self.request(offsets)
        return self.values(source.read(ranges))

    def request(self, offsets: NDArray[np.int64]) -> tuple[Source, Ranges]:
        """Return what to read for rows that begin at some offsets."""
        sizes = np.empty_like(offsets)
        sizes.fill(self._width)
        return self._source, Ranges(offsets, sizes)

    def values(self, fetched: Fetched) -> NDArray[np.uint8]:
        """Return the rows that were read, as `fetch`."""
        data, starts, width = fetched.data, fetched.starts, self._width
        first, count = int(starts[0]), len(starts)
        if count == 1 or bool((starts[1:] - starts[:-1] == width).all()):
            adjacent = data[first : first + count * width]
            if 2 * len(adjacent) < len(data) != self._source.size:
                adjacent = adjacent.copy()  # the rest of what was read is freed
            return adjacent.reshape(count, width)
        # One window of the width at each byte; no bytes are copied but those of the rows.
        windows = np.ndarray((len(data) - width + 1, width), np.uint8, data, 0, (1, 1))
        found: NDArray[np.uint8] = windows[starts]
        return found
