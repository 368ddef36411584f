"""Replacing the rows that fulfil a condition by those of a frame, with one commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from pilum.distributed import Attempt, PartMessage
from pilum.distributed.jobs import JobKey
from pilum.distributed.replacing import (
    Replacement,
    ReplaceResult,
    replace_rows,
    write_replacement,
)
from pilum.distributed.row_changes import RowChange
from pilum.spark.job_reports import reported
from pilum.spark.names import is_case_sensitive
from pilum.spark.options import Options, option_texts, table_uri
from pilum.spark.sink import plan_write, stored_batches
from pilum.spark.tasks import SparkTasks, run_tasks, settle

__all__ = ["ReplaceResult", "replace_where"]


@reported("replace-where")
def replace_where(
    frame: DataFrame,
    uri: str,
    where: str,
    *,
    branch: str | None = None,
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
    memory_limit: int | None = None,
    idempotency_key: JobKey | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> ReplaceResult:
    """Replace the rows that fulfil a condition by the rows of a frame, with one commit.

    The frame may have no rows, and should be deterministic: if a concurrent commit changes the same
    rows, it is evaluated again. Rows that are appended concurrently are kept.

    Args:
        frame: The new rows; all of them have to fulfil the condition. Columns are matched by name,
            and nullable ones may be missing.
        uri: Location of the table.
        where: Condition in the SQL dialect of pilum's filters.
        branch: The branch whose latest version is changed.
        max_rows_per_file: Number of rows after which a task starts a new file.
        max_bytes_per_file: Number of bytes after which a task starts a new file.
        memory_limit: Approximate limit, in bytes, of the rows that a Python worker holds.
        idempotency_key: Key that identifies this job: if the table already contains it, nothing
            happens and the counts are 0. As in `pilum.write_dataset`.
        storage_options: Settings of the store.

    Returns:
        A dict with `num_deleted_rows` and `num_inserted_rows`.

    Raises:
        DatasetNotFoundError: If there is no table.
        BranchNotFoundError: If there is no such branch.
        SchemaMismatchError: If the columns do not fit the table.
        FilterError: If the condition does not parse or bind, or fails on a value.
        InvalidInputError: If a row does not fulfil the condition, or another argument is invalid.
        CommitConflictError: If a concurrent commit invalidated the change.
        CommitContentionError: If concurrent commits won in every attempt.
    """
    change = RowChange.of(
        table_uri(uri), branch, idempotency_key=idempotency_key, storage_options=storage_options
    )
    change.opened()  # plan_write would create a table that does not exist
    given = {
        "caseSensitive": is_case_sensitive(frame.sparkSession),
        "maxRowsPerFile": max_rows_per_file,
        "maxBytesPerFile": max_bytes_per_file,
        "memoryLimit": memory_limit,
    }
    options = Options.parse(option_texts(change.uri, given, storage_options))
    files = plan_write(frame.schema, options, "append").options
    tasks = SparkTasks(frame.sparkSession)

    def write(replacement: Replacement) -> list[PartMessage]:
        return run_tasks(frame, partial(_write, replacement), replacement.write)

    return replace_rows(tasks, change, where, files, write)


def _write(
    replacement: Replacement, batches: Iterable[pa.RecordBatch], attempt: Attempt
) -> PartMessage:
    settle()
    return write_replacement(replacement, stored_batches(replacement.write, batches), attempt)
