"""The main operations against a Spark that is not this test's own: run as a script.

python elsewhere.py connect TABLE         a Spark Connect server, started by the session
python elsewhere.py spark://… TABLE       a standalone master and its workers, with speculation
python elsewhere.py killed TABLE          workers that are killed, and then the driver, which has a
                                          job with a journal and builds an index, too
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from guard import GUARD_SECONDS
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from spark import deaths
from spark.deadly_workers import die_with_driver, grandparent
from spark.helpers import with_patience
from spark.narrowing.cases import CASES, ON_CONNECT, Noted, check, make

import pilum.spark
from pilum.distributed import Attempt
from pilum.distributed.indices import create_index
from pilum.spark.tasks import SparkTasks

T = TypeVar("T")
R = TypeVar("R")

SETTINGS: dict[str, bool | float | int | str | None] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# A task is tried a second time beside the first as soon as it is late; on another host only.
SPECULATION: dict[str, bool | float | int | str | None] = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}


def main(where: str, uri: str) -> None:
    """Starts a session, works, and says "done"."""
    builder = SparkSession.builder.appName("pilum-elsewhere").config(map=SETTINGS)
    if where == "killed":
        spark = builder.config(map=deaths.SETTINGS).master("local[10,2]").getOrCreate()
        killed_driver(spark, uri)
    elif where == "connect":
        spark = builder.config(map=deaths.SETTINGS).remote("local[8,2]").getOrCreate()
        assert not hasattr(spark, "_jvm")
        main_operations(spark, uri)
        z_order(spark, uri)
        row_changes(spark, f"{uri}-rows")
        statements(spark, f"{uri}-sql")
        jobs(spark, f"{uri}-jobs")
        streams(spark, f"{uri}-streams")
        narrow_frames(spark, f"{uri}-narrow")
        deaths.driver_killed(spark, f"{uri}-driver", deaths.ON_CONNECT)
    else:
        spark = builder.master(where).config(map=SPECULATION).getOrCreate()
        main_operations(spark, uri)
        speculation(spark, uri)
        killed_executor(spark, uri)
    print("done")
    spark.stop()


def main_operations(spark: SparkSession, uri: str) -> None:
    """Writes by both ways, reads what is wanted, counts."""
    pilum.spark.configure(spark)
    pilum.spark.register(spark)
    frame = rows(spark)
    frame.write.format("pilum").mode("append").save(uri)
    frame.where("id < 10").write.format("lance").mode("append").save(uri)
    assert pilum.spark.write(frame.where("id < 5"), uri, mode="append") == 3
    newest = pilum.spark.reports(spark).collect()[-1]
    assert (newest.job, newest.version, newest.rows) == ("write", 3, 5)
    assert not spark.getTags()
    table = spark.read.format("pilum").option("columns", "day,name").load(uri)
    assert table.where("name = '3'").collect() == [Row(day=3, name="3")] * 3
    some = pilum.spark.read(spark, uri, columns=["id"], filter="name = '7' OR length(name) = 1")
    assert some.count() == 25
    assert pilum.spark.count(spark, uri, version=1) == 1000


def z_order(spark: SparkSession, uri: str) -> None:
    """Writes along a curve: aggregates, a UDF and range partitioning."""
    pilum.spark.write(
        rows(spark), f"{uri}-z", mode="create", zorder_by=["id", "name"], num_partitions=2
    )


def row_changes(spark: SparkSession, uri: str) -> None:
    """Merge, update and delete by tasks, on a branch too, and as SQL."""
    pilum.spark.write(rows(spark), uri, mode="create")
    merge = pilum.spark.merge_into(spark, uri, rows(spark).where("id > 998"), "id")
    merge.when_matched_update({"day": "target.day + 100"}).execute()
    pilum.spark.update(spark, uri, {"name": "'few'"}, "id < 3", local_bytes=0)
    pilum.spark.delete(spark, uri, "id >= 10 AND id < 999", local_bytes=0)
    rows(spark).where("id < 2").createOrReplaceTempView("changes")
    pilum.spark.sql(
        spark,
        "MERGE INTO t USING changes c ON t.id = c.id WHEN MATCHED AND c.id = 0 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET *",
        tables={"t": uri},
    )
    found = pilum.dataset(uri).to_table().sort_by("id").to_pydict()
    assert found["id"] == [*range(1, 10), 999]
    assert found["name"] == ["1", "few", *map(str, range(3, 10)), "999"]
    assert found["day"][-1] == 999 % 7 + 100


def statements(spark: SparkSession, uri: str) -> None:
    """Names, statements about tables, and table functions."""
    texts = (
        f"""CREATE TABLE made (id BIGINT, place ARRAY<FLOAT>) USING pilum LOCATION '{uri}'
        TBLPROPERTIES ('place.arrow.fixed-size-list.size' = '2', 'enable_stable_row_ids' = 'true')
        """,
        "INSERT INTO made SELECT id, array(float(id), 0f) FROM range(5)",
        "ALTER TABLE made ADD COLUMN note STRING",
    )
    for text in texts:
        pilum.spark.sql(spark, text)
    near = "SELECT m.id FROM nearest(made, place, array(2.9, 0), 1) n JOIN made m ON m.id = n.id"
    assert pilum.spark.sql(spark, near).collect() == [Row(id=3)]
    count = pilum.spark.sql(spark, "SELECT count(note) AS n FROM changes(made, 2, 3)")
    assert count.collect() == [Row(n=0)]
    pilum.spark.detach(spark, "made")


def jobs(spark: SparkSession, uri: str) -> None:
    """Files in and out, new columns, and upkeep."""
    files = f"{uri}-files"
    rows(spark).write.parquet(files)
    done = pilum.spark.ingest(spark, files, uri, job="files", files_per_commit=1)
    assert (done.num_files, pilum.spark.ingest(spark, files, uri, job="files").num_files) == (2, 0)
    pilum.spark.add_columns(spark, uri, {"twice": "id * 2"}, job="twice", commit_every=1)
    pilum.spark.update_columns(spark, uri, {"twice": "twice + 1"}, where="id = 5")
    pilum.spark.replace_columns(spark, uri, {"name": "id"})
    pilum.spark.create_index(
        spark, uri, "id", "BTREE", job="by-id", fragments_per_task=1, merge=True
    )
    assert pilum.spark.compact(spark, uri).fragments_added == 1
    assert pilum.spark.verify(spark, uri, deep=True).is_valid
    pilum.spark.cleanup(spark, uri)
    pilum.spark.export(spark, uri, f"{uri}-out", format="json", filter="twice <> id * 2")
    assert spark.read.json(f"{uri}-out").collect() == [Row(day=5, id=5, name=5, twice=11)]


def streams(spark: SparkSession, uri: str) -> None:
    """A table followed into another, and its changes merged into a third."""
    pilum.write_dataset(rows(spark).toArrow(), uri, enable_stable_row_ids=True)
    more = spark.range(1000, 1005).selectExpr("id", "1 AS day", "'new' AS name")
    pilum.spark.write(more, uri, mode="append")
    copy, changed = f"{uri}-copy", f"{uri}-changed"
    _drain(spark.readStream.format("pilum").load(uri).writeStream.format("pilum"), copy)
    feed = spark.readStream.format("pilum").option("readChangeFeed", "true").load(uri)
    upsert = pilum.spark.upsert(
        changed,
        "id",
        newest_by="_commit_version",
        delete_when="_change_type = 'delete'",
        columns=["id", "name", "_commit_version"],
        app_id="changed",
    )
    _drain(feed.writeStream.foreachBatch(upsert), changed)
    assert pilum.spark.count(spark, copy) == pilum.spark.count(spark, changed) == 1005


def narrow_frames(spark: SparkSession, uri: str) -> None:
    """Frames that find what they read in messages, for queries of each kind; counts and limits."""
    make(uri)
    for case in CASES:
        if case.name in ON_CONNECT:
            check(spark, uri, case)
    table = pilum.spark.table(spark, uri)
    assert Noted().of(table.count) == (
        38,
        [replace(pilum.spark.reads(table)[0], columns=(), answer="metadata")],
    )
    rows, (reads,) = Noted().of(lambda: table.where(table.id > 5).take(2))
    assert (len(rows), reads.limit, reads.filter) == (2, 2, "((`id` > 5))")
    table.cache()
    assert Noted().of(table.select("id").count) == (38, [])
    table.unpersist()


def _drain(writer: DataStreamWriter, uri: str) -> None:
    query = writer.option("checkpointLocation", f"{uri}-checkpoint").trigger(availableNow=True)
    with_patience(lambda: query.start(uri).awaitTermination())


def rows(spark: SparkSession) -> DataFrame:
    """A thousand rows in two partitions."""
    return spark.range(0, 1000, 1, 2).selectExpr("id", "id % 7 AS day", "string(id) AS name")


def speculation(spark: SparkSession, uri: str) -> None:
    """Two attempts of one task that end together, by both ways to write; tells the attempts."""
    for name, start in (("coordinated", 3000), ("own", 4000)):
        folder = Path(f"{uri}-{name}")
        folder.mkdir()
        late = spark.range(start, start + 100, 1, 2).mapInArrow(Late(folder), "id bigint")
        if name == "own":
            pilum.spark.write(late, uri, mode="append")
        else:
            late.write.format("pilum").mode("append").save(uri)
        assert {path.name for path in folder.iterdir()} == {"0", "1"}, list(folder.iterdir())


class Late:
    """Hands on rows; the first attempt of one task waits at the end for the second."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 0:
            (self.folder / str(context.attemptNumber())).touch()
            deadline = time.monotonic() + GUARD_SECONDS
            while len(list(self.folder.iterdir())) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)


