"""An open B-tree: searches by the lookup table in memory, and by its pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.format.rows import Addresses, RowRanges
from pilum.index.answers import Answer, RowSet
from pilum.index.base import Index, Moves
from pilum.index.files import IndexFile
from pilum.index.queries import Between, IsIn, IsNull, Query, StartsWith
from pilum.index.scalar.btree_lookup import Lookup
from pilum.index.scalar.btree_pages import CACHE_BYTES, PAGES_AT_ONCE, Page, Pages, are_paired
from pilum.index.scalar.keys import (
    KeyRange,
    Keys,
    has_prefixes,
    integer_key,
    integer_keys,
    keys_at,
    keys_of,
    range_of,
    sorted_keys,
    stable_order,
)
from pilum.index.scalar.shown import shown
from pilum.index.scalar.sorting import Block
from pilum.kernels import equal_rows
from pilum.lazy import cached_property

__all__ = ["BTreeIndex"]

_FEWEST_WITH_FULL = 2
"""A value that more pages may have fills those between the first and the last one."""

_FEW_PAGES = 16
"""A range of so many pages is kept in the cache; of a longer one only references are read."""

_FEW_KEYS = 16
"""An estimate for more keys reads a page, of which the search reads more."""

_GUESSED_KEYS = 64
"""Number of different values that a page is taken to have before one was read."""

_NO_REFERENCES = np.empty(0, dtype=np.uint64)

_Sought: TypeAlias = "tuple[pa.Array, Keys, NDArray[np.int64], NDArray[np.int64]]"
"""Values, their keys in order, the first place of `pages` that may have each, and the one after."""


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
        self._lookup = lookup
        self._pages = Pages(data, lookup)
        self._nulls: RowSet | None = None if lookup.num_nulls else RowSet()
        self._fixed_bytes = lookup.nbytes
        self._sought: _Sought | None = None
        self._rows_per_key: float | None = None

    @property
    def value_type(self) -> pa.DataType:
        """See `Index.value_type`."""
        return self.type

    @property
    def size_bytes(self) -> int:
        """The approximate memory that it uses."""
        return self._fixed_bytes + self._pages.cache.size_bytes

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

    def rows_with(self, values: Sequence[int]) -> Addresses | None:
        """Return the rows with some integers, none of which fills a page; see `Index.rows_with`."""
        if len(values) == 1:
            return self._rows_with_one(values[0])
        keys = integer_keys(values, self.type)
        if keys is None:
            return None
        first, stop = self._pages_of_keys(keys)
        if len(keys) and int((stop - first).max()) > _FEWEST_WITH_FULL:
            return None
        return self._rows_of(keys, first, stop)

    def _rows_with_one(self, value: int) -> Addresses | None:
        """Return what `rows_with` returns for one integer, in fewer steps."""
        key, lookup = integer_key(value, self.type), self._lookup
        if key is None:
            return None
        first, stop = int(lookup.place_of_max(key, "left")), int(lookup.place_of_min(key, "right"))
        if stop <= first:
            return _NO_REFERENCES
        if stop - first > 1:
            return None
        return self._pages.at(first).between(key, key, "left", "right")

    def pairs(self, values: pa.Array) -> tuple[NDArray[np.int64], Addresses] | None:
        """Return the pairs of a value and a row with this value; floats are equal by their bits."""
        self._require_type(values.type)
        wanted = keys_of(values)
        order = stable_order(wanted)
        places, references = [np.empty(0, np.int64)], [_NO_REFERENCES]
        for found, rows in self._pairs_of_many(keys_at(wanted, order)):
            places.append(found)
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
            return self._pages.at(min(place, len(self._lookup.pages) - 1)).rows_per_key
        except CorruptFileError:  # the search reports it
            return None

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
        """Load the runs of pages into memory, up to its limit, and the rows that are null."""
        self._null_rows()
        for number, _ in enumerate(self._pages.groups()):
            run = self._pages.run(number)
            if self._pages.cache.size_bytes + run.nbytes > CACHE_BYTES:
                break

    def blocks(self, moves: Moves | None = None) -> Iterator[Block]:
        """Yield all rows in order, nulls first.

        Args:
            moves: Where they are now; None if they are where they were.
        """
        lookup = self._lookup
        nulls = lookup.null_rows()
        for low, high in nulls.bounds.tolist():
            step = max(self._mean_rows * PAGES_AT_ONCE, 1)
            for start in range(low, high, step):
                rows = RowRanges.one(start, min(start + step, high))
                values = pa.nulls(rows.num_rows, self.type)
                yield from Block(values, self._pages.null_references(rows)).moved(moves)
        for pages in self._pages.groups():
            for values, references in self._pages.in_order(pages):
                yield from Block(values, references).moved(moves)

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
            self._nulls = RowSet.of(self._pages.null_references(self._lookup.null_rows()))
            self._fixed_bytes += self._nulls.listed.nbytes
        return self._nulls

    def _equal_to(self, values: pa.Array) -> Addresses:
        return self._rows_of(*self._seek(values)[1:])

    def _rows_of(self, keys: Keys, first: NDArray[np.int64], stop: NDArray[np.int64]) -> Addresses:
        """Return the rows with some ascending keys.

        Args:
            keys: The keys.
            first: The first place of `pages` that may have each key.
            stop: The place after the last one.
        """
        if len(keys) == 1 and int(stop[0]) - int(first[0]) == 1:  # the common case
            return self._pages.at(int(first[0])).between(keys[0], keys[0], "left", "right")
        places, lows, highs = self._places_with(first, stop)
        parts = [_NO_REFERENCES]
        for group in self._pages.covering(places):
            sought = [(page, lows[low], highs[high - 1]) for low, high, page in group]
            if are_paired(keys):
                pages: list[Any] = [(page.keys, page.references, *own) for page, *own in sought]
                parts.append(equal_rows(keys, pages))
            else:
                parts += [page.equal_to(keys[low:high]) for page, low, high in sought]
        return np.concatenate(parts)

    def _places_with(
        self, first: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], list[int], list[int]]:
        """Return places of `pages` that may have some ascending keys, and which keys.

        Args:
            first: The first place that may have each key.
            stop: The place after the last one.

        Returns:
            The places, and for each the first key and the one after the last.
        """
        changes = np.bincount(first, minlength=len(self._lookup.pages) + 1)
        changes -= np.bincount(np.maximum(first, stop), minlength=len(changes))
        places = np.flatnonzero(changes.cumsum())
        lows, highs = stop.searchsorted(places, "right"), first.searchsorted(places, "right")
        return places, lows.tolist(), highs.tolist()

    def _pairs_of_many(self, keys: Any) -> Iterator[tuple[NDArray[np.int64], Addresses]]:
        """Yield the pairs of the place of a key, of very many ascending ones, and a row with it.

        If most pages may have a key, runs are searched.
        """
        lookup, num_pages = self._lookup, len(self._lookup.pages)
        lows = np.zeros(num_pages, np.int64)
        lows[lookup.num_open :] = keys.searchsorted(lookup.mins, "left")
        highs = keys.searchsorted(lookup.maxs, "right")
        [places] = (lows < highs).nonzero()
        if 2 * len(places) > num_pages > PAGES_AT_ONCE:
            starts = np.arange(0, num_pages, PAGES_AT_ONCE)
            stops = np.minimum(starts + PAGES_AT_ONCE, num_pages)
            ends = zip(lows[starts].tolist(), highs[stops - 1].tolist(), strict=True)
            for number, (low, high) in enumerate(ends):
                yield _pairs(self._pages.run(number), keys, low, high)
            return
        for group in self._pages.covering(places):
            for low, high, page in group:
                yield _pairs(page, keys, int(lows[places[low]]), int(highs[places[high - 1]]))

    def _between(self, query: Between | StartsWith) -> Addresses:
        wanted = range_of(query, self.type)
        first, inner, inner_stop, stop = self._pages_between(wanted)
        if inner_stop - inner <= _FEW_PAGES or self._pages.are_joined(first, stop):
            inner = inner_stop = stop
        outer = np.concatenate((np.arange(first, inner), np.arange(inner_stop, stop)))
        groups = self._pages.covering(outer)
        parts = [page.between(*wanted) for group in groups for _, _, page in group]
        if inner < inner_stop:
            parts.append(self._pages.references(inner, inner_stop))
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


def _pairs(page: Page, keys: Any, low: int, high: int) -> tuple[NDArray[np.int64], Addresses]:
    """Return the pairs of the place of a key, of a part of some ascending ones, and a row."""
    places, rows = page.pairs(keys[low:high])
    return places + low, rows
