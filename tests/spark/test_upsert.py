"""Streams that update rows, by real queries (S5)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from spark import helpers
from spark.helpers import drain, forget, version

import pilum
import pilum.spark
from pilum.errors import InvalidInputError, JobMismatchError

SCHEMA = "id bigint, n bigint, at bigint"


def arrive(incoming: Path, *rows: tuple[int | None, int, int]) -> None:
    """One more file of rows; one file is one micro-batch."""
    helpers.arrive(incoming, *(dict(zip(("id", "n", "at"), row, strict=True)) for row in rows))


def run(
    spark: SparkSession, incoming: Path, take: Callable[[DataFrame, int], None], checkpoint: Path
) -> None:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    frame = reader.json(str(incoming))
    drain(frame, None, checkpoint, foreachBatch=take)


def rows(uri: str) -> list[tuple[Any, ...]]:
    found = pilum.dataset(uri).to_table().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=str)


def test_a_stream_of_changes_keeps_one_row_per_key(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    incoming, checkpoint = tmp_path / "incoming", tmp_path / "c"
    take = pilum.spark.upsert(uri, on="id", newest_by="at")
    arrive(incoming, (1, 10, 1), (2, 20, 1), (1, 11, 2))
    arrive(incoming, (2, 22, 5), (2, 21, 4), (3, 30, 4), (None, 0, 1), (None, 1, 1))
    arrive(incoming, (1, 9, 1), (2, 23, 5))  # the first one is late
    run(spark, incoming, take, checkpoint)
    expected = [(1, 11, 2), (2, 23, 5), (3, 30, 4), (None, 0, 1), (None, 1, 1)]
    assert (rows(uri), version(uri)) == (expected, 3)

    forget(checkpoint, 2)
    run(spark, incoming, take, checkpoint)
    assert (rows(uri), version(uri)) == (expected, 3)


def test_rows_of_a_stream_may_say_that_a_row_goes(spark: SparkSession, uri: str) -> None:
    """On a branch, too; what says so is no column of the table."""

    def take_all(uri: str, branch: str | None, app_id: str) -> None:
        take = pilum.spark.upsert(
            uri,
            "id",
            newest_by="at",
            delete_when="op = 'D'",
            columns=["id", "n", "at"],
            branch=branch,
            app_id=app_id,
        )
        for number, batch in enumerate(batches):
            schema = "op string, id bigint, n bigint, at bigint"
            take(spark.createDataFrame(batch, schema), number)

    batches = [
        [("I", 1, 10, 1), ("I", 2, 20, 1), ("I", 3, 30, 5), ("D", 4, None, 1), ("I", 4, 40, 0)],
        [("D", 1, None, 2), ("D", 3, None, 4), (None, 2, 21, 2), ("D", 9, None, 9)],
        [("I", 1, 11, 3), ("D", 2, None, 3), ("I", 2, 22, 4)],
    ]
    take_all(uri, None, "main")
    assert rows(uri) == [(1, 11, 3), (2, 22, 4), (3, 30, 5)]

    table = pilum.dataset(uri)
    table.create_branch("trial")
    batches = [[("D", 3, None, 6), ("I", 5, 50, 6)]]
    take_all(uri, "trial", "trial")
    assert rows(uri) == [(1, 11, 3), (2, 22, 4), (3, 30, 5)]
    found = table.checkout_version(("trial", None)).to_table().to_pylist()
    assert sorted(row["id"] for row in found) == [1, 2, 5]


def test_small_files_are_joined_every_few_batches(spark: SparkSession, uri: str) -> None:
    """A batch that runs again changes nothing, and a failure to join does not fail it."""
    take = pilum.spark.upsert(uri, "id", app_id="stream", compact_every=3)
    counts = []
    for number in range(6):
        rows_of_batch = [(number, number, 0), (number + 1, -number, 0)]
        take(spark.createDataFrame(rows_of_batch, SCHEMA), number)
        counts.append(len(pilum.dataset(uri).get_fragments()))
    assert (counts[2], counts[5]) == (1, 1)
    assert max(counts) == 3
    assert rows(uri) == [(n, n, 0) for n in range(6)] + [(6, -5, 0)]
    before = version(uri)
    take(spark.createDataFrame([(5, 5, 0)], SCHEMA), 5)
    assert (len(rows(uri)), version(uri)) == (7, before)
    jobs = [row.job for row in pilum.spark.reports(spark).where(f"table = '{uri}'").collect()]
    assert jobs.count("compact") == 3
    with pytest.raises(InvalidInputError, match="compact_every"):
        pilum.spark.upsert(uri, "id", compact_every=0)


def test_two_rows_of_one_key_need_an_order(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    pilum.write_dataset(pa.table({"id": [1], "n": [1], "at": [1]}), uri)
    arrive(tmp_path / "incoming", (1, 2, 2), (1, 3, 3))
    with pytest.raises(PySparkException, match="several rows"):
        run(spark, tmp_path / "incoming", pilum.spark.upsert(uri, "id"), tmp_path / "c")
    assert (rows(uri), version(uri)) == ([(1, 1, 1)], 1)


def test_outside_of_a_stream_it_must_be_named(spark: SparkSession, uri: str) -> None:
    frame = spark.createDataFrame([(1, 1, 1)], SCHEMA)
    with pytest.raises(InvalidInputError, match="app_id"):
        pilum.spark.upsert(uri, "id")(frame, 0)
    named = pilum.spark.upsert(uri, "id", app_id="by hand", local_rows=0)  # by tasks
    for number, n in ((0, 1), (1, 2), (1, 3)):
        named(spark.createDataFrame([(1, n)], "id bigint, n bigint"), number)
    assert rows(uri) == [(1, 2)]
    with pytest.raises(JobMismatchError, match="micro-batch 0 of 'by hand' comes after 1"):
        named(frame, 0)


def test_there_must_be_a_key(uri: str) -> None:
    with pytest.raises(InvalidInputError, match="on: expected names"):
        pilum.spark.upsert(uri, on=[])


def test_columns_must_have_what_is_needed(uri: str) -> None:
    with pytest.raises(InvalidInputError, match=r"columns: \['id', 'at'\] must be among them"):
        pilum.spark.upsert(uri, on="id", newest_by="at", columns=["n"])
