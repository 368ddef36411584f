"""Batches that are bounded by bytes without Spark's check of each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from spark.helpers import since

import pilum
import pilum.spark
from pilum.spark import batches
from pilum.spark.batches import MAX_BYTES, MAX_ROWS, NO_LIMIT, collect_from_tasks

WIDE = "repeat('x', IF(id % 50 = 7, 300000, 20)) AS text"
SHAPE = "rows bigint, bytes bigint, nulls bigint, least bigint, unchecked boolean"
ARROW_SHAPE = pa.schema(
    [(name, pa.int64()) for name in ("rows", "bytes", "nulls", "least")]
    + [("unchecked", pa.bool_())]
)

pytestmark = since(4, 1)  # 4.0 has no limit of bytes


def shapes(arriving: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What each batch of a task is like."""
    context = TaskContext.get()
    assert context is not None
    unchecked = context.getLocalProperty(MAX_BYTES) == str(NO_LIMIT)
    for batch in arriving:
        nulls = sum(column.null_count for column in batch.columns)
        values = (batch.num_rows, batch.nbytes, nulls, batch["id"][0].as_py(), unchecked)
        yield pa.record_batch([[value] for value in values], schema=ARROW_SHAPE)


def found(frame: DataFrame) -> list[tuple[int, int, int, int, bool]]:
    return sorted(map(tuple, collect_from_tasks(frame, shapes, SHAPE)), key=lambda one: one[3])


@pytest.fixture
def small_bound(monkeypatch: pytest.MonkeyPatch) -> int:
    """As if batches had at most a megabyte."""
    monkeypatch.setattr(batches, "_BATCH_BYTES", 1 << 20)
    return 1 << 20


def test_wide_rows_make_short_batches_and_none_is_lost(
    spark: SparkSession, small_bound: int
) -> None:
    frame = spark.range(0, 1000, 1, 1).selectExpr("id", WIDE, "sequence(1, 5) AS numbers")
    parts = found(frame)
    assert all(one[4] for one in parts)
    assert sum(one[0] for one in parts) == 1000
    assert [one[3] for one in parts] == [
        sum(one[0] for one in parts[:count]) for count in range(len(parts))
    ]  # in order: a batch begins where the one before it ends
    assert all(one[1] < small_bound + 400_000 for one in parts)
    assert sum(one[2] for one in parts) == 0
    assert len(parts) < 20


def test_narrow_rows_fill_batches(spark: SparkSession) -> None:
    numbers = spark.range(0, 12_000, 1, 1)
    assert [(one[0], one[4]) for one in found(numbers)] == [(10_000, True), (2000, True)]
    assert spark.sparkContext.getLocalProperty(MAX_BYTES) is None


@pytest.mark.parametrize(
    "column", ["map('a', id)", "array('a', 'b')", "named_struct('a', 'x', 'A', 'y')"]
)
def test_spark_checks_rows_whose_width_is_not_known(spark: SparkSession, column: str) -> None:
    assert not any(one[4] for one in found(spark.range(0, 10, 1, 1).selectExpr("id", column)))


def test_spark_checks_rows_that_are_passed_to_other_functions(spark: SparkSession) -> None:
    plus = sf.udf(lambda number: number + 1, "bigint")
    frame = spark.range(0, 10, 1, 1)
    assert not any(one[4] for one in found(frame.withColumn("more", plus("id"))))
    assert not any(one[4] for one in found(frame.mapInArrow(lambda rows: rows, frame.schema)))
    kept = frame.withColumn("more", plus("id")).cache()
    try:
        assert not any(one[4] for one in found(kept))
    finally:
        kept.unpersist()


def test_a_limit_of_the_session_is_respected(spark: SparkSession) -> None:
    spark.conf.set(MAX_BYTES, "100000")
    try:
        parts = found(spark.range(0, 50, 1, 1).selectExpr("id", "repeat('x', 20000) AS text"))
    finally:
        spark.conf.unset(MAX_BYTES)
    assert len(parts) > 8
    assert not any(one[4] for one in parts)


def test_written_rows_are_those_of_the_frame(
    spark: SparkSession, uri: str, small_bound: int
) -> None:
    frame = spark.range(0, 400, 1, 2).selectExpr(
        "id",
        WIDE,
        "IF(id % 3 = 0, NULL, cast(id AS string)) AS `a b`",
        "named_struct('deep', repeat('y', cast(id AS int))) AS inner",
        "IF(id % 2 = 0, NULL, array(id, 1.5D)) AS numbers",
        "date '2020-01-01' + cast(id AS int) AS day",
    )
    spark.conf.set(MAX_ROWS, "100")
    try:
        pilum.spark.write(frame, uri, mode="create", sort_by=["id"], num_partitions=2)
    finally:
        spark.conf.unset(MAX_ROWS)
    rows = pilum.dataset(uri).to_table().sort_by("id").to_pylist()
    wanted = [one.asDict(recursive=True) for one in frame.orderBy("id").collect()]
    assert rows == wanted


def test_members_that_differ_in_case_alone_are_written(spark: SparkSession, uri: str) -> None:
    frame = spark.range(0, 3, 1, 1).selectExpr("named_struct('a', cast(id AS string), 'A', 'x') s")
    pilum.spark.write(frame, uri, mode="create")
    rows = pilum.dataset(uri).to_table()["s"].to_pylist()
    assert rows == [{"a": str(number), "A": "x"} for number in range(3)]
