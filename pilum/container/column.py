"""One column of a file: its pages, and reads of rows of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.cache import CacheSlot
from pilum.container.descriptions import Descriptions, FileCaches
from pilum.container.explain import PageExplanation, explain_page
from pilum.container.metadata import PageEntry, parse_column
from pilum.encodings.base import demand
from pilum.encodings.layouts import layout_of
from pilum.encodings.page import Layout, PageRead, StoredPage, at_page
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.format.version import FileVersion
from pilum.storage.base import Source

__all__ = ["Column", "ColumnPages"]

_SMALL_BYTES = 512
_NO_LIMIT = 2**64


class ColumnPages:
    """The parsed metadata of a column; immutable, as files share it.

    Attributes:
        version: File version.
        entries: The pages, in row order.
        row_bounds: int64, shape (pages + 1,), first row of each page and the end.
        end: Where in the file the last of their buffers ends, bytes.
        layouts: The layouts of the pages that were read.
    """

    def __init__(self, entries: list[PageEntry], version: FileVersion) -> None:
        self.version = version
        self.entries = entries
        ends = [stored.first_row + stored.num_rows for stored, _ in entries]
        self.row_bounds: NDArray[np.int64] = np.array([0, *ends], dtype=np.int64)
        self.end = max(
            (offset + size for stored, _ in entries for offset, size in stored.buffers), default=0
        )
        self.layouts: list[Layout | None] = [None] * len(entries)

    @classmethod
    def parse(
        cls, data: bytes, file_bytes: int, version: FileVersion, descriptions: Descriptions
    ) -> ColumnPages:
        """Parse the metadata of a column, or reuse those of another file with the same bytes.

        Args:
            data: A serialised `ColumnMetadata`.
            file_bytes: Size of the file, which no buffer may exceed.
            version: File version.
            descriptions: What was parsed before.

        Raises:
            CorruptFileError: If they do not parse, or a page lies outside of the file.
        """
        if len(data) <= _SMALL_BYTES:
            known = descriptions.parsed(_pages, data, version, descriptions)
            if known.end <= file_bytes:
                return known
        return cls(parse_column(data, file_bytes, descriptions), version)

    @cached_property
    def stored_bytes(self) -> int:
        """Bytes of all pages; a scalar counts for each of its rows."""
        total = 0
        for stored, layout in self.entries:  # a generator would cost more than small files do
            for _, size in stored.buffers:
                total += size
            total += _scalar_bytes(stored, layout)
        return total

    @cached_property
    def num_values(self) -> int:
        """Number of values in all pages, according to their descriptions."""
        return sum(_num_values(stored, layout) for stored, layout in self.entries)


def _pages(data: bytes, version: FileVersion, descriptions: Descriptions) -> ColumnPages:
    return ColumnPages(parse_column(data, _NO_LIMIT, descriptions), version)


def _layout(data: bytes, version: FileVersion) -> Layout:
    return layout_of(pb.PageLayout.FromString(data), version)


class Column:
    """One column of a file.

    Attributes:
        path: Path of the file, for messages.
        index: Number of the column in the file.
        row_bounds: int64, shape (pages + 1,), first row of each page and the end.
        elements: Number of page elements per row.
    """

    __slots__ = ("_caches", "_known", "_slots", "elements", "index", "path", "row_bounds")

    def __init__(
        self, path: str, index: int, known: ColumnPages, caches: FileCaches, elements: int = 1
    ) -> None:
        self.path = path
        self.index = index
        self.elements = elements
        self._known = known
        self._caches = caches
        self._slots: dict[int, CacheSlot] = {}
        self.row_bounds: NDArray[np.int64] = known.row_bounds
        if elements > 1:
            whole = bool((known.row_bounds % elements == 0).all())
            demand(whole, f"pages: not {elements} elements per row")
            self.row_bounds = known.row_bounds // elements

    @property
    def num_rows(self) -> int:
        """Number of rows of the column."""
        return int(self.row_bounds[-1])

    @property
    def stored_bytes(self) -> int:
        """Bytes of all pages; a scalar counts for each of its rows."""
        return self._known.stored_bytes

    @property
    def entries(self) -> list[PageEntry]:
        """The pages with their descriptions, in row order."""
        return self._known.entries

    @property
    def num_pages(self) -> int:
        """Number of pages of the column."""
        return len(self._known.entries)

    @property
    def num_values(self) -> int:
        """Number of values in all pages, according to their descriptions."""
        return self._known.num_values

    def explain(self, name: str, kind: pa.DataType) -> Iterator[PageExplanation]:
        """Describe the pages.

        Args:
            name: Path of the leaf.
            kind: Its Arrow type.
        """
        for number, (stored, layout) in enumerate(self.entries):
            yield explain_page(self.path, name, kind, number, stored, layout)

    def page_at(self, row: int) -> int:
        """Return the number of the page that contains a row."""
        return int(np.searchsorted(self.row_bounds, row, side="right")) - 1

    def read(self, start: int, rows: RowRanges, source: Source) -> PageRead:
        """Return a read of rows of the page that contains row `start`, counted from there.

        Raises:
            CorruptFileError: If the description of the page is damaged; the text names the place.
            UnsupportedFormatError: If it is stored in a way that is not supported.
        """
        number, skip = 0, start
        if len(self.row_bounds) > 2:
            number = self.page_at(start)
            skip -= int(self.row_bounds[number])
        if skip:
            rows = RowRanges(rows.bounds + skip)
        if self.elements > 1:
            rows = RowRanges(rows.bounds * self.elements)
        layout = self._known.layouts[number]
        if layout is None:
            layout = self._known.layouts[number] = self._layout(number)
        page = PageRead(layout, self.entries[number][0], rows, source, self.index, number)
        if page.memory is None and not page.is_whole:
            page.lookup = self._slot(number)
        return page

    def _layout(self, number: int) -> Layout:
        _, description = self.entries[number]
        with at_page(self.path, self.index, number):
            data = description.SerializeToString()
            if len(data) > _SMALL_BYTES:
                return layout_of(description, self._known.version)
            return self._caches.descriptions.parsed(_layout, data, self._known.version)

    def _slot(self, number: int) -> CacheSlot:
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = self._caches.pages.slot(self.index, number)
        return slot


def _scalar_bytes(stored: StoredPage, layout: pb.PageLayout) -> int:
    if not layout.HasField("constant_layout"):
        return 0
    in_buffer = stored.buffers[0][1] if len(stored.buffers) % 2 else 0
    return stored.num_rows * (in_buffer + len(layout.constant_layout.inline_value))


def _num_values(stored: StoredPage, layout: pb.PageLayout) -> int:
    if layout.HasField("mini_block_layout"):
        return layout.mini_block_layout.num_items
    if layout.HasField("full_zip_layout"):
        return layout.full_zip_layout.num_visible_items
    return stored.num_rows
