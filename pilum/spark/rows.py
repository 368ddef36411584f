"""Deleting and updating rows: fragments are looked through by tasks, one commit marks the rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial

from pyspark.sql import SparkSession

from pilum.dataset.deleting import DeleteResult
from pilum.dataset.options import require_count
from pilum.dataset.retrying import Retries
from pilum.dataset.updating import UpdateResult, bind_values
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
from pilum.table.changes.delete import delete_rows, matching_rows
from pilum.table.changes.rewrite import Rewritten
from pilum.table.changes.update import finish_update, rewrite_matching
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
    """Deletes rows with one commit, as `LanceDataset.delete` does.

    Tasks look through the fragments and report rows; the driver, which needs 4 bytes for each,
    marks them and commits. A delete that finds nothing makes a version too.

    Args:
        spark: The session.
        uri: Location of the table.
        where: SQL of pilum's filters. Rows for which it is true are deleted.
        branch: The branch whose latest version is changed.
        local_bytes: A table with no more bytes of data files is worked on by the driver itself,
            with the same result and without a job of Spark.
        conflict_retries: How often to choose the rows anew because others changed the same rows.
        retry_timeout: No such try begins later than this after the call.
        idempotency_key: Names the job that this is: if the table has it, nothing happens and the
            count is 0. As in `pilum.write_dataset`.
        storage_options: Settings of the store.

    Returns:
        A dict with `num_deleted_rows`.

    Raises:
        DatasetNotFoundError: If there is no table.
        BranchNotFoundError: If there is no such branch.
        FilterError: If the condition does not parse or bind, or fails on a value.
        CommitConflictError: If another commit made the delete meaningless.
        CommitContentionError: If others interfered every time.
        InvalidInputError: For any other argument that makes no sense.
    """
    change = row_change(
        uri, branch, conflict_retries, retry_timeout, idempotency_key, storage_options
    )
    table = change.opened()
    bind(where, table.snapshot.schema.arrow)  # what is wrong with it is better told here
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
    """Changes values with one commit, as `LanceDataset.update` does.

    Tasks write the changed rows to new files and report where they were; the driver, which needs
    8 bytes for each, marks them there and commits. An update that finds nothing makes a version
    too.

    Args:
        spark: The session.
        uri: Location of the table.
        set: Columns, and for each the SQL of pilum's filters that computes its values, from the
            values before the update.
        where: Rows for which it is true are updated; all rows if it is None.
        branch: As for `delete`, and so are all other arguments.
        local_bytes: See there.
        conflict_retries: See there.
        retry_timeout: See there.
        idempotency_key: See there.
        storage_options: See there.

    Returns:
        A dict with `num_rows_updated`.

    Raises:
        DatasetNotFoundError: If there is no table.
        BranchNotFoundError: If there is no such branch.
        ColumnNotFoundError: If a column does not exist.
        FilterError: If SQL does not parse or bind, or fails on a value.
        SchemaMismatchError: If a value is null that must not be.
        CommitConflictError: If another commit made the update meaningless.
        CommitContentionError: If others interfered every time.
        InvalidInputError: For any other argument that makes no sense.
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
    """Joins the arguments that all changes of rows have."""
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
