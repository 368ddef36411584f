"""Operations that write in tasks, and are interrupted by the death of workers or the driver."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql import SparkSession
from spark.deadly_workers import System, die
from spark.helpers import exist, files, has_only

import pilum
import pilum.spark
from pilum.storage import durable

__all__ = [
    "ON_CONNECT",
    "OPERATIONS",
    "SETTINGS",
    "Operation",
    "all_at_once",
    "check_killed",
    "driver_killed",
    "in_some_version",
    "killed_at",
    "prepared",
    "rows_of",
    "workers_killed",
]

SETTINGS: dict[str, bool | float | int | str | None] = {
    "spark.python.daemon.module": "spark.deadly_workers"
}
Rows = list[tuple[int, int]]

_BEFORE: Rows = [(number, number // 20) for number in range(80)]


@dataclass(frozen=True)
class Operation:
    """A change of a table of 80 rows in eight files, of the shops 0 to 3.

    Attributes:
        name: Part of the name of its table.
        run: Makes the change.
        after: The rows after it.
        num_tasks: The least number of tasks that write.
    """

    name: str
    run: Callable[[SparkSession, str], Any]
    after: Rows
    num_tasks: int = 1


def _sql(text: str) -> Callable[[SparkSession, str], Any]:
    return lambda spark, uri: pilum.spark.sql(spark, text, tables={"t": uri})


def _append(spark: SparkSession, uri: str) -> None:
    frame = spark.range(80, 100, 1, 2).selectExpr("id", "4L AS shop")
    pilum.spark.write(frame, uri, mode="append")


def _update(spark: SparkSession, uri: str) -> None:
    pilum.spark.update(spark, uri, {"shop": "shop + 10"}, "id >= 40", local_bytes=0)


OPERATIONS = (
    Operation("append", _append, [*_BEFORE, *((n, 4) for n in range(80, 100))], 2),
    Operation(
        "replace",
        _sql("INSERT INTO t REPLACE WHERE shop = 2 SELECT id, 2L FROM range(100, 120, 1, 2)"),
        [row for row in _BEFORE if row[1] != 2] + [(n, 2) for n in range(100, 120)],
        2,
    ),
    Operation(
        "partition",
        _sql("INSERT OVERWRITE t PARTITION (shop = 1) SELECT id FROM range(200, 220, 1, 2)"),
        [row for row in _BEFORE if row[1] != 1] + [(n, 1) for n in range(200, 220)],
        2,
    ),
    Operation("optimize", _sql("OPTIMIZE t WHERE shop >= 1"), _BEFORE, 2),
    Operation("zorder", _sql("OPTIMIZE t WHERE shop = 3 ZORDER BY (shop, id)"), _BEFORE),
    Operation(
        "merge",
        _sql(
            "MERGE INTO t USING (SELECT id, 9L AS shop FROM range(70, 90, 1, 2)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ),
        [*_BEFORE[:70], *((n, 9) for n in range(70, 90))],
    ),
    Operation("update", _update, [(n, s + 10 * (n >= 40)) for n, s in _BEFORE]),
)


ON_CONNECT = tuple(one for one in OPERATIONS if one.name in {"replace", "partition", "optimize"})


def prepared(uri: str, operations: Sequence[Operation] = OPERATIONS) -> dict[str, str]:
    """Make a table for each operation, and return its place."""
    places = {one.name: f"{uri}-{one.name}" for one in operations}
    table = pa.table(dict(zip(("id", "shop"), zip(*_BEFORE, strict=True), strict=True)))
    for place in places.values():
        dataset = pilum.write_dataset(table, place, max_rows_per_file=10)
        dataset.update_config({"lance.compaction.target_rows_per_fragment": "20"})
    return places


def rows_of(uri: str) -> Rows:
    """Return the rows of a table, sorted."""
    found = pilum.dataset(uri).to_table(["id", "shop"]).to_pydict()
    return sorted(zip(found["id"], found["shop"], strict=True))


def workers_killed(spark: SparkSession, uri: str) -> None:
    """Run all operations, each with a worker that dies; Spark tries its task again."""
    places = prepared(uri)
    for place in places.values():
        Path(f"{place}.kills").touch()
    all_at_once(spark, places)
    assert not [place for place in places.values() if Path(f"{place}.kills").exists()]


def all_at_once(spark: SparkSession, places: dict[str, str]) -> None:
    """Run all operations, each in a thread, and check what they leave."""
    operations = [one for one in OPERATIONS if one.name in places]
    with ThreadPoolExecutor(len(operations)) as threads:
        for done in [threads.submit(one.run, spark, places[one.name]) for one in operations]:
            done.result()
    for one in operations:
        place = places[one.name]
        assert rows_of(place) == sorted(one.after), one.name
        assert set(files(place)) == in_some_version(place), one.name
        assert pilum.dataset(place).verify(deep=True).is_valid


def driver_killed(
    spark: SparkSession,
    uri: str,
    operations: Sequence[Operation] = OPERATIONS,
    others: Mapping[str, Callable[[SparkSession, str], Any]] = MappingProxyType({}),
) -> NoReturn:
    """Run all operations, and kill the driver when each has written a file and reported none.

    Where it has several tasks, one of them has ended. The others, by their tables, run beside them;
    each notes itself that its driver may be killed (`die_with_driver`).
    """
    places = prepared(uri, operations)
    for one in operations:
        if one.num_tasks > 1:
            Path(f"{places[one.name]}.passes").touch()
        Path(f"{places[one.name]}.waits").touch()
        Thread(target=one.run, args=(spark, places[one.name]), daemon=True).start()
    for place, run in others.items():
        Thread(target=run, args=(spark, place), daemon=True).start()
    notes = [Path(f"{place}.waiting") for place in (*places.values(), *others)]
    assert exist(notes), [note.name for note in notes if not note.exists()]
    print("done", flush=True)
    os.kill(int(notes[0].read_text()), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("alive")


def check_killed(uri: str, operations: Sequence[Operation] = OPERATIONS) -> dict[str, str]:
    """Check the tables of `driver_killed`: old rows, and orphans that a cleanup removes."""
    places = {one.name: f"{uri}-{one.name}" for one in operations}
    for name, place in places.items():
        assert rows_of(place) == _BEFORE, name
        kept = in_some_version(place)
        assert set(files(place)) > kept, name
        pilum.dataset(place).cleanup_old_versions(timedelta(0), delete_unverified=True)
        assert has_only(place, sorted(in_some_version(place)))
    return places


def killed_at(moment: str, run: Callable[[], Any]) -> None:
    """Run an operation in a fork of this process, which is killed at a moment of its commit.

    `before`: tasks are done, nothing else is; `within`: the version is written, but has no name;
    `after`: it has, and the driver does not know. The JVM lives on, and has no work then.
    """
    child = os.fork()
    if child == 0:
        try:
            vars(durable)["os"] = DriverSystem(moment)
            run()
        finally:
            os._exit(1)  # alive
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def in_some_version(uri: str) -> set[str]:
    """Return the data files of all versions of a table."""
    table = pilum.dataset(uri)
    versions = [table.checkout_version(one["version"]) for one in table.versions()]
    fragments = [one for version in versions for one in version.get_fragments()]
    return {file.path for one in fragments for file in one.metadata.files}


class DriverSystem(System):
    """That of a driver that dies when it commits."""

    def __init__(self, moment: str) -> None:
        self._moment = moment

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        """Open a file; die before the first one of a new version."""
        if self._moment == "before" and "/_transactions" in path and flags & os.O_CREAT:
            die()
        return os.open(path, flags, mode)

    def link(self, old: str, new: str) -> None:
        """Give a version its name, and die before it or after it."""
        if self._moment == "after":
            os.link(old, new)
        die()
