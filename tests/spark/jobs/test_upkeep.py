from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark.helpers import files, write_table

import pilum
import pilum.spark
from pilum.errors import InvalidInputError


@pytest.fixture
def table(uri: str) -> str:
    """Four fragments of five rows."""
    for start in range(0, 20, 5):
        write_table(uri, pa.table({"a": range(start, start + 5)}), "append")
    return uri


@pytest.mark.reference
def test_compaction_commits_for_every_so_many_tasks(spark: SparkSession, table: str) -> None:
    import lance

    pilum.dataset(table).delete("a = 7")
    metrics = pilum.spark.compact(spark, table, target_rows_per_fragment=8, commit_every=1)
    assert (metrics.fragments_removed, metrics.fragments_added) == (4, 2)
    dataset = lance.dataset(table)
    assert sorted(dataset.to_table()["a"].to_pylist()) == [a for a in range(20) if a != 7]
    assert len(dataset.get_fragments()) == 2
    assert dataset.version == 9  # two groups, each with a version that reserves ids
    assert not pilum.spark.verify(spark, table, deep=True).orphaned
    assert pilum.spark.compact(spark, table, target_rows_per_fragment=8).fragments_removed == 0


def test_a_compaction_that_fails_keeps_what_was_committed(spark: SparkSession, table: str) -> None:
    last = pilum.dataset(table).get_fragments()[-1].metadata.files[0].path
    path = Path(table, "data", last)
    data = bytearray(path.read_bytes())
    data[:64] = b"\xff" * 64
    path.write_bytes(data)
    report = pilum.spark.verify(spark, table, deep=True)
    before = files(table)
    assert [fault.path for fault in report.damaged] == [f"data/{last}"]
    with pytest.raises(PySparkException):
        pilum.spark.compact(spark, table, target_rows_per_fragment=8, commit_every=1)
    assert len(files(table)) == len(before) + 1
    assert len(pilum.dataset(table).get_fragments()) == 3
    assert not pilum.dataset(table).verify().orphaned


def test_cleanup_removes_old_versions(spark: SparkSession, table: str) -> None:
    explained = pilum.spark.cleanup(spark, table, older_than=timedelta(0), dry_run=True)
    assert pilum.dataset(table).versions()[0]["version"] == 1
    assert "manifest" in str(explained)
    stats = pilum.spark.cleanup(spark, table, older_than=timedelta(0))
    assert getattr(stats, "old_versions", None) == 3
    with pytest.raises(InvalidInputError, match="commit_every"):
        pilum.spark.compact(spark, table, commit_every=0)
