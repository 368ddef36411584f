"""Rows of values of fixed width that pages store as they are: their bytes, without decoding.

    row ──▶ its page ──▶ offset of the page + (row - first row of the page) x width

Only full-zip pages without levels are stored like this; a column may also have others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pilum.container.reader import Column
from pilum.encodings.base import Compressive
from pilum.encodings.structural.full_zip import FullZipLayout
from pilum.kernels import gather_rows, plain_offsets
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
            rows: Rows of the column, in any order.

        Raises:
            CorruptFileError: If the file is damaged.
        """
        bounds = self._column.row_bounds
        found = plain_offsets(rows, bounds, self._offsets, self._width)
        if found is not None:
            return found
        pages = np.unique(bounds.searchsorted(rows, side="right") - 1)
        for page in pages[self._offsets[pages] == _UNKNOWN].tolist():
            self._offsets[page] = self._offset(page)
        return plain_offsets(rows, bounds, self._offsets, self._width)

    def _offset(self, page: int) -> int:
        """Return where the rows of a page begin in the file."""
        layout = self._column.layout(page)
        offset = self._column.plain_offset(page, self._width)
        if offset is None or not isinstance(layout, FullZipLayout):
            return _ENCODED
        if self.encoding is None:
            self.encoding = layout.values
        return offset if layout.values == self.encoding else _ENCODED

    def fetch(self, offsets: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Read rows that begin at some offsets.

        Returns:
            uint8, shape (number of rows, width).

        Raises:
            CorruptFileError: If the file is damaged.
        """
        source, ranges = self.request(offsets)
        fetched = source.read(ranges)
        return gather_rows(fetched.data, fetched.starts, self._width)

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
        return gather_rows(data, starts, width)
