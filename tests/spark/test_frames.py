from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from spark.helpers import files, flaky, has_only, version, write_table

import pilum
import pilum.spark
from pilum.encodings.options import EncodingOptions
from pilum.errors import (
    ColumnNotFoundError,
    DatasetAlreadyExistsError,
    InvalidInputError,
    SchemaMismatchError,
)

_BATCHES = (
    "spark.sql.execution.arrow.maxRecordsPerBatch",
    "spark.sql.execution.arrow.maxBytesPerBatch",
)


@pytest.fixture
def own_batches(spark: SparkSession) -> Iterator[None]:
    """How batches are cut, for one test."""
    yield
    for key in _BATCHES:
        spark.conf.unset(key)


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


def test_configure_bounds_batches_by_rows_alone(spark: SparkSession, own_batches: None) -> None:
    def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"rows": [batch.num_rows for batch in batches]})

    def cut() -> list[int]:
        wide = spark.range(0, 100, 1, 1).selectExpr("repeat('x', 1000) AS text")
        return [row.rows for row in wide.mapInArrow(sizes, "rows bigint").collect()]

    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", "16k")
    assert max(cut()) < 40
    pilum.spark.configure(spark)
    assert max(cut()) < 40
    pilum.spark.configure(spark, batch_rows=40)
    assert cut() == [40, 40, 20]


def test_batches_have_at_least_a_row(spark: SparkSession) -> None:
    with pytest.raises(InvalidInputError, match="batch_rows: expected at least 1, found 0"):
        pilum.spark.configure(spark, batch_rows=0)


def test_paths_may_be_relative(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pilum.spark.write(spark.range(2), "here", mode="create")
    assert pilum.spark.read(spark, str(tmp_path / "here")).count() == 2


def test_write_ignores_or_refuses_a_table_that_is_there(spark: SparkSession, uri: str) -> None:
    assert pilum.spark.write(spark.range(3), uri, mode="ignore") == 1
    assert pilum.spark.write(spark.range(5), uri, mode="ignore") == 1
    with pytest.raises(DatasetAlreadyExistsError):
        pilum.spark.write(spark.range(5), uri, mode="errorifexists")
    assert pilum.spark.count(spark, uri) == 3


def test_write_may_add_columns_and_ask_for_encodings(spark: SparkSession, uri: str) -> None:
    frame = spark.range(0, 2000, 1, 1).selectExpr("id", "repeat('word ', 20) AS text")
    how = {"data_storage_version": "2.2", "stable_row_ids": True, "memory_limit": 64 << 20}
    zstd = EncodingOptions(compression="zstd")
    pilum.spark.write(frame, uri, mode="create", encoding_options=zstd, **how)  # type: ignore[arg-type]
    dataset = pilum.dataset(uri)
    assert (dataset.data_storage_version, dataset.has_stable_row_ids) == ("2.2", True)
    more = spark.sql("SELECT 1.5D AS score, 7L AS id")
    with pytest.raises(SchemaMismatchError, match="no column 'score'"):
        pilum.spark.write(more, uri, mode="append")
    assert pilum.spark.write(more, uri, mode="append", schema_mode="merge") == 2
    writer = spark.sql("SELECT 'x' AS label").write.format("pilum").mode("append")
    writer.option("schemaMode", "merge").option("compression", "lz4").save(uri)
    found = pilum.dataset(uri).to_table(filter="score > 1 OR label = 'x'").to_pylist()
    assert found == [
        {"id": 7, "text": None, "score": 1.5, "label": None},
        {"id": None, "text": None, "score": None, "label": "x"},
    ]


def test_rows_are_sorted_within_and_between_files(spark: SparkSession, uri: str) -> None:
    frame = spark.range(0, 5000, 1, 3).selectExpr("(id * 7919) % 5000 AS a", "id % 5 AS b")
    pilum.spark.write(frame, uri, mode="create", sort_by=["b", "a"], num_partitions=3)
    table = pilum.dataset(uri).to_table()
    assert table.equals(table.sort_by([("b", "ascending"), ("a", "ascending")]))
    assert len(files(uri)) == 3
    with pytest.raises(InvalidInputError, match="exclude each other"):
        pilum.spark.write(frame, uri, mode="append", sort_by=["a"], zorder_by=["a", "b"])
    with pytest.raises(InvalidInputError, match="only with sort_by"):
        pilum.spark.write(frame, uri, mode="append", num_partitions=3)


@pytest.mark.parametrize("curve", ["zorder_by", "hilbert_by"])
def test_a_curve_makes_files_narrow_in_all_of_its_columns(
    spark: SparkSession, uri: str, curve: str
) -> None:
    frame = spark.range(0, 10_000, 1, 2).selectExpr(
        "id",
        "(id * 7919) % 10000 AS x",
        "string((id * 104729) % 9973) AS y",
        "date '2026-01-01' AS d",
    )
    by: dict[str, Any] = {curve: ["X", "y"]}  # in any case, as elsewhere
    pilum.spark.write(frame, uri, mode="create", num_partitions=16, **by)
    dataset = pilum.dataset(uri)
    assert dataset.count_rows() == len(set(dataset.to_table()["id"].to_pylist())) == 10_000
    assert dataset.schema.names == ["id", "x", "y", "d"]
    spans = []
    for fragment in dataset.get_fragments():
        x = fragment.to_table(columns=["x"])["x"].to_pylist()
        spans.append(max(x) - min(x))
    assert len(spans) > 8
    assert sum(spans) / len(spans) < 5000  # a file has a quarter of x, and one of y
    for columns, message in [(["x"], "2 to 7"), (["x", "nope"], "no column 'nope'")]:
        with pytest.raises(InvalidInputError, match=message):
            pilum.spark.write(frame, uri, mode="append", **{**by, curve: columns})
    taken = frame.withColumnRenamed("d", "_pilum_place")
    with pytest.raises(InvalidInputError, match="'_pilum_place': the job adds a column"):
        pilum.spark.write(taken, f"{uri}-2", mode="create", **by)
