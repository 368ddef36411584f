"""Run tasks on Spark, by interfaces that Spark Connect also has.

    items    spark.range(0, n, 1, n) ──┐
    rows     a frame                 ──┴─mapInArrow─▶  attempt, result, pickled  ──▶  driver

Spark returns the result of one attempt per task; files of other attempts are deleted. A task
reports a permanent error, such as a value that does not fit, as a result, because Spark would retry
a failed task and wrap the error.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession

from pilum.distributed import Attempt, WriteJob
from pilum.distributed.sweeping import sweep_attempts
from pilum.errors import InvalidInputError, UnsupportedFormatError
from pilum.spark.batches import collect_from_tasks
from pilum.tracing import JOB_EVENTS, emit

__all__ = ["SparkTasks", "run_tasks", "settle", "this_attempt"]

T = TypeVar("T")
R = TypeVar("R")

_REFUSALS = (InvalidInputError, UnsupportedFormatError)


@dataclass(frozen=True)
class SparkTasks:
    """The tasks of a session, for the jobs of `pilum.distributed`."""

    spark: SparkSession

    def run(self, items: Sequence[T], work: Callable[[T, Attempt], R]) -> list[R]:
        """Run one task per item, as `Tasks.run`.

        Every task receives all items, as bytes, which Spark sends once to each executor if they are
        many; it unpickles its own. PySparkException is raised if a task failed in all attempts.
        """
        if not items:
            return []

        pickled = [cloudpickle.dumps(item) for item in items]  # type: ignore[no-untyped-call]

        def task(batches: Iterable[pa.RecordBatch], attempt: Attempt) -> list[tuple[int, R]]:
            numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
            return [(number, work(pickle.loads(pickled[number]), attempt)) for number in numbers]

        numbers = self.spark.range(0, len(items), 1, len(items))
        found = _outcomes(task, lambda run, schema: numbers.mapInArrow(run, schema).collect())
        results = dict(one for part in _results(found) for one in part)
        return [results[number] for number in range(len(items))]


def run_tasks(
    frame: DataFrame, task: Callable[[Iterable[pa.RecordBatch], Attempt], R], job: WriteJob
) -> list[R]:
    """Run a task on each partition of a frame and collect the results.

    The task has to read all batches of its partition; its result is pickled. `job` is the one whose
    files the tasks write. The errors are those of `SparkTasks.run`.
    """
    found = _outcomes(task, partial(collect_from_tasks, frame))
    sweep_attempts(job, [attempt for attempt, _ in found])
    return _results(found)


def _outcomes(
    task: Callable[[Iterable[pa.RecordBatch], Attempt], Any],
    collect: Callable[[Callable[..., Iterator[pa.RecordBatch]], str], list[Row]],
) -> list[tuple[Attempt, Any]]:
    """Return the attempt of each task that counts, with its result or a permanent error.

    `collect` runs a function on the batches of each partition, and returns the rows.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt = this_attempt()
        try:
            result = task(batches, attempt)
        except _REFUSALS as error:
            result = error
        yield pa.record_batch({"outcome": pa.array([pickle.dumps((attempt, result))], pa.binary())})

    rows = collect(run, "outcome binary")
    found = [pickle.loads(row.outcome) for row in rows]  # pickled by our own tasks
    emit(JOB_EVENTS, event="retried", attempts=sum(attempt.number for attempt, _ in found))
    return found


def _results(outcomes: Iterable[tuple[Attempt, Any]]) -> list[Any]:
    results = [result for _, result in outcomes]
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def this_attempt() -> Attempt:
    """Return the attempt that is running; raise InvalidInputError outside a task."""
    context = TaskContext.get()
    if context is None:
        raise InvalidInputError("not within a task of Spark")
    return Attempt(context.partitionId(), context.attemptNumber())


def settle() -> None:
    """Exclude modules from garbage collection; call it in each task.

    Spark collects garbage whenever a task ends, and the next task waits for it. Most of that time
    is spent on walking through modules, which never become garbage: 26 ms, and none once they are
    excluded.
    """
    if TaskContext.get() is not None:
        _leave_out_modules()


@cache
def _leave_out_modules() -> None:
    gc.collect()
    gc.freeze()
