"""What a scan gives: columns, rows, order, and refusals."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pilum
from pilum.errors import ColumnNotFoundError, FilterError, InvalidInputError

ROWS = 1000
TABLE = pa.table(
    {
        "i": range(ROWS),
        "s": [None if row % 7 == 0 else f"text {row}" for row in range(ROWS)],
        "st": [None if row % 5 == 0 else {"x": row, "y": str(row)} for row in range(ROWS)],
    }
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> pilum.LanceDataset:
    """1,000 rows in four fragments."""
    path = tmp_path_factory.mktemp("reading") / "t.lance"
    return pilum.write_dataset(TABLE, path, max_rows_per_file=300)


def test_everything_comes_back(dataset: pilum.LanceDataset) -> None:
    assert dataset.to_table().equals(TABLE)
    assert pa.Table.from_batches(dataset.to_batches(batch_size=64)).equals(TABLE)
    assert dataset.scanner().to_reader().read_all().equals(TABLE)
    assert dataset.schema == TABLE.schema
    assert dataset.count_rows() == len(dataset) == ROWS


def test_columns_come_in_the_wanted_order(dataset: pilum.LanceDataset) -> None:
    found = dataset.to_table(columns=["s", "_rowid", "i"])
    assert found.schema.names == ["s", "_rowid", "i"]
    assert found["i"] == TABLE["i"]


def test_members_of_structs_are_columns_of_their_own(dataset: pilum.LanceDataset) -> None:
    found = dataset.to_table(columns=["st.y", "i"])
    assert found.schema.names == ["st.y", "i"]
    assert found["st.y"].to_pylist() == pc.struct_field(TABLE["st"], "y").to_pylist()


def test_computed_columns(dataset: pilum.LanceDataset) -> None:
    found = dataset.to_table(
        columns={"twice": "i * 2", "low": "lower(s)", "x": "st.x", "one": "1"},
        filter="i BETWEEN 10 AND 14",
        with_row_id=True,
    )
    assert found.to_pydict() == {
        "twice": [20, 22, 24, 26, 28],
        "low": ["text 10", "text 11", "text 12", "text 13", None],
        "x": [None, 11, 12, 13, 14],
        "one": [1] * 5,
        "_rowid": [10, 11, 12, 13, 14],
    }
    assert dataset.to_table(columns={"one": "1"}).num_rows == ROWS


def test_row_ids_are_addresses(dataset: pilum.LanceDataset) -> None:
    found = dataset.to_table(columns=["i"], with_row_id=True, with_row_address=True)
    assert found.schema.names == ["i", "_rowid", "_rowaddr"]
    assert found["_rowid"] == found["_rowaddr"]
    expected = [(row // 300 << 32) + row % 300 for row in range(ROWS)]
    assert found["_rowid"].to_pylist() == expected
    assert dataset.to_table(filter=f"_rowid = {(2 << 32) + 5}")["i"].to_pylist() == [605]


@settings(max_examples=40)
@given(
    low=st.none() | st.integers(-1, ROWS),
    limit=st.none() | st.integers(0, ROWS + 1),
    offset=st.none() | st.integers(0, ROWS + 1),
    batch_size=st.none() | st.integers(1, ROWS),
)
def test_limit_and_offset_count_after_the_filter(
    dataset: pilum.LanceDataset,
    low: int | None,
    limit: int | None,
    offset: int | None,
    batch_size: int | None,
) -> None:
    condition = None if low is None else f"i >= {low}"
    start = offset or 0
    expected = list(range(max(0, low or 0), ROWS))[start:][:limit]
    scanner = dataset.scanner(["i"], condition, limit, offset, batch_size=batch_size)
    batches = list(scanner.to_batches())
    assert [row for batch in batches for row in batch.column("i").to_pylist()] == expected
    assert all(batch.num_rows <= (batch_size or ROWS) for batch in batches)
    assert scanner.count_rows() == len(expected)
    assert scanner.head(3)["i"].to_pylist() == expected[:3]


def test_filters_of_both_kinds_agree(dataset: pilum.LanceDataset) -> None:
    sql = dataset.to_table(filter="i > 990 AND s IS NOT NULL")
    arrow = dataset.to_table(filter=(pc.field("i") > 990) & pc.field("s").is_valid())
    assert sql.equals(arrow)
    assert sql.num_rows == dataset.count_rows("i > 990 AND s IS NOT NULL") == 8


def test_a_filter_may_use_columns_that_are_not_wanted(dataset: pilum.LanceDataset) -> None:
    found = dataset.to_table(columns=["s"], filter="st.x = 3 OR i = 4")
    assert found.to_pydict() == {"s": ["text 3", "text 4"]}


@pytest.mark.parametrize("make", [list, np.array, pa.array, lambda rows: pa.chunked_array([rows])])
def test_take_keeps_order_and_duplicates(dataset: pilum.LanceDataset, make: Any) -> None:
    rows = [999, 0, 299, 300, 0, 605]
    assert dataset.take(make(rows)).equals(TABLE.take(rows))
    assert dataset.take(make(rows), columns=["i"])["i"].to_pylist() == rows
    doubled = dataset.take(make(rows), columns={"double": "i * 2"})
    assert doubled.to_pydict() == {"double": [2 * row for row in rows]}


def test_take_nothing(dataset: pilum.LanceDataset) -> None:
    assert dataset.take([]).equals(TABLE.slice(0, 0))


@pytest.mark.parametrize("indices", [[ROWS], [-1], [0.5], ["0"], [None], [[0]], [True]])
def test_take_refuses_what_is_no_row(dataset: pilum.LanceDataset, indices: list[Any]) -> None:
    with pytest.raises(InvalidInputError, match="indices"):
        dataset.take(indices)


def test_sample_takes_each_row_at_most_once(dataset: pilum.LanceDataset) -> None:
    everything = dataset.sample(ROWS, columns=["i"])["i"].to_pylist()
    assert everything != sorted(everything) == list(range(ROWS))
    some = dataset.sample(50, ["i"], randomize_order=False)["i"].to_pylist()
    assert some == sorted(set(some))
    assert len(some) == 50
    with pytest.raises(InvalidInputError, match="1001 of 1000"):
        dataset.sample(ROWS + 1)


def test_head_and_slice(dataset: pilum.LanceDataset) -> None:
    assert dataset.head(5).equals(TABLE.slice(0, 5))
    assert dataset.head(2, columns=["i"], filter="i > 10").to_pydict() == {"i": [11, 12]}
    assert dataset.slice(290, 310).equals(TABLE.slice(290, 20))


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        ({"columns": ["nope"]}, ColumnNotFoundError, "nope"),
        ({"columns": ["st.nope"]}, ColumnNotFoundError, "nope"),
        ({"columns": "i"}, InvalidInputError, "columns"),
        ({"columns": ["i", "i"]}, InvalidInputError, "twice"),
        ({"columns": [1]}, InvalidInputError, "expected names"),
        ({"columns": {"z": "nope + 1"}}, ColumnNotFoundError, "nope"),
        ({"columns": {"z": "i +"}}, FilterError, "parse"),
        ({"filter": "nope = 1"}, ColumnNotFoundError, "nope"),
        ({"filter": "i ="}, FilterError, "parse"),
        ({"filter": "i + 1"}, FilterError, "boolean"),
        ({"filter": {"query": "x"}}, FilterError, "dict"),
        ({"limit": -1}, InvalidInputError, "limit"),
        ({"limit": 1.5}, InvalidInputError, "limit"),
        ({"offset": -1}, InvalidInputError, "offset"),
        ({"batch_size": 0}, InvalidInputError, "batch_size"),
    ],
)
def test_arguments_that_make_no_sense(
    dataset: pilum.LanceDataset, arguments: dict[str, Any], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        dataset.scanner(**arguments)


def test_a_filter_that_fails_on_a_value_fails_the_scan(dataset: pilum.LanceDataset) -> None:
    for read in (
        lambda: dataset.to_table(filter="10 / (i - 700) > 1"),
        lambda: dataset.scanner(filter="10 / (i - 700) > 1").to_reader().read_all(),
        lambda: dataset.count_rows("10 / (i - 700) > 1"),
    ):
        with pytest.raises(FilterError, match="divide by zero"):
            read()


def test_a_dataset_pickles_as_its_version(dataset: pilum.LanceDataset) -> None:
    again = pickle.loads(pickle.dumps(dataset))
    assert (again.uri, again.version) == (dataset.uri, dataset.version)
    assert again.head(3).equals(dataset.head(3))


def test_other_libraries_read_it_as_an_arrow_stream(dataset: pilum.LanceDataset) -> None:
    assert pa.table(dataset).equals(TABLE)
    assert pa.table(dataset.scanner(["i"], "i < 3")).to_pydict() == {"i": [0, 1, 2]}


def test_duckdb_queries_it_by_name(dataset: pilum.LanceDataset) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    found = duckdb.sql("SELECT count(*), max(i) FROM dataset WHERE s IS NOT NULL").fetchall()
    assert found == [(857, 999)]


def test_to_pandas(dataset: pilum.LanceDataset) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = dataset.to_pandas(columns=["i"], filter="i < 3")
    assert frame["i"].tolist() == [0, 1, 2]


def test_what_the_manifest_says(dataset: pilum.LanceDataset) -> None:
    assert dataset.data_storage_version == "2.2"
    assert dataset.max_field_id == dataset.lance_schema.stored.max_field_id == 4
    assert not dataset.has_stable_row_ids
    assert dataset.stats.dataset_stats(max_rows_per_group=200) == {
        "num_deleted_rows": 0,
        "num_fragments": 4,
        "num_small_files": 1,
    }
    assert dataset.metadata == dataset.config() == dataset.schema_metadata == {}


def test_importing_pilum_is_light() -> None:
    heavy = "'sqlglot', 'pandas', 'pyspark', 'obstore', 'pyarrow.dataset'"
    code = f"import sys, pilum; assert not [m for m in ({heavy}) if m in sys.modules]"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
