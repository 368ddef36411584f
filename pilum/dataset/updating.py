"""Updating values of rows that match a filter, by SQL expressions, in one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypedDict

import pyarrow as pa

from pilum.dataset.base import DatasetBase
from pilum.dataset.commits import Retries, commit_once, publish
from pilum.dataset.scan import Filter
from pilum.dataset.write import require_version
from pilum.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from pilum.expressions import bind, bind_assignment, bind_projection
from pilum.format.blobs import has_blobs
from pilum.format.schema import Field, Schema
from pilum.storage.local import durable_at_commit
from pilum.table.changes.row_changes import update_rows
from pilum.table.commit.jobs import JobKey
from pilum.table.commit.transaction import Transaction
from pilum.table.read.json_columns import is_json_field
from pilum.table.read.snapshot import Snapshot

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundProjection

__all__ = ["UpdateResult", "Updating", "bind_values"]


class UpdateResult(TypedDict):
    """The result of an update."""

    num_rows_updated: int


class Updating(DatasetBase):
    """Methods of `LanceDataset` for updating rows."""

    def update(
        self,
        updates: Mapping[str, str],
        where: Filter | None = None,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        data_storage_version: str | None = None,
        *,
        idempotency_key: JobKey | None = None,
    ) -> UpdateResult:
        """Update values and move this dataset to the new version.

        Rows do not change in place: the new rows are written after all others, and the old ones are
        marked as deleted. An update that matches no row also creates a version.

        Args:
            updates: SQL expressions by column, which compute the new values. All expressions see
                the values before the update, so that two columns can be swapped. Results are cast
                to the type of the column.
            where: SQL, or a `pyarrow.compute` expression. Rows for which it is true are updated;
                all rows if None.
            conflict_retries: Number of retries when a concurrent commit changed or moved the same
                rows. Each retry selects the rows again.
            retry_timeout: No retry starts later than this after the call.
            data_storage_version: File version of the written files, which must be that of the
                table.
            idempotency_key: Identifies this job. If the table already contains the job, nothing
                changes and the count is 0. See `pilum.write_dataset`.

        Returns:
            A dict with `num_rows_updated`.

        Raises:
            ColumnNotFoundError: If a column does not exist.
            FilterError: If SQL cannot be parsed or bound, a value does not fit the type of the
                column, or a computation fails.
            SchemaMismatchError: If a value of a non-nullable column is null.
            CommitConflictError: If a concurrent commit conflicts with the update.
            CommitContentionError: If every attempt conflicted with a concurrent commit.
            UnsupportedFeatureError: If a column is a struct member or a blob of version 2.
            InvalidInputError: If any other argument is invalid.
        """
        if not isinstance(updates, Mapping) or not updates:
            raise InvalidInputError(f"updates: expected a dict of columns and SQL, found {updates}")
        retries = Retries(conflict_retries, retry_timeout)
        require_version(self._snapshot, data_storage_version)

        def change(properties: Mapping[str, str]) -> tuple[Snapshot, int]:
            update = partial(_update, updates=updates, where=where, properties=properties)
            return retries.run(self._snapshot, update)

        num_rows = commit_once(self, idempotency_key, change, 0)
        return UpdateResult(num_rows_updated=num_rows)


def bind_values(
    updates: Mapping[str, str], schema: Schema, scope: pa.Schema, *, with_blobs: bool = False
) -> dict[str, BoundProjection]:
    """Bind the expressions that columns are set to.

    Args:
        updates: SQL expressions by column.
        schema: Schema of the table.
        scope: Schema of the columns that the SQL can name.
        with_blobs: Whether the caller stores new payloads of blobs of version 1.

    Raises:
        ColumnNotFoundError: If a column does not exist.
        FilterError: If SQL cannot be parsed or bound, or its type does not fit.
        UnsupportedFeatureError: If a column is a struct member or a blob of version 2.
        InvalidInputError: If an update is not a string.
    """
    values = {}
    for name, text in updates.items():
        if not (isinstance(name, str) and isinstance(text, str)):
            raise InvalidInputError(f"expected a column and SQL, found {name!r}: {text!r}")
        if name not in schema.by_name:
            if "." in name:
                raise UnsupportedFeatureError(f"{name!r}: members of structs cannot be set alone")
            raise ColumnNotFoundError(f"no column {name!r}; the columns are {schema.names}")
        field = schema.by_name[name]
        if has_blobs(field) and not (with_blobs and field.blob_version == 1):
            raise UnsupportedFeatureError(
                f"{name!r}: these blobs cannot be set by SQL; merge rows with the new ones"
            )
        values[name] = _bound(text, field, scope)
    return values


def _bound(text: str, field: Field, scope: pa.Schema) -> BoundProjection:
    if not field.is_json:
        return bind_assignment(text, scope, field.arrow_type)
    found = bind_projection(text, scope)
    is_binary = is_json_field(found.field)  # otherwise text, parsed when it is written
    return found if is_binary else bind_assignment(text, scope, pa.string())


def _update(
    snapshot: Snapshot,
    updates: Mapping[str, str],
    where: Filter | None,
    properties: Mapping[str, str],
) -> tuple[Snapshot, int]:
    schema = snapshot.schema
    values = bind_values(updates, schema, snapshot.described.arrow, with_blobs=True)
    filter = None if where is None else bind(where, schema.arrow)
    with durable_at_commit(snapshot.store) as store:
        operation, num_rows = update_rows(replace(snapshot, store=store), filter, values)
        transaction = Transaction(snapshot.manifest.version, operation, properties=properties)
        return publish(store, transaction), num_rows
