"""Searches: queries that return the best rows of a version, with columns of their own.

    query ──▶ addresses of rows, best first, and own columns ──▶ stored columns of these rows
              `_score`, `_distance`, …

Rows are found by `Search.found`, which applies the filter, the limit and the offset. A prefilter
restricts the rows that are searched. Otherwise the filter is tested for the rows that were found.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.blocks import number_array, truths
from pilum.expressions.filter import BoundFilter
from pilum.format.meta_columns import ROW_ADDRESS, ROW_ID
from pilum.format.rows import Addresses
from pilum.table.indices.index_use import IndexUse
from pilum.table.indices.row_filter import RowFilter
from pilum.table.model.deletion_vector import bit_mask
from pilum.table.read.columns import ScanColumn
from pilum.table.read.scan import ScanOptions, scan_schema
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import columns_at, take_addresses

__all__ = [
    "Found",
    "Search",
    "count_found",
    "found_rows",
    "search_rows",
    "search_schema",
]

OwnColumns = Callable[[str], pa.Array]
"""Function that returns a column of a search by its name."""


@dataclass(frozen=True)
class Found:
    """The rows that a search found, best first.

    Attributes:
        addresses: Addresses of the rows, uint64; a row may occur several times.
        column: Function that returns a column of the search by its name.
        ids: Ids of the rows; None if they have to be read.
    """

    addresses: Addresses
    column: OwnColumns
    ids: Addresses | None = None

    def take(self, places: NDArray[np.intp]) -> Found:
        """Return some of the rows."""
        chosen = number_array(places)
        return Found(
            self.addresses[places],
            lambda name: self.column(name).take(chosen),
            None if self.ids is None else self.ids[places],
        )


class Search(ABC):
    """A query that returns the best rows of a version.

    Attributes:
        score: Name of the column by which rows are ordered.
        is_prefilter: Whether only rows that match the filter are searched.
        among: A search that is a part of the filter: of the rows that it finds; None for none.
    """

    score: ClassVar[str]
    is_prefilter: bool
    among: Search | None

    @property
    @abstractmethod
    def own(self) -> Mapping[str, pa.Field]:
        """The columns that it adds, by their names. They replace stored columns of these names."""

    @property
    def first(self) -> tuple[str, ...]:
        """The columns that are always returned, before all others."""
        return ()

    @property
    def last(self) -> tuple[str, ...]:
        """The columns that are always returned, after all others but the score."""
        return ()

    def names(self, stored: Iterable[str]) -> tuple[str, ...]:
        """Return the names of all columns, given those of the table."""
        return (*(name for name in stored if name not in self.own), *self.last, self.score)

    def scope(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns that a projection can name: those of a table, and its own."""
        stored = [field for field in schema if field.name not in self.own]
        return pa.schema([*stored, *self.own.values()], schema.metadata)

    @abstractmethod
    def found(self, snapshot: Snapshot, options: ScanOptions, use: IndexUse) -> Found:
        """Return the rows after filter, limit and offset.

        Args:
            snapshot: The version.
            options: Filter, limit, offset and fragments apply.
            use: Which indices it may use.

        Raises:
            InvalidInputError: If the query cannot be answered.
            CorruptFileError: If a file is damaged.
        """

    def has_prefilter(self, options: ScanOptions) -> bool:
        """Return whether only rows are searched that match a filter."""
        return self.is_prefilter and (options.filter is not None or self.among is not None)

    def prefilter(
        self, snapshot: Snapshot, options: ScanOptions, use: IndexUse
    ) -> BoundFilter | None:
        """Return the filter of the rows that are searched; None for all.

        Raises:
            InvalidInputError: If the search in the filter cannot be answered.
            CorruptFileError: If a file is damaged.
        """
        if not self.has_prefilter(options):
            return None
        if self.among is None:
            return options.filter
        asked = ScanOptions(filter=options.filter, fragment_ids=options.fragment_ids)
        found = self.among.found(snapshot, asked, replace(use, segments=None))
        return RowFilter.of(found.addresses)

    def limited(
        self, snapshot: Snapshot, options: ScanOptions, use: IndexUse, found: Found
    ) -> Found:
        """Return the rows that are left after a postfilter, the offset and the limit.

        Args:
            snapshot: The version.
            options: Filter, limit and offset apply.
            use: Which indices the search in the filter may use.
            found: The rows that were found.
        """
        is_filtered = not self.is_prefilter and (options.filter is not None or self.among)
        limit = len(found.addresses) if options.limit is None else options.limit
        if not is_filtered and len(found.addresses) <= limit and not options.offset:
            return found
        kept = np.arange(len(found.addresses))
        if is_filtered:
            kept = np.flatnonzero(self.is_kept(snapshot, options.filter, use, found))
        return found.take(kept[options.offset : options.offset + limit])

    def is_kept(
        self, snapshot: Snapshot, filter: BoundFilter | None, use: IndexUse, found: Found
    ) -> NDArray[np.bool_]:
        """Return which of the rows that were found match the filter and the search in it.

        Args:
            snapshot: The version.
            filter: The filter, which may name columns of the search; None for none.
            use: Which indices the search in the filter may use.
            found: The rows.
        """
        addresses = found.addresses
        kept = np.ones(len(addresses), np.bool_)
        if self.among is not None:
            asked = ScanOptions(filter=RowFilter.of(addresses))
            others = self.among.found(snapshot, asked, replace(use, segments=None))
            kept &= np.isin(addresses, others.addresses)
        if filter is not None:
            named = set(filter.columns) & set(self.own)
            own = {name: found.column(name).filter(bit_mask(kept)) for name in named}
            kept[kept] = _is_match(snapshot, filter, addresses[kept], own)
        return kept

    def steps(self, snapshot: Snapshot, options: ScanOptions, use: IndexUse) -> Iterator[str]:
        """Yield descriptions of the steps of the search, the last step first."""
        del snapshot, options, use
        yield from ()


