"""What the table asks of files, whatever their version: fields, cut into segments, read by plans.

A field of a fragment may be stored in several files and pages. A *segment* is some of its rows that
are stored together; it says which plans to run against which file, and makes one Arrow array of
what they bring. All plans of a step that read the same file go to it as one request.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from pilum.container.explain import PageExplanation
from pilum.encodings.structural.whole_pages import WholePage, read_whole_pages
from pilum.errors import UnsupportedFormatError
from pilum.format.rows import RowRanges
from pilum.format.schema import Field, FieldId, Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Plan, Source, gather, run_plan

if TYPE_CHECKING:
    from pilum.expressions.prune import Zones

__all__ = ["DataFileReader", "FieldReader", "FilePart", "Segment", "read_segments"]

_Reading: TypeAlias = tuple[list[Any], int, Any]
"""Where a result goes, and the plan or the whole page that brings it."""


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
    def plans(self) -> Sequence[tuple[Source, Plan[Any] | WholePage]]:
        """What to read: fresh plans or whole pages, each with the file that it reads."""

    @abstractmethod
    def build(self, results: Sequence[Any]) -> pa.Array:
        """The array of the rows.

        Args:
            results: Of the plans, in their order.

        Raises:
            CorruptFileError: If they contradict each other.
        """

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

    def explain(self) -> Iterator[PageExplanation]:
        """The pages of the field, in words, from metadata alone.

        Raises:
            UnsupportedFormatError: If files of this version cannot be explained.
        """
        raise UnsupportedFormatError(
            f"column {self.field.name!r}: only files of version 2.1 and 2.2 can be explained"
        )

    def empty(self) -> pa.Array:
        """An array of no rows."""
        return pa.nulls(0, self.field.arrow_type)


def read_segments(segments: Sequence[Segment]) -> list[pa.Array]:
    """Reads segments; all that lie in one file are read together.

    Raises:
        CorruptFileError: If a page is damaged.
    """
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
    whole = [reading for reading in readings if isinstance(reading[2], WholePage)]
    plans = [reading for reading in readings if not isinstance(reading[2], WholePage)]
    steps: list[Plan[Any]] = [plan for _, _, plan in plans]
    if whole:
        steps.append(read_whole_pages([page for _, _, page in whole]))
    brought = run_plan(gather(steps), source)
    if whole:
        brought.extend(brought.pop())
    for (found, place, _), result in zip([*plans, *whole], brought, strict=True):
        found[place] = result
