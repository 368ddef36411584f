"""The pages of a B-tree: read when they are needed, checked, and kept in memory.

    places    0   1   2  …  63 | 64  …  127 | …       of pages, in the order of their values
    alone         ■                    ■              read for few keys
    runs                         ■■■■■■■■■■■■         64 pages, joined for very many keys, or before

A run is searched like a page, which takes fewer steps than to search its pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeGuard, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.cache import Cache
from pilum.errors import CorruptFileError
from pilum.format.rows import Addresses, RowRanges
from pilum.index.files import IndexFile
from pilum.index.scalar.btree_lookup import Lookup, without_lost_nulls
from pilum.index.scalar.keys import (
    Keys,
    Side,
    are_ascending,
    differences,
    joined_keys,
    keys_of,
)
from pilum.kernels import equal_pairs

__all__ = ["CACHE_BYTES", "PAGES_AT_ONCE", "Page", "Pages", "are_paired"]

CACHE_BYTES = 256 << 20
PAGES_AT_ONCE = 64
"""So many pages are read together at most, so that memory is bounded; a run has as many."""

_PAIRED = ("<i8", "<u8", "<i4", "<u4")
"""The keys that kernels search."""


def are_paired(keys: Keys) -> TypeGuard[NDArray[Any]]:
    """Return whether kernels search keys."""
    return isinstance(keys, np.ndarray) and keys.dtype.str in _PAIRED


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """The rows of a page or of a run that have a value, at least one.

    Attributes:
        keys: The keys of the values, ascending.
        references: The rows, uint64, as many.
    """

    keys: Keys
    references: Addresses

    @property
    def nbytes(self) -> int:
        """The bytes of the rows."""
        return self.keys.nbytes + self.references.nbytes

    @property
    def rows_per_key(self) -> float:
        """The mean number of rows with the same value."""
        return len(self.keys) / (int(differences(self.keys).sum()) + 1)

    def between(self, low: Any, high: Any, low_side: Side, high_side: Side) -> Addresses:
        """Return the rows between two keys; None for no limit."""
        start = 0 if low is None else self.keys.searchsorted(low, low_side)
        stop = len(self.keys) if high is None else self.keys.searchsorted(high, high_side)
        return self.references[start:stop]

    def equal_to(self, keys: Any) -> Addresses:
        """Return the rows with one of some keys."""
        if len(keys) == 1:  # most pages, unless there are very many keys
            return self.between(keys[0], keys[0], "left", "right")
        return self.pairs(keys)[1]

    def pairs(self, keys: Any) -> tuple[NDArray[np.int64], Addresses]:
        """Return the pairs of the place of a key and a reference."""
        if are_paired(self.keys):
            places, found = equal_pairs(keys, self.keys)
            return places, self.references[found]
        starts = self.keys.searchsorted(keys, "left")
        lengths = self.keys.searchsorted(keys, "right") - starts
        shifts = starts - np.cumsum(lengths) + lengths
        found = np.repeat(shifts, lengths) + np.arange(int(lengths.sum()))
        return np.repeat(np.arange(len(keys)), lengths), self.references[found]


class Pages:
    """The pages of a segment. Safe to use from several threads.

    Args:
        data: The file of pages.
        lookup: The lookup table, whose `pages` have places.

    Attributes:
        cache: What is kept in memory: pages by their numbers, and runs.
    """

    def __init__(self, data: IndexFile, lookup: Lookup) -> None:
        self._data = data
        self._columns = data.schema.names
        self._lookup = lookup
        self.cache = Cache(CACHE_BYTES)

    def at(self, place: int) -> Page:
        """Return a page, or the run that contains it."""
        run: Page | None = self.cache.get((Pages, place // PAGES_AT_ONCE))
        return self._loaded(self._lookup.pages[place : place + 1])[0] if run is None else run

    def covering(self, places: NDArray[np.int64]) -> Iterator[Sequence[tuple[int, int, Page]]]:
        """Yield pages, or the runs that contain them, in groups that are read together.

        Args:
            places: Ascending places.

        Yields:
            Pages and runs, each with which of `places` it contains, from the first to before the
            last; a run may contain other places, too.
        """
        if not len(places):
            return
        numbers = places // PAGES_AT_ONCE
        cuts = [0, *((numbers[1:] != numbers[:-1]).nonzero()[0] + 1).tolist(), len(places)]
        runs = self.cache.get_all([(Pages, number) for number in numbers[cuts[:-1]].tolist()])
        parts = list(zip(cuts[:-1], cuts[1:], runs, strict=True))
        yield [(low, high, run) for low, high, run in parts if run is not None]
        alone = [one for low, high, run in parts if run is None for one in range(low, high)]
        for start in range(0, len(alone), PAGES_AT_ONCE):
            group = alone[start : start + PAGES_AT_ONCE]
            pages = self._loaded(self._lookup.pages[places[group]])
            yield [(one, one + 1, page) for one, page in zip(group, pages, strict=True)]

    def are_joined(self, first: int, stop: int) -> bool:
        """Return whether the runs with some places are in memory."""
        numbers = range(first // PAGES_AT_ONCE, (stop - 1) // PAGES_AT_ONCE + 1)
        return None not in self.cache.get_all([(Pages, number) for number in numbers])

    def run(self, number: int) -> Page:
        """Return a run; the first one has the number 0."""
        key = Pages, number
        run: Page | None = self.cache.get(key)
        if run is None:
            start = number * PAGES_AT_ONCE
            found = list(self.in_order(self._lookup.pages[start : start + PAGES_AT_ONCE]))
            keys = joined_keys([keys_of(values) for values, _ in found])
            run = Page(keys, np.concatenate([references for _, references in found]))
            self.cache.put(key, run, run.nbytes)
        return run

    def groups(self) -> Iterator[NDArray[np.int64]]:
        """Yield the pages in the order of their values, so many as are read together."""
        pages = self._lookup.pages
        for start in range(0, len(pages), PAGES_AT_ONCE):
            yield pages[start : start + PAGES_AT_ONCE]

    def in_order(self, pages: NDArray[np.int64]) -> Iterator[tuple[pa.Array, Addresses]]:
        """Yield the rows of pages in the order given, all at once if that is the one they have."""
        if bool((pages[1:] > pages[:-1]).all()):
            values, references, _ = self._read_rows(pages)
            yield values, references
        else:
            for _, values, references in self._read(pages):
                yield values, references

    def null_references(self, rows: RowRanges) -> Addresses:
        """Read the references of rows of the file that are null."""
        table = self._data.read(self._columns, rows)
        self._require_nulls(table, rows.num_rows)
        return self._references(table.column(1))

    def references(self, first: int, stop: int) -> Addresses:
        """Read the references of the rows that have a value in the pages at some places."""
        rows = self._lookup.value_rows(first, stop)
        return self._references(self._data.read(self._columns[1:2], rows).column(0))

    def _loaded(self, pages: NDArray[np.int64]) -> list[Page]:
        """Return pages; those that are not in memory are read and kept."""
        numbers = pages.tolist()
        cached: list[Page | None] = self.cache.get_all(numbers)
        if None not in cached:
            return cast("list[Page]", cached)
        found = {number: page for number, page in zip(numbers, cached, strict=True) if page}
        missing = np.array([number for number in numbers if number not in found], np.int64)
        for number, values, references in self._read(missing):
            if len(missing) > 1:  # do not keep the buffer of all pages
                values, references = pa.concat_arrays([values, values[:0]]), references.copy()
            page = found[number] = Page(keys_of(values), references)
            self.cache.put(number, page, page.nbytes)
        return [found[number] for number in numbers]

    def _read(self, pages: NDArray[np.int64]) -> Iterator[tuple[int, pa.Array, Addresses]]:
        """Yield the number, values and references of pages, without nulls, in the order given."""
        ascending = pages[pages.argsort()]
        values, references, bounds = self._read_rows(ascending)
        offsets = dict(zip(ascending.tolist(), pairwise(bounds.tolist()), strict=True))
        for number in pages.tolist():
            start, stop = offsets[number]
            yield number, values.slice(start, stop - start), references[start:stop]

    def _read_rows(self, pages: NDArray[np.int64]) -> tuple[pa.Array, Addresses, NDArray[np.int64]]:
        """Return the values and references of ascending pages, without nulls; and their bounds."""
        lookup = self._lookup
        rows = np.empty((len(pages), 2), np.int64)
        rows[:, 0] = lookup.starts[pages] + lookup.null_counts[pages]
        rows[:, 1] = lookup.stops[pages]
        table = self._data.read(self._columns, RowRanges(rows))
        self._require_nulls(table, 0)
        values, references = table.column(0).combine_chunks(), self._references(table.column(1))
        if self._is_legacy:
            values = without_lost_nulls(values)
        bounds = np.zeros(len(pages) + 1, np.int64)
        (rows[:, 1] - rows[:, 0]).cumsum(out=bounds[1:])
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
