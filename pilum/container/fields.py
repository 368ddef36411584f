"""Read a field of a fragment whose files have version 2.1 or newer.

Leaf columns have pages of their own, cut at different rows, and may lie in several files. A
segment is a range of rows that lies within one page of every leaf; it becomes one Arrow array, so
that members of a struct are combined without copying.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.container.assemble import assemble, assemble_leaf
from pilum.container.column import Column
from pilum.container.explain import PageExplanation
from pilum.container.packed import members_of
from pilum.container.reader import FileReader
from pilum.container.segments import FieldReader, FilePart, Segment
from pilum.encodings.joint import JointRead
from pilum.encodings.page import Decoded
from pilum.encodings.structural.mini_block import MiniBlockPage
from pilum.encodings.structural.whole_pages import decode_as_one, likeness_of
from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges
from pilum.format.schema import Field, FieldId
from pilum.format.types import width_bits
from pilum.storage.base import Plan, Source

__all__ = ["Leaf", "LeafFieldReader"]

_PAGE_BYTES = 8 * 1024 * 1024
_NARROW_BYTES = 256


@dataclass(frozen=True, slots=True)
class Leaf:
    """The place of one leaf.

    Attributes:
        reader: Reader of its file.
        column: Its column.
        members: All stored members of a packed struct, in the file's order.
    """

    reader: FileReader
    column: Column
    members: tuple[Field, ...] = ()

    def page_in_memory(self, rows: RowRanges) -> tuple[NDArray[np.uint8], MiniBlockPage] | None:
        """Return the only page and its file, if all rows are selected and the file is in memory."""
        data = self.reader.data
        if data is None or self.column.num_pages != 1 or self.members:
            return None
        page = self.column.mini_block(0, rows)
        return None if page is None else (data, page)


@dataclass(slots=True)
class LeafSegment(Segment):
    """Some rows of a field that lie within one page of each leaf."""

    field: LeafFieldReader
    start: int
    rows: RowRanges

    def plans(self) -> list[tuple[Source, Plan[Any] | JointRead]]:
        """Return one plan per leaf."""
        return [(leaf.reader.source, self._plan(leaf)) for leaf in self.field.leaves.values()]

    def _plan(self, leaf: Leaf) -> Plan[Decoded] | JointRead:
        column = leaf.column
        # Other leaves may have more pages than this, so its only page may start before the segment.
        number = 0 if len(column.row_bounds) == 2 else column.page_at(self.start)
        skip = self.start - int(column.row_bounds[number])
        if skip:
            return _leaf_plan(leaf, number, RowRanges(self.rows.bounds + skip))
        joint = None if leaf.members else column.joint_read(number, self.rows)
        return joint or _leaf_plan(leaf, number, self.rows)

    @property
    def likeness(self) -> Hashable | None:
        """The field, and how its pages are stored, if they are all in memory."""
        kinds = []
        for number, leaf in self.field.leaves.items():
            found = leaf.page_in_memory(self.rows)
            likeness = likeness_of(*found) if found else None
            if likeness is None:
                return None
            kinds.append((number, likeness))
        return id(self.field.field), *kinds

    @staticmethod
    def read_as_one(segments: Sequence[LeafSegment]) -> pa.Array:
        """Decode each leaf of all segments with one call."""
        field = segments[0].field
        decoded = {}
        for number in field.leaves:
            pages = [one.field.leaves[number].page_in_memory(one.rows) for one in segments]
            decoded[number] = decode_as_one([page for page in pages if page])
        return assemble(field.field, decoded, sum(segment.rows.num_rows for segment in segments))

    def build(self, results: Sequence[Any]) -> pa.Array:
        """Build the array of the rows."""
        own = self.field
        try:
            if own.is_one_leaf:
                return assemble_leaf(own.field, results[0], self.rows.num_rows)
            leaves = dict(zip(own.leaves, results, strict=True))
            return assemble(own.field, leaves, self.rows.num_rows)
        except CorruptFileError as error:
            files = {leaf.column.path for leaf in self.field.leaves.values()}
            where = f"column {self.field.field.name!r}, rows from {self.start}"
            raise error.at(where).at(", ".join(sorted(files))) from None


class LeafFieldReader(FieldReader):
    """One field of a fragment.

    Attributes:
        field: The field, with only the projected members.
        leaves: The places of its leaves; leaves that are in no file are left out and read as null.
        is_one_leaf: Whether it is a single leaf that is in some file.
        num_rows: Physical rows of the fragment.
    """

    def __init__(self, field: Field, leaves: Mapping[FieldId, Leaf], num_rows: int) -> None:
        self.field = field
        self.leaves = leaves
        self.is_one_leaf = field.id in self.leaves and not field.children
        self.num_rows = num_rows
        self._bytes_per_row: float | None = None
        bounds = [leaf.column.row_bounds for leaf in self.leaves.values()]
        self._cuts = _cuts(bounds) if bounds else np.array([0, num_rows], dtype=np.int64)

    @classmethod
    def of(cls, field: Field, parts: Sequence[FilePart], num_rows: int) -> LeafFieldReader:
        """Find the leaves of a field in files; see `pilum.container.open.field_reader`."""
        leaves: dict[FieldId, Leaf] = {}
        for leaf in field.leaves():
            part = next((part for part in parts if leaf.id in part.columns), None)
            if part is not None:
                assert isinstance(part.reader, FileReader)
                column = part.reader.column(part.columns[leaf.id])
                members = members_of(leaf, part.reader) if leaf.children else ()
                leaves[leaf.id] = Leaf(part.reader, column, members)
        return cls(field, leaves, num_rows)

    @property
    def bytes_per_row(self) -> float:
        """The approximate mean bytes of a row in memory; at least its stored bytes."""
        if self._bytes_per_row is None:
            self._bytes_per_row = self._average_bytes()
        return self._bytes_per_row

    def _average_bytes(self) -> float:
        total = 0.0
        for field in self.field.leaves():
            leaf = self.leaves.get(field.id)
            if leaf is not None:
                total += _memory_bytes(field.arrow_type, leaf.column)
        return total / max(self.num_rows, 1)

    def explain(self) -> Iterator[PageExplanation]:
        """Describe the pages of all leaves."""
        for path in self.field.leaf_paths():
            leaf = self.leaves.get(path[-1].id)
            if leaf is not None:
                column = ".".join(field.name for field in path)
                yield from leaf.column.explain(column, path[-1].arrow_type)

    def segments(self, rows: RowRanges) -> Iterator[LeafSegment]:
        """Split rows of the fragment at page boundaries."""
        if len(rows.bounds) == 0:
            return
        if len(self._cuts) == 2:
            yield LeafSegment(self, 0, rows)
            return
        first = int(np.searchsorted(self._cuts, rows.starts[0], side="right")) - 1
        last = int(np.searchsorted(self._cuts, rows.stops[-1], side="left"))
        for start, stop in zip(
            self._cuts[first:last], self._cuts[first + 1 : last + 1], strict=True
        ):
            wanted = rows.within(int(start), int(stop))
            if len(wanted.bounds):
                yield LeafSegment(self, int(start), wanted)


def _cuts(bounds: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the rows at which a page of any leaf begins."""
    return bounds[0] if len(bounds) == 1 else np.unique(np.concatenate(bounds))


def _memory_bytes(kind: pa.DataType, column: Column) -> float:
    """Estimate the bytes of all values of a leaf in memory: zeros are stored in almost none."""
    width = width_bits(kind)
    if width is None:
        # Writers cut pages by the uncompressed size of their values; only values that are stored
        # uncompressed are longer than the others.
        full = (column.num_pages - 1) * _PAGE_BYTES
        stored = column.stored_bytes
        return max(stored, min(full, column.num_values * _NARROW_BYTES)) if full else stored
    return max(column.stored_bytes, column.num_values * width / 8)


def _leaf_plan(leaf: Leaf, number: int, rows: RowRanges) -> Plan[Decoded]:
    decoded = yield from leaf.column.read(number, rows)
    return decoded._replace(members=leaf.members) if leaf.members else decoded
