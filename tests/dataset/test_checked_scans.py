"""Scans whose keywords were checked before, and how few calls an indexed query takes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import pilum
from pilum.errors import FilterError, InvalidInputError
from pilum.index.answers import RowSet
from pilum.query import MatchQuery, PhraseQuery
from pilum.table.read.scan import ScanOptions, scan_table
from pilum.table.read.selection import Selection

PACKAGE = Path(pilum.__file__).parent
NUM_ROWS = 12_000
WORDS = ["ash", "birch", "cedar", "elm"]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> pilum.LanceDataset:
    """Returns a table of two fragments with indices."""
    texts = [f"{WORDS[row % 4]} {WORDS[row // 4 % 4]} number{row}" for row in range(NUM_ROWS)]
    table = pa.table({"id": range(NUM_ROWS), "few": [row % 3000 for row in range(NUM_ROWS)]})
    table = table.append_column("text", pa.array(texts))
    path = str(tmp_path_factory.mktemp("checked") / "t")
    found = pilum.write_dataset(table, path, max_rows_per_file=NUM_ROWS // 2)
    found.create_scalar_index("id", "BTREE")
    found.create_scalar_index("few", "BITMAP")
    found.create_scalar_index("text", "INVERTED", with_position=True)
    return found


def num_calls(function: Callable[[], object]) -> int:
    """Returns the number of calls of functions of the package, kernels aside."""
    names: list[str] = []

    def count(frame: Any, event: str, argument: object) -> None:
        del argument
        path = Path(frame.f_code.co_filename)
        if event == "call" and PACKAGE in path.parents and path.parent.name != "kernels":
            names.append(frame.f_code.co_qualname)

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return len(names)


@pytest.mark.parametrize(
    ("most", "scan"),
    [
        (110, {"filter": "id = 77"}),
        (158, {"filter": "few = 7"}),
        (148, {"full_text_query": MatchQuery("ash elm", "text"), "limit": 9}),
        (148, {"full_text_query": PhraseQuery("ash birch", "text"), "limit": 9}),
    ],
)
def test_an_indexed_query_takes_few_calls(
    dataset: pilum.LanceDataset, most: int, scan: dict[str, Any]
) -> None:
    columns = ["id", "_score"] if "limit" in scan else ["id"]
    for _ in range(2):
        dataset.to_table(columns, **scan)
    assert 0 < num_calls(lambda: dataset.to_table(columns, **scan)) <= most


@pytest.mark.parametrize(
    ("most", "condition"), [(110, "id = {}"), (218, "id IN ({}, 5, 6)"), (180, "few = {}")]
)
def test_the_next_value_takes_few_calls(
    dataset: pilum.LanceDataset, most: int, condition: str
) -> None:
    for row in (70, 71):
        dataset.to_table(["id"], filter=condition.format(row))
    assert 0 < num_calls(lambda: dataset.to_table(["id"], filter=condition.format(72))) <= most


def test_a_lookup_without_caches_takes_few_calls_and_requests(
    dataset: pilum.LanceDataset,
) -> None:
    def first() -> pilum.LanceDataset:
        opened = pilum.dataset(dataset.uri, session=pilum.Session())
        assert opened.to_table(["id"], filter="id = 77").num_rows == 1
        return opened

    first()  # imports what a lookup needs
    assert 0 < num_calls(first) <= 1300
    dataset.io_stats_incremental()
    first()
    assert dataset.io_stats_incremental().read_iops <= 7


def test_the_next_filter_is_applied(dataset: pilum.LanceDataset) -> None:
    for row in (3, 399, 3):
        found = dataset.to_table(["id"], filter=f"id = {row}", with_row_id=True)
        assert found.to_pylist() == [{"id": row, "_rowid": row % 6000 | row // 6000 << 32}]
        assert dataset.to_table(["id"], filter=f"id > {row}", limit=1)["id"].to_pylist() == [
            row + 1
        ]
        assert dataset.count_rows(f"id < {row}") == row
        with pytest.raises(FilterError):
            dataset.to_table(["id"], filter=f"id = {row} and")


def test_a_lookup_reads_only_what_it_returns(dataset: pilum.LanceDataset) -> None:
    """The column of the key is not read: each row has the value."""
    fresh = pilum.dataset(dataset.uri, session=pilum.Session())
    fresh.io_stats_incremental()
    for most, row in ((8, 77), (1, 78), (3, NUM_ROWS - 1), (1, 79)):
        found = fresh.to_table(["id", "few"], filter=f"id = {row}")
        assert found["id"].to_pylist() == [row]
        assert 0 < fresh.io_stats_incremental().read_iops <= most
        assert fresh.to_table(["id"], filter=f"id = {row}")["id"].to_pylist() == [row]
        assert fresh.io_stats_incremental().read_iops == 0


def test_an_index_that_lists_missing_rows_finds_the_others(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(pa.table({"id": range(9000)}), str(tmp_path / "t"))
    rows = np.array([3, 8999, 9000, 1 << 40], np.uint64)
    selection = Selection(BitMap([0]), RowSet(rows), is_exact=True)
    options = ScanOptions(filter=dataset.snapshot.scope.bind("id > 0"), selection=selection)
    assert scan_table(dataset.snapshot, options)["id"].to_pylist() == [3, 8999]


def test_the_next_text_is_searched(dataset: pilum.LanceDataset) -> None:
    for row in (3, 399, 20):
        query = MatchQuery(f"number{row}", "text")
        for columns in (["id", "_score"], ["_score", "id"], None):
            found = dataset.to_table(columns, full_text_query=query, limit=2)
            assert found["id"].to_pylist() == [row]
            assert found.column_names == (columns or ["id", "few", "text", "_score"])


def test_every_search_warns_of_a_missing_score(dataset: pilum.LanceDataset) -> None:
    for text in WORDS[:2]:
        with pytest.warns(FutureWarning, match="_score") as caught:
            assert dataset.to_table(["id"], full_text_query=text, limit=1).num_rows == 1
        assert caught[0].filename == __file__


def test_every_call_is_checked(dataset: pilum.LanceDataset) -> None:
    query = MatchQuery("ash", "text")
    dataset.to_table(["id", "_score"], full_text_query=query, limit=1)
    cases: list[dict[str, Any]] = [
        {"limit": True},
        {"limit": 1.0},
        {"full_text_query": 1},
        {"columns": "id"},
    ]
    for bad in cases:
        scan: Any = {"full_text_query": query, "limit": 1, **bad}
        with pytest.raises(InvalidInputError):
            dataset.to_table(**scan)
    for _ in range(2):
        with pytest.raises(FilterError):
            dataset.to_table(filter="id >")


def test_a_scan_is_that_of_its_own_version(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(pa.table({"id": [1, 2, 3]}), str(tmp_path / "t"))
    assert dataset.to_table(filter="id > 1")["id"].to_pylist() == [2, 3]
    dataset.delete("id = 2")
    assert dataset.to_table(filter="id > 1")["id"].to_pylist() == [3]
    assert dataset.count_rows("id > 1") == 1
    dataset.add_columns({"id2": "id * 2"})
    assert dataset.to_table(filter="id > 1").to_pylist() == [{"id": 3, "id2": 6}]


def test_a_filter_that_names_the_moment_is_bound_each_time(dataset: pilum.LanceDataset) -> None:
    assert dataset.count_rows("now() IS NULL") == 0
    assert not any("now()" in str(key) for key in keys_of(dataset))
    assert dataset.count_rows("id < 9") == 9
    assert any("id < 9" in str(key) for key in keys_of(dataset))


def keys_of(dataset: pilum.LanceDataset) -> list[Any]:
    """Returns the texts of the filters that the version remembers."""
    return list(dataset._snapshot.scope._bound._entries)