def search_schema(snapshot: Snapshot, options: ScanOptions, search: Search) -> pa.Schema:
    """Return the schema of the rows that `search_rows` returns.

    Raises:
        ColumnNotFoundError: If a column does not exist.
    """
    asked = options.columns
    names = search.names(snapshot.schema.names) if asked is None else asked
    names = (*search.first, *(name for name in names if name not in search.first))
    stored = tuple(name for name in names if name not in search.own)
    scanned = scan_schema(snapshot, options.with_columns(stored))
    fields = {field.name: field for field in scanned}
    meta = [(ROW_ID, options.with_row_id), (ROW_ADDRESS, options.with_row_address)]
    names = (*names, *(name for name, wanted in meta if wanted and name not in names))
    return pa.schema([search.own.get(name) or fields[name] for name in names], scanned.metadata)


def search_rows(
    snapshot: Snapshot, options: ScanOptions, search: Search, use: IndexUse
) -> pa.Table:
    """Search, and return the rows that were found, best first.

    Args:
        snapshot: The version.
        options: Columns, which may include those of the search, filter, limit, offset, fragments.
        search: The search.
        use: Which indices it may use.

    Raises:
        InvalidInputError: If the query cannot be answered.
        ColumnNotFoundError: If a column does not exist.
        CorruptFileError: If a file is damaged.
    """
    found = search.found(snapshot, options, use)
    return found_rows(snapshot, found, search_schema(snapshot, options, search), search)


def found_rows(snapshot: Snapshot, found: Found, schema: pa.Schema, search: Search) -> pa.Table:
    """Return the rows that a search found.

    Args:
        snapshot: The version.
        found: The rows.
        schema: The columns to return, from `search_schema`.
        search: The search.

    Raises:
        CorruptFileError: If a file is damaged.
    """
    names, own = schema.names, search.own
    if not names:
        return take_addresses(snapshot, found.addresses, [ROW_ADDRESS]).select([])
    columns = {name: found.column(name) for name in names if name in own}
    meta = {ROW_ADDRESS: found.addresses, ROW_ID: found.ids}
    for name, values in meta.items():
        if values is not None and name in names and name not in snapshot.schema.by_name:
            columns[name] = number_array(values)
    if len(columns) < len(names):
        stored = [name for name in names if name not in columns]
        columns |= _stored_columns(snapshot, found.addresses, stored)
    return pa.Table.from_arrays([columns[name] for name in names], schema=schema)


def count_found(snapshot: Snapshot, options: ScanOptions, search: Search, use: IndexUse) -> int:
    """Return the number of rows that `search_rows` returns."""
    return len(search.found(snapshot, options, use).addresses)


def _is_match(
    snapshot: Snapshot, filter: BoundFilter, addresses: Addresses, own: Mapping[str, pa.Array]
) -> NDArray[np.bool_]:
    """Return for each row whether it matches a filter.

    Args:
        snapshot: The version.
        filter: The filter, which may name columns of the search.
        addresses: Addresses of live rows, which may repeat.
        own: The columns of the search.
    """
    stored = [name for name in filter.columns if name not in own]
    columns = _stored_columns(snapshot, addresses, stored or [ROW_ADDRESS])
    columns |= {name: own[name] for name in filter.columns if name in own}
    batches = pa.table(columns).combine_chunks().to_batches()
    found = [truths(filter.mask(batch)) for batch in batches]
    return np.concatenate([np.empty(0, dtype=np.bool_), *found])


def _stored_columns(
    snapshot: Snapshot, addresses: Addresses, names: list[str]
) -> dict[str, pa.ChunkedArray | pa.Array]:
    """Return columns of rows by their names, which may be dotted paths."""
    if not names:
        return {}
    read = columns_at(snapshot, addresses, names)
    if read.keys() >= set(names):
        return read
    found = {}
    for name in names:
        top = name if name in read else name.split(".")[0]
        found[name] = ScanColumn(snapshot.described, name).pick(read[top])
    return found
