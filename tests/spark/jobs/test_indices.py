from __future__ import annotations

import os
import signal
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pilum
import pilum.spark
from pilum.distributed import Attempt
from pilum.distributed.indices import create_index
from pilum.errors import ColumnNotFoundError, IndexAlreadyExistsError
from pilum.indices import IndexConfig
from pilum.spark.tasks import SparkTasks

T = TypeVar("T")
R = TypeVar("R")


@pytest.fixture
def table(uri: str) -> str:
    """Twelve rows in three fragments; one row is deleted."""
    rows = pa.table({"id": range(12), "text": [f"word{n % 3} all" for n in range(12)]})
    pilum.write_dataset(rows, uri, max_rows_per_file=4)
    pilum.dataset(uri).delete("id = 5")
    return uri


class Mortal(SparkTasks):
    """Tasks that are killed after their work, as long as a function says so."""

    def __init__(self, spark: SparkSession, is_killed: Callable[[Attempt], bool]) -> None:
        super().__init__(spark)
        vars(self)["is_killed"] = is_killed

    def run(self, items: Sequence[T], work: Callable[[T, Attempt], R]) -> list[R]:
        """Run the tasks."""
        is_killed = vars(self)["is_killed"]

        def mortal(item: T, attempt: Attempt) -> R:
            result = work(item, attempt)
            if is_killed(attempt):
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return super().run(items, mortal)


def folders(uri: str) -> set[str]:
    return {path.parent.name for path in Path(uri, "_indices").glob("*/*")}


def segments(uri: str) -> dict[str, list[int]]:
    listed = pilum.dataset(uri).list_indices()
    return {one["uuid"]: sorted(one["fragment_ids"] or ()) for one in listed}


def ids(dataset: Any, condition: str) -> list[int]:
    return sorted(dataset.to_table(filter=condition)["id"].to_pylist())


@pytest.mark.reference
def test_tasks_build_the_segments_of_an_index(spark: SparkSession, table: str) -> None:
    import lance

    with pytest.raises(ColumnNotFoundError):
        pilum.spark.create_index(spark, table, "none", "BTREE")
    version = pilum.spark.create_index(spark, table, "id", "BTREE", fragments_per_task=2)
    assert version == pilum.dataset(table).version == 3
    assert sorted(segments(table).values()) == [[0, 1], [2]]
    for condition in ("id = 9", "id > 3 AND id <= 8", "id IN (0, 5, 11)"):
        plain = ids(pilum.dataset(table, 2), condition)
        assert plain == ids(pilum.dataset(table), condition) == ids(lance.dataset(table), condition)
    with pytest.raises(IndexAlreadyExistsError):
        pilum.spark.create_index(spark, table, "id", "BTREE", replace=False)
    config = IndexConfig("INVERTED", {"stem": False})
    pilum.spark.create_index(
        spark, table, "text", config, name="words", fragments_per_task=1, merge=True
    )
    found, theirs = (
        one.to_table(columns=["id", "_score"], full_text_query="word1").sort_by("id")
        for one in (pilum.dataset(table), lance.dataset(table))
    )
    assert found["id"].to_pylist() == [1, 4, 7, 10]
    assert found.to_pydict() == theirs.to_pydict()
    assert folders(table) == set(segments(table))
    assert len(folders(table)) == 3
    pilum.dataset(table).insert(pa.table({"id": [12, 13], "text": ["word0", "word1"]}))
    pilum.spark.optimize_indices(spark, table, num_indices_to_merge=9)
    assert sorted(segments(table).values()) == [[0, 1, 2, 3]] * 2
    assert ids(lance.dataset(table), "id > 10") == [11, 12, 13]


def test_tasks_build_an_index_of_geometries(spark: SparkSession, uri: str) -> None:
    """The segments find what an index that is built here finds, and what a loop finds."""
    places = [None if n % 11 == 5 else (n * 7 % 97, n * 13 % 89) for n in range(3000)]
    points = [one and struct.pack("<BIdd", 1, 1, *one) for one in places]
    field = pa.field("p", pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb"})
    schema = pa.schema([pa.field("id", pa.int64()), field])
    rows = pa.table([pa.array(range(3000)), pa.array(points, pa.binary())], schema)
    here = f"{uri}-here"
    for place in (uri, here):
        pilum.write_dataset(rows, place, max_rows_per_file=1000)
    pilum.dataset(here).create_scalar_index("p", "RTREE", page_size=64)
    pilum.spark.create_index(spark, uri, "p", "RTREE", fragments_per_task=2, page_size=64)
    assert sorted(segments(uri).values()) == [[0, 1], [2]]
    inside = [n for n, one in enumerate(places) if one and 5 <= one[0] <= 9 and 5 <= one[1] <= 11]
    area = "st_intersects(p, st_geomfromtext('POLYGON((5 5, 5 11, 9 11, 9 5, 5 5))'))"
    for dataset in map(pilum.dataset, (uri, here)):
        assert "p_idx(RTree)" in dataset.scanner(filter=area).explain_plan()
        assert ids(dataset, area) == inside
        assert ids(dataset, "p IS NULL") == list(range(5, 3000, 11))


@pytest.mark.reference
def test_a_worker_that_is_killed_leaves_no_segment(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    """Its task is tried again; the segment of the first attempt is deleted."""
    import lance

    marker = tmp_path / "killed"

    def once(attempt: Attempt) -> bool:
        if attempt.task != 1 or marker.exists():
            return False
        marker.touch()
        return True

    create_index(Mortal(spark, once), table, "id", "BTREE", {}, fragments_per_task=1)
    assert marker.exists()
    assert sorted(segments(table).values()) == [[0], [1], [2]]
    assert folders(table) == set(segments(table))
    assert ids(lance.dataset(table), "id BETWEEN 3 AND 9") == [3, 4, 6, 7, 8, 9]


def test_a_job_whose_tasks_are_killed_continues(spark: SparkSession, table: str) -> None:
    """A task that is killed after its work has noted the segment, which the next run takes."""
    with pytest.raises(Exception, match="failed 2 times"):  # an error of Py4J or of Connect
        create_index(
            Mortal(spark, lambda _: True),
            table,
            "id",
            "BTREE",
            {},
            job="by-id",
            fragments_per_task=3,
        )
    trained = folders(table)
    assert len(trained) == 2  # two attempts
    assert not segments(table)
    version = pilum.spark.create_index(spark, table, "id", "BTREE", job="by-id")
    assert list(segments(table).values()) == [[0, 1, 2]]
    assert set(segments(table)) < trained
    assert pilum.spark.create_index(spark, table, "id", "BTREE", job="by-id") == version
    assert not list(Path(table, "_jobs").glob("*/*"))