def killed_executor(spark: SparkSession, uri: str) -> None:
    """Kills the executor in the middle of a task, once; the rows must be there once."""
    marker = Path(f"{uri}-killed")

    def kill_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 1 and not marker.exists():
            marker.touch()
            os.kill(grandparent(), signal.SIGKILL)
            os._exit(1)

    more = spark.range(1000, 2000, 1, 4).mapInArrow(kill_once, "id bigint")
    more.write.format("pilum").mode("append").save(uri)
    assert marker.exists()


def killed_driver(spark: SparkSession, uri: str) -> NoReturn:
    """Kills workers and the driver of writes by functions of pilum, which commit themselves.

    Before that, a write by Spark's method, which commits in a process of its own, loses a worker.
    """
    pilum.write_dataset(pa.table({"id": [1, 2, 3]}), uri)
    Path(f"{uri}.kills").touch()
    spark.range(4, 100, 1, 4).write.format("pilum").mode("append").save(uri)
    assert not Path(f"{uri}.kills").exists()
    deaths.workers_killed(spark, f"{uri}-workers")
    others = {f"{uri}-job": job, f"{uri}-index": index}
    for place in others:
        pilum.write_dataset(pa.table({"id": range(40)}), place, max_rows_per_file=10)
    deaths.driver_killed(spark, f"{uri}-driver", others=others)


