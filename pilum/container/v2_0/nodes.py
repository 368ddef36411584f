"""Read a field from its columns: a tree in the shape of the schema, each node with its column.

    list            column k: the end of each list
    └── struct      column k + 1: only its length
        ├── a       column k + 2
        └── b       column k + 3

Above the first list, all columns count rows; below a list they count its items, from the first list
of the file to the last. Source: docs/format/encodings-2.0.md, "Columns and pages".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.container.explain import PageExplanation
from pilum.container.v2_0.reader import Column, DirectRead, PagedFileReader
from pilum.encodings.base import demand
from pilum.encodings.v2_0.base import bits_of
from pilum.encodings.v2_0.binary import OFFSET_BITS
from pilum.encodings.v2_0.list import Entries, List
from pilum.encodings.v2_0.struct import PackedStruct, packed_bytes
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.blobs import stored_members
from pilum.format.fields import DESCRIPTOR_ID, Field, FieldId
from pilum.format.rows import RowRanges
from pilum.storage.base import Plan, gather

__all__ = ["Node", "node_of", "struct_array"]

_TEXT_BYTES = 16


class Node(ABC):
    """A field, or the part of it that a file stores."""

    @abstractmethod
    def read(self, rows: RowRanges) -> Plan[pa.Array]:
        """Read rows, or items where the node is below a list."""

    def direct_read(self, rows: RowRanges) -> DirectRead | None:
        """Return a read of rows at known positions; None if they are not known."""
        return None

    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the node itself, without those of the nodes below."""
        return ()

    def explain(self, name: str) -> Iterator[PageExplanation]:
        """Describe the pages of the node and all below it, except those of structs."""
        yield from ()

    def below(self) -> tuple[Node, ...]:
        """Return the child nodes."""
        return ()

    def walk(self) -> Iterator[Node]:
        """Yield the node and all nodes below it."""
        yield self
        for node in self.below():
            yield from node.walk()

    def memory_bytes(self) -> float:
        """Return the approximate bytes of all values of the node itself in memory."""
        return sum(column.stored_bytes for column in self.columns())


@dataclass(frozen=True)
class Absent(Node):
    """A field without a column."""

    kind: pa.DataType

    def read(self, rows: RowRanges) -> Plan[pa.Array]:
        """Return nulls."""
        yield from ()
        return pa.nulls(rows.num_rows, self.kind)


@dataclass(frozen=True)
class Values(Node):
    """A field with a single column: anything but lists and structs."""

    column: Column
    kind: pa.DataType

    def columns(self) -> tuple[Column, ...]:
        """Return the column."""
        return (self.column,)

    def explain(self, name: str) -> Iterator[PageExplanation]:
        """Describe the pages of values."""
        yield from self.column.explain(name, self.kind)

    def memory_bytes(self) -> float:
        """Estimate the bytes in memory: stored nulls and dictionary items are smaller."""
        width = packed_bytes(self.kind) or (bits_of(self.kind) or _TEXT_BYTES * 8) / 8
        return max(self.column.stored_bytes, width * self.column.num_items)

    def direct_read(self, rows: RowRanges) -> DirectRead | None:
        """Return a read of values at known positions; None if they are not known."""
        return self.column.direct_read(rows, self.kind)

    def read(self, rows: RowRanges) -> Plan[pa.Array]:
        """Read the values."""
        return (yield from self.column.read(rows, self.kind))


@dataclass(frozen=True)
class PackedMembers(Node):
    """Some members of a packed struct."""

    column: Column
    stored: pa.DataType
    field: Field

    def columns(self) -> tuple[Column, ...]:
        """Return the column."""
        return (self.column,)

    def explain(self, name: str) -> Iterator[PageExplanation]:
        """Describe the pages of whole rows, regardless of the projection."""
        yield from self.column.explain(name, self.stored)

    def read(self, rows: RowRanges) -> Plan[pa.Array]:
        """Read the structs with their projected members."""
        whole = yield from self.column.read(rows, self.stored)
        members = [whole.field(child.name) for child in self.field.children]
        return struct_array(self.field, members, len(whole))


@dataclass(frozen=True)
class BlobPlaces(PackedMembers):
    """Positions of blob payloads. Nulls, which have special words, become nulls as since 2.1."""

    def read(self, rows: RowRanges) -> Plan[pa.Array]:
        """Read the descriptors with their projected members."""
        whole = yield from self.column.read(rows, self.stored)
        null = pc.and_(pc.equal(whole.field("position"), 1), pc.equal(whole.field("size"), 0))
        members = [whole.field(child.name) for child in self.field.children]
        return pa.StructArray.from_arrays(members, fields=list(self.field.arrow_type), mask=null)


@dataclass(frozen=True)
class Structs(Node):
    """A struct, whose column only has a length."""

    header: Column
    field: Field
    members: tuple[Node, ...]

    def columns(self) -> tuple[Column, ...]:
        """Return the column of the struct."""
        return (self.header,)

    def below(self) -> tuple[Node, ...]:
        """Return the members."""
        return self.members

    def explain(self, name: str) -> Iterator[PageExplanation]:
        """Describe the pages of the members."""
        for child, member in zip(self.field.children, self.members, strict=True):
            yield from member.explain(f"{name}.{child.name}")

    def read(self, rows: RowRanges) -> Plan[pa.Array]:
        """Read the structs, none of which are null."""
        if len(rows.bounds) and rows.stops[-1] > self.header.num_items:
            raise CorruptFileError(
                f"structs: expected {int(rows.stops[-1])}, found {self.header.num_items}",
                f"column {self.header.index}",
                self.header.path,
            )
        members = yield from gather([node.read(rows) for node in self.members])
        return struct_array(self.field, members, rows.num_rows)


