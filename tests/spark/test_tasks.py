"""What tasks that are killed leave behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from spark.helpers import files

from pilum.distributed import Attempt, PartMessage, commit_parts, start_job, write_part
from pilum.spark.tasks import SparkTasks, run_tasks, this_attempt


class Item:
    """An item that only its own task may unpickle."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self.number,)


def _received(number: int) -> Item:
    assert this_attempt().task == number
    return Item(number)


def test_a_task_unpickles_its_own_item_only(spark: SparkSession) -> None:
    """Those of all others may be as large as a manifest of very many fragments."""
    items = [Item(number) for number in range(3)]
    assert SparkTasks(spark).run(items, lambda item, _: item.number * 10) == [0, 10, 20]


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
