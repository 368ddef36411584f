"""Deleting and updating by tasks: the same as without Spark, conflicts, bad input."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark.helpers import files, version

import pilum
import pilum.spark
from pilum.distributed import TableVersion
from pilum.distributed.tasks import fragment_groups
from pilum.errors import (
    BranchNotFoundError,
    ColumnNotFoundError,
    FilterError,
    InvalidInputError,
)

TABLE = pa.table({"a": range(20), "s": [f"s{i}" for i in range(20)]})


@pytest.fixture
def table(uri: str) -> str:
    """Twenty rows in four fragments."""
    pilum.write_dataset(TABLE, uri, max_rows_per_file=5, enable_stable_row_ids=True)
    return uri


def values(uri: str, name: str = "a") -> list[Any]:
    return sorted(lance.dataset(uri).to_table().column(name).to_pylist())


@pytest.mark.reference
@pytest.mark.parametrize("local_bytes", [0, 1 << 30])
def test_rows_are_deleted(spark: SparkSession, table: str, local_bytes: int) -> None:
    where = "a % 3 = 0 or s = 's1' or a < 5"
    done = pilum.spark.delete(spark, table, where, local_bytes=local_bytes)
    left = [i for i in range(20) if i % 3 and i >= 5]
    assert (done, values(table)) == ({"num_deleted_rows": 20 - len(left)}, left)
    assert version(table) == 2
    assert pilum.spark.delete(spark, table, "a < 0", local_bytes=0)["num_deleted_rows"] == 0


@pytest.mark.reference
@pytest.mark.parametrize("local_bytes", [0, 1 << 30])
def test_rows_are_updated_and_keep_their_ids(
    spark: SparkSession, table: str, local_bytes: int
) -> None:
    before = pilum.dataset(table).to_table(["s"], with_row_id=True).to_pylist()
    done = pilum.spark.update(spark, table, {"a": "a + 100"}, "a % 2 = 0", local_bytes=local_bytes)
    assert done == {"num_rows_updated": 10}
    assert values(table) == sorted(i if i % 2 else i + 100 for i in range(20))
    after = pilum.dataset(table).to_table(["s"], with_row_id=True).to_pylist()
    assert sorted(map(str, before)) == sorted(map(str, after))
    assert pilum.dataset(table).verify(deep=True).is_valid


def test_bad_input_changes_nothing(spark: SparkSession, table: str) -> None:
    before = files(table)
    with pytest.raises(FilterError):
        pilum.spark.delete(spark, table, "a = ", local_bytes=0)
    with pytest.raises(ColumnNotFoundError):
        pilum.spark.update(spark, table, {"b": "1"}, local_bytes=0)
    with pytest.raises(FilterError, match="zero"):
        pilum.spark.update(spark, table, {"a": "a / (a - 19)"}, local_bytes=0)
    with pytest.raises(InvalidInputError, match="set"):
        pilum.spark.update(spark, table, {}, local_bytes=0)
    with pytest.raises(InvalidInputError, match="local_bytes"):
        pilum.spark.delete(spark, table, "true", local_bytes=-1)
    assert (version(table), files(table)) == (1, before)


def test_a_job_is_done_once(spark: SparkSession, table: str) -> None:
    counts = [
        pilum.spark.update(spark, table, {"a": "a + 100"}, local_bytes=0, idempotency_key="raise")[
            "num_rows_updated"
        ]
        for _ in range(2)
    ]
    assert (counts, version(table)) == ([20, 0], 2)


def test_fragments_are_shared_by_tasks(table: str) -> None:
    version = TableVersion.latest(table)
    assert fragment_groups(version) == [(0, 1, 2, 3)]
    assert fragment_groups(version, 1) == [(0,), (1,), (2,), (3,)]


@pytest.mark.parametrize("local", [0, 1 << 30])
def test_a_branch_is_changed_and_the_main_line_is_not(
    spark: SparkSession, table: str, local: int
) -> None:
    branch = pilum.dataset(table).create_branch("trial")
    rows = spark.createDataFrame([(3, "x"), (50, "y")], "a bigint, s string")
    pilum.spark.write(rows, table, mode="append", branch="trial")
    rows.write.format("pilum").mode("append").option("branch", "trial").save(table)
    pilum.spark.delete(spark, table, "a = 50 or a < 2", branch="trial", local_bytes=local)
    pilum.spark.update(spark, table, {"s": "'z'"}, "a = 2", branch="trial", local_bytes=local)
    merge = pilum.spark.merge_into(
        spark, table, rows.where("a = 50"), "a", branch="trial", local_rows=local
    )
    merge.when_not_matched_insert_all().execute()
    found = pilum.dataset(branch.uri).to_table().to_pylist()
    assert sorted(row["a"] for row in found) == [2, 3, 3, 3, *range(4, 20), 50]
    assert sorted(row["s"] for row in found if row["a"] in {2, 3}) == ["s3", "x", "x", "z"]
    assert (version(table), values(table)) == (1, [*range(20)])


def test_only_the_latest_version_of_a_branch_can_be_changed(
    spark: SparkSession, table: str
) -> None:
    with pytest.raises(BranchNotFoundError):
        pilum.spark.delete(spark, table, "true", branch="trial")
    for name, value in (("version", "1"), ("asOf", "2026-01-01")):
        writer = spark.range(1).write.format("pilum").mode("append").option(name, value)
        with pytest.raises(PySparkException, match="only the latest version can be written to"):
            writer.save(table)
    assert version(table) == 1
