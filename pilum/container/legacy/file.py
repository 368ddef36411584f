"""Read a legacy file: metadata when it is opened; pages, statistics and dictionaries on demand.

Opening takes one request for the end of the file. The table determines the columns: page tables are
indexed by field id, counted from the smallest id of the file. A file without a table has its schema
in the embedded manifest. Source: docs/format/legacy.md, "Reading".

A description of the file has one line per field and batch. The page table says how many values a
page has; the size of strings follows from their first and last offsets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.cache import FileCaches
from pilum.container.explain import PageExplanation, explained
from pilum.container.frame import Tail
from pilum.container.legacy.footer import FOOTER_BYTES, Metadata, parse_footer
from pilum.container.legacy.page_kinds import (
    is_var_binary,
    list_array,
    read_keys,
    read_offsets,
    read_plain,
    read_values,
    read_var_binary,
    text_bytes,
    width_bits,
)
from pilum.container.legacy.pages import Pages, PageTable, Slots
from pilum.encodings.base import demand
from pilum.encodings.describe import PageDescription
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.fields import Field, FieldId
from pilum.format.messages import parse_message
from pilum.format.pb import table_pb2
from pilum.format.rows import RowRanges
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.lazy import cached_property
from pilum.storage.base import Plan, Source, gather, run_plan

__all__ = ["LegacyFile", "explain_field", "page_owners", "read_field"]

_LENGTH = struct.Struct("<I")
_READER_BYTES = 4096
_FEW_RANGES = 1024
_NONE = np.empty(0, np.int64)

_Sizes = NDArray[np.int64]


class LegacyFile:
    """An open legacy file. Safe to use from several threads."""

    version = FileVersion.LEGACY

    def __init__(self, source: Source, metadata: Metadata, tail: Tail) -> None:
        self.source = source
        self.metadata = metadata
        self.num_rows = int(metadata.batch_bounds[-1])
        self._tail = tail
        self._last_slots: tuple[RowRanges | None, Slots] = (None, Slots.of_batches(_NONE))
        self._tables: dict[int, PageTable] = {}
        self._dictionaries: dict[FieldId, pa.Array] = {}

    @classmethod
    def open(
        cls, source: Source, tail: Tail | None = None, caches: FileCaches | None = None
    ) -> LegacyFile:
        """Read footer and metadata; see `pilum.container.open.open_file`. It has its own caches."""
        tail = Tail.read(source) if tail is None else tail
        try:
            position = parse_footer(tail.data[-FOOTER_BYTES:].tobytes(), source.size)
            data = run_plan(_message(source.size, tail, position), source)
            return cls(source, Metadata.from_bytes(data, position), tail)
        except CorruptFileError as error:
            raise error.at(source.path) if source.path not in error.where else error from None

    @property
    def column_ids(self) -> tuple[FieldId, ...]:
        """An empty tuple: legacy columns have no numbers."""
        return ()

    def field_columns(self) -> dict[FieldId, int]:
        """Return the fields of the file; their columns have no numbers."""
        return {field.id: -1 for field in self.schema.walk()}

    @property
    def held_bytes(self) -> int:
        """Estimate the memory of the open file, including cached page tables and dictionaries."""
        tables = sum(table.held_bytes for table in list(self._tables.values()))
        dictionaries: int = sum(values.nbytes for values in list(self._dictionaries.values()))
        return _READER_BYTES + len(self._tail.data) + tables + dictionaries

    @cached_property
    def _manifest(self) -> table_pb2.Manifest | None:
        """Return the embedded manifest."""
        if not self.metadata.manifest:
            return None
        plan = _message(self.source.size, self._tail, self.metadata.manifest)
        return parse_message(table_pb2.Manifest, run_plan(plan, self.source))

    @cached_property
    def schema(self) -> Schema:
        """The schema in the file itself; without fields if it has none."""
        if self._manifest is None:
            return Schema(())
        return Schema.from_proto(self._manifest.fields, self._manifest.schema_metadata)

    def first_id(self, ids: Iterable[int]) -> int:
        """Return the field of the first row of the page table.

        Of the ids that the table lists for the file, negative ones were dropped from the table;
        only the file still has them.
        """
        known = list(ids)
        if known and min(known) >= 0:
            return min(known)
        own = [field.id for field in self.schema.walk()]
        demand(bool(own), "fields: neither the table nor the file lists them")
        return min(own)

    def page_table(self, first_id: int) -> PageTable:
        """Return the page table whose first row belongs to field `first_id`."""
        if first_id not in self._tables:
            at, batches = self.metadata.page_table, self.metadata.num_batches
            self._tables[first_id] = PageTable(at, first_id, batches, self.source.size)
        return self._tables[first_id]

    def pages(self, field: Field, ids: frozenset[int], first_id: int) -> Mapping[int, Pages]:
        """Return the pages of a field and all below it, as far as the file has them."""
        owners = [owner for owner in page_owners(field) if owner.id in ids]
        plan = self.page_table(first_id).read(owner.id for owner in owners)
        pages = run_plan(plan, self.source)
        rows = np.diff(self.metadata.batch_bounds)
        for owner in _rows_are_slots(field):
            if owner.id in pages:
                matches = pages[owner.id].lengths == rows + int(owner.is_list)
                demand(bool(matches.all()), f"page table: rows of field {owner.name!r}")
        return pages

    def slots(self, rows: RowRanges) -> Slots:
        """Return rows of the file as slots of its batches."""
        last, slots = self._last_slots
        if last is not rows:  # all columns of a take read the same rows
            slots = Slots.of_rows(rows, self.metadata.batch_bounds)
            if len(rows.bounds) <= _FEW_RANGES:
                self._last_slots = (rows, slots)
        return slots

    @cached_property
    def _statistics(self) -> Mapping[str, Field]:
        """The statistics fields by the field id of the column, as text."""
        place = self.metadata.statistics
        try:
            fields = () if place is None else Schema.from_proto(place.message.schema).fields
        except CorruptFileError as error:
            raise error.at("statistics").at(self.source.path) from None
        return {field.name: field for field in fields if field.is_struct}

    def statistics_field(self, field_id: FieldId) -> Field | None:
        """Return the field that holds the statistics of a column, None if it has none."""
        return self._statistics.get(str(field_id))

    def statistics_table(self, first_id: int) -> PageTable:
        """Return the page table of the statistics, which consist of one batch."""
        assert self.metadata.statistics is not None
        return PageTable(self.metadata.statistics.page_table, first_id, 1, self.source.size)

    def dictionary(self, field: Field) -> pa.Array:
        """Return the values of a dictionary field, as stored in the file."""
        if field.id not in self._dictionaries:
            fields = () if self._manifest is None else self._manifest.fields
            place = next((item.dictionary for item in fields if item.id == field.id), None)
            if place is None:
                raise CorruptFileError(f"field {field.name!r}: its dictionary is in no file")
            plan = read_values(field.arrow_type.value_type, place, self.source.size)
            self._dictionaries[field.id] = run_plan(plan, self.source)
        return self._dictionaries[field.id]


def page_owners(field: Field) -> list[Field]:
    """Return the fields that have pages: all but structs."""
    return [item for item in field.walk() if not item.is_struct]


def _rows_are_slots(field: Field) -> list[Field]:
    """Return the fields with pages outside of lists, where each slot is a row."""
    if field.is_struct:
        return [item for child in field.children for item in _rows_are_slots(child)]
    return [field]


def read_field(
    field: Field,
    pages: Mapping[int, Pages],
    dictionaries: Mapping[FieldId, pa.Array],
    slots: Slots,
) -> Plan[pa.Array]:
    """Read slots of a field and all below it; members without pages are null."""
    count = slots.num_slots
    if field.is_struct:
        plans = [read_field(child, pages, dictionaries, slots) for child in field.children]
        members = yield from gather(plans)
        return pa.Array.from_buffers(field.arrow_type, count, [None], 0, children=members)
    own = pages.get(field.id)
    if own is None or count == 0:
        return pa.nulls(count, field.arrow_type)
    if field.is_list:
        offsets, items = yield from read_offsets(field.arrow_type, own, slots)
        values = yield from read_field(field.item, pages, dictionaries, items)
        return list_array(field.arrow_type, offsets, values)
    try:
        return (yield from _read_leaf(field, own, dictionaries, slots))
    except CorruptFileError as error:
        raise error.at(f"field {field.name!r}") from None


def _read_leaf(
    field: Field, pages: Pages, dictionaries: Mapping[FieldId, pa.Array], slots: Slots
) -> Plan[pa.Array]:
    kind = field.arrow_type
    if pt.is_null(kind):
        pages.require(slots)
        return pa.nulls(slots.num_slots)
    if is_var_binary(kind):
        return (yield from read_var_binary(kind, field.nullable, pages, slots))
    if pt.is_dictionary(kind):
        return (yield from read_keys(kind, dictionaries[field.id], pages, slots))
    if field.children or (pt.is_nested(kind) and not pt.is_fixed_size_list(kind)):
        raise UnsupportedFormatError(f"legacy files cannot store {kind}")
    return (yield from read_plain(kind, pages, slots))


def _message(file_bytes: int, tail: Tail, position: int) -> Plan[bytes]:
    """Read a length-prefixed message."""
    inside = position + _LENGTH.size <= file_bytes
    demand(inside, f"a message at {position} in a file of {file_bytes} bytes")
    head = yield from tail.bytes_at(position, _LENGTH.size)
    (size,) = _LENGTH.unpack(head.tobytes())
    start = position + _LENGTH.size
    demand(start + size <= file_bytes, f"a message of {size} bytes at {position}")
    data = yield from tail.bytes_at(start, size)
    return data.tobytes()


def explain_field(
    file: LegacyFile,
    field: Field,
    pages: Mapping[int, Pages],
    dictionaries: Mapping[FieldId, pa.Array],
    name: str,
) -> Iterator[PageExplanation]:
    """Describe the pages of a field and of all fields below it that the file has."""
    own = pages.get(field.id)
    if own is not None:
        yield from _explain_pages(file, field, own, dictionaries.get(field.id), name)
    for child in field.children:
        yield from explain_field(file, child, pages, dictionaries, f"{name}.{child.name}")


def _explain_pages(
    file: LegacyFile, field: Field, pages: Pages, dictionary: pa.Array | None, name: str
) -> Iterator[PageExplanation]:
    counts = pages.lengths - int(field.is_list)
    firsts = np.cumsum(counts) - counts
    encoding, sizes = _encoding(file, field.arrow_type, pages)
    values = "" if dictionary is None else f"{len(dictionary)} values of type {dictionary.type}"
    for number, (first, count, *buffers) in enumerate(
        zip(firsts.tolist(), counts.tolist(), *(size.tolist() for size in sizes), strict=True)
    ):
        page = PageDescription("batch", encoding, count, values)
        rows = first, count
        path = file.source.path
        yield explained(path, name, field.arrow_type, number, rows, page, tuple(buffers))


def _encoding(file: LegacyFile, kind: pa.DataType, pages: Pages) -> tuple[str, list[_Sizes]]:
    """Return the encoding of the values, and the size of each buffer in all pages."""
    counts = pages.lengths
    if pt.is_null(kind):
        return "no value", []
    if pt.is_list(kind) or pt.is_large_list(kind):
        width = 64 if pt.is_large_list(kind) else 32
        return f"offsets({width})", [counts * (width // 8)]
    if is_var_binary(kind):
        return "var_binary", [run_plan(text_bytes(pages), file.source), (counts + 1) * 8]
    stored = kind.index_type if pt.is_dictionary(kind) else kind
    width = width_bits(stored)
    return f"plain({width})", [(counts * width + 7) // 8]
