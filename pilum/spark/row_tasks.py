"""Shared parts of row changes by Spark tasks: versions, jobs, tasks and retries.

    driver    pins a version, draws a uuid      one commit of that uuid  |  files deleted again
                      │                                    ▲
    tasks             └──▶ new files with the uuid, ──▶ results, pickled
                           attempt by attempt

Only `mapInArrow` is used, so everything works with Spark Connect too. Spark returns the result of
one attempt per task; files of earlier attempts are deleted. A task reports a permanent error, such
as a value that does not fit, as a result, because Spark would retry a failed task and wrap the
error.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pilum.dataset import LanceDataset, dataset
from pilum.dataset.commits import Retries, commit_once, publish
from pilum.distributed import WriteJob, abort_parts, group_splits, plan_splits
from pilum.distributed.sweeping import sweep
from pilum.errors import CommitStatusUnknownError, InvalidInputError, UnsupportedFormatError
from pilum.spark.jobs.tasks import attempt_name
from pilum.table.commit.jobs import JobKey
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.transaction import Transaction
from pilum.table.model.fragment import Fragment
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.open import open_table

__all__ = [
    "RowChange",
    "file_name_prefix",
    "fragment_groups",
    "over_groups",
    "pinned",
    "run_tasks",
    "stored_bytes",
]

_TASK_BYTES = 128 << 20
_WHOLE = 1 << 62
_REFUSALS = (InvalidInputError, UnsupportedFormatError)

T = TypeVar("T")


@dataclass(frozen=True)
class RowChange:
    """The target and the retry settings of a row change.

    Attributes:
        uri: Location of the table.
        storage_options: Settings of the store.
        retries: Maximum number of retries after concurrent changes of the same rows.
        key: Idempotency key of the job, if any.
    """

    uri: str
    storage_options: dict[str, str]
    retries: Retries
    key: JobKey | None

    def opened(self) -> LanceDataset:
        """Return the table at its latest version."""
        return dataset(self.uri, storage_options=self.storage_options)

    def commit_once(
        self,
        table: LanceDataset,
        attempt: Callable[[Snapshot, WriteJob], tuple[Operation, T]],
        nothing: T,
    ) -> T:
        """Change the table, unless it already contains the job.

        Args:
            table: The table, as returned by `opened`.
            attempt: Does the work on a version as a job and returns the operation to commit and the
                result. If it fails, its files are deleted.
            nothing: The result to return if the table already contains the job.

        Raises:
            CommitConflictError: If a concurrent commit invalidated the change.
            CommitContentionError: If concurrent commits won in every attempt.
        """

        def run(properties: Mapping[str, str]) -> tuple[Snapshot, T]:
            return self.retries.run(table.snapshot, partial(self._once, attempt, properties))

        return commit_once(table, self.key, run, nothing)

    def _once(
        self,
        attempt: Callable[[Snapshot, WriteJob], tuple[Operation, T]],
        properties: Mapping[str, str],
        snapshot: Snapshot,
    ) -> tuple[Snapshot, T]:
        version, access = snapshot.manifest.version, self.storage_options
        job = WriteJob(
            self.uri, str(uuid4()), "append", version, snapshot.schema, storage_options=access
        )
        try:
            operation, result = attempt(snapshot, job)
            transaction = Transaction(version, operation, job.uuid, properties)
            return publish(snapshot.store, transaction), result
        except CommitStatusUnknownError:  # the commit may succeed: keep its files
            raise
        except BaseException:
            abort_parts(job)
            raise


def pinned(job: WriteJob) -> Snapshot:
    """Open the version of a job, within a task."""
    return Snapshot.at(open_table(job.uri, job.storage_options), job.read_version)


def file_name_prefix(job: WriteJob) -> str:
    """Return the prefix of file names of this attempt of a task; call it within the task."""
    return f"{job.uuid}-{attempt_name()}"


def run_tasks(
    frame: DataFrame, task: Callable[[Iterable[pa.RecordBatch]], T], job: WriteJob
) -> list[T]:
    """Run a task on each partition of a frame and collect the results.

    Args:
        frame: The rows.
        task: A function of the batches of a partition. It must read all of them. Its result is
            pickled.
        job: The job of the files that the tasks write.

    Raises:
        InvalidInputError: If a task refused its rows; other permanent errors likewise.
        PySparkException: If a task failed for another reason in all attempts.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        result: T | Exception
        try:
            result = task(batches)
        except _REFUSALS as error:
            result = error
        found = pa.array([pickle.dumps(result)], pa.binary())
        yield pa.record_batch({"result": found, "attempt": [attempt_name()]})

    rows = frame.mapInArrow(run, "result binary, attempt string").collect()
    _sweep(job, [row.attempt for row in rows])
    results = [pickle.loads(row.result) for row in rows]
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def _sweep(job: WriteJob, winners: Sequence[str]) -> None:
    """Delete the files of earlier attempts, if there were any."""
    if all(name.endswith("-0") for name in winners):
        return
    prefixes = tuple(f"{job.uuid}-{name}-" for name in winners)
    store = open_table(job.uri, job.storage_options)
    sweep(store, job.uuid, lambda name: name.startswith(prefixes))


def fragment_groups(snapshot: Snapshot, task_bytes: int = _TASK_BYTES) -> list[tuple[int, ...]]:
    """Group adjacent fragments by about `task_bytes` bytes."""
    groups = group_splits(plan_splits(snapshot, _WHOLE), task_bytes)
    return [tuple(split.fragment_id for split in group) for group in groups]


def over_groups(
    spark: SparkSession,
    groups: list[tuple[int, ...]],
    work: Callable[[tuple[int, ...]], T],
    job: WriteJob,
) -> list[T]:
    """Run one task for each group of fragments.

    The errors are those of `run_tasks`.
    """

    def task(batches: Iterable[pa.RecordBatch]) -> T | None:
        numbers = [n for batch in batches for n in batch.column(0).to_pylist()]
        return work(groups[numbers[0]]) if numbers else None

    count = len(groups)
    if not count:
        return []
    found = run_tasks(spark.range(0, count, 1, count).toDF("number"), task, job)
    return [one for one in found if one is not None]


def stored_bytes(fragments: Iterable[Fragment]) -> int:
    """Return the total known size of the data files of fragments, in bytes."""
    return sum(file.size_bytes or 0 for fragment in fragments for file in fragment.files)