@dataclass(frozen=True)
class Lists(Node):
    """Lists, and the node of their items; or strings, in files from before version 2.0."""

    column: Column
    kind: pa.DataType
    items: Node

    def columns(self) -> tuple[Column, ...]:
        """Return the column of the offsets."""
        return (self.column,)

    def below(self) -> tuple[Node, ...]:
        """Return the items."""
        return (self.items,)

    def explain(self, name: str) -> Iterator[PageExplanation]:
        """Describe the pages of the offsets, then those of the items."""
        yield from self.column.explain(name, self.kind)
        is_text = self.kind.id in OFFSET_BITS
        yield from self.items.explain(f"{name}.{'bytes' if is_text else self.kind.field(0).name}")

    def read(self, rows: RowRanges) -> Plan[pa.Array]:
        """Read the lists with their items."""
        large = pt.is_large_list(self.kind) or OFFSET_BITS.get(self.kind.id) == 64
        pages = yield from self.column.lists(rows, 64 if large else 32)
        if not pages:
            return pa.nulls(0, self.kind)
        spans = [entries.spans + first for entries, first in pages]
        items = yield from self.items.read(_joined(spans))
        return self._array(_concatenated([entries for entries, _ in pages]), items)

    def _array(self, entries: Entries, items: pa.Array) -> pa.Array:
        size = len(entries.offsets) - 1
        if self.kind.id not in OFFSET_BITS:
            return pa.Array.from_buffers(
                self.kind, size, entries.buffers, entries.null_count, children=[items]
            )
        buffers = [*entries.buffers, items.buffers()[1]]
        return pa.Array.from_buffers(self.kind, size, buffers, entries.null_count)


def _joined(spans: list[np.ndarray[Any, Any]]) -> RowRanges:
    whole = np.concatenate(spans) if len(spans) > 1 else spans[0]
    return Entries(np.empty(0), whole, None, 0).wanted


def _concatenated(pages: list[Entries]) -> Entries:
    """Concatenate the entries of adjacent pages."""
    if len(pages) == 1:
        return pages[0]
    sizes = np.concatenate([np.diff(entries.offsets) for entries in pages])
    offsets = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    dtype = pages[0].offsets.dtype
    demand(int(offsets[-1]) <= np.iinfo(dtype).max, f"{int(offsets[-1])} items in one array")
    null_count = sum(entries.null_count for entries in pages)
    validity = None
    if null_count:
        flags = [_flags(entries) for entries in pages]
        validity = np.packbits(np.concatenate(flags), bitorder="little")
    return Entries(offsets.astype(dtype), np.empty((0, 2), np.int64), validity, null_count)


def _flags(entries: Entries) -> np.ndarray[Any, Any]:
    count = len(entries.offsets) - 1
    if entries.validity is None:
        return np.ones(count, dtype=np.uint8)
    return np.unpackbits(entries.validity, count=count, bitorder="little")


def struct_array(field: Field, members: list[pa.Array], length: int) -> pa.Array:
    """Build structs of these members, none of which are null."""
    kind = field.arrow_type
    if not members:
        return pa.Array.from_buffers(kind, length, [None], 0)
    return pa.StructArray.from_arrays(members, fields=list(kind))


def node_of(field: Field, file: PagedFileReader, columns: Mapping[FieldId, int]) -> Node:
    """Build the tree of a field, with only its projected members, from the columns of one file."""
    number = columns.get(field.id, -1)
    if number < 0:
        return Absent(field.arrow_type)
    column = file.column(number)
    if field.is_list:
        return Lists(column, field.arrow_type, node_of(field.item, file, columns))
    if isinstance(column.first_encoding, PackedStruct) and field.is_struct:
        make = BlobPlaces if column.is_blob else PackedMembers
        return make(column, _stored_type(field, file), field)
    if field.is_struct:
        members = (node_of(child, file, columns) for child in field.children)
        return Structs(column, field, tuple(members))
    if isinstance(column.first_encoding, List) and field.arrow_type.id in OFFSET_BITS:
        letters = file.column(number + 1)
        return Lists(column, field.arrow_type, Values(letters, pa.uint8()))
    return Values(column, field.arrow_type)


def _stored_type(field: Field, file: PagedFileReader) -> pa.DataType:
    """Return the type of a packed struct with all its members, under the names of the table."""
    if DESCRIPTOR_ID in field.ids:
        return pa.struct([(member.name, member.arrow_type) for member in stored_members(field)])
    names = {child.id: child.name for child in field.children}
    for stored in file.schema.walk():
        if stored.id == field.id:
            members = (
                pa.field(names.get(child.id, f"\0{child.id}"), child.arrow_type)
                for child in stored.children
            )
            return pa.struct(members)
    raise UnsupportedFormatError(
        f"column {field.name!r}: {file.source.path} does not list the members of its packed structs"
    )
