"""Tables for engines that recognise datasets of pyarrow."""

from __future__ import annotations

import pickle
from pathlib import Path

import datafusion
import datasets
import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pytest

import pilum
from pilum.errors import UnsupportedFeatureError

ROWS = pa.table(
    {
        "key": pa.array(range(1000)),
        "share": pa.array([None if row % 7 == 0 else float(row % 100) for row in range(1000)]),
        "name": [f"name {row % 50}" for row in range(1000)],
        "wide": [bytes(200) + str(row).encode() for row in range(1000)],
    }
)
DELETED = "key % 10 = 3"


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    made = pilum.write_dataset(ROWS, tmp_path / "table.lance", max_rows_per_file=300)
    made.delete(DELETED)
    return made


@pytest.fixture
def expected() -> pa.Table:
    return ROWS.filter(pa.array([row % 10 != 3 for row in range(1000)]))


def answers(query: str, rows: object) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        return connection.execute(query.format("rows")).fetchall()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM {}",
        "SELECT sum(key) FROM {} WHERE share > 1 AND key IN (5, 6, 7) AND share IS NOT NULL",
        "SELECT key FROM {} WHERE share = 1 ORDER BY key LIMIT 3",
        "SELECT count(*) FROM {} WHERE name LIKE 'name 1%' OR key = 4",
        "SELECT key FROM {} ORDER BY key DESC LIMIT 1",
        "SELECT count(*), max(wide) FROM {} WHERE key BETWEEN 500 AND 600",
        "SELECT name, avg(share) FROM {} WHERE NOT (key < 50) GROUP BY name ORDER BY name",
    ],
)
def test_duckdb_answers_as_on_a_table_of_arrow(
    dataset: pilum.LanceDataset, expected: pa.Table, query: str
) -> None:
    found = dataset.to_pyarrow_dataset()
    assert isinstance(found, pyarrow.dataset.Dataset)
    assert answers(query, found) == answers(query, expected)


def test_duckdb_reads_only_the_columns_of_a_query(dataset: pilum.LanceDataset) -> None:
    found = dataset.to_pyarrow_dataset()
    dataset.io_stats_incremental()
    assert answers("SELECT count(*), sum(key) FROM {}", found) == [(900, 449_700)]
    few = dataset.io_stats_incremental().read_bytes
    assert len(answers("SELECT max(wide) FROM {}", found)) == 1
    assert few < dataset.io_stats_incremental().read_bytes / 4


def test_polars_pushes_columns_and_filters_down(dataset: pilum.LanceDataset) -> None:
    lazy = polars.scan_pyarrow_dataset(dataset.to_pyarrow_dataset())
    found = lazy.filter(polars.col("key") > 990).select("name", "key").collect()
    assert found["key"].to_list() == [991, 992, 994, 995, 996, 997, 998, 999]


def test_datafusion_reads_fragments(dataset: pilum.LanceDataset) -> None:
    session = datafusion.SessionContext()
    session.register_dataset("rows", dataset.to_pyarrow_dataset())
    found = session.sql("SELECT count(*) AS n, sum(key) AS s FROM rows WHERE key > 500")
    assert found.to_pydict() == {"n": [449], "s": [336850]}


def test_consumers_in_cpp_read_every_fragment(
    dataset: pilum.LanceDataset, expected: pa.Table
) -> None:
    found = dataset.to_pyarrow_dataset()
    scanner = pyarrow.dataset.Scanner.from_dataset(
        found, columns=["key"], filter=pc.field("share") > 90
    )
    wanted = expected.filter(pc.field("share") > 90)["key"].to_pylist()
    assert sorted(scanner.to_table()["key"].to_pylist()) == wanted
    assert found.sort_by([("key", "descending")]).head(1)["key"].to_pylist() == [999]


def test_filters_of_arrow_that_no_scan_evaluates_are_right(dataset: pilum.LanceDataset) -> None:
    condition = pc.bit_wise_and(pc.field("key"), 511) == 2
    found = dataset.to_pyarrow_dataset().to_table(columns=["key"], filter=condition)
    assert sorted(found["key"].to_pylist()) == [2, 514]


def test_filtered_datasets_keep_their_filter(dataset: pilum.LanceDataset) -> None:
    low = dataset.to_pyarrow_dataset().filter(pc.field("key") < 5)
    assert low.to_table(["key"])["key"].to_pylist() == [0, 1, 2, 4]
    assert low.filter(pc.field("key") > 1).count_rows() == 2
    assert low.take(pa.array([3, 0]), columns=["key"])["key"].to_pylist() == [4, 0]
    assert low.head(2)["key"].to_pylist() == [0, 1]
    again = pickle.loads(pickle.dumps(low))
    assert again.count_rows(pc.field("key") > 1) == 2
    assert low.sort_by("key").to_table()["key"].to_pylist() == [0, 1, 2, 4]
    joined = low.join(dataset.to_pyarrow_dataset(), "key", right_suffix="_2", join_type="inner")
    assert sorted(joined.to_table()["key"].to_pylist()) == [0, 1, 2, 4]
    assert pyarrow.dataset.Scanner.from_dataset(low).count_rows() == 4
    with pytest.raises(ValueError, match="filtered"):
        low.get_fragments()


def test_computed_columns_are_those_of_arrow(dataset: pilum.LanceDataset) -> None:
    found = dataset.to_pyarrow_dataset()
    twice = found.to_table({"twice": pc.field("key") * 2}, filter=pc.field("key") < 3)
    assert sorted(twice["twice"].to_pylist()) == [0, 2, 4]


def test_files_of_fragments_are_not_written(dataset: pilum.LanceDataset) -> None:
    files = dataset.to_pyarrow_dataset().filesystem
    with pytest.raises(UnsupportedFeatureError, match="read only"):
        files.delete_file("0")


def test_lazy_frames_are_written(tmp_path: Path) -> None:
    lazy = polars.LazyFrame({"a": [1, 2, 3], "s": ["x", "y", None]})
    made = pilum.write_dataset(lazy.filter(polars.col("a") > 1), tmp_path / "some.lance")
    assert made.to_table().to_pydict() == {"a": [2, 3], "s": ["y", None]}
    none = pilum.write_dataset(lazy.filter(polars.col("a") > 9), tmp_path / "none.lance")
    assert none.schema == made.schema
    assert none.count_rows() == 0


def test_datasets_of_hugging_face_are_written(tmp_path: Path) -> None:
    rows = datasets.Dataset.from_dict({"a": [1, 2, 3], "t": ["x", "y", "z"]}).select([2, 0])
    made = pilum.write_dataset(rows, tmp_path / "some.lance")
    assert made.to_table().to_pydict() == {"a": [3, 1], "t": ["z", "x"]}
