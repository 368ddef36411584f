"""Reports of jobs for operators: log records, rows of a frame, names in Spark's UI.

    @reported("compact")        description and tag of Spark's jobs ──▶ UI, interruptTag
    def compact(spark, uri)     events of the thread: commits, conflicts, retries, lost files
                                     └──▶ JobReport ──▶ logging, `reports`

Events are those of `pilum.tracing`. Functions without `reported`, such as a commit in a process of
Spark, use `JobRecorder`.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from functools import wraps
from typing import Any, ParamSpec, Self, TypeVar

from pyspark.sql import DataFrame, SparkSession

from pilum.log import ENV_NAME_PYLANCE_LOGGING_LEVEL, get_log_level
from pilum.spark.options import table_uri
from pilum.spark.properties import local_properties
from pilum.tracing import RECEIVERS, TraceEvent

__all__ = ["JobRecorder", "JobReport", "log_in_process_of_spark", "reported", "reports"]

P = ParamSpec("P")
R = TypeVar("R")

TAG = "pilum"
_DESCRIPTION = "spark.job.description"
_KEPT = 1000
_LONGEST_ERROR = 500
_SCHEMA = (
    "job string, table string, version bigint, started_at timestamp, seconds double, "
    "rows bigint, files bigint, bytes bigint, "
    "conflicts bigint, retries bigint, orphans bigint, error string, details map<string, string>"
)

_log = logging.getLogger("pilum.spark.jobs")
_log.addHandler(logging.NullHandler())  # nothing is printed unless the application asks for it
_reports: deque[JobReport] = deque(maxlen=_KEPT)


@dataclass(frozen=True)
class JobReport:
    """A report of what a job did.

    Attributes:
        job: The kind of job, such as "merge".
        table: Location of the table.
        version: The last version that it committed; None if it committed none.
        started_at: When it began (UTC).
        seconds: How long it took.
        rows: Number of rows in the files that it committed, whether new, changed or moved.
        files: Number of files of data and of indices.
        bytes: Size of these files.
        conflicts: How often a commit had to be repeated, adapted or planned again because others
            committed first.
        retries: Number of attempts of tasks that failed before one succeeded.
        orphans: Number of files of failed attempts that it deleted.
        error: Type and text of the error that ended it; None if it succeeded.
        details: The values of its result, as texts.
    """

    job: str
    table: str
    version: int | None
    started_at: datetime
    seconds: float
    rows: int = 0
    files: int = 0
    bytes: int = 0
    conflicts: int = 0
    retries: int = 0
    orphans: int = 0
    error: str | None = None
    details: Mapping[str, str] = field(default_factory=dict)


def reports(spark: SparkSession) -> DataFrame:
    """Return a frame with a row for each job of `pilum.spark` that this process has run.

    These are the last 1,000 jobs of this driver, the oldest first. The columns are the attributes
    of the log records of the logger "pilum.spark.jobs": `job`, `table`, `version`, `started_at`,
    `seconds`, `rows`, `files`, `bytes`, `conflicts`, `retries`, `orphans`, `error`, and `details`,
    a map with the values of the job's own result.

    Args:
        spark: The session of the frame; the jobs are those of all sessions.
    """
    rows = [tuple(asdict(one).values()) for one in tuple(_reports)]
    return spark.createDataFrame(rows, _SCHEMA)


def reported(job: str, location: str = "uri") -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator of functions that run a job.

    The first argument is a session or a frame, and the argument `location` names the table; or it
    is an object with both, as its attribute `job_target`.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> R:
            try:
                given = signature.bind(*args, **keywords).arguments
            except TypeError:  # Python's own error names the function
                return function(*args, **keywords)
            spark, table = _target(given, location)
            with named(spark, f"pilum {job}: {table}", job), JobRecorder(job, table) as recorder:
                result = function(*args, **keywords)
                recorder.returned(result)
                return result

        return call

    return decorated


def _target(given: Mapping[str, Any], location: str) -> tuple[SparkSession, str]:
    first = next(iter(given.values()))
    if hasattr(type(first), "job_target"):  # any name is an attribute of a frame of Spark Connect
        spark, uri = first.job_target
        return spark, uri
    spark = first.sparkSession if isinstance(first, DataFrame) else first
    return spark, table_uri(given[location])


@contextmanager
def named(spark: SparkSession, description: str, job: str) -> Iterator[None]:
    """Name the Spark jobs that this thread starts; a description of the user stays in front.

    Their tags are "pilum" and the name of the job. Spark Connect has tags alone.
    """
    if not hasattr(spark, "getTags"):  # the job will refuse it, unless its arguments are wrong
        yield
        return
    tags = [tag for tag in (TAG, f"{TAG}-{job}") if tag not in spark.getTags()]
    for tag in tags:
        spark.addTag(tag)
    try:
        if not hasattr(spark, "_jsparkSession"):
            yield
            return
        own = spark.sparkContext.getLocalProperty(_DESCRIPTION)
        text = description if own is None else f"{own} | {description}"
        with local_properties(spark, {_DESCRIPTION: text}):
            yield
    finally:
        for tag in set(tags).intersection(spark.getTags()):  # the user may have cleared them
            spark.removeTag(tag)


class JobRecorder:
    """A context that counts what happens in this thread, and reports it at the end."""

    def __init__(self, job: str, table: str, **details: object) -> None:
        self._job = job
        self._table = table
        self._details = {name: str(value) for name, value in details.items()}
        self._counts: dict[str, int] = {}
        self._version: int | None = None
        self._thread = threading.get_ident()

    def __enter__(self) -> Self:
        self._started_at = datetime.now(UTC)
        self._began = time.monotonic()
        RECEIVERS.append(self._receive)
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._receive in RECEIVERS:  # unless all were removed
            RECEIVERS.remove(self._receive)
        self._report(error)

    def returned(self, result: object) -> None:
        """Note the result of the job; if it is a number, that is the version."""
        if type(result) is int:
            self._version = result
        else:
            self._details.update(_details(result))

    def _receive(self, event: TraceEvent) -> None:
        if threading.get_ident() != self._thread:
            return
        facts = event.args
        kind = facts.get("event")
        if kind == "committed":
            self._version = int(facts["version"])
            self._add(facts, rows="rows", files="files", bytes="bytes", conflicts="conflicts")
        elif kind == "conflict":
            self._add({"one": "1"}, conflicts="one")
        elif kind == "wrote":
            self._add(facts, files="files", bytes="bytes")
        elif kind == "retried":
            self._add(facts, retries="attempts")
        elif kind == "swept":
            self._add(facts, orphans="files")

    def _add(self, facts: Mapping[str, str], **names: str) -> None:
        for count, name in names.items():
            self._counts[count] = self._counts.get(count, 0) + int(facts[name])

    def _report(self, error: BaseException | None) -> None:
        text = None if error is None else f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
        report = JobReport(
            self._job,
            self._table,
            self._version,
            self._started_at,
            round(time.monotonic() - self._began, 3),
            **self._counts,
            error=text,
            details=self._details,
        )
        _reports.append(report)
        facts = asdict(report)
        level = logging.INFO if error is None else logging.ERROR
        _log.log(level, "%s", json.dumps(facts, default=str), extra=facts)


def _details(result: object) -> dict[str, str]:
    """Return the values of a result as texts by name."""
    if isinstance(result, list):  # statistics of columns
        return {f"{one.name}.{key}": text for one in result for key, text in _values(one).items()}
    return {} if isinstance(result, DataFrame) else _values(result)


def _values(result: object, name: str = "result") -> dict[str, str]:
    """Return the values of a part of a result; of lists, only the lengths."""
    if is_dataclass(result) and not isinstance(result, type):
        result = {one.name: getattr(result, one.name) for one in fields(result)}
    if isinstance(result, Mapping):
        parts = [_values(value, str(key)) for key, value in result.items()]
        return {key: text for part in parts for key, text in part.items()}
    if result is None:
        return {}
    return {name: str(len(result) if isinstance(result, list | tuple) else result)}


def log_in_process_of_spark() -> None:
    """Write log records to standard error, in a process that Spark started for the source.

    Nothing else configures `logging` there. The environment variable `LANCE_LOG` gives the level;
    without it, nothing is written.
    """
    logger = logging.getLogger("pilum")
    if ENV_NAME_PYLANCE_LOGGING_LEVEL in os.environ and not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(get_log_level())
