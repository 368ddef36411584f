"""Select the rows that match a filter by indices: which ones are used is decided by their cost.

    filter ──▶ condition ──▶ plan                          ──▶ answer      ──▶ selection
                             per query, the index that         of segments,     of the covered
                             finds the fewest rows             united           fragments

The plan is made from estimates, which read nothing. Of the parts of an AND, those that would find
many more rows than another one are left to the test of the filter. The whole plan is dropped if a
scan of the filter's columns is estimated to be faster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import and_, or_

import numpy as np
from pyroaring import BitMap

from pilum.expressions.filter import SqlFilter
from pilum.format.row_address import addresses_in
from pilum.index.answers import Answer, RowSet
from pilum.index.queries import Query
from pilum.table.indices.conditions import (
    AllOf,
    AnyOf,
    Ask,
    Condition,
    Indexed,
    Negation,
    OneOf,
    Truth,
    condition_of,
)
from pilum.table.indices.segments import OpenSegment, open_segments
from pilum.table.read.columns import scan_columns
from pilum.table.read.scan import ScanOptions
from pilum.table.read.selection import Selection
from pilum.table.read.snapshot import Snapshot

__all__ = ["AnyIndex", "IndexUse", "Plan", "plan_of", "with_selection"]

_SEARCH_NS = 20_000
"""Cost of a search that finds nothing; the others are costs of one row or one byte."""
_FOUND_ROW_NS = 40
_SCANNED_ROW_NS = 2
_SCANNED_BYTE_NS = 0.4
_VARIABLE_BYTES = 32
_MOST_TIMES_MORE = 100
_FEW_ROWS = 4096


@dataclass(frozen=True)
class IndexUse:
    """Which indices a scan may use.

    Attributes:
        is_allowed: Whether it may use any.
        only_covered: Whether rows of fragments that the used indices do not cover are left out.
        segments: Uuids of the segments that may be used; None for all.
    """

    is_allowed: bool = True
    only_covered: bool = False
    segments: frozenset[str] | None = None


AnyIndex = IndexUse()


@dataclass(frozen=True)
class Found:
    """What a plan found.

    Attributes:
        answer: The answer, for rows of the covered fragments.
        covered: The fragments whose rows were searched.
    """

    answer: Answer
    covered: BitMap


class Plan(ABC):
    """A plan to answer a condition by indices.

    Attributes:
        num_found: Estimated number of rows for which the condition is true.
    """

    num_found: int

    @abstractmethod
    def search(self, *, is_negated: bool = False) -> Found | None:
        """Search the indices.

        Args:
            is_negated: Whether only an exact answer is of use.

        Returns:
            The rows; None if all rows may match.

        Raises:
            CorruptFileError: If a file is damaged.
        """

    @abstractmethod
    def __str__(self) -> str:
        """Return the text of the plan, in the form of the reference."""


@dataclass(frozen=True)
class NamedIndex:
    """The open segments of one index."""

    segments: tuple[OpenSegment, ...]

    @cached_property
    def covered(self) -> BitMap:
        """The existing fragments that some segment covers."""
        return reduce(or_, (segment.fragments for segment in self.segments))

    def estimate(self, query: Query) -> int | None:
        """Return about how many rows match; None if a segment cannot answer the query."""
        total = 0
        for segment in self.segments:
            found = segment.index.estimate(query)
            if found is None:
                return None
            total += found
        return total

    def search(self, query: Query) -> Answer | None:
        """Return the rows that match in the covered fragments; None if all rows may."""
        answers = []
        for segment in self.segments:
            answer = segment.search(query)
            if answer is None:
                return None
            answers.append(answer if len(self.segments) == 1 else _within(answer, segment))
        return reduce(or_, answers)


def _within(answer: Answer, segment: OpenSegment) -> Answer:
    """Return an answer whose sets list rows of the covered fragments only."""
    return Answer(
        _listed(answer.rows, segment),
        lambda: _listed(answer.nulls, segment),
        answer.is_exact,
    )


def _listed(rows: RowSet, segment: OpenSegment) -> RowSet:
    if not rows.is_complement:
        return rows
    fragments = segment.snapshot.manifest.fragments
    everything = [
        addresses_in(number, np.arange(fragment.physical_rows))
        for number in segment.fragments
        if (fragment := fragments.find(number)) is not None
    ]
    return RowSet(rows.within(np.concatenate([rows.listed[:0], *everything])))


@dataclass(frozen=True)
class _Asked(Plan):
    """A query, and the indices that can answer it, the one that finds the fewest rows first."""

    ask: Ask
    indices: tuple[NamedIndex, ...]
    num_found: int

    def search(self, *, is_negated: bool = False) -> Found | None:
        for index in self.indices:
            answer = index.search(self.ask.query)
            if answer is not None and (not is_negated or self._is_exact(answer)):
                answer = answer if self.ask.is_exact else Answer(answer.rows, is_exact=False)
                return Found(answer, index.covered)
        return None

    def _is_exact(self, answer: Answer) -> bool:
        return self.ask.is_exact and answer.is_exact

    def __str__(self) -> str:
        first = self.indices[0].segments[0]
        return f"[{described(self.ask)}]@{first.name}({first.segment.entry.kind})"


@dataclass(frozen=True)
class _Connected(Plan):
    """Several plans, connected by AND or OR.

    Attributes:
        is_whole: Whether the condition has no further parts.
    """

    parts: tuple[Plan, ...]
    is_all: bool
    is_whole: bool
    num_found: int

    def search(self, *, is_negated: bool = False) -> Found | None:
        if is_negated and not self.is_whole:
            return None
        found = []
        for part in self.parts:
            one = part.search(is_negated=is_negated)
            if one is not None:
                found.append(one)
            elif is_negated or not self.is_all:
                return None
        if not found:
            return None
        answer = reduce(and_ if self.is_all else or_, (one.answer for one in found))
        if not self.is_whole or len(found) < len(self.parts):
            answer = Answer(answer.rows, is_exact=False)
        return Found(answer, reduce(and_, (one.covered for one in found)))

    def __str__(self) -> str:
        word = "AND" if self.is_all else "OR"
        text = str(self.parts[0])
        for part in self.parts[1:]:
            text = f"{word}({text},{part})"
        return text


@dataclass(frozen=True)
class _Negated(Plan):
    part: Plan
    num_found: int

    def search(self, *, is_negated: bool = False) -> Found | None:
        del is_negated
        found = self.part.search(is_negated=True)
        return None if found is None else Found(~found.answer, found.covered)

    def __str__(self) -> str:
        return f"NOT({self.part})"


@dataclass(frozen=True)
class _True(Plan):
    part: Plan
    num_found: int

    def search(self, *, is_negated: bool = False) -> Found | None:
        found = self.part.search(is_negated=is_negated)
        return found and Found(
            Answer(found.answer.rows, is_exact=found.answer.is_exact), found.covered
        )

    def __str__(self) -> str:
        return str(self.part)


class _Planner:
    """Makes plans for the conditions of one version."""

    def __init__(self, snapshot: Snapshot, use: IndexUse) -> None:
        self._snapshot = snapshot
        self._use = use
        self._indices: dict[Indexed, tuple[NamedIndex, ...]] = {}

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
                if len(plans) < len(parts):
                    return None
                return _Connected(tuple(plans), False, True, sum(one.num_found for one in plans))
            case Negation(part=part):
                inner = self.plan(part)
                rest = self._snapshot.num_rows - (inner.num_found if inner else 0)
                return inner and _Negated(inner, max(rest, 0))
            case Truth(part=part):
                inner = self.plan(part)
                return inner and _True(inner, inner.num_found)
        return None

    def _plans(self, conditions: Sequence[Condition]) -> list[Plan]:
        return [plan for plan in map(self.plan, conditions) if plan is not None]

    def _all_of(self, parts: Sequence[Condition]) -> Plan | None:
        plans = sorted(self._plans(parts), key=lambda plan: plan.num_found)
        if not plans:
            return None
        most = plans[0].num_found * _MOST_TIMES_MORE + _FEW_ROWS
        used = tuple(plan for plan in plans if plan.num_found <= most)
        return _Connected(used, True, len(used) == len(parts), plans[0].num_found)

    def _asked(self, ask: Ask) -> Plan | None:
        known = self._snapshot.num_rows
        found: list[tuple[int, NamedIndex]] = []
        for index in self._indices_of(ask.indexed):
            estimate = index.estimate(ask.query)
            if estimate is not None:
                found.append((estimate, index))
        if not found:
            return None
        found.sort(key=lambda one: (-self._covered_rows(one[1]) if len(found) > 1 else 0, one[0]))
        return _Asked(ask, tuple(index for _, index in found), min(found[0][0], known))

    def _covered_rows(self, index: NamedIndex) -> int:
        return _rows_of(self._snapshot, index.covered)

    def _indices_of(self, indexed: Indexed) -> tuple[NamedIndex, ...]:
        found = self._indices.get(indexed)
        if found is None:
            found = self._indices[indexed] = tuple(self._opened(indexed))
        return found

    def _opened(self, indexed: Indexed) -> Iterator[NamedIndex]:
        if indexed.json_path is not None or any("." in name for name in indexed.path[1:]):
            return
        by_name: dict[str, list[OpenSegment]] = {}
        for segment in open_segments(self._snapshot, ".".join(indexed.path)):
            if self._use.segments is None or segment.segment.entry.uuid in self._use.segments:
                by_name.setdefault(segment.name, []).append(segment)
        yield from (NamedIndex(tuple(segments)) for segments in by_name.values())


def plan_of(snapshot: Snapshot, options: ScanOptions, use: IndexUse = AnyIndex) -> Plan | None:
    """Return the plan to answer the filter of a scan; None if it is better to scan.

    Raises:
        CorruptFileError: If the entries of indices in the manifest are damaged.
    """
    if not (use.is_allowed and snapshot.manifest.index_section):
        return None
    if not isinstance(options.filter, SqlFilter):
        return None
    plan = _Planner(snapshot, use).plan(condition_of(options.filter.node))
    if plan is None or use.only_covered or _is_worth_it(snapshot, options, plan):
        return plan
    return None


def with_selection(
    snapshot: Snapshot, options: ScanOptions, use: IndexUse = AnyIndex
) -> ScanOptions:
    """Return the options of a scan with the rows that indices found for its filter.

    They do not change if no index can be used, or a scan without it is estimated to be faster.

    Args:
        snapshot: The version.
        options: The options of the scan.
        use: Which indices it may use.

    Raises:
        CorruptFileError: If an index that could be opened proves damaged.
    """
    plan = plan_of(snapshot, options, use)
    found = plan and plan.search()
    if found is None:
        return options
    answer = found.answer
    selection = Selection(found.covered, answer.rows, answer.is_exact, use.only_covered)
    return replace(options, selection=selection)


def _is_worth_it(snapshot: Snapshot, options: ScanOptions, plan: Plan) -> bool:
    """Return whether indices are estimated to be faster than a scan of the filter's columns."""
    assert options.filter is not None
    fragments = options.fragment_ids
    num_rows = snapshot.num_rows
    if fragments is not None:
        num_rows = _rows_of(snapshot, fragments)
    if options.limit is not None and plan.num_found > 0:
        share = (options.offset + options.limit) / plan.num_found
        num_rows = int(num_rows * min(share, 1.0))
    columns = scan_columns(snapshot.described, options.filter.columns)
    row_bytes = sum(_width_bytes(column.arrow.type) for column in columns)
    scan_ns = num_rows * (_SCANNED_ROW_NS + row_bytes * _SCANNED_BYTE_NS)
    return _SEARCH_NS + plan.num_found * _FOUND_ROW_NS <= scan_ns + _SEARCH_NS


def _rows_of(snapshot: Snapshot, fragment_ids: Collection[int]) -> int:
    fragments = snapshot.manifest.fragments
    if len(fragment_ids) == len(fragments):
        return snapshot.num_rows
    found = map(fragments.find, fragment_ids)
    return sum(fragment.num_rows for fragment in found if fragment is not None)


def _width_bytes(arrow: pa.DataType) -> float:
    try:
        return arrow.bit_width / 8
    except ValueError:
        return _VARIABLE_BYTES
