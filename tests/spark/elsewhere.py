"""The main operations against a Spark that is not this test's own: run as a script.

python elsewhere.py connect TABLE         a Spark Connect server, started by the session
python elsewhere.py spark://… TABLE       a standalone master and its workers
python elsewhere.py killed TABLE          a driver that is killed before it commits
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession

import pilum.spark

SETTINGS: dict[str, bool | float | int | str | None] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def main(where: str, uri: str) -> None:
    """Starts a session, works, and says "done"."""
    builder = SparkSession.builder.appName("pilum-elsewhere").config(map=SETTINGS)
    if where == "killed":
        spark = builder.master("local[2]").getOrCreate()
        killed_driver(spark, uri)
    elif where == "connect":
        spark = builder.remote("local[2]").getOrCreate()
        assert not hasattr(spark, "_jvm")
        main_operations(spark, uri)
        z_order(spark, uri)
    else:
        spark = builder.master(where).getOrCreate()
        main_operations(spark, uri)
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


def rows(spark: SparkSession) -> DataFrame:
    """A thousand rows in two partitions."""
    return spark.range(0, 1000, 1, 2).selectExpr("id", "id % 7 AS day", "string(id) AS name")


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


def killed_driver(spark: SparkSession, uri: str) -> None:
    """Kills the driver's JVM when one task is done and another one is not."""
    driver = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]

    def kill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 3:
            os.kill(driver, signal.SIGKILL)

    some = spark.range(0, 1000, 1, 4).mapInArrow(kill, "id bigint")
    try:
        some.write.format("pilum").mode("append").save(uri)
    except Exception:
        print("done", flush=True)
        os._exit(0)


def grandparent() -> int:
    """Of a Python worker: the executor's JVM, for the parent is Spark's daemon."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
