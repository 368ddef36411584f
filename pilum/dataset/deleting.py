"""Deleting rows that match a filter, in one commit that is retried after conflicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TypedDict

from pilum.dataset.base import DatasetBase
from pilum.dataset.commits import Retries, commit_once, publish
from pilum.dataset.scan import Filter
from pilum.expressions import bind
from pilum.storage.local import durable_at_commit
from pilum.table.changes.row_changes import delete_rows, matching_rows
from pilum.table.commit.jobs import JobKey
from pilum.table.commit.transaction import Transaction
from pilum.table.read.snapshot import Snapshot

__all__ = ["DeleteResult", "Deleting"]


class DeleteResult(TypedDict):
    """The result of a delete."""

    num_deleted_rows: int


class Deleting(DatasetBase):
    """Methods of `LanceDataset` for deleting rows."""

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

        def change(properties: Mapping[str, str]) -> tuple[Snapshot, int]:
            delete = partial(_delete, predicate=predicate, properties=properties)
            return retries.run(self._snapshot, delete)

        num_rows = commit_once(self, idempotency_key, change, 0)
        return DeleteResult(num_deleted_rows=num_rows)

    def truncate_table(self) -> None:
        """Delete all rows and move this dataset to the new version."""
        self.delete("true")


def _delete(
    snapshot: Snapshot, predicate: Filter, properties: Mapping[str, str]
) -> tuple[Snapshot, int]:
    rows = matching_rows(snapshot, bind(predicate, snapshot.schema.arrow))
    with durable_at_commit(snapshot.store) as store:
        operation = delete_rows(replace(snapshot, store=store), rows, str(predicate))
        transaction = Transaction(snapshot.manifest.version, operation, properties=properties)
        return publish(store, transaction), sum(map(len, rows.values()))
