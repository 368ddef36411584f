"""Reading a `.lance` file: its schema at once, columns and pages when they are asked for.

Opening takes one request for the end of the file and a second one if the schema or the tables lie
further in front. The metadata of columns that were not caught by it are fetched for the columns in
question only. Source: docs/format/container.md, "Reading".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.cache import Cache, CachePart
from pilum.container.explain import PageExplanation, explain_page
from pilum.container.footer import FOOTER_BYTES, Footer, parse_table
from pilum.container.metadata import MAX_ROWS, PageEntry, parse_column, parse_file_descriptor
from pilum.container.tail import Tail
from pilum.encodings.base import demand
from pilum.encodings.layouts import page_of
from pilum.encodings.page import Decoded, Page, StoredPage
from pilum.encodings.structural.whole_pages import WholePage
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.paths import elements_per_row
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.format.schema import FieldId, Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Plan, Ranges, Source, run_plan
from pilum.storage.held import HeldSource

__all__ = ["Column", "FileReader"]

_OWN_CACHE_BYTES = 64 * 1024 * 1024
_MAX_METADATA_BYTES = 1024 * 1024
"""Metadata of so many columns are read together with those that are asked for."""

# What Python's objects take, roughly; the same on every machine, so that limits can be tested.
_READER_BYTES = 1024
_ENTRY_BYTES = 128
_COLUMN_BYTES = 1024
_PARSED_FACTOR = 8


class Column:
    """One column of a file.

    Attributes:
        path: Of the file, for messages.
        index: Number of the column in the file.
        row_bounds: int64, shape (pages + 1,), first row of each page and the end.
        elements: So many elements of the pages are one row.
    """

    def __init__(
        self,
        path: str,
        index: int,
        version: FileVersion,
        entries: list[PageEntry],
        lookups: CachePart,
        elements: int = 1,
    ) -> None:
        self.path = path
        self.index = index
        self.elements = elements
        self._lookups = lookups
        self._version = version
        self._entries = entries
        self._pages: list[Page | None] = [None] * len(entries)
        ends = [stored.first_row + stored.num_rows for stored, _ in entries]
        bounds: NDArray[np.int64] = np.array([0, *ends], dtype=np.int64)
        if elements > 1:
            demand(bool((bounds % elements == 0).all()), f"pages: not {elements} elements per row")
            bounds //= elements
        self.row_bounds: NDArray[np.int64] = bounds

    @property
    def num_rows(self) -> int:
        """Rows of the column."""
        return int(self.row_bounds[-1])

    @property
    def stored_bytes(self) -> int:
        """Bytes of all pages; a scalar counts for each of its rows."""
        total = 0
        for stored, layout in self._entries:  # a generator would cost more than small files do
            for _, size in stored.buffers:
                total += size
            total += _scalar_bytes(stored, layout)
        return total

    @property
    def num_pages(self) -> int:
        """Pages of the column."""
        return len(self._entries)

    @property
    def num_values(self) -> int:
        """Values of all pages, as their descriptions say."""
        return sum(_num_values(stored, layout) for stored, layout in self._entries)

    def explain(self, name: str, kind: pa.DataType) -> Iterator[PageExplanation]:
        """The pages in words.

        Args:
            name: Path of the leaf.
            kind: Its Arrow type.
        """
        for number, (stored, layout) in enumerate(self._entries):
            yield explain_page(self.path, name, kind, number, stored, layout)

    def page_at(self, row: int) -> int:
        """Number of the page that holds a row."""
        return int(np.searchsorted(self.row_bounds, row, side="right")) - 1

    def read(self, number: int, rows: RowRanges) -> Plan[Decoded]:
        """Reads rows of one page, counted from its first.

        Raises:
            CorruptFileError: If the page is damaged; the text says where.
            UnsupportedFormatError: If it is stored in a way that is not supported.
        """
        if self.elements > 1:
            rows = RowRanges(rows.bounds * self.elements)
        try:
            return (yield from self._page(number).read(rows))
        except CorruptFileError as error:
            raise error.at(f"page {number}").at(f"column {self.index}").at(self.path) from None
        except UnsupportedFormatError as error:
            where = f"{self.path}, column {self.index}, page {number}"
            raise type(error)(f"{error}\n  {where}") from None

    def whole_page(self, number: int, rows: RowRanges) -> WholePage | None:
        """A page of which all rows are wanted, if it can be read together with others."""
        if self.elements > 1 or not rows.covers(self._entries[number][0].num_rows):
            return None
        try:
            page = self._page(number)
        except (CorruptFileError, UnsupportedFormatError):
            return None  # `read` says where
        return WholePage.of(page, number, self.index, self.path)

    def _page(self, number: int) -> Page:
        page = self._pages[number]
        if page is None:
            stored, layout = self._entries[number]
            lookup = self._lookups.slot(self.index, number)
            stored = StoredPage(stored.first_row, stored.num_rows, stored.buffers, lookup)
            page = self._pages[number] = page_of(layout, stored, self._version)
        return page


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


class _Descriptor:
    """What global buffer 0 says: the same of most files of a table, so that they share it."""

    def __init__(self, data: bytes) -> None:
        self._message = parse_file_descriptor(data)
        self.num_rows: int = self._message.length

    @cached_property
    def schema(self) -> Schema:
        return Schema.from_proto(self._message.schema.fields, self._message.schema.metadata)

    @cached_property
    def elements(self) -> list[int]:
        """How many elements of each column are a row."""
        paths = (path for field in self.schema.fields for path in field.leaf_paths())
        return [elements_per_row(path) for path in paths]


@lru_cache(maxsize=8)
def _descriptor_of(data: bytes) -> _Descriptor:
    return _Descriptor(data)


class FileReader:
    """An open file. Safe to use from several threads.

    Attributes:
        source: Where the bytes come from.
        version: Version of the file.
        num_rows: Rows of the file.
        global_buffers: Position and size of each, bytes; the first is the file descriptor.
    """

    def __init__(
        self,
        source: Source,
        footer: Footer,
        descriptor: NDArray[np.uint8],
        column_table: list[tuple[int, int]],
        global_buffers: list[tuple[int, int]],
        tail: Tail,
        lookups: CachePart,
    ) -> None:
        self.source = source
        self.version: FileVersion = footer.version
        self._descriptor = _descriptor_of(descriptor.tobytes())
        self.num_rows: int = self._descriptor.num_rows
        self.global_buffers = global_buffers
        self._descriptor_bytes = len(descriptor)
        self._column_table = column_table
        self._tail = tail
        self._lookups = lookups
        self._columns: dict[int, Column] = {}
        self._parsed_bytes = 0
        self._has_missed = False
        demand(self.num_rows < MAX_ROWS, f"rows: {self.num_rows}")

    @classmethod
    def open(
        cls, source: Source, tail: Tail | None = None, lookups: CachePart | None = None
    ) -> FileReader:
        """Reads footer, tables and the number of rows.

        Args:
            source: The file, of version 2.1 or newer.
            tail: Its end, if that was read already.
            lookups: Where its pages keep what random access needs; None for a cache of its own.

        Raises:
            CorruptFileError: If this is no Lance file, or a damaged one.
            UnsupportedVersionError: If its version is not supported.
        """
        kept = lookups or CachePart(Cache(_OWN_CACHE_BYTES), source.path)
        try:
            return run_plan(cls._open(source, tail or Tail.read(source), kept), source)
        except CorruptFileError as error:
            raise error.at(source.path) if source.path not in error.where else error from None
        except UnsupportedFormatError as error:
            raise type(error)(f"{error}\n  {source.path}") from None

    @classmethod
    def _open(cls, source: Source, tail: Tail, lookups: CachePart) -> Plan[FileReader]:
        footer = Footer.parse(tail.data[-FOOTER_BYTES:].tobytes(), source.size)
        table = yield from tail.bytes_at(footer.global_table, footer.global_table_bytes)
        global_buffers = parse_table(table, footer.column_metadata)
        size = footer.column_table_bytes
        descriptor, table = yield from tail.all_at(
            [global_buffers[0], (footer.global_table - size, size)]
        )
        columns = parse_table(table, footer.global_table)
        need = min(footer.column_metadata, footer.column_table)
        if any(at < need for at, _ in columns):
            raise CorruptFileError("column metadata in front of its start")
        if tail.start == 0:
            source.close()
            source = HeldSource(source.path, tail.data)
        else:
            tail = tail.since(footer.column_metadata)
        return cls(source, footer, descriptor, columns, global_buffers, tail, lookups)

    @cached_property
    def schema(self) -> Schema:
        """With the field ids of the table that the file was written for.

        Raises:
            CorruptFileError: If it contradicts itself.
        """
        try:
            return self._descriptor.schema
        except CorruptFileError as error:
            raise error.at(self.source.path) from None
        except UnsupportedFormatError as error:
            raise type(error)(f"{error}\n  {self.source.path}") from None

    def field_columns(self) -> dict[FieldId, int]:
        """The number of the column of each leaf of the schema."""
        return {leaf.id: index for index, leaf in enumerate(self.schema.leaves())}

    @property
    def held_bytes(self) -> int:
        """About the memory that the open file takes, without what the cache counts."""
        tables = len(self._column_table) + len(self.global_buffers)
        return (
            _READER_BYTES
            + len(self._tail.data)
            + self._descriptor_bytes
            + _ENTRY_BYTES * tables
            + _COLUMN_BYTES * len(self._columns)
            + _PARSED_FACTOR * self._parsed_bytes
        )

    @property
    def num_columns(self) -> int:
        """Columns of the file: one per leaf of the schema."""
        return len(self._column_table)

    @cached_property
    def _elements(self) -> list[int]:
        # The schema first, whose errors say where they are.
        return self._descriptor.elements if self.schema.fields else []

    def column(self, index: int) -> Column:
        """One column; see `columns`."""
        column = self._columns.get(index)
        if column is None and 0 <= index < self.num_columns:
            at, size = self._column_table[index]
            if self._tail.holds(at):
                return self._keep(index, self._tail.slice(at, size).tobytes())
        return column or self.columns([index])[0]

    def _keep(self, index: int, data: bytes) -> Column:
        column = self._columns[index] = self._parse(index, data)
        self._parsed_bytes += len(data)
        return column

    def columns(self, indices: Iterable[int]) -> list[Column]:
        """Columns by their number; their metadata are read together if they are not at hand yet.

        Raises:
            CorruptFileError: If a column does not exist or its metadata are damaged.
        """
        wanted = list(indices)
        missing = [index for index in wanted if index not in self._columns]
        if missing:
            for index, data in zip(missing, self.column_metadata(missing), strict=True):
                self._keep(index, data)
        return [self._columns[index] for index in wanted]

    def column_metadata(self, indices: list[int]) -> list[bytes]:
        """Reads the serialised metadata of columns, unless they are at hand.

        Raises:
            CorruptFileError: If a column does not exist.
        """
        return run_plan(self._metadata(indices), self.source)

    def _metadata(self, indices: list[int]) -> Plan[list[bytes]]:
        for index in indices:
            if not 0 <= index < self.num_columns:
                raise CorruptFileError(
                    f"column {index} of a file with {self.num_columns}", self.source.path
                )
        places = [self._column_table[index] for index in indices]
        first = min((at for at, _ in places), default=self._tail.start)
        if first < self._tail.start:
            # Who asks a second time will do so again: for all columns, one by one.
            if self._has_missed and self._tail.start - first <= _MAX_METADATA_BYTES:
                self._tail = yield from self._tail.extended(first)
            self._has_missed = True
        found = yield from self._tail.all_at(places)
        return [data.tobytes() for data in found]

    def _parse(self, index: int, data: bytes) -> Column:
        try:
            pages = parse_column(data, self.source.size)
            elements = self._elements[index] if index < len(self._elements) else 1
            path, lookups = self.source.path, self._lookups
            column = Column(path, index, self.version, pages, lookups, elements)
        except CorruptFileError as error:
            raise error.at(f"column {index}").at(self.source.path) from None
        if column.num_rows != self.num_rows:
            raise CorruptFileError(
                f"rows: expected {self.num_rows}, found {column.num_rows}",
                f"column {index}",
                self.source.path,
            )
        return column

    def global_buffer(self, index: int) -> bytes:
        """Reads a global buffer; 0 is the file descriptor.

        Raises:
            IndexError: If there is none of this number.
        """
        return self.source.read(Ranges.of(self.global_buffers[index]))[0].tobytes()
