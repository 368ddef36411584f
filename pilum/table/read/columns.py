"""The columns of a scan: how each of them is read and named; the values of meta columns.

"a"         the column a
"s.x"       a column named "s.x": member x of the struct s, null where s is
"_rowid"    and other meta columns, which are in no file: see `pilum.format.meta_columns`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.blocks import number_array
from pilum.errors import InvalidInputError
from pilum.format.fields import Field
from pilum.format.meta_columns import (
    CREATED_AT_VERSION,
    META_COLUMNS,
    ROW_ADDRESS,
    ROW_ID,
    ROW_OFFSET,
)
from pilum.format.rows import Addresses, addresses_in, by_fragment, first_address, rows_of
from pilum.format.schema import Schema
from pilum.format.text_forms import TextForm
from pilum.lazy import cached_property
from pilum.table.model.fragments import Fragments
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.fragment_runs import FragmentRun
from pilum.table.read.snapshot import Snapshot

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundFilter
    from pilum.table.read.scan_options import ScanOptions

__all__ = [
    "MAX_SIGNED_ID",
    "MetaColumns",
    "MetaValues",
    "ReadColumns",
    "ScanColumn",
    "column_names",
    "scan_columns",
    "tested_columns",
    "undeleted",
    "wanted_columns",
    "window_addresses",
    "with_nullable_ids",
    "without_ids",
]

WantedRows = Callable[[int], NDArray[np.int64]]
"""Function that returns the physical rows of a window, numbered from its argument."""
MetaValues = Callable[[str, WantedRows], pa.Array]
"""Function that computes a meta column of a window, given its name."""

_UNKNOWN_VERSION = 1
MAX_SIGNED_ID = (1 << 31) - 1
"""The greatest id of a fragment whose addresses are signed numbers, too."""


class ScanColumn:
    """A column of a scan.

    Attributes:
        name: Name in the request and in the result.
        field: The top-level field to read, reduced to the requested members; None for columns that
            are in no file.
        formed: The same field with its strings and bytes in the form of the scan, if it has one.
        leaf: The part of `field` that is returned: the field itself or one of its members.
        arrow: Arrow field of the returned values.
    """

    def __init__(self, schema: Schema, name: str, form: TextForm | None = None) -> None:
        self.name = name
        self.field: Field | None = None
        self.formed: Field | None = None
        self.leaf: Field | None = None
        self._members: list[str] = []
        if not isinstance(name, str):
            raise InvalidInputError(f"expected the name of a column, found {name!r:.80}")
        if name in schema.by_name:
            self.field = self.leaf = schema.by_name[name]
            self.formed = self.field.in_form(form) if form else self.field
            self.arrow = self.formed.arrow
            return
        if name in META_COLUMNS:
            self.arrow = pa.field(name, pa.uint64())
            return
        self.field = member = schema.project([name]).fields[0]
        self.formed = self.field.in_form(form) if form else self.field
        nullable = member.nullable
        self._members = name.split(".")[1:]
        for _ in self._members:
            member = member.children[0]
            nullable = nullable or member.nullable
        self.leaf = member
        given = member.in_form(form) if form else member
        self.arrow = given.arrow.with_name(name).with_nullable(nullable)

    @cached_property
    def has_texts(self) -> bool:
        """Whether the values are texts or bytes, of different lengths."""
        if self.field is None:
            return False
        kind = self.field.arrow_type
        is_text = pt.is_string(kind) or pt.is_large_string(kind)
        return bool(is_text or pt.is_binary(kind) or pt.is_large_binary(kind))

    @cached_property
    def is_plain(self) -> bool:
        """Whether all values have the same width, and are in no lists or structs."""
        return self.field is not None and not self.field.children and not self.has_texts

    def pick(self, array: pa.Array) -> pa.Array:
        """Return the requested member of a column that was read, in the form of the scan."""
        if self.formed is not self.field and self.formed is not None:
            from pilum.table.read.text_forms import formed_array  # few scans have a form

            array = formed_array(self.formed, array)
        return pc.struct_field(array, self._members) if self._members else array


def scan_columns(
    schema: Schema, names: Iterable[str], form: TextForm | None = None
) -> list[ScanColumn]:
    """Resolve column names; raise ColumnNotFoundError if a column does not exist."""
    return [ScanColumn(schema, name, form) for name in names]


@dataclass(frozen=True, slots=True, eq=False)
class ReadColumns:
    """Columns that are read together.

    Attributes:
        columns: The columns.
        fields: Their fields; meta columns have none.
        schema: The schema of their values.
    """

    columns: list[ScanColumn]
    fields: list[Field]
    schema: pa.Schema

    @classmethod
    def of(cls, schema: Schema, names: Iterable[str], form: TextForm | None = None) -> ReadColumns:
        """Resolve column names; raise ColumnNotFoundError if a column does not exist."""
        columns = scan_columns(schema, names, form)
        arrow = pa.schema([column.arrow for column in columns], schema.arrow.metadata)
        return cls(columns, [column.field for column in columns if column.field], arrow)

    @classmethod
    def described(
        cls, snapshot: Snapshot, names: tuple[str, ...], form: TextForm | None = None
    ) -> ReadColumns:
        """Return columns of a version with descriptors for blobs; the version remembers them."""
        key = ReadColumns, names, form
        found: ReadColumns | None = snapshot.prepared.get(key)
        if found is None:
            made = cls.of(snapshot.described, names, form)
            found = snapshot.prepared.put_if_absent(key, made, 1)
        return found


def column_names(snapshot: Snapshot, options: ScanOptions) -> tuple[str, ...]:
    """Return the names of the columns of a scan."""
    names = tuple(snapshot.schema.names) if options.columns is None else options.columns
    if not (options.with_row_id or options.with_row_address):
        return names
    extra = ((ROW_ID, options.with_row_id), (ROW_ADDRESS, options.with_row_address))
    added = (name for name, wanted in extra if wanted and name not in names)
    return (*names, *added)


def wanted_columns(snapshot: Snapshot, options: ScanOptions) -> ReadColumns:
    """Return the columns of a scan."""
    return ReadColumns.described(snapshot, column_names(snapshot, options), options.form)


def tested_columns(snapshot: Snapshot, filter: BoundFilter) -> ReadColumns:
    """Return the columns that a filter reads; at least one, for the number of rows."""
    return ReadColumns.described(snapshot, filter.columns or (ROW_ID,))


class MetaColumns:
    """The meta columns of one version, see `pilum.format.meta_columns`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def of(self, source: FragmentReader | FragmentRun) -> MetaValues:
        """Return a function that computes the values of a column for a window of a source."""
        if isinstance(source, FragmentRun):
            return partial(self._of_run, source)
        return partial(self._of_window, source)

    def _of_run(self, run: FragmentRun, name: str, wanted: WantedRows) -> pa.Array:
        values = self._function(name)
        parts = [values(fragment, rows) for fragment, rows in run.split(wanted(0))]
        return number_array(np.concatenate(parts))

    def _of_window(self, reader: FragmentReader, name: str, wanted: WantedRows) -> pa.Array:
        if self._is_address(name):
            return number_array(window_addresses(reader, wanted))
        return self.values(reader, name, wanted(0))

    def values(self, reader: FragmentReader, name: str, rows: NDArray[np.int64]) -> pa.Array:
        """Return the values of the column `name` for some physical rows of a fragment."""
        return number_array(self._function(name)(reader, rows))

    def _function(
        self, name: str
    ) -> Callable[[FragmentReader, NDArray[np.int64]], NDArray[np.generic]]:
        if self._is_address(name):
            return _addresses
        if name == ROW_ID:
            return _row_ids
        if name == ROW_OFFSET:
            return self._positions
        if not self._snapshot.has_stable_row_ids:
            return _unknown_versions
        return _created_at if name == CREATED_AT_VERSION else _updated_at

    def _is_address(self, name: str) -> bool:
        return name == ROW_ADDRESS or (name == ROW_ID and not self._snapshot.has_stable_row_ids)

    def _positions(self, reader: FragmentReader, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        deleted = reader.deletions
        here = rows if deleted is None else deleted.positions(rows)
        return (here + self._firsts[reader.id]).astype(np.uint64)

    @cached_property
    def _firsts(self) -> dict[int, int]:
        """Return the number of live rows before each fragment."""
        fragments = self._snapshot.manifest.fragments
        bounds = np.cumsum([0, *(fragment.num_rows for fragment in fragments)]).tolist()
        return {int(one.id): first for one, first in zip(fragments, bounds, strict=False)}


def window_addresses(reader: FragmentReader, wanted: WantedRows) -> Addresses:
    """Return the addresses of the rows of a window of a fragment."""
    if reader.id <= MAX_SIGNED_ID:
        # Row numbers with another start; adding the start to others would copy them.
        return wanted(first_address(reader.id)).view(np.uint64)
    return addresses_in(reader.id, wanted(0))


def _addresses(reader: FragmentReader, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    return addresses_in(reader.id, rows)


def _row_ids(reader: FragmentReader, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    return reader.row_ids.at(rows)


def _created_at(reader: FragmentReader, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    return reader.created_at.at(rows)


def _updated_at(reader: FragmentReader, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    return reader.updated_at.at(rows)


def _unknown_versions(reader: FragmentReader, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    del reader
    return np.full(len(rows), _UNKNOWN_VERSION, dtype=np.uint64)


def undeleted(snapshot: Snapshot) -> Snapshot:
    """Return the version as if no row of its files were deleted."""
    fragments = Fragments(
        replace(fragment, deletion_file=None) for fragment in snapshot.manifest.fragments
    )
    return replace(snapshot, manifest=replace(snapshot.manifest, fragments=fragments))


def with_nullable_ids(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the batches that `without_ids` yields."""
    return pa.schema(
        [
            field.with_nullable(True) if field.name in (ROW_ID, ROW_ADDRESS) else field
            for field in schema
        ],
        schema.metadata,
    )


def without_ids(snapshot: Snapshot, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches with `_rowaddr` in which `_rowid` and `_rowaddr` of deleted rows are null."""
    readers = {
        int(fragment.id): snapshot.reader(fragment)
        for fragment in snapshot.manifest.fragments
        if fragment.deletion_file is not None
    }
    for batch in batches:
        addresses = batch.column(ROW_ADDRESS).to_numpy()
        gone = pa.array(_deleted(readers, addresses))
        schema = with_nullable_ids(batch.schema)
        columns = [
            _masked(column, gone) if field.name in (ROW_ID, ROW_ADDRESS) else column
            for field, column in zip(schema, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _deleted(
    readers: dict[int, FragmentReader], addresses: NDArray[np.uint64]
) -> NDArray[np.bool_]:
    found = np.zeros(len(addresses), np.bool_)
    for number, own in by_fragment(addresses):
        deletions = readers[number].deletions if number in readers else None
        if deletions is not None:
            found[own] = deletions.contains(rows_of(addresses[own]))
    return found


def _masked(column: pa.Array, gone: pa.BooleanArray) -> pa.Array:
    return pa.array(column.to_numpy(), mask=gone.to_numpy(zero_copy_only=False))
