"""Aggregates of tasks beside Spark's own, in one session."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pilum
import pilum.spark
from pilum.errors import ColumnNotFoundError, FilterError, InvalidInputError

CALLS = {
    f"{function} {column}": f"{function}({column})"
    for column, functions in {
        "*": ("count",),
        "i": ("count", "sum", "min", "max", "avg"),
        "l": ("sum", "min", "max", "avg"),
        "f": ("sum", "min", "max", "avg"),
        "d": ("sum", "min", "max"),
        "s": ("count", "min", "max"),
        "t": ("min", "max"),
        "b": ("min", "max"),
    }.items()
    for function in functions
}


def some_table(rows: int) -> pa.Table:
    """Several types, with nulls."""
    numbers = [None if number % 5 == 0 else number for number in range(rows)]
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    return pa.table(
        {
            "k": pa.array([("a", "b", None)[number % 3] for number in range(rows)], pa.string()),
            "i": pa.array(numbers, pa.int32()),
            "l": pa.array([number and -(2**40) * number for number in numbers], pa.int64()),
            "f": pa.array([number and number / 4 for number in numbers], pa.float32()),
            "d": pa.array([number and Decimal(number) for number in numbers], pa.decimal128(9, 2)),
            "s": pa.array([number and f"n{number}" for number in numbers], pa.string()),
            "t": pa.array(
                [number and day + datetime.timedelta(hours=number) for number in numbers],
                pa.timestamp("us", "UTC"),
            ),
            "b": pa.array([number and number % 2 == 0 for number in numbers], pa.bool_()),
        }
    )


@pytest.mark.parametrize("rows", [0, 1000])
def test_values_and_types_are_those_of_spark(spark: SparkSession, uri: str, rows: int) -> None:
    pilum.write_dataset(some_table(rows), uri, max_rows_per_file=300)
    rows_of_spark = pilum.spark.read(spark, uri)
    texts = [f"{call} AS `{name}`" for name, call in CALLS.items()]
    for keys in ([], ["b", "k"]):
        ours = pilum.spark.aggregate(spark, uri, CALLS, group_by=keys)
        rows_of_spark.createOrReplaceTempView("rows_of_spark")
        theirs = spark.sql(
            f"SELECT {', '.join([*keys, *texts])} FROM rows_of_spark"
            + (f" GROUP BY {', '.join(keys)}" if keys else "")
        )
        assert [(f.name, f.dataType) for f in ours.schema] == [
            (f.name, f.dataType) for f in theirs.schema
        ]
        assert sorted(map(str, ours.collect())) == sorted(map(str, theirs.collect()))


def test_versions_filters_and_deleted_rows(spark: SparkSession, uri: str) -> None:
    dataset = pilum.write_dataset(some_table(1000), uri, max_rows_per_file=300)
    dataset.delete("i < 100")
    count = {"n": "count(*)"}
    now = pilum.spark.aggregate(spark, uri, count, filter="i % 2 = 1 OR i IS NULL")
    assert now.collect()[0].n == dataset.count_rows("i % 2 = 1 OR i IS NULL")
    assert pilum.spark.aggregate(spark, uri, count, version=1).collect()[0].n == 1000
    dataset.delete("true")
    assert now.collect()[0].n > 0
    assert pilum.spark.aggregate(spark, uri, count).collect()[0].n == 0


def test_mistakes_are_told_before_a_job_runs(spark: SparkSession, uri: str) -> None:
    pilum.write_dataset(some_table(3), uri)
    with pytest.raises(InvalidInputError, match="expected a dict"):
        pilum.spark.aggregate(spark, uri, {})
    with pytest.raises(InvalidInputError, match="list of names"):
        pilum.spark.aggregate(spark, uri, {"n": "count(*)"}, group_by="k")
    with pytest.raises(ColumnNotFoundError, match="nowhere"):
        pilum.spark.aggregate(spark, uri, {"n": "count(*)"}, group_by=["nowhere"])
    with pytest.raises(FilterError):
        pilum.spark.aggregate(spark, uri, {"n": "count(*)"}, filter="i +")
