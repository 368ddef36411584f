"""Clustering as a Spark job: all rows of a table are rewritten in another order.

    table ──▶ rows with addresses ──▶ ranges of the keys, sorted ──▶ tasks ──▶ one commit

Source: `pilum.distributed.clustering`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, SparkSession

from pilum.distributed import Attempt, TableVersion, WriteJob, clustering
from pilum.distributed.clustering import ClusterJob, Fragment, write_cluster_part
from pilum.distributed.jobs import write_options
from pilum.distributed.journal import Journal
from pilum.distributed.row_changes import fragments_with
from pilum.distributed.tasks import optional_count
from pilum.distributed.upkeep import CompactionMetrics
from pilum.errors import InvalidInputError
from pilum.spark.frames import read
from pilum.spark.job_reports import reported
from pilum.spark.options import table_uri
from pilum.spark.orders import Order
from pilum.spark.sink import write_task
from pilum.spark.tasks import SparkTasks, run_tasks

__all__ = ["cluster"]

_TASK_BYTES = 256 << 20


@reported("cluster")
def cluster(
    spark: SparkSession,
    uri: str,
    *,
    sort_by: Sequence[str | Column] | None = None,
    zorder_by: Sequence[str] | None = None,
    hilbert_by: Sequence[str] | None = None,
    where: str | None = None,
    num_partitions: int | None = None,
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
    memory_limit: int | None = None,
    commit_every: int | None = None,
    job: str | None = None,
    journal: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> CompactionMetrics:
    """Rewrite the rows of a table, so that rows with similar values are stored close together.

    Rows keep their values, stable ids and versions; deleted rows are removed. If anything fails
    before a commit, the files written for it are deleted. All rows of one commit go through Spark's
    shuffle, for which Spark's disks need room.

    Args:
        spark: The session.
        uri: Location of the table.
        sort_by: Sort the rows by these columns, within each file and across files.
        zorder_by: Order the rows along a Z-order curve, which stores rows with similar values in
            all of these columns close together.
        hilbert_by: The same along a Hilbert curve, with narrower value ranges per file.
        where: A SQL condition: only fragments that have rows that fulfil it are rewritten, as a
            whole.
        num_partitions: Maximum number of writing tasks; by default one per 256 MiB of files. With
            `commit_every`, the number of tasks per commit.
        max_rows_per_file: Number of rows after which a task starts a new file.
        max_bytes_per_file: Number of bytes after which a task starts a new file.
        memory_limit: Approximate limit, in bytes, of the rows that a Python worker holds.
        commit_every: Number of adjacent fragments that are ordered and committed as one group; the
            order holds within each group. None for one commit of all fragments.
        job: A job name, for use with `commit_every`: a later call with the same name resumes where
            this one ended.
        journal: Location of the job journals; a folder of the table if None.
        storage_options: Settings of the store.

    Returns:
        Metrics of the work done; for a resumed job, of the remaining work.

    Raises:
        DatasetNotFoundError: If there is no table.
        ColumnNotFoundError: If there is no such column.
        CommitConflictError: If another writer changed or moved rows concurrently. Groups already
            committed are kept.
        UnsupportedFeatureError: If the table has blob columns, or an index that cannot be remapped.
        InvalidInputError: If not exactly one order is given, or an argument is invalid.
        pyspark.errors.PySparkException: If a task failed in all attempts, or if a column in
            `sort_by` does not exist.
    """
    order = Order(sort_by, zorder_by, hilbert_by)
    if not order:
        raise InvalidInputError("cluster: expected one of sort_by, zorder_by and hilbert_by")
    counts = {
        "num_partitions": num_partitions,
        "max_rows_per_file": max_rows_per_file,
        "max_bytes_per_file": max_bytes_per_file,
        "memory_limit": memory_limit,
        "commit_every": commit_every,
    }
    for name, value in counts.items():
        optional_count(name, value, 1)
    if job is None and journal is not None:
        raise InvalidInputError("job: needed with journal, which records its progress")
    access, location = dict(storage_options or {}), table_uri(uri)
    notes = None if job is None else Journal(location, job, journal and table_uri(journal), access)
    options = write_options(
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        memory_limit=memory_limit,
    )
    table, description, fragments = TableVersion.latest(location, access), order.texts(), None
    if where is not None:
        description = [*description, f"WHERE {where}"]
        fragments = fragments_with(SparkTasks(spark), table, where)
    return clustering.cluster(
        _Sorting(spark, order, num_partitions, memory_limit).sort,
        table,
        options,
        order=description,
        fragments=fragments,
        commit_every=commit_every,
        journal=notes,
    )


@dataclass(frozen=True)
class _Sorting:
    """The way Spark sorts the rows.

    `num_partitions` is None to derive it from the size of the files; `memory_limit` is that of a
    Python worker, in bytes.
    """

    spark: SparkSession
    order: Order
    num_partitions: int | None
    memory_limit: int | None

    def sort(self, job: ClusterJob) -> Callable[[], list[tuple[Fragment, ...]]]:
        """Plan the order of the rows of a job; return the function that writes them in tasks."""
        rows = partial(
            read,
            self.spark,
            job.write.uri,
            filter=job.condition,
            version=job.write.read_version,
            memory_limit=self.memory_limit,
            storage_options=job.write.storage_options,
        )
        curve = self.order.curve_columns
        keys = rows(columns=list(curve)) if curve else None
        count = self.num_partitions or max(1, -(-job.size_bytes // _TASK_BYTES))
        ordered = self.order.apply(rows(columns=job.columns), count, keys)
        return partial(run_tasks, ordered, partial(_write, job.write), job.write)


def _write(job: WriteJob, batches: Iterable[pa.RecordBatch], _: Attempt) -> tuple[Fragment, ...]:
    return write_cluster_part(job, batches, write_task)
