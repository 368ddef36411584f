"""One column of a file of version 2.0: its pages, and reading any of its items from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.container.v2_0.metadata import ColumnEntry
from pilum.encodings.base import demand
from pilum.encodings.v2_0.base import ArrayEncoding, Items
from pilum.encodings.v2_0.entries import Entries
from pilum.encodings.v2_0.list import List
from pilum.encodings.v2_0.registry import array_encoding_of
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.rows import RowRanges
from pilum.storage.base import Plan, gather

__all__ = ["Column"]

T = TypeVar("T")


class Column:
    """One column.

    Attributes:
        path: Of the file, for messages.
        index: Number of the column in the file.
        is_blob: Whether its values say where in the file the real ones stand.
        bounds: int64, shape (pages + 1,): first item of each page, and the end.
    """

    def __init__(self, path: str, index: int, entry: ColumnEntry) -> None:
        self.path = path
        self.index = index
        self.is_blob = entry.is_blob
        self._pages = entry.pages
        self._encodings: list[ArrayEncoding | None] = [None] * len(entry.pages)
        ends = accumulate((page.num_items for page in entry.pages), initial=0)
        self.bounds: NDArray[np.int64] = np.array(list(ends), dtype=np.int64)

    @property
    def num_items(self) -> int:
        """Items of the column; below a list not its rows."""
        return int(self.bounds[-1])

    @cached_property
    def stored_bytes(self) -> int:
        """Bytes of all pages."""
        return sum(size for page in self._pages for _, size in page.buffers.page)

    @property
    def first_encoding(self) -> ArrayEncoding | None:
        """That of the first page, which tells some columns from others; None without pages."""
        return self._encoding(0) if self._pages else None

    def read(self, rows: RowRanges, kind: pa.DataType) -> Plan[pa.Array]:
        """Reads items as an array of an Arrow type.

        Raises:
            CorruptFileError: If the column is damaged; the text says where.
            UnsupportedFormatError: If a page is stored in a way that is not supported.
        """
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
            return pa.concat_arrays(arrays)
        except pa.ArrowInvalid as error:
            raise UnsupportedFormatError(f"{self.path}, column {self.index}: {error}") from None

    def lists(self, rows: RowRanges, offset_bits: int) -> Plan[list[tuple[Entries, int]]]:
        """Reads lists: for each page that holds some, these, and the first item of the page.

        Raises:
            CorruptFileError: If the column is damaged, or holds no lists.
        """

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
        first = int(np.searchsorted(self.bounds, rows.starts[0], side="right")) - 1
        last = int(np.searchsorted(self.bounds, rows.stops[-1], side="left"))
        for number in range(first, last):
            wanted = rows.within(int(self.bounds[number]), int(self.bounds[number + 1]))
            if len(wanted.bounds):
                yield number, wanted

    def _at(
        self, number: int, read: Callable[[ArrayEncoding, Items], Plan[T]], rows: RowRanges
    ) -> Plan[T]:
        """Reads from one page, and says so if that fails."""
        page = self._pages[number]
        encoding = self._encoding(number)
        with self._told(number):
            return (yield from read(encoding, Items(page.buffers, page.num_items, rows)))

    def _encoding(self, number: int) -> ArrayEncoding:
        encoding = self._encodings[number]
        if encoding is None:
            with self._told(number):
                encoding = array_encoding_of(self._pages[number].encoding)
            self._encodings[number] = encoding
        return encoding

    @contextmanager
    def _told(self, number: int) -> Iterator[None]:
        """Adds to errors in which page they are."""
        try:
            yield
        except CorruptFileError as error:
            raise error.at(f"page {number}").at(f"column {self.index}").at(self.path) from None
        except UnsupportedFormatError as error:
            where = f"{self.path}, column {self.index}, page {number}"
            raise type(error)(f"{error}\n  {where}") from None
