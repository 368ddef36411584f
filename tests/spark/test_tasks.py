"""What tasks that are killed leave behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import SparkSession
from spark.helpers import files

from pilum.distributed import Attempt, PartMessage, commit_parts, start_job, write_part
from pilum.spark.tasks import run_tasks


def test_files_of_a_worker_that_is_killed_are_deleted_when_another_has_done_its_work(
    spark: SparkSession, uri: str
) -> None:
    job = start_job(uri, pa.schema([("id", pa.int64())]), "create")

    def task(batches: Iterable[pa.RecordBatch], attempt: Attempt) -> PartMessage:
        part = write_part(job, batches, partition=attempt.task, attempt=attempt.number)
        if attempt == Attempt(1, 0):
            os.kill(os.getpid(), signal.SIGKILL)
        return part

    parts = run_tasks(spark.range(0, 30, 1, 3), task, job)
    assert [part.attempt for part in parts] == [0, 1, 0]
    assert len(files(uri)) == 3
    assert commit_parts(job, parts) == 1
