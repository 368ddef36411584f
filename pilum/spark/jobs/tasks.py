"""Spark tasks for items that are not rows, by interfaces that Spark Connect also has.

    spark.range(0, n, 1, n)  ──mapInArrow──▶  task number, result as text  ──▶  driver

Spark keeps the result of one attempt of each task; files of other attempts remain under different
names. A task reports a permanent error, such as a value that does not fit, as a result, because
Spark would retry a failed task and wrap the error.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from pilum.errors import InvalidInputError, UnsupportedFormatError

__all__ = ["attempt_name", "run_tasks"]

T = TypeVar("T")

_RESULT = pa.schema([("task", pa.int64()), ("result", pa.string()), ("refusal", pa.binary())])
_REFUSALS = (InvalidInputError, UnsupportedFormatError)


def run_tasks(spark: SparkSession, items: Sequence[T], run: Callable[[T], str]) -> list[str]:
    """Run one task per item.

    Args:
        spark: The session.
        items: Picklable items. They must be small in total, because every task receives all of
            them.
        run: Picklable function that is called in the tasks.

    Returns:
        The results, in the order of the items.

    Raises:
        InvalidInputError: If a task raised it; UnsupportedFormatError likewise.
        pyspark.errors.PySparkException: If a task failed otherwise, in all attempts.
    """
    if not items:
        return []

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _outcome(number, run, items[number])

    frame = spark.range(0, len(items), 1, len(items))
    rows = frame.mapInArrow(work, "task bigint, result string, refusal binary").collect()
    for row in rows:
        if row.refusal is not None:
            refusal: Exception = pickle.loads(row.refusal)  # pickled by our own task
            raise refusal
    results: dict[int, str] = {row.task: row.result for row in rows}
    return [results[number] for number in range(len(items))]


def _outcome(number: int, run: Callable[[T], str], item: T) -> pa.RecordBatch:
    result = refusal = None
    try:
        result = run(item)
    except _REFUSALS as error:
        refusal = pickle.dumps(error)
    return pa.record_batch([[number], [result], [refusal]], schema=_RESULT)


def attempt_name() -> str:
    """Return a name that is unique per attempt of a task of a job; call it within a task.

    Raises:
        InvalidInputError: If it is called outside a task.
    """
    context = TaskContext.get()
    if context is None:
        raise InvalidInputError("attempt_name: not within a task of Spark")
    return f"{context.partitionId():05d}-{context.attemptNumber()}"
