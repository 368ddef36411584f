"""Deleting rows: chosen by a filter, in one committed version, done again if others interfere."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import TypedDict

from pilum.dataset.base import DatasetBase
from pilum.dataset.once import once
from pilum.dataset.options import Filter
from pilum.dataset.retrying import Retries
from pilum.dataset.transactions import publish
from pilum.expressions import bind
from pilum.storage.finishing import left_to_commit
from pilum.table.changes.delete import delete_rows, matching_rows
from pilum.table.commit.jobs import JobKey
from pilum.table.commit.transaction import Transaction
from pilum.table.read.snapshot import Snapshot

__all__ = ["DeleteResult", "Deleting"]


class DeleteResult(TypedDict):
    """What a delete did."""

    num_deleted_rows: int


class Deleting(DatasetBase):
    """Chapter of `LanceDataset`: deleting rows."""

    def delete(
        self,
        predicate: Filter,
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        idempotency_key: JobKey | None = None,
    ) -> DeleteResult:
        """Deletes rows and moves this dataset to the new version.

        The rows are marked: data files stay as they are, and older versions keep all their rows. A
        delete that finds nothing makes a version too.

        Args:
            predicate: SQL, or an expression of pyarrow.compute. Rows for which it is true are
                deleted, those for which it is null are not.
            conflict_retries: How often to choose the rows anew because others changed the same
                rows or moved them.
            retry_timeout: No such try begins later than this after the call.
            idempotency_key: Names the job that this is: if the table has it, nothing happens
                and the count is 0. As in `pilum.write_dataset`.

        Returns:
            A dict with `num_deleted_rows`.

        Raises:
            FilterError: If the predicate does not parse or bind, or fails on a value.
            CommitConflictError: If another commit made the delete meaningless.
            CommitContentionError: If others interfered every time.
            InvalidInputError: For any other argument that makes no sense.
        """
        retries = Retries(conflict_retries, retry_timeout)

        def change(properties: Mapping[str, str]) -> tuple[Snapshot, int]:
            delete = partial(_delete, predicate=predicate, properties=properties)
            return retries.run(self._snapshot, delete)

        num_rows = once(self, idempotency_key, change, 0)
        return DeleteResult(num_deleted_rows=num_rows)

    def truncate_table(self) -> None:
        """Deletes all rows and moves this dataset to the new version."""
        self.delete("true")


def _delete(
    snapshot: Snapshot, predicate: Filter, properties: Mapping[str, str]
) -> tuple[Snapshot, int]:
    rows = matching_rows(snapshot, bind(predicate, snapshot.schema.arrow))
    with left_to_commit():
        operation = delete_rows(snapshot, rows, str(predicate))
        transaction = Transaction(snapshot.manifest.version, operation, properties=properties)
        return publish(snapshot.store, transaction), sum(map(len, rows.values()))
