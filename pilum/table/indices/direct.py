"""Direct answers: one query of one column, from the only segment of the only index on it.

    id = 5               Ask(id, IsIn(5))               one segment    ──▶ the rows, without a plan
    id = 5 AND x > 1     the same, and other parts      one segment    ──▶ few rows, to be tested

Most lookups are of this form, and finding few rows takes less time than planning how. A version
remembers the segment of a column when the first plan has used it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import pyarrow.types as pt
from pyroaring import BitMap

from pilum.errors import InvalidInputError
from pilum.format.rows import Addresses
from pilum.index.answers import RowSet
from pilum.index.queries import IsIn
from pilum.lazy import cached_property
from pilum.table.indices.conditions import AllOf, Ask, Condition
from pilum.table.indices.costs import LISTED_ROW_NS, READ_ROW_NS, num_rows_of, scan_ns
from pilum.table.indices.index_use import IndexUse
from pilum.table.indices.open_segments import UNREADABLE, OpenSegment, located, open_segment
from pilum.table.indices.segments import segments_of
from pilum.table.read.scan import ScanOptions
from pilum.table.read.selection import Selection
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import Part, count_at, parts_at

__all__ = ["DirectIndex", "direct_selection", "index_of_integers", "remember_direct"]

T = TypeVar("T")

_MOST_ESTIMATED, _MOST_TESTED = 64, 16
"""Rows of a part of an AND: by the estimate, which is too high for distinct values, and found."""


@dataclass(frozen=True)
class DirectIndex:
    """The only index on a column, if it is one segment.

    Attributes:
        segment: The segment.
        covered: The fragments that it covers.
        path: The path of the column.
        finds_all: Whether it covers all fragments, whose order is that of addresses, and its
            references are addresses.
    """

    segment: OpenSegment
    covered: BitMap
    path: tuple[str, ...]
    finds_all: bool

    @classmethod
    def of(cls, segment: OpenSegment, path: tuple[str, ...]) -> Self:
        """Return the index on the column with a path."""
        covered, fragments = segment.fragments, segment.snapshot.manifest.fragments
        is_whole = len(covered) == len(fragments) and fragments.are_ascending
        has_addresses = not segment.has_ids and segment.moved is None
        return cls(segment, covered, path, is_whole and has_addresses)

    @cached_property
    def most_rows(self) -> int:
        """Number of rows up to which it is certain to be faster than a scan of the table."""
        snapshot = self.segment.snapshot
        num_rows = num_rows_of(snapshot, self.covered)
        scanned_ns = scan_ns(snapshot, (".".join(self.path),), num_rows)
        return int(scanned_ns / (LISTED_ROW_NS + READ_ROW_NS))

    def parts_with(self, values: Sequence[int]) -> list[Part] | None:
        """Return all rows of the table with one of some integers; None if it needs a plan.

        Raises:
            CorruptFileError: If the entries of indices in the manifest are damaged.
        """
        return self._answer(values, parts_at)

    def count_with(self, values: Sequence[int]) -> int | None:
        """Return how many rows of the table have one of some integers; None if it needs a plan.

        Raises:
            CorruptFileError: If the entries of indices in the manifest are damaged.
        """
        if len(values) == 1 and self._counts_sets:
            return self._count_in_set(values[0])
        return self._answer(values, count_at)

    @cached_property
    def _counts_sets(self) -> bool:
        """Whether there are sets of rows, which need not be listed, as all rows are live."""
        fragments = self.segment.snapshot.manifest.fragments
        are_live = not fragments.have_deletions
        return self.finds_all and are_live and self.segment.type.keeps_sets

    def _count_in_set(self, value: int) -> int | None:
        """Return the number of rows with one integer, as `count_with`."""
        segment = self.segment
        try:
            index = segment.index
            rows = index.set_with(value)
        except UNREADABLE:  # the plan leaves it out, and warns of it
            return None
        if rows is None:
            return self._answer([value], count_at)
        segment.count_grown(index)
        return int(rows.intersection_cardinality(segment.segment.addresses))

    def _answer(self, values: Sequence[int], of: Callable[[Snapshot, Addresses], T]) -> T | None:
        """Return what a function returns for the addresses of rows with one of some integers."""
        if not self.finds_all:
            return None
        segment = self.segment
        try:
            index = segment.index
            rows = index.rows_with(values)
            if rows is None or (len(rows) > 1 and len(rows) > self.most_rows):
                return None
            segment.count_grown(index)
            if len(rows) > 1:
                rows = RowSet.of(rows).listed
            return of(segment.snapshot, located(rows, segment))
        except (InvalidInputError, *UNREADABLE):  # the plan leaves it out, and warns of it
            return None


def remember_direct(snapshot: Snapshot, path: tuple[str, ...], segment: OpenSegment) -> DirectIndex:
    """Remember the only index on a column, which is one segment; return it."""
    direct = DirectIndex.of(segment, path)
    snapshot.prepared.put((DirectIndex, path), direct, 1)
    return direct


def direct_index(snapshot: Snapshot, path: tuple[str, ...]) -> DirectIndex | None:
    """Return the index on a column, if it is remembered."""
    found: DirectIndex | None = snapshot.prepared.get((DirectIndex, path))
    return found


def index_of_integers(snapshot: Snapshot, name: str) -> DirectIndex | None:
    """Return the only index on a top-level column, if it is one segment; the first call opens it.

    None if it cannot be opened: the plan leaves it out, and warns of it.

    Raises:
        CorruptFileError: If the entries of indices in the manifest are damaged.
    """
    path = (name,)
    found: DirectIndex | None = snapshot.prepared.get((DirectIndex, path))
    if found is not None or snapshot.prepared.get((index_of_integers, name)):
        return found
    snapshot.prepared.put((index_of_integers, name), True, 1)
    field = snapshot.schema.by_name.get(name)
    is_integer = field is not None and pt.is_integer(field.arrow_type)
    own = segments_of(snapshot, field.id) if field is not None and is_integer else ()
    if len(own) != 1 or not own[0].fragments:
        return None
    try:
        return remember_direct(snapshot, path, open_segment(snapshot, own[0]))
    except UNREADABLE:
        return None


def direct_selection(
    snapshot: Snapshot, options: ScanOptions, use: IndexUse, condition: Condition
) -> Selection | None:
    """Return the rows that match a condition, or may match it; None if it needs a plan.

    Of an AND, one part that few rows match is enough: these are tested.

    Raises:
        CorruptFileError: If the entries of indices in the manifest are damaged.
    """
    is_part = options.limit is not None or options.fragment_ids is not None
    if is_part or use.segments is not None:
        return None
    if type(condition) is Ask:
        return _asked(snapshot, use, condition, None)
    if type(condition) is AllOf and not use.only_counts:
        for part in condition.parts:
            if type(part) is Ask and type(part.query) is IsIn:
                found = _asked(snapshot, use, part, _MOST_ESTIMATED)
                if found is not None and found.is_few(_MOST_TESTED):
                    return Selection(found.covered, found.rows, False, use.only_covered)
    return None


def _asked(snapshot: Snapshot, use: IndexUse, ask: Ask, most_rows: int | None) -> Selection | None:
    """Return the rows that match a query; None if they may be too many for this way."""
    direct = None if ask.indexed.json_path else direct_index(snapshot, ask.indexed.path)
    if direct is None:
        return None
    most = direct.most_rows if most_rows is None else min(direct.most_rows, most_rows)
    try:
        found = direct.segment.search(ask.query, most)
    except UNREADABLE:  # the plan leaves it out, and warns of it
        return None
    if found is None:
        return None
    is_exact = ask.is_exact and found.is_exact
    return Selection(direct.covered, found.rows, is_exact, use.only_covered)
