"""Read a `.lance` file: the schema when it is opened, columns and pages on demand.

Opening takes one request for the end of the file and a second one if the schema or the tables lie
before it. Column metadata outside of that range are fetched for the requested columns only. Source:
docs/format/container.md, "Reading".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.cache import CacheSlot, FileCaches
from pilum.container.column_pages import ColumnPages
from pilum.container.explain import PageExplanation, explain_page
from pilum.container.file_end import FileEnd, shared_end
from pilum.container.frame import PageEntry, Places, Tail
from pilum.encodings.base import Layout, PageRead, at_page, demand
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.fields import FieldId
from pilum.format.rows import RowRanges
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.storage.base import MemorySource, Plan, Ranges, Source, run_plan

if TYPE_CHECKING:
    from pilum.expressions.prune import Zones

__all__ = ["Column", "ContainerReader", "FileReader"]

C = TypeVar("C")


class Column:
    """One column of a file.

    Attributes:
        path: Path of the file, for messages.
        index: Number of the column in the file.
        row_bounds: int64, shape (pages + 1,), first row of each page and the end.
        elements: Number of page elements per row.
    """

    __slots__ = (
        *("_caches", "_known", "_page_rows", "_slots", "_zones"),
        *("elements", "index", "path", "row_bounds"),
    )

    def __init__(
        self, path: str, index: int, known: ColumnPages, caches: FileCaches, elements: int = 1
    ) -> None:
        self.path = path
        self.index = index
        self.elements = elements
        self._known = known
        self._caches = caches
        self._slots: dict[int, CacheSlot] | None = None
        self._zones: dict[pa.DataType, Zones | None] | None = None
        self._page_rows: list[int] | None = None
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
        """Describe the pages of the leaf `name`, which has this Arrow type."""
        for number, (stored, layout) in enumerate(self.entries):
            yield explain_page(self.path, name, kind, number, stored, layout)

    @property
    def has_buffers(self) -> bool:
        """Whether the column has buffers of its own."""
        return bool(self._known.buffers)

    def zones(self, kind: pa.DataType, source: Source) -> Zones | None:
        """Return the zone map of the column, as of values of a type; None if it has none.

        Raises:
            CorruptFileError: If it is damaged.
        """
        from pilum.container.zone_map import read_zones  # many scans have no filter

        if self._zones is None:
            self._zones = {}
        if kind not in self._zones:
            pages = [stored for stored, _ in self.entries]
            try:
                self._zones[kind] = read_zones(self._known.buffers, kind, pages, source)
            except CorruptFileError as error:
                raise error.at(f"column {self.index}").at(self.path) from None
        return self._zones[kind]

    def page_at(self, row: int) -> int:
        """Return the number of the page that contains a row."""
        if self._page_rows is None:
            self._page_rows = self.row_bounds.tolist()
        return bisect_right(self._page_rows, row) - 1

    def read(self, start: int, rows: RowRanges, source: Source) -> PageRead:
        """Return a read of rows of the page that contains row `start`, counted from there."""
        number, skip = 0, start
        if len(self.row_bounds) > 2:
            number = self.page_at(start)
            skip -= int(self.row_bounds[number])
        if skip:
            rows = RowRanges(rows.bounds + skip)
        if self.elements > 1:
            rows = RowRanges(rows.bounds * self.elements)
        known = self._known
        layout = known.layouts[number] or self.layout(number)
        page = PageRead(layout, known.entries[number][0], rows, source, self.index, number)
        if page.memory is None and not page.is_whole:
            page.lookup = self._slot(number)
        return page

    def plain_offset(self, number: int, width_bytes: int) -> int | None:
        """Return where the values of a page begin in the file; None if they are encoded.

        Args:
            number: The page.
            width_bytes: Bytes of a value.
        """
        stored = self.entries[number][0]
        if self.elements > 1 or self.layout(number).plain_bytes != width_bytes:
            return None
        offset, size = stored.buffer(0)
        return offset if size == stored.num_rows * width_bytes else None

    def layout(self, number: int) -> Layout:
        """Return the layout of a page."""
        known = self._known
        return known.layouts[number] or _layout(known, number, self._caches, self.path, self.index)

    def _slot(self, number: int) -> CacheSlot:
        if self._slots is None:  # most columns of a wide table are never read at random
            self._slots = {}
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = self._caches.pages.slot(self.index, number)
        return slot


_MAX_METADATA_BYTES = 1024 * 1024
"""Up to this many bytes of column metadata are prefetched with the requested ones."""

# Rough sizes of Python objects; equal on every machine, so that limits can be tested.
_READER_BYTES = 1024
_ENTRY_BYTES = 128
_COLUMN_BYTES = 1024
_PARSED_FACTOR = 8


def _layout(known: ColumnPages, number: int, caches: FileCaches, path: str, column: int) -> Layout:
    """Parse the layout of a page of a column of a file."""
    with at_page(path, column, number):
        return known.parse_layout(number, caches.descriptions)


class ContainerReader(ABC, Generic[C]):
    """An open file since version 2.0, whose columns are parsed on demand. Safe for several threads.

    Attributes:
        source: The source of the bytes.
        version: Version of the file.
        num_rows: Rows of the file.
        end: Its parsed end.
    """

    __slots__ = (
        *("__weakref__", "_caches", "_columns", "_has_missed", "_parsed_bytes", "_tail"),
        *("end", "num_rows", "source", "version"),
    )

    def __init__(self, source: Source, end: FileEnd, tail: Tail, caches: FileCaches) -> None:
        self.source = source
        self.end = end
        self.version: FileVersion = end.version
        self.num_rows: int = end.num_rows
        self._tail = tail
        self._caches = caches
        self._columns: dict[int, C] = {}
        self._parsed_bytes = 0
        self._has_missed = False

    @classmethod
    def open(
        cls, source: Source, tail: Tail | None = None, caches: FileCaches | None = None
    ) -> Self:
        """Read footer, tables and the number of rows.

        Args:
            source: The file, of version 2.0 or newer.
            tail: Its end, if it was read already.
            caches: What the file shares with others, and what its pages keep; None for caches of
                its own.

        Raises:
            CorruptFileError: If the file is not a Lance file, or is damaged.
            UnsupportedVersionError: If its version is not supported.
        """
        kept = caches or FileCaches.private(source.path)
        tail = tail or Tail.read(source)
        try:
            end = shared_end(tail.data) if tail.start == 0 else None
            if end is None:
                end = run_plan(FileEnd.read(source.size, tail, kept.descriptions), source)
        except CorruptFileError as error:
            raise error.at(source.path) if source.path not in error.where else error from None
        except UnsupportedFormatError as error:
            raise type(error)(f"{error}\n  {source.path}") from None
        if tail.start > 0:
            tail = tail.since(end.start)
        elif not isinstance(source, MemorySource):
            source.close()
            source = MemorySource(source.path, tail.data)
        return cls(source, end, tail, kept)

    @property
    def global_buffers(self) -> Places:
        """Position and size of each, bytes; the first is the file descriptor."""
        return self.end.global_buffers

    @property
    def schema(self) -> Schema:
        """The schema, with the field ids of the table that the file was written for."""
        try:
            return self.end.file_schema.schema
        except CorruptFileError as error:
            raise error.at(self.source.path) from None
        except UnsupportedFormatError as error:
            raise type(error)(f"{error}\n  {self.source.path}") from None

    @property
    def held_bytes(self) -> int:
        """Return the approximate memory of the open file, without what the cache accounts for."""
        end = self.end
        tables = len(end.column_table) + len(end.global_buffers)
        return (
            _READER_BYTES
            + len(self._tail.data)
            + end.descriptor_bytes
            + _ENTRY_BYTES * tables
            + _COLUMN_BYTES * len(self._columns)
            + _PARSED_FACTOR * self._parsed_bytes
        )

    @property
    def num_columns(self) -> int:
        """Number of columns of the file."""
        return len(self.end.column_table)

    def column(self, index: int) -> C:
        """Return one column; see `columns`."""
        column = self._columns.get(index)
        if column is None and (data := self._in_tail(index)) is not None:
            return self._keep(index, data)
        return column or self.columns([index])[0]

    def _in_tail(self, index: int) -> bytes | None:
        """Return the metadata of a column that were read when the file was opened."""
        table, tail = self.end.column_table, self._tail
        if not 0 <= index < len(table) or table[index][0] < tail.start:
            return None
        return tail.slice(*table[index]).tobytes()

    def _keep(self, index: int, data: bytes) -> C:
        try:
            column = self._columns[index] = self._parse(index, data)
        except CorruptFileError as error:
            raise error.at(f"column {index}").at(self.source.path) from None
        self._parsed_bytes += len(data)
        return column

    @abstractmethod
    def _parse(self, index: int, data: bytes) -> C:
        """Parse the metadata of a column."""

    def columns(self, indices: Iterable[int]) -> list[C]:
        """Return columns by number; metadata that were not read before are read together."""
        wanted = list(indices)
        missing = [index for index in wanted if index not in self._columns]
        if missing:
            for index, data in zip(missing, self.column_metadata(missing), strict=True):
                self._keep(index, data)
        return [self._columns[index] for index in wanted]

    def column_metadata(self, indices: list[int]) -> list[bytes]:
        """Read the serialised metadata of columns, except those that were read before."""
        return run_plan(self._metadata(indices), self.source)

    def _metadata(self, indices: list[int]) -> Plan[list[bytes]]:
        for index in indices:
            if not 0 <= index < self.num_columns:
                raise CorruptFileError(
                    f"column {index} of a file with {self.num_columns}", self.source.path
                )
        places = [self.end.column_table[index] for index in indices]
        first = min((at for at, _ in places), default=self._tail.start)
        if first < self._tail.start:
            # A second request suggests that all columns will be read one by one.
            if self._has_missed and self._tail.start - first <= _MAX_METADATA_BYTES:
                self._tail = yield from self._tail.extended(first)
            self._has_missed = True
        found = yield from self._tail.all_at(places)
        return [data.tobytes() for data in found]

    def global_buffer(self, index: int) -> bytes:
        """Read a global buffer; 0 is the file descriptor. IndexError is raised if there is none."""
        return self.read_global_buffers([index])[0]

    def read_global_buffers(self, indices: Sequence[int]) -> list[bytes]:
        """Read global buffers together; see `global_buffer`."""
        places = [self.global_buffers[index] for index in indices]
        return [data.tobytes() for data in self.source.read(Ranges.of(*places))]


class FileReader(ContainerReader[Column]):
    """An open file of version 2.1 or newer: every leaf of the schema is a column."""

    __slots__ = ()

    @property
    def is_in_memory(self) -> bool:
        """Whether all bytes of the file are in memory."""
        return isinstance(self.source, MemorySource)

    def field_columns(self) -> Mapping[FieldId, int]:
        """Return the number of the column of each leaf of the schema."""
        return self.schema.leaf_columns

    @property
    def column_ids(self) -> tuple[FieldId, ...]:
        """The leaf of each column."""
        return self.schema.leaf_ids

    def pages(self, index: int) -> ColumnPages:
        """Return the parsed metadata of a column."""
        known = self.end.columns.get(index)
        if known is None:
            data = self._in_tail(index)
            if data is None:
                [data] = self.column_metadata([index])
            try:
                known = self._pages(index, data)
            except CorruptFileError as error:
                raise error.at(f"column {index}").at(self.source.path) from None
            self._parsed_bytes += len(data)
        return known

    def layout(self, index: int, page: int) -> Layout:
        """Return the layout of a page of a column."""
        known = self.pages(index)
        return known.layouts[page] or _layout(known, page, self._caches, self.source.path, index)

    def _pages(self, index: int, data: bytes) -> ColumnPages:
        size, descriptions = self.source.size, self._caches.descriptions
        found = self.end.columns[index] = ColumnPages.parse(data, size, self.version, descriptions)
        return found

    def _parse(self, index: int, data: bytes) -> Column:
        path, caches, end = self.source.path, self._caches, self.end
        pages = end.columns.get(index) or self._pages(index, data)
        # The schema is parsed first, as its errors name the place.
        known = end.file_schema.elements if self.schema.fields else []
        return Column(path, index, pages, caches, known[index] if index < len(known) else 1)
