"""Row deletes and updates: tasks search the fragments, and one commit marks the rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial

from pyspark.sql import SparkSession

from pilum.arguments import require_count
from pilum.dataset.commits import Retries
from pilum.dataset.projection import bind_values
from pilum.dataset.rows import DeleteResult, UpdateResult
from pilum.distributed import WriteJob
from pilum.errors import InvalidInputError
from pilum.expressions import BoundFilter, BoundProjection, bind
from pilum.spark.opening import branch_uri
from pilum.spark.options import table_uri
from pilum.spark.row_tasks import (
    RowChange,
    file_name_prefix,
    fragment_groups,
    over_groups,
    pinned,
    stored_bytes,
)
from pilum.table.changes.row_changes import (
    Rewritten,
    delete_rows,
    finish_update,
    matching_rows,
    rewrite_matching,
)
from pilum.table.commit.jobs import JobKey
from pilum.table.commit.operations.base import Operation
from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.model.fragment import FragmentId
from pilum.table.read.scan import ScanOptions
from pilum.table.read.snapshot import Snapshot

__all__ = ["RETRY_TIMEOUT", "delete", "row_change", "update"]

RETRY_TIMEOUT = timedelta(minutes=10)
_LOCAL_BYTES = 64 << 20


def delete(
    spark: SparkSession,
    uri: str,
    where: str,
    *,
    branch: str | None = None,
    local_bytes: int = _LOCAL_BYTES,
    conflict_retries: int = 10,
    retry_timeout: timedelta = RETRY_TIMEOUT,
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
    change = row_change(
        uri, branch, conflict_retries, retry_timeout, idempotency_key, storage_options
    )
    table = change.opened()
    bind(where, table.snapshot.schema.arrow)  # report errors here, before any task runs
    if stored_bytes(table.snapshot.manifest.fragments) <= require_count("local_bytes", local_bytes):
        return table.delete(
            where,
            conflict_retries=conflict_retries,
            retry_timeout=retry_timeout,
            idempotency_key=idempotency_key,
        )

    def attempt(snapshot: Snapshot, job: WriteJob) -> tuple[Operation, int]:
        filter = bind(where, snapshot.schema.arrow)
        groups = fragment_groups(snapshot)
        found = over_groups(spark, groups, partial(_matching, job, filter), job)
        rows = {number: vector for part in found for number, vector in part.items()}
        return delete_rows(snapshot, rows, where), sum(map(len, rows.values()))

    return DeleteResult(num_deleted_rows=change.commit_once(table, attempt, 0))


def update(
    spark: SparkSession,
    uri: str,
    set: Mapping[str, str],
    where: str | None = None,
    *,
    branch: str | None = None,
    local_bytes: int = _LOCAL_BYTES,
    conflict_retries: int = 10,
    retry_timeout: timedelta = RETRY_TIMEOUT,
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
    if not isinstance(set, Mapping) or not set:
        raise InvalidInputError(f"set: expected a dict of columns and SQL, found {set!r}")
    change = row_change(
        uri, branch, conflict_retries, retry_timeout, idempotency_key, storage_options
    )
    table = change.opened()
    _bound(table.snapshot, set, where)
    if stored_bytes(table.snapshot.manifest.fragments) <= require_count("local_bytes", local_bytes):
        return table.update(
            set, where, conflict_retries, retry_timeout, idempotency_key=idempotency_key
        )

    def attempt(snapshot: Snapshot, job: WriteJob) -> tuple[Operation, int]:
        values, filter = _bound(snapshot, set, where)
        groups = fragment_groups(snapshot)
        parts = over_groups(spark, groups, partial(_rewrite, job, filter, values), job)
        return finish_update(snapshot, parts, values), sum(len(part.addresses) for part in parts)

    return UpdateResult(num_rows_updated=change.commit_once(table, attempt, 0))


def row_change(
    uri: str,
    branch: str | None,
    conflict_retries: int,
    retry_timeout: timedelta,
    idempotency_key: JobKey | None,
    storage_options: Mapping[str, str] | None,
) -> RowChange:
    """Combine the arguments that all row changes have."""
    retries = Retries(conflict_retries, retry_timeout)
    access = dict(storage_options or {})
    return RowChange(branch_uri(table_uri(uri), branch, access), access, retries, idempotency_key)


def _matching(
    job: WriteJob, filter: BoundFilter, group: tuple[int, ...]
) -> dict[FragmentId, DeletionVector]:
    return matching_rows(pinned(job), filter, group)


def _rewrite(
    job: WriteJob,
    filter: BoundFilter | None,
    values: Mapping[str, BoundProjection],
    group: tuple[int, ...],
) -> Rewritten:
    rows = ScanOptions(filter=filter, fragment_ids=group)
    return rewrite_matching(pinned(job), rows, values, file_name_prefix(job))


def _bound(
    snapshot: Snapshot, set: Mapping[str, str], where: str | None
) -> tuple[dict[str, BoundProjection], BoundFilter | None]:
    schema = snapshot.schema
    values = bind_values(set, schema, snapshot.described.arrow, with_blobs=True)
    return values, None if where is None else bind(where, schema.arrow)
