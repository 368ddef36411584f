"""Read a file of version 2.0: the container of later versions, but other columns.

Pages of a column are read item by item. Values whose positions are known before anything is read
(`DirectRead`) are read for many columns together, with one request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum import kernels
from pilum.arrays import join_arrays
from pilum.container.explain import PageExplanation, explained
from pilum.container.reader import ContainerReader
from pilum.container.v2_0.metadata import ColumnEntry, parse_column
from pilum.encodings.base import at_page, demand
from pilum.encodings.v2_0.base import ArrayEncoding, Direct, Items
from pilum.encodings.v2_0.choose import is_packed
from pilum.encodings.v2_0.list import Entries, List
from pilum.encodings.v2_0.registry import array_encoding_of, describe_array
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.fields import Field, FieldId
from pilum.format.rows import RowRanges
from pilum.lazy import cached_property
from pilum.storage.base import Plan, Ranges, gather

__all__ = ["Column", "DirectRead", "PagedFileReader", "column_owners", "read_directly"]


@dataclass(frozen=True, slots=True)
class DirectRead:
    """Some values of a page, which are selected by `rows`.

    `values` are their positions, and how arrays are built from their bytes; the page and its column
    have numbers.
    """

    values: Direct
    rows: RowRanges
    number: int
    column: int
    path: str


def read_directly(reads: Sequence[DirectRead]) -> Plan[list[pa.Array]]:
    """Read values of one file with one request."""
    if not reads:
        return []
    picked = kernels.PickedSlots(
        [
            (offset, bits, read.rows.bounds if rows is None else rows)
            for read in reads
            for offset, bits, rows in read.values.slots
        ]
    )
    fetched = yield Ranges(*picked.ranges())
    parts = picked.decode(fetched.data, fetched.starts)
    arrays, first = [], 0
    for read in reads:
        slots, make = read.values
        end = first + len(slots)
        with at_page(read.path, read.column, read.number):
            arrays.append(make(parts[first:end], read.rows.num_rows))
        first = end
    return arrays


T = TypeVar("T")

_JOINT_ITEMS = 16 * 1024
"""More values than this get a request of their own, whose bytes need not be copied."""


class Column:
    """One column.

    Attributes:
        path: Of the file, for messages.
        index: Number of the column in the file.
        is_blob: Whether its values are positions of payloads in the file.
        bounds: int64, shape (pages + 1,): first item of each page, and the end.
    """

    def __init__(self, path: str, index: int, entry: ColumnEntry) -> None:
        self.path = path
        self.index = index
        self.is_blob = entry.is_blob
        self._pages = entry.pages
        self._known_direct: dict[tuple[int, bool], tuple[pa.DataType, Direct | None]] = {}
        self._encodings: list[ArrayEncoding | None] = [None] * len(entry.pages)
        ends = accumulate((page.num_items for page in entry.pages), initial=0)
        self.bounds: NDArray[np.int64] = np.array(list(ends), dtype=np.int64)

    @property
    def num_items(self) -> int:
        """Number of items of the column; below a list these are not rows."""
        return int(self.bounds[-1])

    @cached_property
    def stored_bytes(self) -> int:
        """Bytes of all pages."""
        return sum(size for page in self._pages for _, size in page.buffers.page)

    @property
    def first_encoding(self) -> ArrayEncoding | None:
        """The encoding of the first page, which identifies some columns; None without pages."""
        return self._encoding(0) if self._pages else None

    def explain(self, name: str, kind: pa.DataType) -> Iterator[PageExplanation]:
        """Describe the pages of the field `name`, which has this Arrow type."""
        for number, page in enumerate(self._pages):
            description = describe_array(page.encoding, page.num_items)
            rows = int(self.bounds[number]), page.num_items
            sizes = tuple(size for _, size in page.buffers.page)
            yield explained(self.path, name, kind, number, rows, description, sizes)

    def read(self, rows: RowRanges, kind: pa.DataType) -> Plan[pa.Array]:
        """Read items as an array of an Arrow type."""
        plans = [
            self._at(number, lambda encoding, items: encoding.read(items, kind), wanted)
            for number, wanted in self._by_page(rows)
        ]
        if len(plans) == 1:
            return (yield from plans[0])
        arrays = yield from gather(plans)
        if not arrays:
            return pa.nulls(0, kind)
        try:
            return join_arrays(arrays, f"{self.path}, column {self.index}")
        except pa.ArrowInvalid as error:
            raise UnsupportedFormatError(f"{self.path}, column {self.index}: {error}") from None

    def direct_read(self, rows: RowRanges, kind: pa.DataType) -> DirectRead | None:
        """Return a read of items of one page at known positions, or None if they are not known."""
        if not 0 < rows.num_rows <= _JOINT_ITEMS:
            return None
        first, last = int(rows.bounds[0, 0]), int(rows.bounds[-1, 1])
        number = 0 if len(self._pages) == 1 else self._page_at(first)
        if number >= len(self._pages) or last > self.bounds[number + 1]:
            return None
        if start := int(self.bounds[number]):
            rows = RowRanges(rows.bounds - start)
        is_whole = rows.num_rows == self._pages[number].num_items
        values = self._direct(number, kind, is_whole=is_whole)
        return values and DirectRead(values, rows, number, self.index, self.path)

    def _direct(self, number: int, kind: pa.DataType, *, is_whole: bool) -> Direct | None:
        """Return the positions of values of a page; cached, as they are used often."""
        known = self._known_direct.get((number, is_whole))
        if known is not None and known[0] == kind:
            return known[1]
        page = self._pages[number]
        try:
            encoding = self._encoding(number)
            find = encoding.direct_whole if is_whole else encoding.direct
            found = find(page.buffers, page.num_items, kind)
        except (CorruptFileError, UnsupportedFormatError):
            found = None  # `read` reports where
        self._known_direct[number, is_whole] = kind, found
        return found

    def _page_at(self, item: int) -> int:
        return int(self.bounds.searchsorted(item, side="right")) - 1

    def lists(self, rows: RowRanges, offset_bits: int) -> Plan[list[tuple[Entries, int]]]:
        """Read lists: for each page with some of them, its lists and its first item."""

        def entries(encoding: ArrayEncoding, items: Items) -> Plan[Entries]:
            demand(isinstance(encoding, List), f"lists stored as {encoding.arm}")
            assert isinstance(encoding, List)
            return (yield from encoding.entries(items, offset_bits))

        pages = list(self._by_page(rows))
        found = yield from gather([self._at(number, entries, wanted) for number, wanted in pages])
        first_items = self._first_items
        return [
            (entry, first_items[number]) for (number, _), entry in zip(pages, found, strict=True)
        ]

    @cached_property
    def _first_items(self) -> list[int]:
        encodings = (self._encoding(number) for number in range(len(self._pages)))
        counts = (encoding.num_items if isinstance(encoding, List) else 0 for encoding in encodings)
        return list(accumulate(counts, initial=0))

    def _by_page(self, rows: RowRanges) -> Iterator[tuple[int, RowRanges]]:
        if not len(rows.bounds):
            return
        if rows.stops[-1] > self.num_items:
            raise CorruptFileError(
                f"items: expected {int(rows.stops[-1])}, found {self.num_items}",
                f"column {self.index}",
                self.path,
            )
        first = self._page_at(int(rows.bounds[0, 0]))
        last = int(np.searchsorted(self.bounds, rows.stops[-1], side="left"))
        for number in range(first, last):
            wanted = rows.within(int(self.bounds[number]), int(self.bounds[number + 1]))
            if len(wanted.bounds):
                yield number, wanted

    def _at(
        self, number: int, read: Callable[[ArrayEncoding, Items], Plan[T]], rows: RowRanges
    ) -> Plan[T]:
        """Read from one page, and name the page in errors."""
        page = self._pages[number]
        encoding = self._encoding(number)
        with at_page(self.path, self.index, number):
            return (yield from read(encoding, Items(page.buffers, page.num_items, rows)))

    def _encoding(self, number: int) -> ArrayEncoding:
        encoding = self._encodings[number]
        if encoding is None:
            with at_page(self.path, self.index, number):
                encoding = array_encoding_of(self._pages[number].encoding)
            self._encodings[number] = encoding
        return encoding


def column_owners(field: Field) -> Iterator[Field]:
    """Yield the fields that own columns, in column order: all but members of packed structs."""
    yield field
    if field.is_list or not is_packed(field.metadata):
        for child in field.children:
            yield from column_owners(child)


class PagedFileReader(ContainerReader[Column]):
    """An open file of version 2.0: structs and lists are columns, too."""

    @cached_property
    def column_ids(self) -> tuple[FieldId, ...]:
        """The field of each column; early writers added columns without a field."""
        numbers = tuple(self._field_columns)
        return numbers if len(numbers) == self.num_columns else ()

    def field_columns(self) -> Mapping[FieldId, int]:
        """Return the number of the column of each field of the schema that has one."""
        return self._field_columns

    @cached_property
    def _field_columns(self) -> Mapping[FieldId, int]:
        owners = (owner for field in self.schema.fields for owner in column_owners(field))
        return {owner.id: number for number, owner in enumerate(owners)}

    def _parse(self, index: int, data: bytes) -> Column:
        return Column(self.source.path, index, parse_column(data, self.source.size))
