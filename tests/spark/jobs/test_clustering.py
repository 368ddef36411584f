from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from spark.helpers import files, write_table

import pilum
import pilum.spark
from pilum import LanceOperation
from pilum.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from pilum.optimize import CompactionMetrics

NUM_ROWS = 4000


def rows(start: int = 0, stop: int = NUM_ROWS) -> pa.Table:
    """Rows in no order of x and y; types that Spark has only with other names."""
    ids = range(start, stop)
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array([float(i) for i in ids for _ in range(2)], pa.float32()), 2
    )
    return pa.table(
        {
            "id": pa.array(ids, pa.uint32()),
            "x": [(i * 7919) % NUM_ROWS for i in ids],
            "y": [str((i * 104729) % 3989) for i in ids],
            "kind": [f"kind {i % 3}" for i in ids],
            "vector": vectors,
            "maybe": [None if i % 4 else {"a": i} for i in ids],
        }
    )


@pytest.fixture
def table(uri: str) -> str:
    """Stable row ids; three fragments with deleted and changed rows."""
    for start in range(0, NUM_ROWS, NUM_ROWS // 2):
        part = rows(start, start + NUM_ROWS // 2)
        pilum.write_dataset(part, uri, mode="append", enable_stable_row_ids=True)
    dataset = pilum.dataset(uri)
    dataset.delete("id % 10 = 3")
    dataset.update({"x": "x + 1"}, where="id < 20")
    return uri


@pytest.mark.reference
@pytest.mark.parametrize("way", ["sort_by", "hilbert_by"])
def test_rows_are_the_same_in_another_order(spark: SparkSession, table: str, way: str) -> None:
    import lance

    lineage = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    columns = [*rows(0, 1).column_names, *lineage]
    before = pilum.dataset(table).to_table(columns).sort_by("id")
    by: dict[str, Any] = {way: ["x", "y"]}
    metrics = pilum.spark.cluster(spark, table, num_partitions=8, **by)
    dataset = pilum.dataset(table)
    assert metrics.fragments_removed == 3
    assert metrics.fragments_added == len(dataset.get_fragments()) == len(set(files(table))) - 3
    assert dataset.to_table(columns).sort_by("id").equals(before)
    committed = dataset.read_transaction(dataset.version)
    assert committed is not None
    assert isinstance(committed.operation, LanceOperation.Rewrite)
    of_reference = lance.dataset(table).to_table().sort_by("id")
    assert of_reference.equals(before.select(of_reference.column_names))
    spans = [_span(fragment.to_table(columns=["x"])["x"]) for fragment in dataset.get_fragments()]
    assert sum(spans) / len(spans) < NUM_ROWS * (0.2 if way == "sort_by" else 0.5)
    assert dataset.verify().is_valid


def _span(column: pa.ChunkedArray) -> int:
    values: list[int] = column.to_pylist()
    return max(values) - min(values)


def test_of_two_jobs_one_wins_and_appended_rows_stay(spark: SparkSession, table: str) -> None:
    before = pilum.dataset(table).count_rows()

    def run(key: str) -> Exception | None:
        try:
            pilum.spark.cluster(spark, table, sort_by=[key])
        except CommitConflictError as error:
            return error
        return None

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(run, key) for key in ("x", "y")]
        pilum.write_dataset(rows(NUM_ROWS, NUM_ROWS + 5), table, mode="append")
        outcomes = [job.result() for job in jobs]
    assert sorted(outcome is None for outcome in outcomes) == [False, True]
    dataset = pilum.dataset(table)
    assert dataset.count_rows() == before + 5
    (key,) = (key for key, outcome in zip("xy", outcomes, strict=True) if outcome is None)
    found = dataset.to_table(filter=f"id < {NUM_ROWS}")[key].to_pylist()
    assert found == sorted(found)
    lost = [fault.path for fault in dataset.verify().orphaned]
    assert all(path.endswith("-given-up.lance") for path in lost)  # marks, without rows


def test_groups_are_committed_one_by_one_and_a_job_goes_on(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    for start in range(0, 60, 10):
        write_table(uri, rows(start, start + 10), "append")
    pilum.dataset(uri).delete("id = 31")
    mended = tmp_path / "mended"

    def backwards(number: int) -> int:
        if number >= 40 and not mended.exists():
            raise RuntimeError("no order")
        return -number

    def run() -> CompactionMetrics:
        key = sf.udf(backwards, "long")("id").alias("backwards")
        return pilum.spark.cluster(spark, uri, sort_by=[key], commit_every=2, job="order")

    with pytest.raises(PySparkException, match="no order"):
        run()
    half = [*range(19, -1, -1), *range(39, 31, -1), 30, *range(20, 30)[::-1]]
    assert sorted(pilum.dataset(uri).to_table()["id"].to_pylist()) == sorted(
        [*half, *range(40, 60)]
    )
    assert [path.name for path in Path(uri, "_jobs/order").iterdir()] == ["plan.json"]
    with pytest.raises(InvalidInputError, match="was begun with"):
        pilum.spark.cluster(spark, uri, sort_by=["id"], commit_every=2, job="order")
    write_table(uri, rows(60, 65), "append")
    mended.touch()
    assert run().fragments_removed == 2
    dataset = pilum.dataset(uri)
    assert dataset.to_table()["id"].to_pylist() == [*half, *range(60, 65), *range(59, 39, -1)]
    assert not list(Path(uri, "_jobs").glob("*/*"))
    assert dataset.verify().is_valid


def test_what_cannot_follow_is_refused_before_any_work(spark: SparkSession, uri: str) -> None:
    lance = pytest.importorskip("lance")
    with pytest.raises(InvalidInputError, match="expected one of sort_by"):
        pilum.spark.cluster(spark, uri)
    with pytest.raises(InvalidInputError, match="exclude each other"):
        pilum.spark.cluster(spark, uri, sort_by=["id"], zorder_by=["x", "y"])
    write_table(uri, rows(0, 10))
    with pytest.raises(InvalidInputError, match="num_partitions"):
        pilum.spark.cluster(spark, uri, sort_by=["x"], num_partitions=0)
    with pytest.raises(InvalidInputError, match="commit_every"):
        pilum.spark.cluster(spark, uri, sort_by=["x"], commit_every=0)
    with pytest.raises(InvalidInputError, match="needed with journal"):
        pilum.spark.cluster(spark, uri, sort_by=["x"], journal=uri)
    with pytest.raises(ColumnNotFoundError, match="nope"):
        pilum.spark.cluster(spark, uri, hilbert_by=["x", "nope"])
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    with pytest.raises(UnsupportedFeatureError, match="drop the indices"):
        pilum.spark.cluster(spark, uri, sort_by=["id"])
    assert len(list(Path(uri, "data").iterdir())) == 1


@pytest.mark.reference
def test_an_index_of_ids_goes_on(spark: SparkSession, table: str) -> None:
    import lance

    reference = lance.dataset(table)
    reference.create_scalar_index("kind", "BITMAP")
    reference.create_scalar_index("id", "BTREE")
    wanted = reference.count_rows("kind = 'kind 1'")
    pilum.spark.cluster(spark, table, sort_by=["x"], num_partitions=2)
    dataset = lance.dataset(table)
    assert dataset.count_rows("kind = 'kind 1'") == wanted
    assert dataset.to_table(filter="id = 77")["x"].to_pylist() == [(77 * 7919) % NUM_ROWS]
