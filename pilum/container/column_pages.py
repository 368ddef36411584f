"""The parsed metadata of columns: where their pages are stored, and how.

Small files often have the same metadata, byte for byte, and share the parsed object.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from pilum.cache import SHARED_DESCRIPTIONS, Descriptions
from pilum.container.frame import PageEntry, Places, parse_column
from pilum.encodings.base import Layout, StoredPage
from pilum.encodings.registry import layout_of
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.version import FileVersion
from pilum.lazy import cached_property

__all__ = ["ColumnPages"]

_SMALL_BYTES = 512
_LARGE_BYTES = 8192
_LARGE_COLUMNS = Descriptions(4 << 20)
"""Metadata of columns of several pages. They seldom equal those of another file, but a file may be
opened again."""
_NO_LIMIT = 2**64


class ColumnPages:
    """The parsed metadata of a column; immutable, as files share it.

    Attributes:
        version: File version.
        num_rows: Number of rows, or of elements of rows, of all pages.
        entries: The pages, in row order.
        buffers: Position and size of each buffer of the column itself, bytes.
        end: Where in the file the last buffer ends, bytes.
        layouts: The layouts of the pages that were read.
    """

    def __init__(self, entries: list[PageEntry], buffers: Places, version: FileVersion) -> None:
        self.version = version
        self.entries = entries
        self.buffers = buffers
        self.num_rows = sum([stored.num_rows for stored, _ in entries])
        places = chain(buffers, *(stored.buffers for stored, _ in entries))
        self.end = max((offset + size for offset, size in places), default=0)
        self.layouts: list[Layout | None] = [None] * len(entries)

    @classmethod
    def parse(
        cls, data: bytes, file_bytes: int, version: FileVersion, descriptions: Descriptions
    ) -> ColumnPages:
        """Parse the metadata of a column, or reuse those of another file with the same bytes."""
        if len(data) <= _LARGE_BYTES:
            known = (
                descriptions.parsed(_pages, data, version, descriptions)
                if len(data) <= _SMALL_BYTES
                else _LARGE_COLUMNS.parsed(_pages, data, version, SHARED_DESCRIPTIONS)
            )
            if known.end <= file_bytes:
                return known
        return cls(*parse_column(data, file_bytes, descriptions), version)

    @cached_property
    def row_bounds(self) -> NDArray[np.int64]:
        """First row of each page and the end, int64, shape (pages + 1,)."""
        ends = [stored.first_row + stored.num_rows for stored, _ in self.entries]
        return np.array([0, *ends], dtype=np.int64)

    def parse_layout(self, number: int, descriptions: Descriptions) -> Layout:
        """Parse the description of a page that was not read yet, and keep the result."""
        description = self.entries[number][1]
        data = description.SerializeToString()
        layout = (
            descriptions.parsed(_layout, data, self.version)
            if len(data) <= _SMALL_BYTES
            else layout_of(description, self.version)
        )
        self.layouts[number] = layout
        return layout

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
    return ColumnPages(*parse_column(data, _NO_LIMIT, descriptions), version)


def _layout(data: bytes, version: FileVersion) -> Layout:
    return layout_of(pb.PageLayout.FromString(data), version)


def _scalar_bytes(stored: StoredPage, layout: pb.PageLayout) -> int:
    if layout.HasField("sparse_layout"):
        return stored.num_rows * len(layout.sparse_layout.values.constant.scalar)
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
