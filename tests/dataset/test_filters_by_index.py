"""Filters by indices: the rows of a scan, and of the reference; plans name the indices."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import pilum

FILTERS = [
    "i = 5",
    "i <> 7",
    "i is null",
    "i is not null",
    "i in (1, 2, 3, 4, 5, 900) or id = 17",
    "id between 100 and 300",
    "id >= 390 and id < 410 and i > 10",
    "not (id > 50)",
    "s = 's5'",
    "s like 's5%'",
    "s like 's_5%' and id < 300",
    "starts_with(s, 's1') or i = 3",
    "f = 0",
    "f > 1",
    "f >= 1 and f < 3",
    "f = cast('nan' as double)",
    "s is null and f = 2.5",
    "i = 3 and length(s) = 3",
    "(i is distinct from 3) and id < 50",
    "id = 1005 or id = 5",
]


def make(path: Path, *, index_type: str, stable: bool) -> pilum.LanceDataset:
    """Write a table with an index on each column, then delete, update and append rows."""
    random = np.random.default_rng(1)
    size = 1000
    integers = [None if one < 30 else int(one) for one in random.integers(0, 300, size)]
    rows = pa.table(
        {
            "id": pa.array(np.arange(size)),
            "i": pa.array(integers, pa.int32()),
            "s": [None if one < 0.1 else f"s{int(one * 100)}" for one in random.random(size)],
            "f": random.choice([1.0, -0.0, 0.0, float("nan"), 2.5, -1.0], size),
        }
    )
    dataset = pilum.write_dataset(rows, path, max_rows_per_file=200, enable_stable_row_ids=stable)
    for column in rows.column_names:
        dataset.create_scalar_index(column, index_type)
    dataset.delete("id % 7 = 3")
    dataset.update({"i": "i + 1"}, "id < 40 and i is not null")
    return pilum.write_dataset(rows.slice(0, 60), path, mode="append")


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("index_type", ["BTREE", "BITMAP", "ZONEMAP"])
def test_the_rows_are_those_of_a_scan(tmp_path: Path, index_type: str, stable: bool) -> None:
    dataset = make(tmp_path / "t", index_type=index_type, stable=stable)
    reference = lance.dataset(tmp_path / "t")
    used = 0
    for filter in FILTERS:
        columns = ["id", "i", "s"]
        found = dataset.to_table(columns, filter, with_row_id=True)
        scanned = dataset.to_table(columns, filter, with_row_id=True, use_scalar_index=False)
        assert found.equals(scanned), filter
        assert found.equals(reference.to_table(columns, filter, with_row_id=True)), filter
        assert dataset.count_rows(filter) == scanned.num_rows, filter
        used += "ScalarIndexQuery" in dataset.scanner(filter=filter).explain_plan()
        limited = dataset.to_table(["id"], filter, limit=3, offset=1)
        assert limited.equals(scanned.select(["id"]).slice(1, 3)), filter
    assert used


def test_plans_name_the_index(tmp_path: Path) -> None:
    dataset = make(tmp_path / "t", index_type="BTREE", stable=False)
    scanner = dataset.scanner(filter="id = 5 and i > 3 and length(s) = 2")
    query = "query=[id = 5]@id_idx(BTree)"  # `i > 3` would find many more rows
    assert f"  ScalarIndexQuery: {query}, segments=1, fragments_covered=5" in scanner.explain_plan()
    both = dataset.scanner(filter="id = 5 and s = 's7'").explain_plan()
    assert "query=AND([id = 5]@id_idx(BTree),[s = 's7']@s_idx(BTree)), segments=2" in both
    assert "rows_looked_at=1, rows_skipped=999, tested again" in scanner.analyze_plan()
    without = dataset.scanner(filter="id = 5", use_scalar_index=False)
    assert "ScalarIndexQuery" not in without.explain_plan()
    assert "ScalarIndexQuery" not in dataset.scanner(filter="i is not null").explain_plan()


def test_fast_search_leaves_out_rows_that_are_not_indexed(tmp_path: Path) -> None:
    dataset = make(tmp_path / "t", index_type="BTREE", stable=False)
    assert dataset.to_table(["id"], "id = 50").num_rows == 2
    assert dataset.to_table(["id"], "id = 50", fast_search=True).num_rows == 1


def test_rows_are_deleted_and_updated_by_indices(tmp_path: Path) -> None:
    dataset = make(tmp_path / "t", index_type="BTREE", stable=True)
    assert dataset.delete("id = 505 or id = 12")["num_deleted_rows"] == 3
    assert dataset.update({"s": "'new'"}, "id in (508, 509)")["num_rows_updated"] == 2
    assert dataset.count_rows("id in (12, 505)") == 0
    assert dataset.count_rows("s = 'new'") == 2
    assert dataset.to_table(["s"], "id = 508")["s"].to_pylist() == ["new"]


def test_few_rows_of_several_fragments_are_deleted_and_updated_by_an_index(tmp_path: Path) -> None:
    count = 4000
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    numbers = np.arange(count)
    table = pa.table(
        [numbers % 500, numbers % 10, [b"%d" % number for number in range(count)]],
        pa.schema([("k", pa.int64()), ("x", pa.int64()), blob]),
    )
    dataset = pilum.write_dataset(
        table, tmp_path / "t", data_storage_version="2.1", max_rows_per_file=1000
    )
    dataset.create_scalar_index("k", "BTREE")
    assert dataset.delete("k = 7")["num_deleted_rows"] == 8
    assert dataset.delete("k = 8 AND x > 3")["num_deleted_rows"] == 8
    assert dataset.update({"x": "-1"}, "k = 9")["num_rows_updated"] == 8
    found = lance.dataset(str(tmp_path / "t")).to_table(["k", "x"])
    expected = [number for number in range(count) if number % 500 not in {7, 8, 9}]
    assert found["k"].to_pylist() == [number % 500 for number in expected] + [9] * 8
    assert found["x"].to_pylist() == [number % 10 for number in expected] + [-1] * 8
    read = dataset.to_table(["b"], "k = 9", blob_handling="all_binary")["b"].to_pylist()
    assert read == [b"%d" % number for number in range(9, count, 500)]


def test_an_index_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    make(tmp_path / "t", index_type="BTREE", stable=False)
    dataset = pilum.dataset(tmp_path / "t", session=pilum.Session())
    [uuid] = [one["uuid"] for one in dataset.list_indices() if one["name"] == "id_idx"]
    for file in (tmp_path / "t" / "_indices" / uuid).iterdir():
        file.write_bytes(file.read_bytes()[:100])
    with pytest.warns(RuntimeWarning, match=f"'id_idx', segment {uuid}, is not used"):
        assert dataset.to_table(["id"], "id = 505").num_rows == 1


@pytest.mark.filterwarnings("error:index:RuntimeWarning")  # of an index that is not used
@pytest.mark.parametrize("index_type", ["BTREE", "BITMAP"])
def test_a_pattern_without_wildcards_is_a_text_of_the_column(
    tmp_path: Path, index_type: str
) -> None:
    texts = pa.array([str(number) for number in range(1000)], pa.large_string())
    dataset = pilum.write_dataset(pa.table({"s": texts}), tmp_path / "t")
    dataset.create_scalar_index("s", index_type)
    assert dataset.to_table(filter="s like '77'")["s"].to_pylist() == ["77"]


def test_plans_show_moments_that_python_has_no_object_for(tmp_path: Path) -> None:
    days = pa.array([10_000_000, 0], pa.int32()).cast(pa.date32())
    dataset = pilum.write_dataset(pa.table({"day": days}), tmp_path / "t")
    dataset.create_scalar_index("day", "BTREE")
    scanner = dataset.scanner(filter="day = cast(10000000 as date)")
    assert "day = 29349-01-26" in scanner.explain_plan()
    assert scanner.to_table().num_rows == 1
