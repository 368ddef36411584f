from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from spark.helpers import PUSHDOWN, files, flaky, has_only, version, write_table

import pilum.spark
from pilum.errors import (
    ColumnNotFoundError,
    DatasetAlreadyExistsError,
    InvalidInputError,
    SchemaMismatchError,
)


def test_read_takes_columns_a_filter_and_a_version(spark: SparkSession, uri: str) -> None:
    write_table(uri, pa.table({"a": range(5), "b": [*"vwxyz"]}))
    first = pilum.spark.read(spark, uri, columns=["b"], filter="a < 2 OR b = 'z'")
    write_table(uri, pa.table({"a": [9]}), "overwrite")
    assert [row.b for row in first.collect()] == ["v", "w", "z"]
    assert pilum.spark.read(spark, uri).collect() == [Row(a=9)]
    assert pilum.spark.read(spark, uri, version=1, columns=["a"], filter="a = 3").collect() == [
        Row(a=3)
    ]
    with pytest.raises(ColumnNotFoundError, match="no column 'c'"):
        pilum.spark.read(spark, uri, columns=["c"])
    with pytest.raises(InvalidInputError, match="exclude"):
        pilum.spark.read(spark, uri, version=1, as_of=datetime.datetime.now(datetime.UTC))


def test_count_needs_no_row_unless_it_filters(spark: SparkSession, uri: str) -> None:
    write_table(uri, pa.table({"a": range(5)}))
    write_table(uri, pa.table({"a": range(5)}), "append")
    counts = [
        pilum.spark.count(spark, uri),
        pilum.spark.count(spark, uri, version=1),
        pilum.spark.count(spark, uri, filter="a > 3 OR a = 0"),
    ]
    assert counts == [10, 5, 4]


def test_write_creates_appends_overwrites_and_says_the_version(
    spark: SparkSession, uri: str
) -> None:
    frame = spark.range(0, 100, 1, 3)
    assert pilum.spark.write(frame, uri, mode="create") == 1
    assert pilum.spark.write(frame, uri, mode="append", max_rows_per_file=20) == 2
    assert pilum.spark.count(spark, uri) == 200
    with pytest.raises(DatasetAlreadyExistsError):
        pilum.spark.write(frame, uri, mode="create")
    with pytest.raises(SchemaMismatchError, match="no column 'other'"):
        pilum.spark.write(frame.toDF("other"), uri, mode="append")
    assert pilum.spark.write(frame.toDF("other"), uri, mode="overwrite") == 3
    assert pilum.spark.read(spark, uri).columns == ["other"]


def test_write_survives_one_failure_and_cleans_up_after_two(spark: SparkSession, uri: str) -> None:
    frame = spark.range(0, 1000, 1, 4)
    assert pilum.spark.write(frame.mapInArrow(flaky(False), "id bigint"), uri, mode="create") == 1
    assert pilum.spark.read(spark, uri).distinct().count() == 1000
    assert pilum.spark.count(spark, uri) == 1000
    before = files(uri)
    with pytest.raises(PySparkException, match="failed on purpose"):
        pilum.spark.write(frame.mapInArrow(flaky(True), "id bigint"), uri, mode="append")
    assert version(uri) == 1
    assert has_only(uri, before)


def test_register_adds_the_name_that_users_of_lance_know(spark: SparkSession, uri: str) -> None:
    pilum.spark.register(spark)
    spark.range(3).write.format("lance").mode("append").save(uri)
    assert spark.read.format("lance").load(uri).count() == 3


def test_configure_switches_pushdown_on(spark: SparkSession) -> None:
    before = spark.conf.get(PUSHDOWN)
    pilum.spark.configure(spark)
    assert spark.conf.get(PUSHDOWN) == "true"
    spark.conf.set(PUSHDOWN, str(before))


def test_paths_may_be_relative(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pilum.spark.write(spark.range(2), "here", mode="create")
    assert pilum.spark.read(spark, str(tmp_path / "here")).count() == 2