def job(spark: SparkSession, uri: str) -> None:
    """A job with a journal that waits at the rows from 20 on, when earlier ones are committed."""

    def double(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch["id"][0].as_py() >= 20:
            die_with_driver(f"{uri}.waiting")
        return pa.record_batch({"twice": pc.multiply(batch["id"], 2)})

    pilum.spark.add_columns(
        spark,
        uri,
        double,
        read_columns=["id"],
        output_schema="twice bigint",
        job="double",
        commit_every=1,
    )


def wait_for_segments(notes: Path, count: int) -> None:
    """Wait until a job of building an index has noted so many segments."""
    deadline = time.monotonic() + GUARD_SECONDS
    while len(list(notes.glob("segment-*"))) < count and time.monotonic() < deadline:
        time.sleep(0.01)


def index(spark: SparkSession, uri: str) -> None:
    """An index whose last task of four waits when the others have noted segments."""

    class Waiting(SparkTasks):
        """Tasks of which the last one waits for the end of the driver."""

        def run(self, items: Sequence[T], work: Callable[[T, Attempt], R]) -> list[R]:
            def until_the_last(item: T, attempt: Attempt) -> R:
                if attempt.task == 3:
                    wait_for_segments(Path(uri, "_jobs", "by-id"), 3)
                    die_with_driver(f"{uri}.waiting")
                return work(item, attempt)

            return super().run(items, until_the_last)

    create_index(Waiting(spark), uri, "id", "BTREE", {}, job="by-id", fragments_per_task=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
