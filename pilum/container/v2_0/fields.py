"""Read a field of a fragment whose files have version 2.0.

Structs have no bytes, so each member above the first list is read on its own, from the file that
has it. The members are combined in the end. A segment is a range of rows that lies within one page
of each of these columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pilum.container.explain import PageExplanation
from pilum.container.segments import FilePart, PagedFieldReader, Segment, read_by_file
from pilum.container.v2_0.nodes import Node, node_of, struct_array
from pilum.container.v2_0.reader import Column, DirectRead, PagedFileReader, read_directly
from pilum.encodings.v2_0.struct import PackedStruct
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.fields import Field
from pilum.format.rows import RowRanges
from pilum.lazy import cached_property
from pilum.storage.base import Plan, Source, gather

__all__ = ["ColumnsFieldReader"]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a field that is read on its own."""

    source: Source
    node: Node


@dataclass(frozen=True, slots=True)
class _Shape:
    """The shape of a field: a struct of other shapes, one piece, or nulls."""

    field: Field
    piece: _Piece | None = None
    members: tuple[_Shape, ...] | None = None

    def pieces(self) -> Iterator[_Piece]:
        """Yield all pieces, in schema order."""
        if self.piece is not None:
            yield self.piece
        for member in self.members or ():
            yield from member.pieces()

    def explain(self, name: str) -> Iterator[PageExplanation]:
        """Describe the pages of all pieces."""
        if self.piece is not None:
            yield from self.piece.node.explain(name)
        for member in self.members or ():
            yield from member.explain(f"{name}.{member.field.name}")

    def build(self, arrays: Iterator[pa.Array], num_rows: int) -> pa.Array:
        """Build the array from the arrays of the pieces, in order."""
        if self.piece is not None:
            return next(arrays)
        if self.members is None:
            return pa.nulls(num_rows, self.field.arrow_type)
        members = [member.build(arrays, num_rows) for member in self.members]
        return struct_array(self.field, members, num_rows)


@dataclass(slots=True)
class PagedSegment(Segment):
    """Some rows of a field that lie within one page of each column above the first list."""

    field: ColumnsFieldReader

    @classmethod
    def read_all(cls, segments: Sequence[PagedSegment]) -> list[pa.Array]:
        """Read segments piece by piece, all pieces of a file together."""
        wanted: list[tuple[Source, tuple[Node, RowRanges]]] = []
        for segment in segments:
            rows, start = segment.rows, segment.start
            rows = RowRanges(rows.bounds + start) if start else rows
            wanted += [(piece.source, (piece.node, rows)) for piece in segment.field.pieces]
        found = iter(read_by_file(wanted, _read_nodes))
        return [segment.field.shape.build(found, segment.rows.num_rows) for segment in segments]


def _read_nodes(wanted: list[tuple[Node, RowRanges]]) -> Plan[list[pa.Array]]:
    """Read rows of nodes of one file; those whose positions are known share one request."""
    reads = [node.direct_read(rows) or node.read(rows) for node, rows in wanted]
    direct = [read for read in reads if isinstance(read, DirectRead)]
    plans: list[Plan[Any]] = [read for read in reads if not isinstance(read, DirectRead)]
    *others, together = yield from gather([*plans, read_directly(direct)])
    alone, known = iter(others), iter(together)
    return [next(known if isinstance(read, DirectRead) else alone) for read in reads]


class ColumnsFieldReader(PagedFieldReader):
    """One field of a fragment, with only the projected members.

    `shape` says how its array is built from the pieces that are read for it.
    """

    segment = PagedSegment

    def __init__(self, field: Field, shape: _Shape, num_rows: int) -> None:
        self.field = field
        self.shape = shape
        self.pieces = list(shape.pieces())
        self.num_rows = num_rows
        columns = [column for piece in self.pieces for column in piece.node.columns()]
        for column in columns:
            _require_rows(column, num_rows)
        whole = np.array([0, num_rows], dtype=np.int64)
        self.cuts = np.unique(np.concatenate([whole, *(column.bounds for column in columns)]))

    @classmethod
    def of(cls, field: Field, parts: Sequence[FilePart], num_rows: int) -> ColumnsFieldReader:
        """Find a field in files; see `pilum.container.open.field_reader`."""
        return cls(field, _shape(field, parts, num_rows), num_rows)

    @cached_property
    def bytes_per_row(self) -> float:
        """The approximate mean bytes of a row in memory; at least its stored bytes."""
        nodes = (node for piece in self.pieces for node in piece.node.walk())
        return sum(node.memory_bytes() for node in nodes) / max(self.num_rows, 1)

    def explain(self) -> Iterator[PageExplanation]:
        """Describe the pages of all columns but those of structs."""
        yield from self.shape.explain(self.field.name)


def _shape(field: Field, parts: Sequence[FilePart], num_rows: int) -> _Shape:
    part = next((part for part in parts if part.columns.get(field.id, -1) >= 0), None)
    if field.is_struct and (part is None or not _is_packed(field, part)):
        # The members of a struct may lie in files that do not have the struct itself.
        if part is None and not any(set(field.ids).intersection(part.columns) for part in parts):
            return _Shape(field)
        if part is not None:
            _require_rows(_column(field, part), num_rows)
        return _Shape(
            field, members=tuple(_shape(child, parts, num_rows) for child in field.children)
        )
    if part is None:
        return _Shape(field)
    _require_whole(field, part, parts)
    file = _file(part)
    return _Shape(field, _Piece(file.source, node_of(field, file, part.columns)))


def _file(part: FilePart) -> PagedFileReader:
    assert isinstance(part.reader, PagedFileReader)
    return part.reader


def _column(field: Field, part: FilePart) -> Column:
    return _file(part).column(part.columns[field.id])


def _is_packed(field: Field, part: FilePart) -> bool:
    return isinstance(_column(field, part).first_encoding, PackedStruct)


def _require_rows(column: Column, num_rows: int) -> None:
    if column.num_items != num_rows:
        raise CorruptFileError(
            f"rows: expected {num_rows}, found {column.num_items}",
            f"column {column.index}",
            column.path,
        )


def _require_whole(field: Field, part: FilePart, parts: Sequence[FilePart]) -> None:
    for other in parts:
        if other is not part and any(other.columns.get(number, -1) >= 0 for number in field.ids):
            raise UnsupportedFormatError(
                f"column {field.name!r}: the items of its lists are spread over "
                f"{part.reader.source.path} and {other.reader.source.path}"
            )
