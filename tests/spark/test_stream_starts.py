"""Streams that stop between any two steps of their first batch, beside a process that writes (S5)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark.beside import STEPS, Writer, stopping_source
from spark.helpers import drain, forget

import pilum


def refuse() -> None:
    """Stops a step."""
    raise OSError("stopped on purpose")


def ids(uri: str) -> list[int]:
    """All of them, sorted, with those that are there twice."""
    return sorted(pilum.dataset(uri).to_table()["id"].to_pylist())


def run_and_stop(
    spark: SparkSession, writer: Writer, uri: str, copy: str, checkpoint: Path, **options: str
) -> None:
    """A query that stops where it is to, and one after it that reads all there is."""
    spark.dataSource.register(stopping_source(str(Path(uri).parent / "beside"), refuse))
    frame = spark.readStream.format("stopping").options(**options).load(uri)
    with pytest.raises(PySparkException, match="stopped on purpose"):
        drain(frame, copy, checkpoint)
    writer.go_on()
    drain(frame, copy, checkpoint)
    drain(spark.readStream.format("pilum").options(**options).load(uri), copy, checkpoint)


# Spark asks for the initial offset twice in a batch: for its end, and when it is planned.
STOPS = [*((one, 1) for one in STEPS), ("before initialOffset", 2), ("after initialOffset", 2)]


@pytest.mark.parametrize(("stop", "occurrence"), STOPS)
def test_a_first_batch_that_stops_at_any_step_loses_no_row(
    spark: SparkSession, uri: str, tmp_path: Path, stop: str, occurrence: int
) -> None:
    with Writer(uri, tmp_path / "beside") as writer:
        writer.append("at the beginning")
        writer.stop_at(stop, occurrence)
        run_and_stop(spark, writer, uri, str(tmp_path / "copy"), tmp_path / "c")
    assert ids(str(tmp_path / "copy")) == list(range(len(writer.steps)))
