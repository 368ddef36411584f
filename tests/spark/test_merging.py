"""Merging frames: every clause beside `merge_insert`, other writers, failing tasks, bad input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from spark.helpers import files, flaky, version

import pilum
import pilum.spark
from pilum.dataset.merge_plan import MergeClauses
from pilum.errors import (
    ColumnNotFoundError,
    CommitContentionError,
    FilterError,
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)

TABLE = pa.table(
    {
        "k": pa.array([*range(12), None], pa.int64()),
        "v": pa.array([i * 10 for i in range(13)], pa.int32()),
        "vector": pa.array([[i, i + 1] for i in range(13)], pa.list_(pa.float32(), 2)),
    }
)
CHANGES = "k bigint, v int, vector array<float>"
Clause = Callable[[MergeClauses], Any]


def changes(spark: SparkSession) -> DataFrame:
    """Rows 9 to 14, the odd ones with a negative number, and one without a key."""
    rows: list[tuple[Any, ...]] = [(k, -k if k % 2 else k, [0.5, float(k)]) for k in range(9, 15)]
    return spark.createDataFrame([*rows, (None, 7, None)], CHANGES).repartition(3)


def make(uri: str, *, stable: bool = False) -> pilum.LanceDataset:
    """Thirteen rows in fragments of five, one of them deleted."""
    dataset = pilum.write_dataset(TABLE, uri, max_rows_per_file=5, enable_stable_row_ids=stable)
    dataset.delete("k = 3")
    return dataset


def rows(uri: str) -> list[Any]:
    """The rows as pylance reads them."""
    table = lance.dataset(uri).to_table(columns=["k", "v", "vector"])
    return sorted(table.to_pylist(), key=repr)


CLAUSES: dict[str, Clause] = {
    "upsert": lambda m: m.when_matched_update_all().when_not_matched_insert_all(),
    "update": lambda m: m.when_matched_update_all("source.v < target.v"),
    "set": lambda m: m.when_matched_update({"v": "target.v + source.v"}),
    "insert": lambda m: m.when_not_matched_insert_all("source.v > 0"),
    "delete": lambda m: m.when_matched_delete(),
    "feed": lambda m: (
        m.when_matched_update_all()
        .when_matched_delete("source.v < 0")
        .when_not_matched_insert_all()
    ),
    "mirror": lambda m: (
        m.when_matched_update_all()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete("v > 40")
    ),
    "keep": lambda m: m.when_not_matched_by_source_delete(),
}


@pytest.mark.reference
@pytest.mark.parametrize("name", CLAUSES)
def test_a_merge_by_tasks_does_what_merge_insert_does(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    stable = name in {"upsert", "mirror"}
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    make(here, stable=stable)
    source = changes(spark)
    merge = pilum.spark.merge_into(spark, here, source, on="k")
    CLAUSES[name](merge)
    builder = make(there, stable=stable).merge_insert("k")
    CLAUSES[name](builder)
    data = source.toArrow().cast(TABLE.schema)
    assert merge.execute() == builder.execute(data)
    assert rows(here) == rows(there)
    assert version(here) == 3
    assert pilum.dataset(here).verify(deep=True).is_valid


def test_rows_keep_their_ids(spark: SparkSession, uri: str) -> None:
    before = make(uri, stable=True).to_table(["k"], with_row_id=True).to_pylist()
    merge = pilum.spark.merge_into(spark, uri, changes(spark), on="k")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    after = pilum.dataset(uri).to_table(["k"], with_row_id=True).to_pylist()
    ids = {row["k"]: row["_rowid"] for row in after if row["k"] is not None}
    assert all(ids[row["k"]] == row["_rowid"] for row in before if row["k"] is not None)


def test_a_small_source_is_merged_by_the_driver(spark: SparkSession, uri: str) -> None:
    make(uri)
    merge = pilum.spark.merge_into(spark, uri, changes(spark), on="k", local_rows=100)
    done = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert done == {"num_inserted_rows": 4, "num_updated_rows": 3, "num_deleted_rows": 0}
    assert pilum.dataset(uri).count_rows() == 16


def test_zeros_have_signs_and_keys_may_be_several(spark: SparkSession, uri: str) -> None:
    table = pa.table({"x": [0.0, float("nan"), 1.0], "s": [*"abc"], "n": [1, 2, 3]})
    pilum.write_dataset(table, uri)
    source = spark.createDataFrame(
        [(-0.0, "a", 10), (float("nan"), "b", 20), (1.0, "x", 30)], "x double, s string, n bigint"
    )
    done = pilum.spark.merge_into(spark, uri, source, on=["x", "s"]).when_matched_delete().execute()
    assert done["num_deleted_rows"] == 1
    assert pilum.dataset(uri).to_table().column("n").to_pylist() == [1, 3]


def test_a_task_that_fails_once_changes_nothing_and_one_that_fails_leaves_nothing(
    spark: SparkSession, uri: str
) -> None:
    make(uri)
    source = changes(spark)
    once = source.mapInArrow(flaky(False), CHANGES)
    merge = pilum.spark.merge_into(spark, uri, once, on="k")
    done = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert done == {"num_inserted_rows": 4, "num_updated_rows": 3, "num_deleted_rows": 0}
    before = files(uri)
    always = source.mapInArrow(flaky(True), CHANGES)
    merge = pilum.spark.merge_into(spark, uri, always, on="k").when_not_matched_insert_all()
    with pytest.raises(PySparkException, match="failed on purpose"):
        merge.execute()
    assert (version(uri), files(uri)) == (3, before)


def test_what_contradicts_itself_is_refused_as_by_merge_insert(
    spark: SparkSession, uri: str
) -> None:
    make(uri)
    before = files(uri)
    twice = changes(spark).union(changes(spark))
    with pytest.raises(InvalidInputError, match="several rows of the source match one row"):
        pilum.spark.merge_into(spark, uri, twice, on="k").when_matched_update_all().execute()
    refused = pilum.spark.merge_into(spark, uri, changes(spark), on="k").when_matched_fail()
    with pytest.raises(InvalidInputError, match="the source matches a row with k ="):
        refused.execute()
    merge = pilum.spark.merge_into(spark, uri, changes(spark), on="k")
    with pytest.raises(InvalidInputError, match="nothing to merge"):
        merge.execute()
    with pytest.raises(FilterError):
        merge.when_matched_update({"v": "source.k +"}).execute()
    texts = changes(spark).selectExpr("k", "'x' AS v")
    with pytest.raises(SchemaMismatchError, match="column 'v'"):
        pilum.spark.merge_into(spark, uri, texts, on="k").when_matched_update_all().execute()
    with pytest.raises(ColumnNotFoundError, match="no column 'other'"):
        pilum.spark.merge_into(spark, uri, texts, on="other")
    assert (version(uri), files(uri)) == (2, before)


class Intruder:
    """Changes the same row while the tasks of a merge run, a number of times."""

    def __init__(self, uri: str, times: int) -> None:
        self.uri, self.left = uri, times

    def __call__(self, batches: Any) -> Any:
        yield from batches
        from pyspark import TaskContext

        context = TaskContext.get()
        marks = sorted(Path(self.uri).glob("mark-*"))
        if context is not None and context.partitionId() == 0 and len(marks) < self.left:
            Path(self.uri, f"mark-{len(marks)}").touch()
            pilum.dataset(self.uri).update({"v": "v + 1"}, where="k = 9")


def test_a_merge_is_done_again_when_others_changed_its_rows(spark: SparkSession, uri: str) -> None:
    make(uri)
    source = changes(spark).mapInArrow(Intruder(uri, 1), CHANGES)
    merge = pilum.spark.merge_into(spark, uri, source, on="k")
    done = merge.when_matched_update({"v": "target.v + 1000"}).execute()
    assert done["num_updated_rows"] == 3
    assert pilum.dataset(uri).to_table(["v"], "k = 9").to_pylist() == [{"v": 1091}]
    source = changes(spark).mapInArrow(Intruder(uri, 3), CHANGES)
    merge = pilum.spark.merge_into(spark, uri, source, on="k").conflict_retries(0)
    with pytest.raises(CommitContentionError):
        merge.when_matched_update({"v": "target.v + 1000"}).execute()


@pytest.mark.parametrize("local_rows", [0, 1000], ids=["tasks", "driver"])
def test_files_of_a_merge_end_where_they_should(
    spark: SparkSession, uri: str, local_rows: int
) -> None:
    """At limits of the call, or else at the target sizes of the table, which SQL sets."""
    pilum.write_dataset(pa.table({"k": range(300), "v": ["x" * 200] * 300}), uri)
    source = spark.range(200, 400, 1, 1).selectExpr("id AS k", "repeat(md5(string(id)), 8) AS v")

    def new_rows(**limits: Any) -> list[int]:
        known = {one.fragment_id for one in pilum.dataset(uri).get_fragments()}
        merge = pilum.spark.merge_into(spark, uri, source, "k", local_rows=local_rows, **limits)
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        fragments = pilum.dataset(uri).get_fragments()
        return [one.count_rows() for one in fragments if one.fragment_id not in known]

    assert max(new_rows()) > 60
    found = new_rows(max_rows_per_file=30)
    assert (max(found), sum(found)) == (30, 200)
    for key, value in (("rows", 25), ("bytes", 1)):
        pilum.spark.sql(
            spark,
            "ALTER TABLE t SET TBLPROPERTIES "
            f"('lance.compaction.target_{key}_per_fragment' = '{value}')",
            tables={"t": uri},
        )
        found = new_rows()
        assert (max(found), sum(found)) == (25, 200)
    assert len(new_rows(max_rows_per_file=100, max_bytes_per_file=1 << 30)) < len(found)
    assert pilum.dataset(uri).count_rows() == 400


def test_a_job_is_merged_once(spark: SparkSession, uri: str) -> None:
    make(uri)
    for expected in (4, 0):
        merge = pilum.spark.merge_into(spark, uri, changes(spark), on="k")
        merge.when_not_matched_insert_all().idempotency_key(("stream", 7))
        assert merge.execute()["num_inserted_rows"] == expected
    assert version(uri) == 3


def test_blobs_are_not_merged_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    marked = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table({"a": [1], "b": [b"x"]}, pa.schema([pa.field("a", pa.int64()), marked]))
    dataset = pilum.write_dataset(table, tmp_path / "blobs")
    source = spark.createDataFrame([(1, b"y")], "a long, b binary")
    merge = pilum.spark.merge_into(spark, dataset.uri, source, on="a").when_matched_update_all()
    with pytest.raises((UnsupportedFeatureError, SchemaMismatchError)):
        merge.execute()
    assert pilum.dataset(dataset.uri).version == 1
