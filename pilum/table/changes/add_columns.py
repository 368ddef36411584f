"""Add columns, members of structs or columns of another type: one more data file per fragment.

    live rows         0   2   3   7          a source yields values for them, in scan order
    physical rows     0 1 2 3 4 5 6 7        the file has all rows: deleted ones are null, or
                                             repeat an adjacent row where null is not allowed

Sources see neither deleted rows nor the ends of fragments. Only the current batch and the pages
encoded from it are in memory.

A new member is null where its struct is null. Each file records which structs are null, so all
files must agree:

    s in the table      {x: 1}    null      {x: 3}
    values for s.z      {z: 7}    {z: 8}    null
    written             {z: 7}    null      {z: null}     together    {x: 1, z: 7}  null  {x: 3}

A column of another type keeps its place and gets a new id; the values of the old id stay in the old
file, for older versions:

    schema     a int64 (0)   b (1)            a int32 (2)   b (1)
    files      f: 0, 1                ──▶     f: 0, 1       g: 2

Source: docs/format/table.md, "Columns come and go".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.arrays import retyped, taken
from pilum.container.open import require_storable
from pilum.container.writer import FileOptions
from pilum.errors import (
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedTypeError,
    UnsupportedVersionError,
)
from pilum.format.blobs import has_blobs
from pilum.format.fields import Field, FieldId
from pilum.format.rows import BATCH_ROWS
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.progress_display import counted, progress
from pilum.storage.base import Store
from pilum.table.changes.cast import cast_field
from pilum.table.changes.schema_changes import Altered, needing_values, with_new_columns
from pilum.table.commit.operations.merge import Merge
from pilum.table.model.coverage import related_fields
from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.model.fragment import Fragment
from pilum.table.model.index_segments import index_segments
from pilum.table.model.names import data_path
from pilum.table.read.scan import ScanOptions, scan
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.align import align
from pilum.table.write.sidecars import discard_file
from pilum.table.write.write import WriteOptions, write_fragments

__all__ = [
    "add_columns",
    "add_null_columns",
    "cast_columns",
    "in_structs",
    "merge_of",
    "new_files",
    "require_addable",
    "require_no_index",
    "require_not_legacy",
    "with_values",
    "write_columns",
]

_NO_LIMIT = 1 << 62


def add_null_columns(snapshot: Snapshot, columns: pa.Schema) -> Merge:
    """Add columns that are null in all rows; no file is written."""
    schema, new = with_new_columns(snapshot.manifest, columns)
    if needy := needing_values(snapshot.schema, new):
        raise InvalidInputError(f"columns without values must be nullable: {needy}")
    require_not_legacy(snapshot)
    require_members_apart(snapshot, new)
    require_storable(new, snapshot.manifest.data_version, has_sidecars=True)
    return Merge(schema, snapshot.manifest.fragments.all(), preserves_nullability=True)


def add_columns(
    snapshot: Snapshot,
    columns: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    fragment: Fragment | None = None,
) -> Merge:
    """Write new data files with the values of new columns, for one fragment or all.

    The batches have the rows that are not deleted, in scan order. The operation lists all
    fragments; the table changes only when it is committed. The errors are those of
    `LanceDataset.add_columns`; after any exception, no file is left.
    """
    schema, new = with_new_columns(snapshot.manifest, columns)
    aligned = map(align(columns, new).batch, batches)
    placed = in_structs(snapshot, new, aligned, None if fragment is None else (fragment.id,))
    return write_columns(snapshot, schema, new, placed, fragment)


def write_columns(
    snapshot: Snapshot,
    schema: Schema,
    new: Schema,
    batches: Iterator[pa.RecordBatch],
    only: Fragment | None = None,
) -> Merge:
    """Write new data files as `add_columns`, for columns that have their ids already.

    `schema` has all columns after the change, `new` those to write, with the types of `batches`.
    """
    require_addable(snapshot, new)
    wanted = snapshot.manifest.fragments if only is None else (only,)
    num_rows = sum(fragment.num_rows for fragment in wanted)
    with progress("Adding columns", num_rows) as done, new_files(snapshot.store) as written:
        feed = _Feed(counted(batches, done), num_rows)
        fragments = [
            with_values(snapshot, fragment, new, feed.take(fragment.num_rows), written)
            for fragment in wanted
        ]
        feed.require_end()
    return merge_of(snapshot, schema, new, fragments, written)


def merge_of(
    snapshot: Snapshot,
    schema: Schema,
    new: Schema,
    fragments: Iterable[Fragment],
    written: Iterable[str],
) -> Merge:
    """Return the operation to commit when all fragments have their new files."""
    known = {field.id for field in snapshot.schema.walk()}
    keeps = all(field.nullable for field in new.walk() if field.id not in known)
    return Merge(schema, tuple(fragments), keeps, tuple(written))


@contextmanager
def new_files(store: Store) -> Iterator[list[str]]:
    """Yield a list for the paths of written files; delete these files if the block fails."""
    written: list[str] = []
    try:
        yield written
    except BaseException:
        for path in written:
            discard_file(store, data_path(path))
        raise


def with_values(
    snapshot: Snapshot,
    fragment: Fragment,
    new: Schema,
    batches: Iterator[pa.RecordBatch],
    written: list[str],
    file_name_prefix: str | None = None,
) -> Fragment:
    """Return the fragment with one more file, whose path is added to `written`.

    Args:
        snapshot: The version.
        fragment: One of its fragments.
        new: The columns to write.
        batches: Values of the rows that are not deleted, in order, of the types of `new`.
        written: Afterwards has the path of every file that is left, even after an exception.
        file_name_prefix: Prefix of the file name, to identify its writer.

    Raises:
        SchemaMismatchError: If the number of rows differs from the fragment's.
    """
    reader = snapshot.reader(fragment)
    deletions, version = reader.deletions, snapshot.manifest.data_version
    if deletions is not None:
        if not fragment.num_rows:
            return fragment  # the values are never read, and null may not be allowed
        # Before 2.1, not all nulls can be stored.
        nulls = version.has_mini_blocks
        batches = _spread(batches, deletions, fragment.physical_rows, nulls)
    options = WriteOptions(
        max_rows_per_file=fragment.physical_rows,
        max_bytes_per_file=_NO_LIMIT,
        version=version,
        layout=FileOptions(group_bounds=reader.group_bounds),
        file_name_prefix=file_name_prefix,
    )
    made = write_fragments(snapshot.store, new, batches, options)
    written += [file.path for one in made for file in one.files]
    found = sum(one.physical_rows for one in made)
    if found != fragment.physical_rows:
        raise SchemaMismatchError(
            f"fragment {fragment.id} has {fragment.physical_rows} rows, not {found}"
        )
    (file,) = made[0].files
    if version is FileVersion.LEGACY:  # these files list structs too, and new members are in one
        older = tuple(old.without(file.fields) for old in fragment.files)
        fragment = replace(fragment, files=older)
    return fragment.with_file(file)


def require_addable(snapshot: Snapshot, new: Schema, *, replaces: bool = False) -> None:
    """Check that files of the table can store the columns, before values are requested.

    `replaces` says whether they replace whole existing columns.

    Raises:
        UnsupportedTypeError: If the files cannot store a column.
        UnsupportedVersionError: As `require_members_apart`.
    """
    version = snapshot.manifest.data_version
    if not replaces:
        require_members_apart(snapshot, new)
    require_storable(new, version, has_sidecars=True)
    if version is FileVersion.LEGACY and (
        keyed := [field.name for field in new.walk() if pt.is_dictionary(field.arrow_type)]
    ):
        raise UnsupportedTypeError(
            f"columns {keyed}: a table of version 0.1 has one dictionary for all of its files; "
            "give the values themselves"
        )
    if any(map(has_blobs, new.fields)):
        raise UnsupportedTypeError("columns of blobs cannot be added to a table that has rows")


def require_members_apart(snapshot: Snapshot, new: Schema) -> None:
    """Raise UnsupportedVersionError if new members of columns cannot have files of their own."""
    version, schema = snapshot.manifest.data_version, snapshot.schema
    if version is FileVersion.V2_0 and any(schema.find(field.id) for field in new.fields):
        raise UnsupportedVersionError(
            f"{snapshot.store.uri}: members cannot change alone in a table of version {version}, "
            "where a column and its members are in one file"
        )
    if version is FileVersion.LEGACY and any(
        field.is_list and schema.find(field.id) for field in new.walk()
    ):
        raise UnsupportedVersionError(
            f"{snapshot.store.uri}: items of lists cannot change alone in a table of version "
            f"{version}, where a list and its items are in one file; change the whole list"
        )


def require_not_legacy(snapshot: Snapshot) -> None:
    """Raise UnsupportedVersionError if columns of the table cannot lack values (version 0.1)."""
    if snapshot.manifest.data_version is FileVersion.LEGACY:
        raise UnsupportedVersionError(
            f"{snapshot.store.uri}: columns of a table of version 0.1 have a value in every row, "
            "so that none can be added without values"
        )


class _Feed:
    """Values in scan order, returned in the portions that fragments need."""

    def __init__(self, batches: Iterator[pa.RecordBatch], num_rows: int) -> None:
        self._batches = batches
        self._num_rows = num_rows
        self._given = 0
        self._rest: pa.RecordBatch | None = None

    def take(self, num_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the next rows, in batches that are neither empty nor large."""
        while num_rows:
            batch = self._rest if self._rest is not None else next(self._batches, None)
            if batch is None:
                raise InvalidInputError(f"values of {self._given} rows; there are {self._num_rows}")
            part = batch.slice(0, min(num_rows, BATCH_ROWS))
            self._rest = batch.slice(part.num_rows) if part.num_rows < batch.num_rows else None
            self._given += part.num_rows
            num_rows -= part.num_rows
            if part.num_rows:
                yield part

    def require_end(self) -> None:
        """Raise if there are further values."""
        rest = [self._rest] if self._rest is not None else []
        if any(batch.num_rows for batch in (*rest, *self._batches)):
            raise InvalidInputError(f"values of more rows than there are: {self._num_rows}")


