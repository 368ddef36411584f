"""The lookup table of a B-tree: bounds and null count of each page, checked and in memory.

    page    min     max     nulls
    3       null    null    4096      only nulls: never searched for values
    0       null    "ab"    17        its minimum counts as less than all values
    1       "ab"    "ab"    0         equal values may straddle pages
    2       "ac"    "zz"    0

Source: docs/format/indices.md, "B-tree".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.arrays import without_nulls
from pilum.errors import CorruptFileError, UnsupportedTypeError
from pilum.expressions.types import is_text, scalar_of
from pilum.format.rows import RowRanges
from pilum.index.files import IndexFile
from pilum.index.scalar.keys import (
    Keys,
    Side,
    are_ascending,
    keys_of,
    none_exceeds,
    require_indexable,
    stable_order,
)
from pilum.lazy import cached_property

__all__ = ["Lookup", "without_lost_nulls"]

_Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Lookup:
    """The pages of a B-tree.

    Attributes:
        type: Type of the values.
        starts: First row of each page in the file of pages.
        stops: The row after the last one of each page.
        null_counts: How many rows of each page are null; they are its first ones.
        pages: The pages that have values, in the order of their values.
        num_open: How many of these, the first ones, have an unknown minimum.
        mins: Keys of the minimum of each page in `pages` but the first `num_open`.
        maxs: Keys of the maximum of each page in `pages`.
        min: The minimum of the first page in `pages`; null if it is unknown.
        max: The maximum of the last one.
    """

    type: pa.DataType
    starts: _Numbers
    stops: _Numbers
    null_counts: _Numbers
    pages: _Numbers
    num_open: int
    mins: Keys
    maxs: Keys
    min: pa.Scalar
    max: pa.Scalar

    @classmethod
    def read(
        cls, file: IndexFile, bounds: _Numbers, kind: pa.DataType, *, lost_nulls: bool
    ) -> Lookup:
        """Read the table.

        Args:
            file: The file of the table.
            bounds: First row of each page in the file of pages, and the end.
            kind: Type of the values there.
            lost_nulls: Whether the file has other values in place of nulls.

        Raises:
            CorruptFileError: If the table contradicts itself or `bounds`.
        """
        try:
            return cls._of(file.read(), bounds, kind, lost_nulls=lost_nulls)
        except CorruptFileError as error:
            raise error if file.path in error.where else error.at(file.path) from None

    @classmethod
    def _of(
        cls, table: pa.Table, bounds: _Numbers, kind: pa.DataType, *, lost_nulls: bool
    ) -> Lookup:
        _require(table.num_columns == 4, f"columns {table.schema.names}")
        mins, maxs, null_counts, numbers = (_only(column) for column in table.columns)
        _require(mins.type == maxs.type == kind, f"bounds of {mins.type} for values of {kind}")
        try:
            require_indexable("values", kind, "BTREE")
        except UnsupportedTypeError as error:
            raise CorruptFileError(str(error)) from None
        nulls, order = _integers(null_counts), _order(_integers(numbers), len(bounds) - 1)
        if order is not None:
            places = pa.array(order)
            mins, maxs, nulls = mins.take(places), maxs.take(places), nulls[order]
        sizes = bounds[1:] - bounds[:-1]
        if lost_nulls:
            unknown = pa.scalar(None, kind)
            mins = pc.if_else(pa.array(nulls > 0), unknown, without_lost_nulls(mins))
            maxs = pc.if_else(pa.array(nulls == sizes), unknown, without_lost_nulls(maxs))
        if maxs.null_count:
            has_values = maxs.is_valid().to_numpy(zero_copy_only=False)
            pages, are_few = np.flatnonzero(has_values), (nulls < sizes) == has_values
            mins, maxs = mins.take(pa.array(pages)), maxs.take(pa.array(pages))
        else:
            pages, are_few = np.arange(len(sizes)), nulls < sizes
        _require(bool(((nulls >= 0) & (nulls <= sizes) & are_few).all()), "numbers of nulls")
        return cls(kind, bounds[:-1], bounds[1:], nulls, *_in_order(pages, mins, maxs))

    @property
    def nbytes(self) -> int:
        """The memory of the table."""
        return 4 * self.starts.nbytes + self.mins.nbytes + self.maxs.nbytes

    @property
    def num_nulls(self) -> int:
        """Number of rows that are null."""
        return int(self.null_counts.sum())

    def null_rows(self) -> RowRanges:
        """Return the rows of the file of pages that are null."""
        some = np.flatnonzero(self.null_counts)
        return _joined(self.starts[some], self.starts[some] + self.null_counts[some])

    def value_rows(self, first: int, stop: int) -> RowRanges:
        """Return the rows that have a value in the pages at some places of `pages`."""
        pages = np.sort(self.pages[first:stop])
        return _joined(self.starts[pages] + self.null_counts[pages], self.stops[pages])

    def covers(self, page: int, first: Any, last: Any) -> bool:
        """Return whether a page with values may have these keys as its first and last one."""
        in_order = page < len(self.pages) and self.pages[page] == page  # as mostly
        place = page if in_order else int(self._places[page])
        is_open = place < self.num_open
        is_after = is_open or bool(self.mins[place - self.num_open] <= first)
        return is_after and bool(last <= self.maxs[place])

    @cached_property
    def _places(self) -> _Numbers:
        """The place in `pages` of each page that is there."""
        places = np.zeros(len(self.starts), np.int64)
        places[self.pages] = np.arange(len(self.pages))
        return places

    def place_of_min(self, key: Any, side: Side) -> Any:
        """Return how many minima are less than a key, or as great if the side is right."""
        return self.num_open + self.mins.searchsorted(key, side)

    def place_of_max(self, key: Any, side: Side) -> Any:
        """Return how many maxima are less than a key, or as great if the side is right."""
        return self.maxs.searchsorted(key, side)


def _in_order(
    pages: _Numbers, mins: pa.Array, maxs: pa.Array
) -> tuple[_Numbers, int, Keys, Keys, pa.Scalar, pa.Scalar]:
    """Sort pages with values by their bounds, which must not overlap."""
    max_keys = keys_of(maxs)
    if not are_ascending(max_keys):
        order = stable_order(max_keys)
        pages, mins, maxs = pages[order], mins.take(pa.array(order)), maxs.take(pa.array(order))
        max_keys = keys_of(maxs)
    num_open = mins.null_count
    _require(mins.slice(num_open).null_count == 0, "a null after a minimum")
    min_keys = keys_of(without_nulls(mins))
    _require(
        none_exceeds(min_keys, max_keys[num_open:])
        and none_exceeds(max_keys[max(num_open - 1, 0) : -1], min_keys[0 if num_open else 1 :]),
        "pages whose values overlap",
    )
    ends = (mins[0], maxs[-1]) if len(pages) else (pa.scalar(None, mins.type),) * 2
    return pages, num_open, min_keys, max_keys, *ends


def without_lost_nulls(values: pa.Array) -> pa.Array:
    """Return values of a legacy file, in which empty texts became nulls."""
    if values.null_count == 0:
        return values
    return values.fill_null(scalar_of("" if is_text(values.type) else b"", values.type))


def _joined(starts: _Numbers, stops: _Numbers) -> RowRanges:
    """Return ranges of rows, adjacent ones as one."""
    apart = starts[1:] != stops[:-1]
    is_first, is_last = np.append(True, apart), np.append(apart, True)
    if not len(starts):
        return RowRanges.of()
    bounds = np.stack([starts[is_first], stops[is_last]], axis=1)
    return RowRanges(np.ascontiguousarray(bounds))


def _integers(column: pa.Array) -> _Numbers:
    _require(pt.is_integer(column.type) and not column.null_count, f"a column of {column.type}")
    numbers: _Numbers = column.to_numpy().astype(np.int64, copy=False)
    return numbers


def _order(numbers: _Numbers, num_pages: int) -> _Numbers | None:
    """Return the order of pages by their numbers; None if they are in order, as mostly."""
    wanted, order = np.arange(num_pages), None
    if len(numbers) != num_pages or not (numbers == wanted).all():
        order = np.argsort(numbers, kind="stable")
        _require(np.array_equal(numbers[order], wanted), f"page numbers of {num_pages} pages")
    return order


def _only(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _require(is_true: bool, what: str) -> None:
    if not is_true:
        raise CorruptFileError(f"lookup table of a B-tree: {what}")
