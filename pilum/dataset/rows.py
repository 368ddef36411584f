"""Changes of rows: delete, update and merge, each in one commit that is retried after conflicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import TypedDict

from pilum.dataset.base import DatasetBase
from pilum.dataset.commits import Retries, commit_change, commit_once
from pilum.dataset.merging import MergeInsertBuilder
from pilum.dataset.projection import bind_values
from pilum.dataset.scan import Filter
from pilum.dataset.write import require_version
from pilum.errors import InvalidInputError
from pilum.expressions import bind
from pilum.table.changes.row_changes import delete_rows, matching_rows, update_rows
from pilum.table.commit.jobs import JobKey
from pilum.table.commit.operations.base import Operation
from pilum.table.read.snapshot import Snapshot

__all__ = ["DeleteResult", "RowChanges", "UpdateResult"]


class DeleteResult(TypedDict):
    """The result of a delete."""

    num_deleted_rows: int


class UpdateResult(TypedDict):
    """The result of an update."""

    num_rows_updated: int


class RowChanges(DatasetBase):
    """Methods of `LanceDataset` that change rows."""

    def delete(
        self,
        predicate: Filter,
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        idempotency_key: JobKey | None = None,
    ) -> DeleteResult:
        """Delete rows and move this dataset to the new version.

        The rows are marked as deleted. Data files do not change, and older versions keep all their
        rows. A delete that matches no row also creates a version.

        Args:
            predicate: SQL, or a `pyarrow.compute` expression. Rows for which it is true are
                deleted; rows for which it is null are kept.
            conflict_retries: Number of retries when a concurrent commit changed or moved the same
                rows. Each retry selects the rows again.
            retry_timeout: No retry starts later than this after the call.
            idempotency_key: Identifies this job. If the table already contains the job, nothing
                changes and the count is 0. See `pilum.write_dataset`.

        Returns:
            A dict with `num_deleted_rows`.

        Raises:
            FilterError: If the predicate cannot be parsed, bound or evaluated.
            CommitConflictError: If a concurrent commit conflicts with the delete.
            CommitContentionError: If every attempt conflicted with a concurrent commit.
            InvalidInputError: If any other argument is invalid.
        """
        retries = Retries(conflict_retries, retry_timeout)

        def change(snapshot: Snapshot) -> tuple[Operation, int]:
            rows = matching_rows(snapshot, bind(predicate, snapshot.schema.arrow))
            return delete_rows(snapshot, rows, str(predicate)), sum(map(len, rows.values()))

        return DeleteResult(num_deleted_rows=self._commit(change, retries, idempotency_key))

    def truncate_table(self) -> None:
        """Delete all rows and move this dataset to the new version."""
        self.delete("true")

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

        def change(snapshot: Snapshot) -> tuple[Operation, int]:
            schema, scope = snapshot.schema, snapshot.described.arrow
            values = bind_values(updates, schema, scope, with_blobs=True)
            return update_rows(
                snapshot, None if where is None else bind(where, schema.arrow), values
            )

        return UpdateResult(num_rows_updated=self._commit(change, retries, idempotency_key))

    def merge_insert(self, on: str | Iterable[str] | None = None) -> MergeInsertBuilder:
        """Start a merge, which joins source rows with rows of the table by key.

        Args:
            on: The key column or columns; None for the primary key of the table.

        Returns:
            A builder. Configure what happens to the rows, then call `execute`.

        Raises:
            ColumnNotFoundError: If a column does not exist.
            InvalidInputError: If no key is given and the table has no primary key.
        """
        return MergeInsertBuilder(self, on)

    def _commit(
        self,
        change: Callable[[Snapshot], tuple[Operation, int]],
        retries: Retries,
        idempotency_key: JobKey | None,
    ) -> int:
        """Commit a change and return the number of rows; 0 if the table contains its job."""

        def attempts(properties: Mapping[str, str]) -> tuple[Snapshot, int]:
            return retries.run(
                self._snapshot, partial(commit_change, change=change, properties=properties)
            )

        return commit_once(self, idempotency_key, attempts, 0)