def _spread(
    batches: Iterator[pa.RecordBatch], deletions: DeletionVector, num_rows: int, nulls: bool
) -> Iterator[pa.RecordBatch]:
    """Yield values of all physical rows, given values of live rows."""
    start = first = 0
    for batch in batches:
        rows = deletions.physical(np.arange(start, start + batch.num_rows))
        start += batch.num_rows
        end = num_rows if start == num_rows - len(deletions) else int(rows[-1]) + 1
        for low in range(first, end, BATCH_ROWS):
            yield _placed(batch, rows, np.arange(low, min(low + BATCH_ROWS, end)), nulls)
        first = end


def _placed(
    batch: pa.RecordBatch, rows: NDArray[np.int64], wanted: NDArray[np.int64], nulls: bool
) -> pa.RecordBatch:
    """Return the rows `wanted` of a batch that has `rows`.

    Other rows are null, or repeat the next row that exists.
    """
    positions = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1)
    exact = pa.array(positions, mask=rows[positions] != wanted)
    nearest = pa.array(positions)
    columns = [
        taken(column, exact if nulls and field.nullable else nearest)
        for field, column in zip(batch.schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def in_structs(
    snapshot: Snapshot,
    new: Schema,
    batches: Iterator[pa.RecordBatch],
    fragment_ids: tuple[int, ...] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield batches with the nulls of the existing structs.

    `new` also has the parents of new members; `batches` are as for `write_columns`, for the rows of
    the given fragments.

    Raises:
        SchemaMismatchError: If a non-nullable member has no value for a struct.
    """
    names = tuple(field.name for field in new.fields if snapshot.schema.find(field.id))
    if not names:
        yield from batches
        return
    existing = scan(snapshot, ScanOptions(columns=names, fragment_ids=fragment_ids))
    ahead = next(existing, None)
    for batch in batches:
        start = 0
        while start < batch.num_rows and ahead is not None:
            part = batch.slice(start, ahead.num_rows)
            yield _with_existing(part, ahead.slice(0, part.num_rows), new, snapshot.schema)
            start += part.num_rows
            ahead = ahead.slice(part.num_rows)
            if not ahead.num_rows:
                ahead = next(existing, None)
        if start < batch.num_rows:
            yield batch.slice(start)  # more rows than there are: the caller counts them and raises


def _with_existing(
    batch: pa.RecordBatch, existing: pa.RecordBatch, new: Schema, schema: Schema
) -> pa.RecordBatch:
    columns = []
    for field, column in zip(new.fields, batch.columns, strict=True):
        known = schema.find(field.id)
        placed = known and _with_nulls(column, existing.column(field.name), field, known)
        columns.append(column if placed is None else placed)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _with_nulls(array: pa.Array, existing: pa.Array, field: Field, known: Field) -> pa.Array:
    olds = {child.id: number for number, child in enumerate(known.children)}
    values, there = array.flatten(), existing.flatten()
    members = []
    for child, member in zip(field.children, values, strict=True):
        if child.id in olds:
            number = olds[child.id]
            member = _with_nulls(member, there[number], child, known.children[number])
        members.append(member)
        missing = pc.and_(member.is_null(), existing.is_valid())
        if not child.nullable and missing.true_count:
            raise SchemaMismatchError(
                f"column {field.name!r}: {missing.true_count} values of {child.name!r} are null, "
                "which it must not be"
            )
    fields = [child.arrow for child in field.children]
    return pa.StructArray.from_arrays(members, fields=fields, mask=existing.is_null())


def cast_columns(snapshot: Snapshot, wanted: Altered) -> Merge:
    """Write values with their new types; the table changes only when the result is committed.

    The errors are those of `LanceDataset.alter_columns`; after any exception, no file is left.
    """
    require_no_index(snapshot, [field.id for field in wanted.origins.values()])
    new, old = wanted.new, {field.id: field for field in snapshot.schema.fields}
    sources = [wanted.origins.get(field.id) or old[field.id] for field in new.fields]

    def cast(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            retyped(cast_field(column, source, field, wanted.origins), field.arrow_type)
            for column, source, field in zip(batch.columns, sources, new.fields, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=new.arrow)

    batches = scan(snapshot, ScanOptions(columns=tuple(field.name for field in sources)))
    return write_columns(snapshot, wanted.schema, new, map(cast, batches))


def require_no_index(snapshot: Snapshot, field_ids: Collection[FieldId]) -> None:
    """Raise InvalidInputError if a field, a parent or a child of it has an index.

    A cast would drop the index, so the user is asked to do that first.
    """
    changed = related_fields(snapshot.schema, field_ids)
    segments = index_segments(snapshot.manifest.index_section)
    names = sorted({one.name for one in segments if not changed.isdisjoint(one.field_ids)})
    if names:
        raise InvalidInputError(
            f"{snapshot.store.uri}: a column that gets another type has the indices {names}; "
            "drop them before (drop_index)"
        )
