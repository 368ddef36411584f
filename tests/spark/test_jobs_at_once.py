"""Jobs of one session that change one table at the same time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pyarrow as pa
from guard import GUARD_SECONDS
from pyspark.sql import SparkSession
from spark.helpers import files

import pilum
import pilum.spark


def test_rows_of_all_jobs_are_there_once(spark: SparkSession, uri: str) -> None:
    rows = pa.table({"id": range(100), "v": [0] * 100})
    pilum.write_dataset(rows, uri, max_rows_per_file=50)
    start = Barrier(4)

    def append(first: int) -> Any:
        more = spark.range(first, first + 50, 1, 2).selectExpr("id", "1L AS v")
        return pilum.spark.write(more, uri, mode="append")

    def merge() -> Any:
        given = spark.range(90, 120).selectExpr("id", "2L AS v")
        begun = pilum.spark.merge_into(spark, uri, given, on="id")
        return begun.when_matched_update_all().when_not_matched_insert_all().execute()

    jobs: list[Callable[[], Any]] = [
        lambda: append(1000),
        lambda: append(2000),
        merge,
        lambda: pilum.spark.delete(spark, uri, "id < 10"),
    ]

    def run(job: Callable[[], Any]) -> Any:
        start.wait(GUARD_SECONDS)
        return job()

    with ThreadPoolExecutor(len(jobs)) as threads:
        *_, merged, deleted = threads.map(run, jobs)
    assert (merged["num_updated_rows"], merged["num_inserted_rows"]) == (10, 20)
    assert deleted == {"num_deleted_rows": 10}
    table = pilum.dataset(uri)
    found = table.to_table().sort_by("id").to_pydict()
    assert found["id"] == [*range(10, 120), *range(1000, 1050), *range(2000, 2050)]
    assert found["v"] == [0] * 80 + [2] * 30 + [1] * 100
    assert [one["version"] for one in table.versions()] == [1, 2, 3, 4, 5]

    table.cleanup_old_versions(timedelta(0), delete_unverified=True)
    kept = [file.path for one in table.get_fragments() for file in one.metadata.files]
    assert sorted(files(uri)) == sorted(kept)
