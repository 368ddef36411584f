"""Read a field of a fragment whose files have version 2.1 or newer.

Leaf columns have pages of their own, cut at different rows, and may lie in several files. A
segment is a range of rows that lies within one page of every leaf; it becomes one Arrow array, so
that members of a struct are combined without copying.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrays import from_zero
from pilum.container.assemble import assemble, assemble_leaf
from pilum.container.explain import PageExplanation
from pilum.container.packed import members_of
from pilum.container.reader import Column, FileReader
from pilum.container.segments import FilePart, PagedFieldReader, Segment, read_by_file
from pilum.encodings.base import Decoded, PageRead
from pilum.encodings.layouts import read_pages
from pilum.encodings.structural.mini_block import MiniBlockLayout, decode_in_memory, joint_key
from pilum.errors import CorruptFileError
from pilum.format.schema import Field, FieldId
from pilum.format.types import width_bits

__all__ = ["Leaf", "LeafFieldReader"]

_PAGE_BYTES = 8 * 1024 * 1024
_NARROW_BYTES = 256


@dataclass(frozen=True, slots=True)
class Leaf:
    """The place of one leaf: a column of a file.

    `members` are all stored members of a packed struct, in the file's order.
    """

    reader: FileReader
    column: Column
    members: tuple[Field, ...] = ()


@dataclass(slots=True)
class LeafSegment(Segment):
    """Some rows of a field that lie within one page of each leaf."""

    field: LeafFieldReader

    @classmethod
    def read_all(cls, segments: Sequence[LeafSegment]) -> list[pa.Array]:
        """Read segments; pages in memory of one form become one array, which is then split."""
        reads = [segment._reads() for segment in segments]
        groups = _joint_groups(segments, reads)
        try:
            return _read_groups(segments, reads, groups)
        except CorruptFileError:
            if len(groups) == len(segments):
                raise
        # Reading each segment on its own names the damaged one.
        return _read_groups(segments, reads, [[place] for place in range(len(segments))])

    def _reads(self) -> list[PageRead]:
        """Return a read of each leaf."""
        start, rows = self.start, self.rows
        return [column.read(start, rows, source) for column, source in self.field.columns]

    def build(self, decoded: list[Decoded], num_rows: int) -> pa.Array:
        """Build the array of `num_rows` rows of the field from the rows of each leaf."""
        own = self.field
        try:
            if own.is_one_leaf:
                return assemble_leaf(own.field, decoded[0], num_rows)
            leaves = {
                number: rows._replace(members=leaf.members) if leaf.members else rows
                for (number, leaf), rows in zip(own.leaves.items(), decoded, strict=True)
            }
            return assemble(own.field, leaves, num_rows)
        except CorruptFileError as error:
            files = {leaf.column.path for leaf in own.leaves.values()}
            where = f"column {own.field.name!r}, rows from {self.start}"
            raise error.at(where).at(", ".join(sorted(files))) from None


def _joint_groups(
    segments: Sequence[LeafSegment], reads: Sequence[list[PageRead]]
) -> list[list[int]]:
    """Group the segments whose pages can be decoded into one array: the same leaves of one field.

    Reading one segment of a small file in memory costs nearly as much as reading many.
    """
    if len(segments) == 1:
        return [[0]]
    groups: dict[Hashable, list[int]] = {}
    for place, (segment, pages) in enumerate(zip(segments, reads, strict=True)):
        key: Hashable = place
        if pages and pages[0].memory is not None and not segment.field.has_members:
            forms = [joint_key(page) for page in pages]
            if None not in forms:
                key = id(segment.field.field), segment.field.joint_id, *forms
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def _read_groups(
    segments: Sequence[LeafSegment], reads: Sequence[list[PageRead]], groups: list[list[int]]
) -> list[pa.Array]:
    """Read groups of segments, each into one array, and return the array of each segment."""
    pages = [
        pages for group in groups for pages in zip(*[reads[place] for place in group], strict=True)
    ]
    decoded = iter(_decode_all(pages))
    arrays: list[pa.Array] = [None] * len(segments)
    for group in groups:
        first = segments[group[0]]
        rows = [next(decoded) for _ in reads[group[0]]]
        if len(group) == 1:
            arrays[group[0]] = first.build(rows, first.rows.num_rows)
            continue
        counts = [segments[place].rows.num_rows for place in group]
        whole, start = first.build(rows, sum(counts)), 0
        for place, count in zip(group, counts, strict=True):
            arrays[place] = from_zero(whole.slice(start, count))
            start += count
    return arrays


def _decode_all(groups: Sequence[Sequence[PageRead]]) -> Sequence[Decoded]:
    """Read groups of pages, each into one array; groups of several pages are in memory."""
    in_memory = [
        pages[0].memory is not None and isinstance(pages[0].layout, MiniBlockLayout)
        for pages in groups
    ]
    together = [pages for pages, is_memory in zip(groups, in_memory, strict=True) if is_memory]
    others = [pages[0] for pages, is_memory in zip(groups, in_memory, strict=True) if not is_memory]
    decoded = iter(decode_in_memory(together) if together else ())
    read = iter(read_by_file([(page.source, page) for page in others], read_pages))
    return [next(decoded if is_memory else read) for is_memory in in_memory]


class LeafFieldReader(PagedFieldReader):
    """One field of a fragment, with only the projected members.

    Attributes:
        leaves: The places of its leaves; leaves that are in no file are left out and read as null.
        is_one_leaf: Whether it is a single leaf that is in some file.
        columns: The column of each leaf, with its file.
        has_members: Whether a leaf is a packed struct.
        joint_id: A value that two readers of one field share if they have the same leaves.
    """

    segment = LeafSegment

    def __init__(self, field: Field, leaves: Mapping[FieldId, Leaf], num_rows: int) -> None:
        self.field = field
        self.leaves = leaves
        self.is_one_leaf = field.id in self.leaves and not field.children
        self.columns = [(leaf.column, leaf.reader.source) for leaf in leaves.values()]
        self.has_members = bool(field.children) and any(leaf.members for leaf in leaves.values())
        self.joint_id = field.id if self.is_one_leaf else tuple(leaves)
        self.num_rows = num_rows
        self._bytes_per_row: float | None = None
        bounds = [leaf.column.row_bounds for leaf in self.leaves.values()]
        self.cuts = _cuts(bounds) if bounds else np.array([0, num_rows], dtype=np.int64)

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
