"""Tables without Spark, what Spark means to do, and tasks that fail."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import jvm
import pyarrow as pa
import pyspark
import pytest
from guard import GUARD_SECONDS
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

import pilum
import pilum.file
import pilum.fragment
from pilum.distributed import Mode, commit_parts, start_job, write_part
from pilum.storage.open import open_store
from pilum.table.read.snapshot import Snapshot

T = TypeVar("T")

_MOST_STARTS = 50

ROOT = Path(__file__).parents[2]
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


RELEASE = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
"""Of PySpark: (4, 3)."""


def since(major: int, minor: int) -> pytest.MarkDecorator:
    """Skips a test where Spark is older."""
    is_older = (major, minor) > RELEASE
    return pytest.mark.skipif(is_older, reason=f"needs PySpark {major}.{minor} or newer")


def write_table(uri: str, data: pa.Table, mode: Mode = "create") -> int:
    """Writes a table without Spark; returns the version."""
    job = start_job(uri, data.schema, mode)
    return commit_parts(job, [write_part(job, data.to_batches(), partition=0)])


def add_overlay(
    table: pilum.LanceDataset, fragment: pilum.LanceFragment, column: str, values: Mapping[int, int]
) -> None:
    """Gives some physical rows of a fragment other values of an int64 column."""
    name, places = f"overlay-{table.version}.lance", sorted(values)
    new = pa.table({column: pa.array([values[place] for place in places], pa.int64())})
    with pilum.file.LanceFileWriter(f"{table.uri}/data/{name}", new.schema) as writer:
        writer.write_batch(new)
    [field] = table.snapshot.schema.project([column]).fields
    file = pilum.fragment.DataFile(name, [field.id], [0], 2, 2)
    overlays = [pilum.LanceOperation.DataOverlayFile(file, places)]
    group = pilum.LanceOperation.DataOverlayGroup(fragment.fragment_id, overlays)
    change = pilum.LanceOperation.DataOverlay([group])
    pilum.LanceDataset.commit(table.uri, change, read_version=table.version)


def filters_in_spark(frame: DataFrame) -> bool:
    """Whether Spark still filters what the source gives it."""
    plan = str(frame._jdf.queryExecution().executedPlan().toString())
    return "Filter" in plan.replace("RuntimeFilters", "")


def version(uri: str) -> int:
    """The latest version."""
    return Snapshot.latest(open_store(uri)).manifest.version


def files(uri: str) -> list[str]:
    """The data files of a table, whether part of a version or not, but no marks of aborted jobs."""
    names = (path.name for path in Path(uri, "data").glob("*"))
    return sorted(name for name in names if not name.endswith("-given-up.lance"))


def has_only(uri: str, expected: list[str], within_seconds: float = GUARD_SECONDS) -> bool:
    """Whether these data files are left when tasks that Spark did not wait for have ended."""
    deadline = time.monotonic() + within_seconds
    while files(uri) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    return files(uri) == expected


def exist(paths: Iterable[Path], within_seconds: float = GUARD_SECONDS) -> bool:
    """Whether all these files are there when tasks beside this one have gone on for a while."""
    missing, deadline = list(paths), time.monotonic() + within_seconds
    while missing and time.monotonic() < deadline:
        time.sleep(0.01)
        missing = [path for path in missing if not path.exists()]
    return not missing


def flaky(always: bool) -> Any:
    """Hands on some rows of partition 1, then fails: in the first attempt, or in each."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 1 and (always or context.attemptNumber() == 0):
            raise RuntimeError("a task failed on purpose")

    return pass_on


def drain(
    frame: DataFrame, uri: str | None, checkpoint: Path, source: str = "pilum", **how: Any
) -> str:
    """Runs a query until nothing is left to read; returns its id."""
    writer = frame.writeStream.format(source).option("checkpointLocation", str(checkpoint))
    for name, value in how.items():
        writer = writer.options(**value) if name == "options" else getattr(writer, name)(value)
    writer = writer.trigger(availableNow=True)

    def run() -> str:
        query = writer.start(uri)
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return str(query.id)

    return with_patience(run)


def with_patience(run: Callable[[], T]) -> T:
    """Runs a query again as long as Spark gives up on a Python process that starts slowly.

    Spark waits ten seconds for each process of a streaming source, and has no setting for that. A
    process that never starts is an error after many attempts.
    """
    for _ in range(_MOST_STARTS - 1):
        try:
            return run()
        except PySparkException as error:
            if "Python worker failed to connect back" not in str(error):
                raise
    return run()


def forget(checkpoint: Path, batch: int) -> None:
    """As if the driver had died before Spark noted that a batch is done."""
    for path in (checkpoint / "commits").glob(f"*{batch}*"):
        path.unlink()


def arrive(incoming: Path, *rows: dict[str, Any]) -> None:
    """One more file of rows, in JSON; Spark takes files in the order of their times."""
    incoming.mkdir(exist_ok=True)
    number = len(list(incoming.iterdir()))
    path = incoming / f"{number:04d}.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(path, (number, number))


def environment() -> dict[str, str]:
    """Return the environment of drivers and daemons that are processes of their own."""
    return {
        **os.environ,
        **jvm.ENVIRONMENT,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests"), *filter(None, sys.path)]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "128m",
    }
