"""Streams that stop between any two steps of a batch, beside a process that writes (S5)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark.beside import Writer, stopping_source
from spark.helpers import drain, forget, since

import pilum


def refuse() -> None:
    """Stops a step."""
    raise OSError("stopped on purpose")


def ids(uri: str) -> list[int]:
    """All of them, sorted, with those that are there twice."""
    return sorted(pilum.dataset(uri).to_table()["id"].to_pylist())


def run(
    spark: SparkSession, writer: Writer, uri: str, stop: str | None, **options: str
) -> tuple[str, Path]:
    """A query that stops at a step; those with the same table go on with the same checkpoint."""
    folder = Path(uri).parent
    copy, checkpoint = str(folder / "copy"), folder / "checkpoint"
    spark.dataSource.register(stopping_source(str(folder / "beside"), refuse))
    frame = spark.readStream.format("stopping").options(**options).load(uri)
    writer.stop_at(stop)
    if stop is None:
        drain(frame, copy, checkpoint, "stopping")
    else:
        with pytest.raises(PySparkException, match="stopped on purpose"):
            drain(frame, copy, checkpoint, "stopping")
    return copy, checkpoint


@since(4, 2)
def test_a_first_batch_that_stops_at_every_step_takes_each_row_once(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    """One driver after the other goes a step further; Spark logs the end before it plans."""
    with Writer(uri, tmp_path / "beside") as writer:
        writer.append("before the query")
        for stop in ("after initialOffset", "after latestOffset"):
            _, checkpoint = run(spark, writer, uri, stop)
            assert not list((checkpoint / "offsets").glob("0"))
        planning = ("before partitions", "after initialOffset", "after partitions")
        for stop in (*planning, "after read", "before commit", "after commit"):
            copy, checkpoint = run(spark, writer, uri, stop)
            assert list((checkpoint / "offsets").glob("0"))
        assert not list((checkpoint / "commits").glob("0"))
        run(spark, writer, uri, None)
    forget(checkpoint, 1)
    drain(spark.readStream.format("pilum").load(uri), copy, checkpoint)
    assert ids(copy) == list(range(len(writer.steps)))


@since(4, 2)
def test_a_stream_of_rows_to_come_leaves_no_gap(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    """All rows from the one that came first after the driver began whose offset was logged."""
    with Writer(uri, tmp_path / "beside") as writer:
        writer.append("before the query")
        run(spark, writer, uri, "after latestOffset", startingVersion="latest")
        first = len(writer.steps)
        run(spark, writer, uri, "before partitions", startingVersion="latest")
        copy, checkpoint = run(spark, writer, uri, None, startingVersion="latest")
    drain(spark.readStream.format("pilum").load(uri), copy, checkpoint)
    assert ids(copy) == list(range(first, len(writer.steps)))
