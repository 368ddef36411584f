"""The version-independent interface of files: fields, split into segments that plans read.

A field of a fragment may be stored in several files and pages. A *segment* is some of its rows that
are stored together, and becomes one Arrow array. Segments are read together: what they need of one
file is coalesced into few requests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.container.explain import PageExplanation
from pilum.format.fields import Field, FieldId
from pilum.format.rows import RowRanges
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.kernels import Condition
from pilum.lazy import cached_property
from pilum.storage.base import Plan, Source, run_plan

if TYPE_CHECKING:
    from pilum.expressions.prune import Zones

__all__ = [
    "DataFileReader",
    "FieldReader",
    "FilePart",
    "PagedFieldReader",
    "Segment",
    "read_by_file",
    "read_columns",
    "read_segments",
]

T = TypeVar("T")
R = TypeVar("R")


class DataFileReader(Protocol):
    """An open file of any version. Safe to use from several threads."""

    @property
    def source(self) -> Source:
        """The source of the bytes."""

    @property
    def version(self) -> FileVersion:
        """Version of the file."""

    @property
    def schema(self) -> Schema:
        """The fields, with the field ids of the table that the file was written for."""

    @property
    def num_rows(self) -> int:
        """Number of rows of the file."""

    def field_columns(self) -> Mapping[FieldId, int]:
        """Return the column number of each field with a column; -1 if columns have no numbers."""

    @property
    def column_ids(self) -> tuple[FieldId, ...]:
        """The field of each column; empty if that is not certain."""

    @property
    def held_bytes(self) -> int:
        """Return the approximate memory of the open file, without what a cache accounts for."""


class FilePart(NamedTuple):
    """The part of a field that one file supplies.

    Attributes:
        reader: The open file.
        columns: The column number of each field that it holds; -1 where there is none.
        ids: All fields of the file, as the table lists them; negative ones were dropped.
    """

    reader: DataFileReader
    columns: Mapping[FieldId, int]
    ids: tuple[FieldId, ...] = ()


@dataclass(slots=True)
class Segment(ABC):
    """Some rows of a field that are stored together.

    It begins at the row `start` of the fragment; the selected rows are counted from there.
    """

    field: FieldReader
    start: int
    rows: RowRanges

    @classmethod
    @abstractmethod
    def read_all(cls, segments: Sequence[Any]) -> list[pa.Array]:
        """Read segments of this class together and return their arrays."""

    @classmethod
    def read_columns(cls, columns: Sequence[Sequence[Any]]) -> list[list[pa.Array]]:
        """Read rows of columns of local files, as `read_columns`."""
        found = iter(cls.read_all([segment for segments in columns for segment in segments]))
        return [[next(found) for _ in segments] for segments in columns]

    def read(self) -> pa.Array:
        """Read the rows."""
        return read_segments([self])[0]

    @property
    def is_mapped(self) -> bool:
        """Whether the rows are stored as the result has them, and in memory.

        They are mapped sooner than a thread wakes up.
        """
        return False

    def parts(self, num_parts: int) -> list[Self]:
        """Split the segment into at most so many, if threads decode these sooner than the whole."""
        del num_parts
        return [self]

    def keep(self, kept: pa.BooleanArray) -> bool:
        """Restrict the segment to the rows for which `kept` is true.

        Returns:
            Whether only these rows will be decoded. If not, the segment is unchanged: its rows have
            to be filtered after they were read.
        """
        del kept
        return False

    def mask(self, condition: Condition) -> NDArray[np.uint8] | None:
        """Test the rows without decoding them: a bitmap with a bit per row, or None.

        None is returned if the values have to be read. The condition is on the only leaf of the
        field.
        """
        del condition
        return None


class FieldReader(ABC):
    """One top-level field of a fragment, with only the projected members."""

    field: Field
    num_rows: int

    @property
    @abstractmethod
    def bytes_per_row(self) -> float:
        """The approximate mean bytes of a row in memory; at least its stored bytes."""

    @abstractmethod
    def segments(self, rows: RowRanges) -> Iterator[Segment]:
        """Split rows of the fragment into ranges that are stored together."""

    @property
    def has_masks(self) -> bool:
        """Whether pages of the field may be tested without decoding them (`Segment.mask`)."""
        return False

    @property
    def has_dictionary(self) -> bool:
        """Whether pages of the field store indices of a dictionary, so that few values are tested.

        Only if `has_masks`; this is found out from the first page.
        """
        return False

    def plain_values(self, rows: NDArray[np.int64]) -> NDArray[np.uint8] | None:
        """Return the bytes of the values of rows, if they have fixed width and are stored as such.

        Args:
            rows: Rows of the fragment, in any order; at least one.

        Returns:
            Shape (number of rows, bytes of a value); None if the values have to be decoded.

        Raises:
            CorruptFileError: If a file is damaged.
        """
        del rows
        return None

    def zones(self, path: tuple[str, ...]) -> Zones | None:
        """Return the zone map of the field, or of the member at a path; None if there is none."""
        return None

    @abstractmethod
    def explain(self) -> Iterator[PageExplanation]:
        """Describe the pages of the field from metadata alone."""

    def empty(self) -> pa.Array:
        """Return an array without rows."""
        return pa.nulls(0, self.field.arrow_type)


class PagedFieldReader(FieldReader):
    """A field whose columns have pages; a segment lies within one page of each of them.

    Attributes:
        cuts: int64, the rows at which a page of any column begins, and the end.
        segment: The class of its segments.
    """

    cuts: NDArray[np.int64]
    segment: ClassVar[type[Segment]]

    @cached_property
    def page_cuts(self) -> list[int]:
        """The rows at which a page begins, and the end, as numbers."""
        found: list[int] = self.cuts.tolist()
        return found

    def segments(self, rows: RowRanges) -> Iterator[Segment]:
        """Split rows of the fragment at page boundaries."""
        if len(rows.bounds) == 0:
            return
        cuts = self.page_cuts
        if len(cuts) == 2:
            yield self.segment(self, 0, rows)
            return
        # NumPy would search without the lock of the interpreter, which other threads then take.
        begin, end = int(rows.bounds[0, 0]), int(rows.bounds[-1, 1])
        first, last = bisect_right(cuts, begin) - 1, bisect_left(cuts, end)
        if last - first == 1 and last < len(cuts):  # most lookups
            start = cuts[first]
            yield self.segment(self, start, RowRanges(rows.bounds - start) if start else rows)
        elif len(rows.bounds) == 1:
            for start, stop in pairwise(cuts[first : last + 1]):
                wanted = RowRanges.one(max(begin, start) - start, min(end, stop) - start)
                yield self.segment(self, start, wanted)
        else:
            for start, wanted in rows.split(self.cuts[first : last + 1]):
                yield self.segment(self, start, wanted)


def read_segments(segments: Sequence[Segment]) -> list[pa.Array]:
    """Read segments; those that lie in one file are read together."""
    kinds: dict[type[Segment], None] = dict.fromkeys(type(segment) for segment in segments)
    if len(kinds) == 1:
        [kind] = kinds
        return kind.read_all(segments)
    arrays: dict[int, pa.Array] = {}
    for kind in kinds:
        places = [place for place, segment in enumerate(segments) if type(segment) is kind]
        found = kind.read_all([segments[place] for place in places])
        arrays.update(zip(places, found, strict=True))
    return [arrays[place] for place in range(len(segments))]


def read_columns(columns: Sequence[Sequence[Segment]]) -> list[list[pa.Array]]:
    """Read rows of columns of local files at once: few rows, or columns of index files.

    Returns:
        For each column arrays whose rows are those of its segments; no more arrays than segments.
    """
    kinds = {type(segment) for segments in columns for segment in segments}
    if len(kinds) == 1:
        return next(iter(kinds)).read_columns(columns)
    found = iter(read_segments([segment for segments in columns for segment in segments]))
    return [[next(found) for _ in segments] for segments in columns]


def read_by_file(
    wanted: Sequence[tuple[Source, T]], plan: Callable[[list[T]], Plan[Sequence[R]]]
) -> list[R]:
    """Read parts of files: all parts of one file with one plan, which yields a result for each."""
    if len(wanted) == 1:
        [(source, part)] = wanted
        return list(run_plan(plan([part]), source))
    by_file: dict[int, list[int]] = {}
    for place, (source, _) in enumerate(wanted):
        by_file.setdefault(id(source), []).append(place)
    results: list[Any] = [None] * len(wanted)
    for places in by_file.values():
        found = run_plan(plan([wanted[place][1] for place in places]), wanted[places[0]][0])
        for place, result in zip(places, found, strict=True):
            results[place] = result
    return results
