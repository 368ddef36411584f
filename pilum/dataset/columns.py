"""Schema evolution: adding, altering and dropping columns, each in one commit.

drop, rename, nullability    only the schema changes
add, cast, join              one new file per fragment; existing files do not change
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias

import pyarrow as pa

from pilum.arguments import is_text, optional_count
from pilum.arrays import without_nulls
from pilum.dataset.base import DatasetBase, commit_operation
from pilum.dataset.inputs import to_reader
from pilum.dataset.projection import computed, null_columns
from pilum.dataset.udf import Computation
from pilum.errors import InvalidInputError, SchemaMismatchError
from pilum.format.version import FileVersion
from pilum.storage.local import durable_at_commit
from pilum.table.changes.add_columns import add_columns, add_null_columns, cast_columns
from pilum.table.changes.join import Spool
from pilum.table.changes.joined_columns import Join
from pilum.table.changes.schema_changes import Alteration, altered, find_path, without
from pilum.table.commit.operations.project import Project
from pilum.table.read.scan import ScanOptions, scan
from pilum.table.read.snapshot import Snapshot

__all__ = ["AlterColumn", "ColumnChanges"]

AlterColumn: TypeAlias = Mapping[str, Any]
"""The alteration of a column: `path`, and one or more of `name`, `nullable` and `data_type`."""

_KEYS = {"path", "name", "nullable", "data_type"}


class ColumnChanges(DatasetBase):
    """Methods of `LanceDataset` for schema evolution."""

    def drop_columns(self, columns: list[str]) -> None:
        """Drop columns and move this dataset to the new version.

        Only metadata changes: stored values remain in the files, and older versions keep the
        columns. A struct or list is dropped with its last member.

        Args:
            columns: Names, or paths to struct members ("s.x"); "l.item.x" is a member of the
                structs in a list.

        Raises:
            ColumnNotFoundError: If a column does not exist.
            CommitConflictError: If a concurrent commit changed columns.
            UnsupportedFeatureError: If a column is a member of a map, packed struct or blob.
            InvalidInputError: If no column would be left, or `columns` is not a list of names.
        """
        snapshot = self._snapshot
        schema = without(snapshot.schema, _names(columns))
        commit_operation(
            self, snapshot, Project(schema, preserves_nullability=True, keeps_metadata=True)
        )

    def alter_columns(self, *alterations: AlterColumn) -> None:
        """Change names, types or nullability of columns and move this dataset to the new version.

        Existing files do not change. Only a change of type rewrites values: those of the column are
        written to one new file for each fragment. All paths refer to the columns as they were
        before the call, so that two columns can swap their names.

        Args:
            alterations: Dicts with `path` and one or more of `name`, the new last part of the path;
                `nullable`, where True is always possible, and False only if there are no nulls; and
                `data_type`, a `pyarrow.DataType` of the same kind: another width of integers,
                floats, strings, binaries or decimals, another time unit or zone, dictionary-encoded
                or plain values, and lists of these.

        Raises:
            ColumnNotFoundError: If a column does not exist.
            CommitConflictError: If a concurrent commit changed columns, or wrote rows while a
                column becomes non-nullable.
            UnsupportedFeatureError: If a field has no name of its own.
            UnsupportedVersionError: If the type of a struct member is to change in a table of
                version 2.0, or that of the items of a list in a table of version 2.0 or 0.1.
            SchemaMismatchError: If a column has nulls but is to be non-nullable, cannot be cast to
                the type, or has a value that does not fit.
            InvalidInputError: If the type of an indexed column is to change, or a type change is
                combined with non-nullability; if a name is taken or not allowed, or if another
                argument is invalid.
        """
        if not alterations:
            raise InvalidInputError("nothing to alter")
        changes = [_alteration(found) for found in alterations]
        snapshot = self._snapshot
        wanted = altered(snapshot.manifest, changes)
        tightened = [change.path for change in changes if _tightens(snapshot, change)]
        if wanted.origins:
            if tightened:
                raise InvalidInputError(
                    f"columns {tightened} must not be null: ask for that in a call of its own, "
                    "after the one that changes types"
                )
            with durable_at_commit(snapshot.store) as store:
                read = replace(snapshot, store=store)
                commit_operation(self, read, cast_columns(read, wanted))
            return
        for path in tightened:
            _require_no_nulls(snapshot, path)
        keeps = not tightened
        operation = Project(wanted.schema, preserves_nullability=keeps, keeps_metadata=True)
        commit_operation(self, snapshot, operation)

    def add_columns(
        self,
        transforms: Any,
        read_columns: list[str] | None = None,
        reader_schema: pa.Schema | None = None,
        batch_size: int | None = None,
    ) -> None:
        """Add columns after the existing ones and move this dataset to the new version.

        Existing files do not change. Values are written to one new file for each fragment, batch by
        batch. A column without values needs no file. After a failure, no file is left.

        Args:
            transforms: The new columns: a `pyarrow.Field`, a list of fields or a `pyarrow.Schema`
                for columns that are null in all rows; a dict of names and SQL expressions over the
                columns of the table; a function that computes them from batches, see `batch_udf`;
                or values for all rows, in the order of a scan: a reader or anything else that
                `write_dataset` accepts, except a dict. New members may be added to an existing
                struct; they are null where the struct is null.
            read_columns: The columns that are passed to a function, which may include `_rowid` and
                `_rowaddr`; None for all columns.
            reader_schema: Schema that values are cast to.
            batch_size: Rows per batch when expressions or functions are evaluated; None for 8,192.

        Raises:
            SchemaMismatchError: If the table already has a column of that name, or values do not
                fit.
            FilterError: If an expression cannot be parsed, bound or evaluated.
            ColumnNotFoundError: If an expression names a column that does not exist.
            CommitConflictError: If a concurrent commit changed rows or columns.
            UnsupportedTypeError: If the file version of the table cannot store a type.
            UnsupportedVersionError: If a column without values is added to a table of version 0.1,
                or a struct member to a table of version 2.0.
            InvalidInputError: If the number of values differs from the number of rows, a column
                without values is non-nullable, a function does not return a batch, or if another
                argument is invalid.
        """
        optional_count("batch_size", batch_size, 1)
        snapshot = self._snapshot
        if callable(transforms):
            reads = None if read_columns is None else _names(read_columns)
            computation = Computation.of(snapshot, transforms, reads, batch_size)
            commit_operation(self, snapshot, computation.merge())
            computation.finish()
            return
        if read_columns is not None:
            raise InvalidInputError("read_columns: only for functions")
        if (columns := _null_columns(transforms)) is not None:
            commit_operation(self, snapshot, add_null_columns(snapshot, columns))
            return
        if isinstance(transforms, Mapping):
            schema, batches = computed(snapshot, transforms, batch_size)
            nulls = null_columns(snapshot, transforms)
            if nulls is None or snapshot.manifest.data_version is FileVersion.LEGACY:
                self._add(snapshot, schema, batches)
            else:
                commit_operation(self, snapshot, add_null_columns(snapshot, nulls))
            return
        reader = to_reader(transforms, reader_schema)
        self._add(snapshot, reader.schema, reader)

    def merge(
        self, data_obj: Any, left_on: str, right_on: str | None = None, schema: Any = None
    ) -> None:
        """Add columns by joining data on a key column (a left join).

        Moves this dataset to the new version. Rows without a match are null in the new columns. If
        several rows of the data have the same key, the last one is used. A null key matches
        nothing. Existing files do not change.

        Args:
            data_obj: The key column and the new columns; anything that `write_dataset` accepts.
                Data that does not fit into memory is kept in a temporary file.
            left_on: Key column of the table, or `_rowid` or `_rowaddr`.
            right_on: Key column of the data, of the same type; None if it has the same name.
            schema: Schema that the data is cast to.

        Raises:
            SchemaMismatchError: If the table already has a column of that name, the types of the
                keys differ, or a non-nullable column has no value for a row.
            ColumnNotFoundError: If the table does not have the key column.
            CommitConflictError: If a concurrent commit changed rows or columns.
            UnsupportedTypeError: If the file version of the table cannot store a type.
            InvalidInputError: If the keys cannot be compared.
        """
        snapshot = self._snapshot
        with Spool(to_reader(data_obj, schema)) as spool:
            join = Join(snapshot, spool, left_on, left_on if right_on is None else right_on)
            self._add(snapshot, join.schema, join.values())

    def _add(
        self, snapshot: Snapshot, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> None:
        with durable_at_commit(snapshot.store) as store:
            read = replace(snapshot, store=store)
            commit_operation(self, read, add_columns(read, schema, batches))


def _tightens(snapshot: Snapshot, change: Alteration) -> bool:
    return change.nullable is False and find_path(snapshot.schema, change.path)[-1].nullable


def _names(columns: Any) -> list[str]:
    is_list = isinstance(columns, Iterable) and not isinstance(columns, str)
    names = list(columns) if is_list else []
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidInputError(f"columns: expected a list of names, found {columns!r}")
    return names


def _alteration(found: Any) -> Alteration:
    if not isinstance(found, Mapping) or not isinstance(found.get("path"), str):
        raise InvalidInputError(f"expected a dict with a path, found {found!r}")
    if unknown := set(found) - _KEYS:
        raise InvalidInputError(f"unknown keys {sorted(map(str, unknown))} in {found!r}")
    name, nullable, arrow_type = (found.get(key) for key in ("name", "nullable", "data_type"))
    if name is None and nullable is None and arrow_type is None:
        raise InvalidInputError(f"name, nullable or data_type must be given: {found!r}")
    if not (name is None or is_text(name)) or not isinstance(nullable, bool | None):
        raise InvalidInputError(f"name must be a text and nullable a bool: {found!r}")
    return Alteration(found["path"], name, nullable, arrow_type)


def _require_no_nulls(snapshot: Snapshot, path: str) -> None:
    fields = find_path(snapshot.schema, path)
    for batch in scan(snapshot, ScanOptions(columns=(fields[0].name,))):
        values = batch.column(0)
        for above, field in pairwise(fields):
            present = without_nulls(values)
            values = present.field(field.name) if above.is_struct else present.flatten()
        if values.null_count:
            raise SchemaMismatchError(f"column {path!r} has nulls, so it must stay nullable")


def _null_columns(transforms: Any) -> pa.Schema | None:
    """Return the schema of columns to add without values; None if there are values."""
    if isinstance(transforms, pa.Schema):
        return transforms
    if isinstance(transforms, pa.Field):
        return pa.schema([transforms])
    is_list = isinstance(transforms, Sequence) and not isinstance(transforms, str | bytes)
    if is_list and transforms and all(isinstance(item, pa.Field) for item in transforms):
        return pa.schema(transforms)
    return None
