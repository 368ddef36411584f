"""Reading one top-level field of a fragment, whose leaves may stand in several files.

Leaf columns have pages of their own, cut at different rows. A *segment* is a range of rows that
lies within one page of every leaf; it is read by one plan per file and becomes one Arrow array, so
that siblings of a struct meet without copying.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.container.assemble import assemble
from pilum.container.reader import Column, FileReader
from pilum.encodings.page import Decoded
from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges
from pilum.format.schema import Field, FieldId
from pilum.storage.base import Plan, gather, run_plan

__all__ = ["FieldReader", "Leaf", "Segment", "read_segments"]

_PAGE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Leaf:
    """Where one leaf is stored."""

    reader: FileReader
    column: Column


@dataclass(frozen=True, slots=True)
class Segment:
    """Some rows of a field that lie within one page of each leaf.

    Attributes:
        field: Whose rows.
        start: First row of the segment in the fragment.
        rows: The wanted rows, counted from `start`.
    """

    field: FieldReader
    start: int
    rows: RowRanges

    def read(self) -> pa.Array:
        """Reads the rows, one file after the other."""
        return read_segments([self])[0]


class FieldReader:
    """One field of a fragment.

    Attributes:
        field: With only the members that are wanted.
        leaves: Where its leaves are; those that no file holds are left out and read as null.
        num_rows: Physical rows of the fragment.
    """

    def __init__(self, field: Field, leaves: Mapping[FieldId, Leaf], num_rows: int) -> None:
        self.field = field
        self.leaves = dict(leaves)
        self.num_rows = num_rows
        bounds = [leaf.column.row_bounds for leaf in self.leaves.values()]
        self._cuts: NDArray[np.int64] = (
            np.unique(np.concatenate(bounds)) if bounds else np.array([0, num_rows], dtype=np.int64)
        )

    @cached_property
    def bytes_per_row(self) -> float:
        """About the bytes of a row in memory, on average; at least those that are stored."""
        total = sum(
            _memory_bytes(leaf.arrow_type, self.leaves[leaf.id].column)
            for leaf in self.field.leaves()
            if leaf.id in self.leaves
        )
        return total / max(self.num_rows, 1)

    def segments(self, rows: RowRanges) -> Iterator[Segment]:
        """Cuts rows of the fragment at page borders."""
        if len(rows.bounds) == 0:
            return
        if len(self._cuts) == 2:
            yield Segment(self, 0, rows)
            return
        first = int(np.searchsorted(self._cuts, rows.starts[0], side="right")) - 1
        last = int(np.searchsorted(self._cuts, rows.stops[-1], side="left"))
        for start, stop in zip(
            self._cuts[first:last], self._cuts[first + 1 : last + 1], strict=True
        ):
            wanted = rows.within(int(start), int(stop))
            if len(wanted.bounds):
                yield Segment(self, int(start), wanted)

    def empty(self) -> pa.Array:
        """An array of no rows."""
        return pa.nulls(0, self.field.arrow_type)


def _memory_bytes(kind: pa.DataType, column: Column) -> float:
    """About the bytes of all values of a leaf: zeros are stored in next to none."""
    width = _width_bits(kind)
    if width is None:
        # Writers cut pages by the size of their values, whatever these shrink to.
        return max(column.stored_bytes, (column.num_pages - 1) * _PAGE_BYTES)
    return max(column.stored_bytes, column.num_values * width / 8)


def _width_bits(kind: pa.DataType) -> int | None:
    """Bits of a value; None if they vary."""
    if pt.is_fixed_size_list(kind):
        items = _width_bits(kind.value_type)
        return None if items is None else items * int(kind.list_size)
    if pt.is_primitive(kind) or pt.is_decimal(kind) or pt.is_fixed_size_binary(kind):
        return int(kind.bit_width)
    return None


def read_segments(segments: list[Segment]) -> list[pa.Array]:
    """Reads segments; all that lie in one file are read together.

    Raises:
        CorruptFileError: If a page is damaged.
    """
    by_file: dict[int, tuple[FileReader, list[tuple[int, FieldId, Plan[Decoded]]]]] = {}
    for number, segment in enumerate(segments):
        for field_id, leaf in segment.field.leaves.items():
            plans = by_file.setdefault(id(leaf.reader), (leaf.reader, []))[1]
            plans.append((number, field_id, _leaf_plan(leaf.column, segment)))
    decoded: list[dict[FieldId, Decoded]] = [{} for _ in segments]
    for reader, plans in by_file.values():
        results = run_plan(gather([plan for _, _, plan in plans]), reader.source)
        for (number, field_id, _), result in zip(plans, results, strict=True):
            decoded[number][field_id] = result
    return [_assemble(segment, leaves) for segment, leaves in zip(segments, decoded, strict=True)]


def _leaf_plan(column: Column, segment: Segment) -> Plan[Decoded]:
    # Other leaves may have more pages than this one, so its only page may start before the segment.
    number = 0 if len(column.row_bounds) == 2 else column.page_at(segment.start)
    skip = segment.start - int(column.row_bounds[number])
    rows = segment.rows if skip == 0 else RowRanges(segment.rows.bounds + skip)
    return column.read(number, rows)


def _assemble(segment: Segment, leaves: Mapping[FieldId, Decoded]) -> pa.Array:
    try:
        return assemble(segment.field.field, leaves, segment.rows.num_rows)
    except CorruptFileError as error:
        files = {leaf.column.path for leaf in segment.field.leaves.values()}
        where = f"column {segment.field.field.name!r}, rows from {segment.start}"
        raise error.at(where).at(", ".join(sorted(files))) from None
