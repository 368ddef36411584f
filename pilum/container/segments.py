"""The version-independent interface of files: fields, split into segments that plans read.

A field of a fragment may be stored in several files and pages. A *segment* is some of its rows that
are stored together; it lists the plans to run for each file, and builds one Arrow array from their
results. All plans of a step that read the same file are coalesced into one request.
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
"""The place of a result, and the plan or joint read that yields it."""


class DataFileReader(Protocol):
    """An open file of any version. Safe to use from several threads."""

    @property
    def source(self) -> Source:
        """The source of the bytes."""
        ...

    @property
    def version(self) -> FileVersion:
        """Version of the file."""
        ...

    @property
    def schema(self) -> Schema:
        """The fields, with the field ids of the table that the file was written for."""
        ...

    @property
    def num_rows(self) -> int:
        """Number of rows of the file."""
        ...

    def field_columns(self) -> Mapping[FieldId, int]:
        """Return the column number of each field with a column; -1 if columns have no numbers."""
        ...

    @property
    def column_ids(self) -> tuple[FieldId, ...]:
        """The field of each column; empty if that is not certain."""
        ...

    @property
    def held_bytes(self) -> int:
        """Return the approximate memory of the open file, without what a cache accounts for."""
        ...


@dataclass(frozen=True, slots=True)
class FilePart:
    """The part of a field that one file supplies.

    Attributes:
        reader: The open file.
        columns: The column number of each field that it holds; -1 where there is none.
        ids: All fields of the file, as the table lists them; negative ones were dropped.
    """

    reader: DataFileReader
    columns: Mapping[FieldId, int]
    ids: tuple[FieldId, ...] = ()


class Segment(ABC):
    """Some rows of a field that are stored together.

    Attributes:
        field: The field.
        start: First row of the segment in the fragment.
        rows: The selected rows, counted from `start`.
    """

    field: FieldReader
    start: int
    rows: RowRanges

    @abstractmethod
    def plans(self) -> Sequence[tuple[Source, Plan[Any] | JointRead]]:
        """Return new plans or joint reads, each with the file that it reads."""

    @abstractmethod
    def build(self, results: Sequence[Any]) -> pa.Array:
        """Return the array of the rows.

        Args:
            results: Results of the plans, in the same order.

        Raises:
            CorruptFileError: If they contradict each other.
        """

    @property
    def likeness(self) -> Hashable | None:
        """Return a key of segments that `read_as_one` can join; None if it cannot read this one.

        Such segments need no request, and reading one of them costs nearly as much as reading many.
        """
        return None

    @staticmethod
    def read_as_one(segments: Sequence[Any]) -> pa.Array:
        """Read the rows of several segments with equal `likeness`, one after the other.

        Raises:
            CorruptFileError: If one of them is damaged; the text does not name it.
        """
        raise NotImplementedError

    def read(self) -> pa.Array:
        """Read the rows, one file after the other."""
        return read_segments([self])[0]


class FieldReader(ABC):
    """One top-level field of a fragment.

    Attributes:
        field: The field, with only the projected members.
        num_rows: Physical rows of the fragment.
    """

    field: Field
    num_rows: int

    @property
    @abstractmethod
    def bytes_per_row(self) -> float:
        """The approximate mean bytes of a row in memory; at least its stored bytes."""

    @abstractmethod
    def segments(self, rows: RowRanges) -> Iterator[Segment]:
        """Split rows of the fragment into ranges that are stored together."""

    def zones(self, path: tuple[str, ...]) -> Zones | None:
        """Return the zone map of the field, or of a member of it.

        Args:
            path: Names of members, from the field downwards.

        Returns:
            None if there is none.

        Raises:
            CorruptFileError: If it is damaged.
        """
        return None

    @abstractmethod
    def explain(self) -> Iterator[PageExplanation]:
        """Describe the pages of the field from metadata alone."""

    def empty(self) -> pa.Array:
        """Return an array without rows."""
        return pa.nulls(0, self.field.arrow_type)


def read_segments(segments: Sequence[Segment]) -> list[pa.Array]:
    """Read segments; those that lie in one file are read together.

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
    """Return the positions of segments that can be read as one."""
    groups: dict[Hashable, list[int]] = {}
    for place, segment in enumerate(segments):
        likeness = segment.likeness
        if likeness is not None:
            groups.setdefault(likeness, []).append(place)
    return [places for places in groups.values() if len(places) > 1]


def _read_as_one(
    segments: Sequence[Segment], places: list[int], arrays: list[pa.Array | None]
) -> None:
    """Store the arrays of segments at their positions, unless one is damaged."""
    group = [segments[place] for place in places]
    try:
        whole = group[0].read_as_one(group)
    except CorruptFileError:
        return  # reading each on its own names the damaged one
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
    """Store the result of each plan at its position; the plans run in lockstep."""
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
