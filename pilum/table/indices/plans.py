"""Plans: how indices answer a condition.

    AND                                        rows found: the fewest of the parts
    ├── a IN (5)           a_idx, b-tree       its segments are searched, and united
    └── NOT
        └── b IN ('x')     b_idx, bitmap       needs an exact answer

A plan covers the fragments that all of its indices cover. An index that proves damaged is replaced
by another one that can answer the query, with a warning that names it. If there is none, all rows
may match.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

import numpy as np
from pyroaring import BitMap

from pilum.format.rows import addresses_in
from pilum.index.answers import Answer, RowSet
from pilum.index.queries import Query
from pilum.lazy import cached_property
from pilum.table.indices.conditions import Ask
from pilum.table.indices.open_segments import UNREADABLE, OpenSegment

__all__ = [
    "Asked",
    "Connected",
    "Found",
    "NamedIndex",
    "Negated",
    "NeverNull",
    "Plan",
    "named_indices",
]


@dataclass(frozen=True)
class Found:
    """The result of a plan.

    Attributes:
        answer: The answer, for rows of the covered fragments.
        covered: The fragments whose rows were searched.
    """

    answer: Answer
    covered: BitMap


@dataclass(frozen=True)
class NamedIndex:
    """The open segments of one index; at least one."""

    segments: tuple[OpenSegment, ...]

    @property
    def name(self) -> str:
        """The name of the index."""
        return self.segments[0].name

    @cached_property
    def covered(self) -> BitMap:
        """The existing fragments that some segment covers."""
        return reduce(or_, (segment.fragments for segment in self.segments))

    def estimate(self, query: Query) -> int | None:
        """Return about how many rows match; None if a segment cannot answer the query."""
        total = 0
        for segment in self.segments:
            try:
                found = segment.index.estimate(query)
            except UNREADABLE:  # evicted, and damaged since; the search reports it
                found = 0
            if found is None:
                return None
            total += found
        return total

    def search(self, query: Query) -> Answer | None:
        """Return the rows that match in the covered fragments; None if all rows may."""
        answers = []
        for segment in self.segments:
            try:
                answer = segment.search(query)
            except UNREADABLE as error:
                warnings.warn(
                    f"index {segment.name!r}, segment {segment.segment.entry.uuid}, is not used, "
                    f"as it cannot be read; drop it and create it again: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )
                return None
            if answer is None:
                return None
            answers.append(answer if len(self.segments) == 1 else _within(answer, segment))
        return reduce(or_, answers)


def named_indices(
    segments: Sequence[OpenSegment], uuids: frozenset[str] | None = None
) -> tuple[NamedIndex, ...]:
    """Group open segments by index.

    Args:
        segments: The segments.
        uuids: Uuids of those to use; None for all.
    """
    by_name: dict[str, list[OpenSegment]] = {}
    for one in segments:
        if uuids is None or one.segment.entry.uuid in uuids:
            by_name.setdefault(one.name, []).append(one)
    return tuple(NamedIndex(tuple(own)) for own in by_name.values())


@dataclass(frozen=True)
class Plan(ABC):
    """A plan to answer a condition by indices.

    Attributes:
        num_found: Estimated number of rows for which the condition is true.
        num_listed: Estimated number of rows that the indices have to list.
        covered: The fragments that its indices cover.
    """

    num_found: int
    num_listed: int
    covered: BitMap

    @abstractmethod
    def search(self, *, is_negated: bool = False) -> Found | None:
        """Search the indices.

        Args:
            is_negated: Whether only an exact answer is of use.

        Returns:
            The rows; None if all rows may match.
        """


@dataclass(frozen=True)
class Asked(Plan):
    """A query, and the indices that can answer it, the best one first."""

    ask: Ask
    indices: tuple[NamedIndex, ...]

    def search(self, *, is_negated: bool = False) -> Found | None:
        """See `Plan.search`."""
        if is_negated and not self.ask.is_exact:
            return None
        for index in self.indices:
            answer = index.search(self.ask.of_column)
            if answer is None or (is_negated and not answer.is_exact):
                continue
            if not self.ask.is_exact:
                answer = Answer(answer.rows, is_exact=False)
            return Found(answer, index.covered)
        return None


@dataclass(frozen=True)
class Connected(Plan):
    """Several plans, connected by AND or OR.

    Attributes:
        parts: The plans.
        is_all: Whether they are connected by AND.
        is_whole: Whether the condition has no further parts.
    """

    parts: tuple[Plan, ...]
    is_all: bool
    is_whole: bool

    def search(self, *, is_negated: bool = False) -> Found | None:
        """See `Plan.search`."""
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


@dataclass(frozen=True)
class Negated(Plan):
    """The negation of a plan."""

    part: Plan

    def search(self, *, is_negated: bool = False) -> Found | None:
        """See `Plan.search`."""
        del is_negated  # an exact answer is needed in any case
        found = self.part.search(is_negated=True)
        return None if found is None else Found(~found.answer, found.covered)


@dataclass(frozen=True)
class NeverNull(Plan):
    """A plan whose condition is false where that of its part is null."""

    part: Plan

    def search(self, *, is_negated: bool = False) -> Found | None:
        """See `Plan.search`."""
        found = self.part.search(is_negated=is_negated)
        if found is None:
            return None
        answer = Answer(found.answer.rows, is_exact=found.answer.is_exact)
        return Found(answer, found.covered)


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
