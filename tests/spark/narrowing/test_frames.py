"""Frames of `pilum.spark.table` on Spark classic: the rows of plain frames, and what is read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from spark.narrowing.cases import ALL, CASES, Asked, Noted, check, make

import pilum
import pilum.spark
from pilum.errors import DatasetNotFoundError


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One table for all tests, which only read it."""
    path = str(tmp_path_factory.mktemp("narrow") / "t")
    make(path)
    return path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rows_are_those_of_a_plain_frame_and_less_is_read(
    spark: SparkSession, uri: str, case: Asked
) -> None:
    check(spark, uri, case)


def test_counts_are_read_from_the_metadata(spark: SparkSession, uri: str) -> None:
    table = pilum.spark.table(spark, uri)
    count, (reads,) = Noted().of(table.select("q").count)
    assert (count, reads.answer, reads.columns) == (38, "metadata", ())
    count, (reads,) = Noted().of(table.where("q = 1").count)
    assert (count, reads.answer, reads.filter) == (6, "aggregates", "((`q` = 1))")
    empty, (reads,) = Noted().of(table.where("q = 7").isEmpty)
    assert (empty, reads.columns, reads.limit) == (True, ("q",), 1)


def test_limits_read_no_more_than_they_need(
    spark: SparkSession, uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pilum.spark.table(spark, uri)
    rows, (reads,) = Noted().of(lambda: table.select("id").take(4))
    assert (len(rows), reads.limit, reads.columns) == (4, 4, ("id",))
    rows, (reads,) = Noted().of(table.where("id >= 30").limit(3).collect)
    assert (len(rows), reads.limit, reads.filter) == (3, 3, "((`id` >= 30))")
    assert all(row.id >= 30 for row in rows)
    # What only Spark evaluates may drop rows, so more have to be read.
    rows, (reads,) = Noted().of(table.where("upper(name) = 'N2'").limit(3).collect)
    assert (len(rows), reads.limit) == (3, None)
    table.select("id").show(2)
    assert "only showing top 2 rows" in capsys.readouterr().out


def test_a_frame_is_one_of_sparks_and_its_writes_read_less(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    table = pilum.spark.table(spark, uri)
    assert isinstance(table, DataFrame)
    copy = str(tmp_path / "copy")
    few = table.where("q = 2").select("id", sf.col("st.x"))
    _, (reads,) = Noted().of(lambda: few.write.format("pilum").mode("append").save(copy))
    assert (reads.columns, reads.filter) == (("id", "q", "st"), "((`q` = 2))")
    found = pilum.dataset(copy).to_table().to_pylist()
    assert Counter(row["id"] for row in found) == Counter(row["x"] for row in found)
    assert len(found) == few.count() == 7


def test_cached_rows_are_used_and_views_can_be_narrowed(spark: SparkSession, uri: str) -> None:
    table = pilum.spark.table(spark, uri).where("id < 10").cache()
    assert table.count() == 9
    rows, reads = Noted().of(table.select("q").collect)
    assert (len(rows), reads) == (9, [])
    table.unpersist()
    pilum.spark.table(spark, uri).createOrReplaceTempView("narrow_view")
    plain = spark.sql("SELECT max(id) AS last FROM narrow_view WHERE q = 1")
    (one,) = pilum.spark.reads(pilum.spark.narrow(plain))
    assert (one.columns, one.answer) == (("id", "q"), "aggregates")
    assert pilum.spark.narrow(plain).first() == plain.first()
    spark.catalog.dropTempView("narrow_view")


def test_names_that_are_attached_and_versions(spark: SparkSession, uri: str) -> None:
    pilum.spark.attach(spark, "narrow_table", uri)
    assert pilum.spark.table(spark, "narrow_table").count() == 38
    first = pilum.spark.table(spark, "narrow_table", version=1)
    assert first.count() == 40
    assert {*first.columns} == ALL
    pilum.spark.detach(spark, "narrow_table")
    with pytest.raises(DatasetNotFoundError):
        pilum.spark.table(spark, "narrow_table")


def test_results_of_groups_that_only_conditions_use_are_not_lost(
    spark: SparkSession, uri: str
) -> None:
    def few(table: DataFrame) -> DataFrame:
        return table.groupBy("q", "name").count().where("name > 'n1'").select("q", "count")

    plain = Counter(few(pilum.spark.read(spark, uri)).collect())
    assert plain
    assert Counter(few(pilum.spark.table(spark, uri)).collect()) == plain
