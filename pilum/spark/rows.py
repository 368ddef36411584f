"""Row deletes and updates: tasks search the fragments, and one commit marks the rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from pyspark.sql import SparkSession

from pilum.distributed import row_changes
from pilum.distributed.jobs import JobKey
from pilum.distributed.row_changes import DeleteResult, RowChange, UpdateResult
from pilum.spark.job_reports import reported
from pilum.spark.options import table_uri
from pilum.spark.tasks import SparkTasks

__all__ = ["delete", "update"]

_RETRY_TIMEOUT = timedelta(minutes=10)
_LOCAL_BYTES = 64 << 20


@reported("delete")
def delete(
    spark: SparkSession,
    uri: str,
    where: str,
    *,
    branch: str | None = None,
    local_bytes: int = _LOCAL_BYTES,
    conflict_retries: int = 10,
    retry_timeout: timedelta = _RETRY_TIMEOUT,
    idempotency_key: JobKey | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DeleteResult:
    """Delete rows with one commit, as `LanceDataset.delete` does.

    Tasks search the fragments and report matching rows. The driver marks the rows and commits; it
    needs 4 bytes per row. A delete without matching rows also creates a version.

    Args:
        spark: The session.
        uri: Location of the table.
        where: Condition in the SQL dialect of pilum's filters. Rows for which it is true are
            deleted.
        branch: The branch whose latest version is changed.
        local_bytes: A table with at most this many bytes of data files is processed by the driver,
            with the same result and without a Spark job.
        conflict_retries: Maximum number of retries after concurrent changes of the same rows. Each
            retry selects the rows again.
        retry_timeout: No retry begins later than this after the call.
        idempotency_key: Key that identifies this job: if the table already contains it, nothing
            happens and the count is 0. As in `pilum.write_dataset`.
        storage_options: Settings of the store.

    Returns:
        A dict with `num_deleted_rows`.

    Raises:
        DatasetNotFoundError: If there is no table.
        BranchNotFoundError: If there is no such branch.
        FilterError: If the condition does not parse or bind, or fails on a value.
        CommitConflictError: If a concurrent commit invalidated the delete.
        CommitContentionError: If concurrent commits won in every attempt.
        InvalidInputError: If another argument is invalid.
    """
    change = RowChange.of(
        table_uri(uri), branch, conflict_retries, retry_timeout, idempotency_key, storage_options
    )
    return row_changes.delete(SparkTasks(spark), change, where, local_bytes=local_bytes)


@reported("update")
def update(
    spark: SparkSession,
    uri: str,
    set: Mapping[str, str],
    where: str | None = None,
    *,
    branch: str | None = None,
    local_bytes: int = _LOCAL_BYTES,
    conflict_retries: int = 10,
    retry_timeout: timedelta = _RETRY_TIMEOUT,
    idempotency_key: JobKey | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> UpdateResult:
    """Update values with one commit, as `LanceDataset.update` does.

    Tasks write the changed rows to new files and report their old addresses. The driver marks these
    rows as deleted and commits; it needs 8 bytes per row. An update without matching rows also
    creates a version.

    Args:
        spark: The session.
        uri: Location of the table.
        set: Columns, and for each an expression in the SQL dialect of pilum's filters, which
            computes its new values from the values before the update.
        where: Condition of the rows to update; None for all rows.
        branch: As in `delete`, like all following arguments.
        local_bytes: As in `delete`.
        conflict_retries: As in `delete`.
        retry_timeout: As in `delete`.
        idempotency_key: As in `delete`.
        storage_options: As in `delete`.

    Returns:
        A dict with `num_rows_updated`.

    Raises:
        DatasetNotFoundError: If there is no table.
        BranchNotFoundError: If there is no such branch.
        ColumnNotFoundError: If a column does not exist.
        FilterError: If an expression does not parse or bind, or fails on a value.
        SchemaMismatchError: If a column that is not nullable gets a null.
        CommitConflictError: If a concurrent commit invalidated the update.
        CommitContentionError: If concurrent commits won in every attempt.
        InvalidInputError: If another argument is invalid.
    """
    change = RowChange.of(
        table_uri(uri), branch, conflict_retries, retry_timeout, idempotency_key, storage_options
    )
    return row_changes.update(SparkTasks(spark), change, set, where, local_bytes=local_bytes)
