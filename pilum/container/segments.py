"""What the table asks of files, whatever their version: fields, cut into segments, read by plans.

A field of a fragment may be stored in several files and pages. A *segment* is some of its rows that
are stored together; it says which plans to run against which file, and makes one Arrow array of
what they bring. All plans of a step that read the same file go to it as one request.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from pilum.arrays.picking import from_zero
from pilum.container.explain import PageExplanation
from pilum.encodings.joint import JointRead
from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges
from pilum.format.schema import Field, FieldId, Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Plan, Source, gather, run_plan

if TYPE_CHECKING:
    from pilum.expressions.prune import Zones

__all__ = ["DataFileReader", "FieldReader", "FilePart", "Segment", "read_segments"]

_Reading: TypeAlias = tuple[list[Any], int, Any]
"""Where a result goes, and the plan or the joint read that brings it."""


class DataFileReader(Protocol):
    """An open file of any version. Safe to use from several threads."""

    @property
    def source(self) -> Source:
        """Where the bytes come from."""
        ...

    @property
    def version(self) -> FileVersion:
        """Version of the file."""
        ...

    @property
    def schema(self) -> Schema:
        """Its fields, with the ids of the table that it was written for."""
        ...

    @property
    def num_rows(self) -> int:
        """Rows of the file."""
        ...

    def field_columns(self) -> Mapping[FieldId, int]:
        """The number of the column of each field that has one; -1 where they have no numbers."""
        ...

    @property
    def column_ids(self) -> tuple[FieldId, ...]:
        """The field that each column is of; empty where that is not certain."""
        ...

    @property
    def held_bytes(self) -> int:
        """About the memory that the open file takes, without what a cache counts."""
        ...


@dataclass(frozen=True, slots=True)
class FilePart:
    """What one file supplies of a field.

    Attributes:
        reader: The open file.
        columns: The number of the column for each field that it holds; -1 where there is none.
        ids: All fields of the file, as the table knows them; negative ones were given up.
    """

    reader: DataFileReader
    columns: Mapping[FieldId, int]
    ids: tuple[FieldId, ...] = ()


class Segment(ABC):
    """Some rows of a field that are stored together.

    Attributes:
        field: Whose rows.
        start: First row of the segment in the fragment.
        rows: The wanted rows, counted from `start`.
    """

    field: FieldReader
    start: int
    rows: RowRanges

    @abstractmethod
    def plans(self) -> Sequence[tuple[Source, Plan[Any] | JointRead]]:
        """What to read: fresh plans or joint reads, each with the file that it reads."""

    @abstractmethod
    def build(self, results: Sequence[Any]) -> pa.Array:
        """The array of the rows.

        Args:
            results: Of the plans, in their order.

        Raises:
            CorruptFileError: If they contradict each other.
        """

    @property
    def likeness(self) -> Hashable | None:
        """What segments have in common that `read_as_one` can read; None if this is none of them.

        Such segments need no request, and one of them alone costs nearly as much as many.
        """
        return None

    @staticmethod
    def read_as_one(segments: Sequence[Any]) -> pa.Array:
        """The rows of several segments of one likeness, one behind the other.

        Raises:
            CorruptFileError: If one of them is damaged; the text does not say which.
        """
        raise NotImplementedError

    def read(self) -> pa.Array:
        """Reads the rows, one file after the other."""
        return read_segments([self])[0]


class FieldReader(ABC):
    """One top-level field of a fragment.

    Attributes:
        field: With only the members that are wanted.
        num_rows: Physical rows of the fragment.
    """

    field: Field
    num_rows: int

    @property
    @abstractmethod
    def bytes_per_row(self) -> float:
        """About the bytes of a row in memory, on average; at least those that are stored."""

    @abstractmethod
    def segments(self, rows: RowRanges) -> Iterator[Segment]:
        """Cuts rows of the fragment where they are stored apart."""

    def zones(self, path: tuple[str, ...]) -> Zones | None:
        """What the file knows about ranges of rows of the field, or of a member of it.

        Args:
            path: Names of members, from the field on downwards.

        Returns:
            None if nothing is known.

        Raises:
            CorruptFileError: If what it says is damaged.
        """
        return None

    @abstractmethod
    def explain(self) -> Iterator[PageExplanation]:
        """The pages of the field, in words, from metadata alone."""

    def empty(self) -> pa.Array:
        """An array of no rows."""
        return pa.nulls(0, self.field.arrow_type)


def read_segments(segments: Sequence[Segment]) -> list[pa.Array]:
    """Reads segments; all that lie in one file are read together.

    Raises:
        CorruptFileError: If a page is damaged.
    """
    arrays: list[pa.Array | None] = [None] * len(segments)
    for places in _alike(segments) if len(segments) > 1 else ():
        _read_as_one(segments, places, arrays)
    rest = [place for place, array in enumerate(arrays) if array is None]
    for place, array in zip(rest, _read([segments[place] for place in rest]), strict=True):
        arrays[place] = array
    return arrays


def _alike(segments: Sequence[Segment]) -> list[list[int]]:
    """Places of segments that can be read as one."""
    groups: dict[Hashable, list[int]] = {}
    for place, segment in enumerate(segments):
        likeness = segment.likeness
        if likeness is not None:
            groups.setdefault(likeness, []).append(place)
    return [places for places in groups.values() if len(places) > 1]


def _read_as_one(
    segments: Sequence[Segment], places: list[int], arrays: list[pa.Array | None]
) -> None:
    """Puts the arrays of segments in their places, unless one is damaged."""
    group = [segments[place] for place in places]
    try:
        whole = group[0].read_as_one(group)
    except CorruptFileError:
        return  # each by itself says which
    first = 0
    for place, segment in zip(places, group, strict=True):
        num_rows = segment.rows.num_rows
        arrays[place] = from_zero(whole.slice(first, num_rows))
        first += num_rows


def _read(segments: Sequence[Segment]) -> list[pa.Array]:
    by_file: dict[int, tuple[Source, list[_Reading]]] = {}
    results: list[list[Any]] = []
    for segment in segments:
        plans = segment.plans()
        found: list[Any] = [None] * len(plans)
        results.append(found)
        for place, (source, plan) in enumerate(plans):
            by_file.setdefault(id(source), (source, []))[1].append((found, place, plan))
    for source, readings in by_file.values():
        _read_file(source, readings)
    return [segment.build(found) for segment, found in zip(segments, results, strict=True)]


def _read_file(source: Source, readings: list[_Reading]) -> None:
    """Puts the result of each plan in its place; all take their steps together."""
    joint: dict[type[JointRead], list[_Reading]] = {}
    alone: list[_Reading] = []
    for reading in readings:
        read = reading[2]
        if isinstance(read, JointRead):
            joint.setdefault(type(read), []).append(reading)
        else:
            alone.append(reading)
    steps: list[Plan[Any]] = [plan for _, _, plan in alone]
    steps += [kind.read_all([read for _, _, read in group]) for kind, group in joint.items()]
    brought = run_plan(gather(steps), source)
    _put(alone, brought[: len(alone)])
    for group, results in zip(joint.values(), brought[len(alone) :], strict=True):
        _put(group, results)


def _put(readings: list[_Reading], results: list[Any]) -> None:
    for (found, place, _), result in zip(readings, results, strict=True):
        found[place] = result
