"""An open B-tree: the lookup table in memory, pages on demand and cached."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.cache import Cache
from pilum.errors import CorruptFileError
from pilum.format.rows import Addresses, RowRanges
from pilum.index.answers import Answer, RowSet
from pilum.index.base import Index, Moves
from pilum.index.files import IndexFile
from pilum.index.queries import Between, IsIn, IsNull, Query, StartsWith
from pilum.index.scalar.btree_lookup import Lookup, without_lost_nulls
from pilum.index.scalar.keys import (
    KeyRange,
    Keys,
    Side,
    are_ascending,
    differences,
    has_prefixes,
    integer_key,
    joined_keys,
    keys_at,
    keys_of,
    range_of,
    sorted_keys,
    stable_order,
)
from pilum.index.scalar.shown import shown
from pilum.index.scalar.sorting import Block
from pilum.kernels import equal_pairs, equal_rows

__all__ = ["BTreeIndex"]

_CACHE_BYTES = 256 << 20
_PAGES_AT_ONCE = 64
"""So many pages are read together at most, so that memory is bounded."""

_FEW_PAGES = 16
"""A range of so many pages is kept in the cache; of a longer one only references are read."""

_FEW_KEYS = 16
"""An estimate for more keys reads a page, of which the search reads more."""

_GUESSED_KEYS = 64
"""Number of different values that a page is taken to have before one was read."""

_PAIRED = ("<i8", "<u8", "<i4", "<u4")
"""The keys that kernels search."""

_NO_REFERENCES = np.empty(0, dtype=np.uint64)

_Sought: TypeAlias = "tuple[pa.Array, Keys, NDArray[np.int64], NDArray[np.int64]]"
"""Values, their keys in order, the first place of `pages` that may have each, and the one after."""


@dataclass(frozen=True, slots=True, eq=False)
class _Page:
    """The rows of a page that have a value, at least one."""

    keys: Keys
    references: Addresses

    @property
    def rows_per_key(self) -> float:
        """The mean number of rows with the same value."""
        return len(self.keys) / (int(differences(self.keys).sum()) + 1)

    def between(self, low: Any, high: Any, low_side: Side, high_side: Side) -> Addresses:
        start = 0 if low is None else self.keys.searchsorted(low, low_side)
        stop = len(self.keys) if high is None else self.keys.searchsorted(high, high_side)
        return self.references[start:stop]

    def equal_to(self, keys: Any) -> Addresses:
        if len(keys) == 1:  # most pages, unless there are very many keys
            return self.between(keys[0], keys[0], "left", "right")
        starts = self.keys.searchsorted(keys, "left")
        lengths = self.keys.searchsorted(keys, "right") - starts
        shifts = starts - np.cumsum(lengths) + lengths
        return self.references[np.repeat(shifts, lengths) + np.arange(int(lengths.sum()))]

    def pairs(self, keys: Any) -> tuple[NDArray[np.int64], Addresses]:
        """Return the pairs of the place of a key and a reference."""
        if isinstance(self.keys, np.ndarray) and self.keys.dtype.str in _PAIRED:
            places, found = equal_pairs(keys, self.keys)
            return places, self.references[found]
        starts = self.keys.searchsorted(keys, "left")
        lengths = self.keys.searchsorted(keys, "right") - starts
        shifts = starts - np.cumsum(lengths) + lengths
        found = np.repeat(shifts, lengths) + np.arange(int(lengths.sum()))
        return np.repeat(np.arange(len(keys)), lengths), self.references[found]


class BTreeIndex(Index):
    """An open segment of a B-tree.

    Args:
        data: The file of pages.
        lookup: The lookup table.
        page_rows: Rows of a page; 0 if pages are the batches of a legacy file.

    Attributes:
        type: Type of the values.
        page_rows: See above.
    """

    def __init__(self, data: IndexFile, lookup: Lookup, page_rows: int) -> None:
        self.type = lookup.type
        self.page_rows = page_rows
        self._data = data
        self._columns = data.schema.names
        self._lookup = lookup
        self._cache = Cache(_CACHE_BYTES)
        self._nulls: RowSet | None = None if lookup.num_nulls else RowSet()
        self._fixed_bytes = lookup.nbytes
        self._sought: _Sought | None = None
        self._rows_per_key: float | None = None

    @property
    def size_bytes(self) -> int:
        """The approximate memory that it uses."""
        return self._fixed_bytes + self._cache.size_bytes

    def search(self, query: Query) -> Answer | None:
        """Return the rows that match, exactly."""
        match query:
            case IsNull():
                return Answer(self._null_rows())
            case IsIn():
                self._require_type(query.values.type)
                rows = self._equal_to(query.values)
            case StartsWith() if has_prefixes(self.type):
                rows = self._between(query)
            case Between():
                for end in (query.low, query.high):
                    self._require_type(self.type if end is None else end.type)
                rows = self._between(query)
            case _:
                return None
        return Answer(RowSet.of(rows), self._null_rows)

    def rows_with(self, value: int) -> Addresses | None:
        """Return the rows with one integer, if it is in one page; see `Index.rows_with`."""
        key, lookup = integer_key(value, self.type), self._lookup
        if key is None:
            return None
        first, stop = int(lookup.place_of_max(key, "left")), int(lookup.place_of_min(key, "right"))
        if stop <= first:
            return _NO_REFERENCES
        if stop - first > 1:
            return None
        [page] = self._load(lookup.pages[first:stop])
        return page.between(key, key, "left", "right")

    def pairs(self, values: pa.Array) -> tuple[NDArray[np.int64], Addresses] | None:
        """Return the pairs of a value and a row with this value; floats are equal by their bits."""
        self._require_type(values.type)
        wanted = keys_of(values)
        order = stable_order(wanted)
        keys = keys_at(wanted, order)
        places, references = [np.empty(0, np.int64)], [_NO_REFERENCES]
        for low, high, page in self._pages_of_many(keys):
            found, rows = page.pairs(keys[low:high])
            places.append(found + low)
            references.append(rows)
        return order[np.concatenate(places)], np.concatenate(references)

    def estimate(self, query: Query) -> int | None:
        """Return about how many rows `search` would return."""
        match query:
            case IsNull():
                return self._lookup.num_nulls
            case IsIn(values=values):
                # `search` reports the other type.
                return self._estimate_equal(values) if values.type == self.type else 0
            case StartsWith() if has_prefixes(self.type):
                return self._estimate_between(query)
            case Between():
                ends = (self.type if one is None else one.type for one in (query.low, query.high))
                return self._estimate_between(query) if set(ends) == {self.type} else 0
        return None

    def _estimate_equal(self, values: pa.Array) -> int:
        _, _, first, stop = self._seek(values)
        if len(first) == 1:
            return int(self._rows_of_pages(int(stop[0]) - int(first[0])))
        num_pages = stop - first
        # Values that straddle pages fill those between the first and the last one.
        num_full, num_keys = int(np.maximum(num_pages - 2, 0).sum()), int((num_pages > 0).sum())
        if num_keys > _FEW_KEYS:
            self._rows_per_key = self._rows_per_key or self._sampled(int(first[len(first) // 2]))
        rows_per_key = self._rows_per_key or self._mean_rows / _GUESSED_KEYS
        return int(num_full * self._mean_rows + num_keys * rows_per_key)

    def _rows_of_pages(self, num_pages: int) -> float:
        """Estimate the rows of one key, given the number of pages that may have it."""
        if num_pages <= 0:
            return 0.0
        rows_per_key = self._rows_per_key or self._mean_rows / _GUESSED_KEYS
        return max(num_pages - 2, 0) * self._mean_rows + rows_per_key

    def _sampled(self, place: int) -> float | None:
        """Return the rows per key of a page that a search for many keys needs."""
        try:
            [page] = self._load(self._lookup.pages[: place + 1][-1:])
        except CorruptFileError:  # the search reports it
            return None
        return page.rows_per_key

    def _estimate_between(self, query: Between | StartsWith) -> int:
        lookup = self._lookup
        outer, full, full_stop, outer_stop = self._pages_between(range_of(query, self.type))
        num_rows = lookup.value_rows(full, full_stop).num_rows
        num_parts = outer_stop - outer - (full_stop - full)
        return num_rows + num_parts * self._mean_rows // 2

    def statistics(self) -> dict[str, Any]:
        """Return the number of pages, and the bounds as text."""
        lookup = self._lookup
        has_values = len(lookup.pages) > 0
        return {
            "min": shown(lookup.min) if has_values else "N/A",
            "max": shown(lookup.max) if has_values else "N/A",
            "num_pages": len(lookup.starts),
        }

    def prewarm(self) -> None:
        """Load the pages into the cache, up to its limit, and the rows that are null."""
        self._null_rows()
        for pages in self._groups(self._lookup.pages):
            if self._cache.size_bytes > _CACHE_BYTES // 2:
                break
            self._load(pages)

    def blocks(self, moves: Moves | None = None) -> Iterator[Block]:
        """Yield all rows in order, nulls first.

        Args:
            moves: Where they are now; None if they are where they were.
        """
        lookup = self._lookup
        nulls = lookup.null_rows()
        for low, high in nulls.bounds.tolist():
            step = max(self._mean_rows * _PAGES_AT_ONCE, 1)
            for start in range(low, high, step):
                rows = RowRanges.one(start, min(start + step, high))
                values = pa.nulls(rows.num_rows, self.type)
                yield from Block(values, self._null_references(rows)).moved(moves)
        for pages in self._groups(lookup.pages):
            for values, references in self._in_order(pages):
                yield from Block(values, references).moved(moves)

    def _in_order(self, pages: NDArray[np.int64]) -> Iterator[tuple[pa.Array, Addresses]]:
        """Yield the rows of pages in the order given, all at once if that is the one they have."""
        if bool((pages[1:] > pages[:-1]).all()):
            values, references, _ = self._read_rows(pages)
            yield values, references
        else:
            for _, values, references in self._read_pages(pages):
                yield values, references

    def _seek(self, values: pa.Array) -> _Sought:
        """Return the pages that may have some values; an estimate is followed by a search."""
        sought = self._sought
        if sought is None or sought[0] is not values:
            keys = sorted_keys(values)
            sought = self._sought = (values, keys, *self._pages_of_keys(keys))
        return sought

    @cached_property
    def _mean_rows(self) -> int:
        num_pages = len(self._lookup.starts)
        return self._data.num_rows // num_pages if num_pages else 0

    def _require_type(self, kind: pa.DataType) -> None:
        if kind != self.type:
            raise CorruptFileError(f"B-tree of {self.type} for a column of {kind}", self._data.path)

    def _null_rows(self) -> RowSet:
        if self._nulls is None:
            self._nulls = RowSet.of(self._null_references(self._lookup.null_rows()))
            self._fixed_bytes += self._nulls.listed.nbytes
        return self._nulls

    def _null_references(self, rows: RowRanges) -> Addresses:
        table = self._data.read(self._columns, rows)
        self._require_nulls(table, rows.num_rows)
        return self._references(table.column(1))

    def _equal_to(self, values: pa.Array) -> Addresses:
        _, keys, first, stop = self._seek(values)
        if len(keys) == 1:  # the common case
            key = keys[0]
            pages = self._lookup.pages[int(first[0]) : int(stop[0])]
            own = self._load(pages) if len(pages) <= _PAGES_AT_ONCE else self._pages(pages)
            parts = [page.between(key, key, "left", "right") for page in own]
        elif isinstance(keys, np.ndarray) and keys.dtype.str in _PAIRED:
            found, parts = self._pages_with(first, stop), []
            while group := list(islice(found, _PAGES_AT_ONCE)):
                sought: list[Any] = [
                    (page.keys, page.references, low, high) for low, high, page in group
                ]
                parts.append(equal_rows(keys, sought))
        else:
            parts = [
                page.equal_to(keys[low:high]) for low, high, page in self._pages_with(first, stop)
            ]
        return parts[0] if len(parts) == 1 else np.concatenate([_NO_REFERENCES, *parts])

    def _pages_of_many(self, keys: Any) -> Iterator[tuple[int, int, _Page]]:
        """Yield pages, and which of very many ascending keys each may have.

        If most pages may have a key, adjacent ones are joined.
        """
        lookup, pages = self._lookup, self._lookup.pages
        lows = np.zeros(len(pages), np.int64)
        lows[lookup.num_open :] = keys.searchsorted(lookup.mins, "left")
        highs = keys.searchsorted(lookup.maxs, "right")
        [places] = (lows < highs).nonzero()
        if 2 * len(places) > len(pages) > _PAGES_AT_ONCE:
            starts = np.arange(0, len(pages), _PAGES_AT_ONCE)
            stops = np.minimum(starts + _PAGES_AT_ONCE, len(pages))
            lows, highs = lows[starts], highs[stops - 1]
            found: Iterator[_Page] = map(self._joined, starts.tolist())
        else:
            lows, highs, found = lows[places], highs[places], self._pages(pages[places])
        yield from zip(lows.tolist(), highs.tolist(), found, strict=True)

    def _pages_with(
        self, first: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> Iterator[tuple[int, int, _Page]]:
        """Yield pages, and which of some ascending keys each may have.

        Args:
            first: The first place of `pages` that may have each key.
            stop: The place after the last one.
        """
        changes = np.bincount(first, minlength=len(self._lookup.pages) + 1)
        changes -= np.bincount(np.maximum(first, stop), minlength=len(changes))
        places = np.flatnonzero(changes.cumsum())
        yield from zip(
            stop.searchsorted(places, "right").tolist(),
            first.searchsorted(places, "right").tolist(),
            self._pages(self._lookup.pages[places]),
            strict=True,
        )

    def _joined(self, start: int) -> _Page:
        """Return the rows of the pages from a place on, as many as are read together."""
        key = "joined", start
        page = self._cache.get(key)
        if page is None:
            pages = self._lookup.pages[start : start + _PAGES_AT_ONCE]
            found = list(self._in_order(pages))
            keys = joined_keys([keys_of(values) for values, _ in found])
            page = _Page(keys, np.concatenate([references for _, references in found]))
            self._cache.put(key, page, page.keys.nbytes + page.references.nbytes)
        return page

    def _between(self, query: Between | StartsWith) -> Addresses:
        wanted = range_of(query, self.type)
        first, inner, inner_stop, stop = self._pages_between(wanted)
        if inner_stop - inner <= _FEW_PAGES:
            inner = inner_stop = stop
        pages = self._lookup.pages
        outer = np.concatenate((pages[first:inner], pages[inner_stop:stop]))
        parts = [page.between(*wanted) for page in self._pages(outer)]
        if inner < inner_stop:
            rows = self._lookup.value_rows(inner, inner_stop)
            parts.append(self._references(self._data.read(self._columns[1:2], rows).column(0)))
        return np.concatenate([_NO_REFERENCES, *parts])

    def _pages_of_keys(self, keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first place of `pages` that may have each key, and the one after the last."""
        lookup = self._lookup
        return lookup.place_of_max(keys, "left"), lookup.place_of_min(keys, "right")

    def _pages_between(self, wanted: KeyRange) -> tuple[int, int, int, int]:
        """Return which places of `pages` may have keys of a range, and which have no others."""
        lookup = self._lookup
        low, high, low_side, high_side = wanted
        num_pages = len(lookup.pages)
        first = 0 if low is None else int(lookup.place_of_max(low, low_side))
        stop = num_pages if high is None else int(lookup.place_of_min(high, high_side))
        inner = 0 if low is None else int(lookup.place_of_min(low, low_side))
        inner_stop = num_pages if high is None else int(lookup.place_of_max(high, high_side))
        stop = max(first, stop)
        inner = min(max(inner, first), stop)
        return first, inner, min(max(inner_stop, inner), stop), stop

    def _groups(self, pages: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        for start in range(0, len(pages), _PAGES_AT_ONCE):
            yield pages[start : start + _PAGES_AT_ONCE]

    def _pages(self, pages: NDArray[np.int64]) -> Iterator[_Page]:
        """Yield pages in the order given; those that are not cached are read in groups."""
        for group in self._groups(pages):
            yield from self._load(group)

    def _load(self, pages: NDArray[np.int64]) -> list[_Page]:
        numbers = pages.tolist()
        cached: list[_Page | None] = self._cache.get_all(numbers)
        if None not in cached:
            return cast("list[_Page]", cached)
        found = {number: page for number, page in zip(numbers, cached, strict=True) if page}
        missing = np.array([number for number in numbers if number not in found], np.int64)
        for number, values, references in self._read_pages(missing):
            if len(missing) > 1:  # do not keep the buffer of all pages
                values, references = pa.concat_arrays([values, values[:0]]), references.copy()
            page = _Page(keys_of(values), references)
            self._cache.put(number, page, page.keys.nbytes + references.nbytes)
            found[number] = page
        return [found[number] for number in numbers]

    def _read_pages(self, pages: NDArray[np.int64]) -> Iterator[tuple[int, pa.Array, Addresses]]:
        """Yield the number, values and references of pages, without nulls, in the order given."""
        values, references, bounds = self._read_rows(np.sort(pages))
        offsets = dict(zip(np.sort(pages).tolist(), pairwise(bounds.tolist()), strict=True))
        for number in pages.tolist():
            start, stop = offsets[number]
            yield number, values.slice(start, stop - start), references[start:stop]

    def _read_rows(self, pages: NDArray[np.int64]) -> tuple[pa.Array, Addresses, NDArray[np.int64]]:
        """Return the values and references of ascending pages, without nulls; and their bounds."""
        lookup = self._lookup
        starts = lookup.starts[pages] + lookup.null_counts[pages]
        sizes = lookup.stops[pages] - starts
        table = self._data.read(
            self._columns, RowRanges(np.stack([starts, starts + sizes], axis=1))
        )
        self._require_nulls(table, 0)
        values, references = table.column(0).combine_chunks(), self._references(table.column(1))
        if self._is_legacy:
            values = without_lost_nulls(values)
        bounds = np.concatenate(([0], np.cumsum(sizes)))
        self._require_order(keys_of(values), pages, bounds)
        return values, references, bounds

    def _require_order(
        self, keys: Keys, pages: NDArray[np.int64], bounds: NDArray[np.int64]
    ) -> None:
        """Raise an error if keys of a page are not in order, or not within its bounds.

        The bounds of different pages do not overlap, so pages are in order, too.
        """
        is_ordered = are_ascending(keys)
        for number, (start, stop) in zip(pages.tolist(), pairwise(bounds.tolist()), strict=True):
            if not (is_ordered or are_ascending(keys[start:stop])):
                raise CorruptFileError(f"page {number} is not in order", self._data.path)
            if start < stop and not self._lookup.covers(number, keys[start], keys[stop - 1]):
                raise CorruptFileError(
                    f"page {number} has values outside of its bounds in the lookup table",
                    self._data.path,
                )

    @property
    def _is_legacy(self) -> bool:
        return self._data.batch_bounds is not None

    def _require_nulls(self, table: pa.Table, num_nulls: int) -> None:
        found = table.column(0).null_count
        if found != num_nulls and not self._is_legacy:
            raise CorruptFileError(
                f"{found} nulls where the lookup table has {num_nulls}", self._data.path
            )

    def _references(self, column: pa.ChunkedArray) -> Addresses:
        if column.null_count:
            raise CorruptFileError(f"{column.null_count} references are null", self._data.path)
        references: Addresses = column.to_numpy()
        return references
