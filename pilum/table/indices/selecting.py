"""Select the rows that match a filter by indices, if this is faster than a scan.

    filter ──▶ condition ──▶ plan ──▶ answer ──▶ selection of rows in the covered fragments

A plan is made from estimates, which read nothing. For each query it takes the index with the lowest
estimated cost. Of the parts of an AND, those that would find many more rows than another one are
left to the test of the filter. No index is used if a scan of the filter's columns is estimated to
be faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyroaring import BitMap

from pilum.expressions.filter import BoundFilter, SqlFilter
from pilum.table.indices.conditions import (
    AllOf,
    AnyOf,
    Ask,
    Condition,
    Indexed,
    Negation,
    OneOf,
    Truth,
    Unknown,
    condition_of,
)
from pilum.table.indices.costs import (
    FRAGMENT_NS,
    LISTED_ROW_NS,
    READ_ROW_NS,
    num_rows_of,
    scan_ns,
    scan_of_unknown_ns,
)
from pilum.table.indices.direct import direct_selection, remember_direct
from pilum.table.indices.index_use import IndexUse
from pilum.table.indices.open_segments import are_all_open, open_segments
from pilum.table.indices.plans import (
    Asked,
    Connected,
    NamedIndex,
    Negated,
    NeverNull,
    Plan,
    named_indices,
)
from pilum.table.indices.row_filter import RowFilter
from pilum.table.read.scan import ScanOptions
from pilum.table.read.selection import Selection
from pilum.table.read.snapshot import Snapshot

__all__ = ["plan_of", "selection_of"]

_MOST_TIMES_MORE = 12
_FEW_ROWS = 64
"""A part of an AND is not searched if it finds more times as many rows, and so many more."""

_UNKNOWN = Unknown()


def selection_of(snapshot: Snapshot, options: ScanOptions, use: IndexUse) -> Selection | None:
    """Return the rows that indices found for the filter of a scan; None if it is better to scan.

    Raises:
        CorruptFileError: If the entries of indices in the manifest are damaged.
    """
    if type(options.filter) is RowFilter:
        covered = BitMap(fragment.id for fragment in snapshot.manifest.fragments)
        return Selection(covered, options.filter.rows, True)
    remembered = _Remembered(snapshot, options, use)
    plan = remembered.plan
    if not remembered.has_plan:
        condition = _condition(snapshot, options)
        if remembered.is_new:
            direct = direct_selection(snapshot, options, use, condition)
            if direct is not None:
                remembered.keep(None)
                return direct
        plan = _planned(snapshot, options, use, condition, remembered)
    found = None if plan is None else plan.search()
    if found is None:
        return None
    return Selection(found.covered, found.answer.rows, found.answer.is_exact, use.only_covered)


def plan_of(snapshot: Snapshot, options: ScanOptions, use: IndexUse) -> Plan | None:
    """Return the plan for the filter of a scan; None if it is better to scan.

    Raises:
        CorruptFileError: If the entries of indices in the manifest are damaged.
    """
    remembered = _Remembered(snapshot, options, use)
    if remembered.has_plan:
        return remembered.plan
    return _planned(snapshot, options, use, _condition(snapshot, options), remembered)


def _condition(snapshot: Snapshot, options: ScanOptions) -> Condition:
    filter = options.filter
    if filter is None or not _may_have_indices(snapshot, filter.columns):
        return _UNKNOWN
    return condition_of(filter.implied)


def _may_have_indices(snapshot: Snapshot, columns: tuple[str, ...]) -> bool:
    """Return whether a column of a filter, or a member of its top-level column, has an index.

    The version remembers it, so that filters on other columns are not examined.
    """
    key = _may_have_indices, columns
    known: bool | None = snapshot.prepared.get(key)
    if known is None:
        indexed = {number for one in snapshot.index_segments for number in one.field_ids}
        tops = {top for name in columns for top in (name, name.partition(".")[0])}
        fields = filter(None, map(snapshot.schema.by_name.get, tops))
        known = any(not indexed.isdisjoint(field.ids) for field in fields)
        snapshot.prepared.put(key, known, 1)
    return known


class _Remembered:
    """The plan of a filter that the version remembers, if it does.

    It remembers the second plan: the first search has loaded parts of indices that make estimates
    exact.

    Attributes:
        plan: The plan; None if it is better to scan.
        has_plan: Whether it is remembered.
        is_new: Whether the filter was not used before, as far as it is remembered.
    """

    __slots__ = ("_filter", "_key", "_prepared", "has_plan", "is_new", "plan")

    def __init__(self, snapshot: Snapshot, options: ScanOptions, use: IndexUse) -> None:
        filter = self._filter = options.filter
        restrictions = use.only_covered, use.segments, use.only_counts
        parts = options.fragment_ids, options.limit, options.offset
        self._key = plan_of, id(filter), restrictions, parts
        self._prepared = snapshot.prepared
        known: tuple[BoundFilter, list[Plan | None]] | None = self._prepared.get(self._key)
        if known is not None and known[0] is not filter:  # the entry keeps the filter and its id
            known = None
        self.is_new = known is None
        self.has_plan = known is not None and bool(known[1])
        self.plan = known[1][0] if known is not None and self.has_plan else None

    def keep(self, plan: Plan | None) -> None:
        """Remember a plan, if it is the second one, and its filter means the same at any time."""
        if isinstance(self._filter, SqlFilter) and self._filter.is_lasting:
            self._prepared.put(self._key, (self._filter, [] if self.is_new else [plan]), 1)


def _planned(
    snapshot: Snapshot,
    options: ScanOptions,
    use: IndexUse,
    condition: Condition,
    remembered: _Remembered,
) -> Plan | None:
    filter = options.filter
    if filter is None or condition == _UNKNOWN:
        return None
    planner = _Planner(snapshot, use)
    plan = planner.plan(condition)
    if plan is not None and not plan.covered:
        plan = None
    if plan is not None and not use.only_covered:
        plan = plan if _is_worth_it(snapshot, options, filter, plan, use) else None
    if planner.is_lasting:
        remembered.keep(plan)
    return plan


class _Planner:
    """Makes plans for the conditions of one version.

    Attributes:
        is_lasting: Whether no segment was left out that may be readable the next time.
    """

    def __init__(self, snapshot: Snapshot, use: IndexUse) -> None:
        self._snapshot = snapshot
        self._use = use
        self.is_lasting = True

    def plan(self, condition: Condition) -> Plan | None:
        """Return the plan of a condition; None if indices cannot restrict the rows."""
        match condition:
            case Ask():
                return self._asked(condition)
            case OneOf(parts=parts):
                return min(self._plans(parts), key=lambda plan: plan.num_found, default=None)
            case AllOf(parts=parts):
                return self._all_of(parts)
            case AnyOf(parts=parts):
                plans = self._plans(parts)
                num_found = sum(plan.num_found for plan in plans)
                whole = len(plans) == len(parts)
                return _connected(plans, num_found, is_all=False, is_whole=True) if whole else None
            case Negation(part=part):
                inner = self.plan(part)
                if inner is None:
                    return None
                rest = max(num_rows_of(self._snapshot, inner.covered) - inner.num_found, 0)
                return Negated(rest, inner.num_listed, inner.covered, inner)
            case Truth(part=part):
                inner = self.plan(part)
                if inner is None:
                    return None
                return NeverNull(inner.num_found, inner.num_listed, inner.covered, inner)
        return None

    def _plans(self, conditions: Sequence[Condition]) -> list[Plan]:
        return [plan for plan in map(self.plan, conditions) if plan is not None]

    def _all_of(self, parts: Sequence[Condition]) -> Plan | None:
        plans = sorted(self._plans(parts), key=lambda plan: plan.num_found)
        if not plans:
            return None
        fewest = plans[0].num_found
        most = fewest * _MOST_TIMES_MORE + _FEW_ROWS
        used = [plan for plan in plans if plan.num_listed <= most] or plans[:1]
        return _connected(used, fewest, is_all=True, is_whole=len(used) == len(parts))

    def _asked(self, ask: Ask) -> Plan | None:
        found = [
            (estimate, index)
            for index in self._indices_of(ask.indexed)
            if (estimate := index.estimate(ask.of_column)) is not None
        ]
        if not found:
            return None
        if len(found) > 1:
            found.sort(key=lambda one: self._cost_ns(*one))
        indices = tuple(index for _, index in found)
        return Asked(found[0][0], found[0][0], indices[0].covered, ask, indices)

    def _cost_ns(self, num_found: int, index: NamedIndex) -> float:
        """Return the estimated cost of an index, with that of the rows that it does not cover."""
        rest = self._snapshot.num_rows - num_rows_of(self._snapshot, index.covered)
        return num_found * (LISTED_ROW_NS + READ_ROW_NS) + scan_of_unknown_ns(rest)

    def _indices_of(self, indexed: Indexed) -> tuple[NamedIndex, ...]:
        """Return the indices on a column, which the version remembers."""
        prepared = self._snapshot.prepared
        key = NamedIndex, indexed.path, self._use.segments
        known: tuple[NamedIndex, ...] | None = prepared.get(key)
        if known is not None:
            return known
        if any("." in name for name in indexed.path[1:]):
            return ()
        path = ".".join(indexed.path)
        found = named_indices(open_segments(self._snapshot, path), self._use.segments)
        if are_all_open(self._snapshot, path):
            prepared.put(key, found, 1)
            if self._use.segments is None and len(found) == 1 and len(found[0].segments) == 1:
                remember_direct(self._snapshot, indexed.path, found[0].segments[0])
        else:
            self.is_lasting = False
        return found


def _connected(plans: Sequence[Plan], num_found: int, *, is_all: bool, is_whole: bool) -> Plan:
    if len(plans) == 1 and is_whole:
        return plans[0]
    num_listed = sum(plan.num_listed for plan in plans)
    covered = reduce(and_, (plan.covered for plan in plans))
    return Connected(num_found, num_listed, covered, tuple(plans), is_all, is_whole)


def _is_worth_it(
    snapshot: Snapshot, options: ScanOptions, filter: BoundFilter, plan: Plan, use: IndexUse
) -> bool:
    """Return whether a plan is estimated to be faster than a scan of the filter's columns."""
    num_rows = covered = num_rows_of(snapshot, plan.covered)
    num_fragments = len(plan.covered)
    if options.fragment_ids is not None:
        num_rows = min(covered, num_rows_of(snapshot, options.fragment_ids))
        num_fragments = min(num_fragments, len(options.fragment_ids))
    read_rows = plan.num_found * num_rows // max(covered, 1)
    if options.limit is not None and read_rows:
        share = min((options.offset + options.limit) / read_rows, 1.0)
        read_rows = int(read_rows * share)
        num_rows = int(num_rows * share)
        num_fragments = max(int(num_fragments * share), 1)
    if use.only_counts:
        read_rows = 0
    scanned_ns = scan_ns(snapshot, filter.columns, num_rows)
    saved_ns = scanned_ns + max(num_fragments - read_rows, 0) * FRAGMENT_NS
    return plan.num_listed * LISTED_ROW_NS + read_rows * READ_ROW_NS <= saved_ns
