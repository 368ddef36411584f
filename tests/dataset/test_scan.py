"""How scans hand out their rows: sorted, in batches of a size, with deleted ones among them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.dataset import ColumnOrdering, ScannerBuilder
from pilum.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
    UnsupportedTypeError,
)

NAN = float("nan")
TABLE = pa.table(
    {
        "a": [3, None, 1, 2, 1],
        "f": pa.array([NAN, 1.0, -0.0, 0.0, None]),
        "s": [{"x": value} for value in (5, 4, 3, 2, 1)],
        "t": ["b", "a", None, "", "c"],
        "l": [[1], [2], None, [], [3]],
    }
)


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    return pilum.write_dataset(TABLE, tmp_path / "t", max_rows_per_file=3)


@pytest.mark.parametrize(
    ("order_by", "column", "expected"),
    [
        (["a"], "a", [1, 1, 2, 3, None]),
        ([ColumnOrdering("a", ascending=False)], "a", [3, 2, 1, 1, None]),
        ([ColumnOrdering("a", nulls_first=True)], "a", [None, 1, 1, 2, 3]),
        ([ColumnOrdering("a", False, True)], "a", [None, 3, 2, 1, 1]),
        ("t", "t", ["", "a", "b", "c", None]),
        (["s.x"], "t", ["c", "", None, "a", "b"]),
        (["a", ColumnOrdering("t", False)], "t", ["c", None, "", "b", "a"]),
    ],
)
def test_rows_are_sorted(
    dataset: pilum.LanceDataset, order_by: Any, column: str, expected: list[Any]
) -> None:
    assert dataset.to_table(order_by=order_by)[column].to_pylist() == expected
    assert dataset.to_table([column], order_by=order_by)[column].to_pylist() == expected
    some = dataset.to_table([column], order_by=order_by, limit=2, offset=1)
    assert some.to_pydict() == {column: expected[1:3]}


def test_floats_have_a_total_order(dataset: pilum.LanceDataset) -> None:
    ascending = dataset.to_table(["f"], order_by=["f"])["f"].to_pylist()
    assert list(map(repr, ascending)) == ["-0.0", "0.0", "1.0", "nan", "None"]
    descending = dataset.to_table(["f"], order_by=[ColumnOrdering("f", False)])["f"].to_pylist()
    assert list(map(repr, descending)) == ["nan", "1.0", "0.0", "-0.0", "None"]


def test_sorting_goes_with_all_else_that_scans_do(dataset: pilum.LanceDataset) -> None:
    computed = dataset.to_table({"b": "a * 2"}, filter="a < 3", order_by=["s.x"], with_row_id=True)
    assert computed.column_names == ["b", "_rowid"]
    assert computed["b"].to_pylist() == [2, 4, 2]
    assert dataset.scanner(order_by=["t"], columns=["t"]).head(2)["t"].to_pylist() == ["", "a"]
    assert dataset.scanner(order_by=["t"], limit=2).count_rows() == 2
    fragment = dataset.get_fragments()[0]
    assert fragment.to_table(["a"], order_by=["a"])["a"].to_pylist() == [1, 3, None]
    batches = list(dataset.to_batches(order_by=["a"], batch_size=2))
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert dataset.to_pandas(order_by=["a"], columns=["a"], limit=1)["a"].tolist() == [1]


def test_the_first_of_many_rows_need_no_memory_for_all(tmp_path: Path) -> None:
    values = np.random.default_rng(0).permutation(300_000)
    dataset = pilum.write_dataset(pa.table({"v": values}), tmp_path / "t")
    found = dataset.to_table(order_by=[ColumnOrdering("v", False)], limit=5, offset=3)
    assert found["v"].to_pylist() == [299_996, 299_995, 299_994, 299_993, 299_992]


def test_deleted_rows_come_without_an_id(dataset: pilum.LanceDataset) -> None:
    dataset.delete("a = 1")
    found = dataset.to_table(["a"], with_row_id=True, include_deleted_rows=True)
    shift = 1 << 32
    assert found.to_pydict() == {
        "a": [3, None, 1, 2, 1],
        "_rowid": [0, 1, None, shift, None],
    }
    found = dataset.to_table(
        ["a"],
        filter="a < 3",
        with_row_id=True,
        with_row_address=True,
        include_deleted_rows=True,
        order_by=["a"],
    )
    assert found.to_pydict() == {
        "a": [1, 1, 2],
        "_rowid": [None, None, shift],
        "_rowaddr": [None, None, shift],
    }
    assert dataset.scanner(with_row_id=True, include_deleted_rows=True).count_rows() == 5
    assert dataset.count_rows() == 3
    with pytest.raises(InvalidInputError, match="with_row_id"):
        dataset.to_table(include_deleted_rows=True)


def test_sizes_of_batches(dataset: pilum.LanceDataset) -> None:
    def sizes(**arguments: Any) -> list[int]:
        return [batch.num_rows for batch in dataset.to_batches(**arguments)]

    assert sizes(batch_size=2) == [2, 1, 2]
    assert sizes(batch_size=2, strict_batch_size=True) == [2, 2, 1]
    assert sizes(batch_size=4, strict_batch_size=True) == [4, 1]
    assert sizes(strict_batch_size=True) == [5]
    assert sizes(columns=["a"], batch_size_bytes=17) == [2, 1, 2]
    assert sizes(columns=["a"], batch_size_bytes=1) == [1, 1, 1, 1, 1]
    names = ["s", "l"]
    found = dataset.to_table(names, batch_size=2, strict_batch_size=True)
    assert found.equals(TABLE.select(names))
    with pytest.raises(InvalidInputError, match="contradict"):
        dataset.to_batches(batch_size_bytes=9, strict_batch_size=True)


def test_what_a_scan_cost_is_told_once(dataset: pilum.LanceDataset) -> None:
    found: list[pilum.ScanStatistics] = []
    fresh = pilum.dataset(dataset.uri, session=pilum.Session())
    assert fresh.to_table(scan_stats_callback=found.append).num_rows == 5
    [cost] = found
    assert cost.bytes_read > 0
    assert cost.requests == cost.iops > 0
    assert cost.all_counts == {"rows_given": 5}

    def fails(statistics: pilum.ScanStatistics) -> None:
        raise RuntimeError(statistics)

    assert fresh.to_table(scan_stats_callback=fails).num_rows == 5


def test_plans_are_told_step_by_step(dataset: pilum.LanceDataset) -> None:
    scanner = dataset.scanner({"b": "a * 2"}, filter="t > 'a'", order_by=["a"], limit=2)
    projection, order, scan = scanner.explain_plan().splitlines()
    assert projection == "Projection: b"
    assert order == "  Sort: a, limit 2"
    assert scan.startswith("    Scan: ")
    assert "columns a, filter on t (on pages: t), 2 of 2 fragments, 5 rows" in scan
    assert scanner.explain_plan(verbose=True).count("      File: ") == 2
    head, *steps = scanner.analyze_plan().splitlines()
    assert head.startswith("Analyzed: rows=2, batches=1, elapsed=")
    assert [step[2:] for step in steps] == [projection, order, scan]
    assert scanner.analyze_plan(count_rows=True).startswith("Analyzed: rows=2,")


def test_hints_change_nothing(dataset: pilum.LanceDataset) -> None:
    found = dataset.to_table(
        ["a", "t"],
        batch_readahead=4,
        fragment_readahead=2,
        io_buffer_size=1 << 20,
        use_stats=False,
        late_materialization=["a"],
        use_scalar_index=False,
        prefilter=True,
        disable_scoring_autoprojection=True,
        fast_search=False,
        nearest=None,
    )
    assert found.equals(TABLE.select(["a", "t"]))


@pytest.mark.parametrize("name", ["row_addr_allowlist", "row_addr_blocklist"])
def test_lists_of_addresses_are_refused_by_name(dataset: pilum.LanceDataset, name: str) -> None:
    arguments: Any = {name: b""}
    with pytest.raises(UnsupportedFeatureError, match=name):
        dataset.to_table(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [{"batch_readahead": 0}, {"batch_size_bytes": "9"}, {"order_by": [7]}, {"order_by": ["l"]}],
)
def test_arguments_without_sense(dataset: pilum.LanceDataset, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(arguments))):
        dataset.to_table(**arguments)


def test_arguments_and_columns_that_do_not_exist(dataset: pilum.LanceDataset) -> None:
    wrong: dict[str, Any] = {"order": ["a"]}
    with pytest.raises(InvalidInputError, match="order"):
        dataset.to_table(**wrong)
    with pytest.raises(ColumnNotFoundError, match="nowhere"):
        dataset.scanner(order_by=["nowhere"])


def test_a_builder_says_the_same_call_by_call(dataset: pilum.LanceDataset) -> None:
    builder = (
        ScannerBuilder(dataset)
        .columns(["t", "a"])
        .filter("a IS NOT NULL")
        .order_by([ColumnOrdering("a", False)])
        .limit(3)
        .offset(1)
        .batch_size(2)
        .with_row_id()
        .with_row_address(False)
        .with_fragments(dataset.get_fragments())
        .use_stats(False)
        .batch_readahead(4)
    )
    assert builder.to_scanner().to_table().to_pydict() == {
        "t": ["", None, "c"],
        "a": [2, 1, 1],
        "_rowid": [1 << 32, 2, (1 << 32) + 1],
    }
    defaults = {"limit": 1, "columns": ["a"], "with_fragments": None}
    found = ScannerBuilder(dataset).apply_defaults(defaults).to_scanner().to_table()
    assert found.to_pydict() == {"a": [3]}
    with pytest.raises(InvalidInputError, match="'limits'"):
        ScannerBuilder(dataset).apply_defaults({"limits": 1})
    with pytest.raises(UnsupportedTypeError, match="'a' has type int64"):
        ScannerBuilder(dataset).nearest("a", [1.0]).to_scanner()


def test_a_dataset_brings_arguments_for_its_scans(dataset: pilum.LanceDataset) -> None:
    defaults = {"limit": 2, "with_row_id": True, "columns": ["a"]}
    opened = pilum.dataset(
        dataset.uri, default_scan_options=defaults, block_size=4096, read_params={}
    )
    for one in (opened, pickle.loads(pickle.dumps(opened)), opened.checkout_version(1)):
        assert one.to_table().to_pydict() == {"a": [3, None], "_rowid": [0, 1]}
        assert one.schema.names == ["a", "_rowid"]
        assert one.to_table(["t"], limit=1, with_row_id=False).to_pydict() == {"t": ["b"]}
    assert opened.take([0]).column_names == TABLE.column_names
    wrong = pilum.dataset(dataset.uri, default_scan_options={"limits": 2})
    with pytest.raises(InvalidInputError, match="limits"):
        wrong.to_table()


def test_more_arguments_of_writes(tmp_path: Path) -> None:
    session = pilum.Session()
    table = pa.table({"a": [1]})
    made = pilum.write_dataset(table, tmp_path / "t", use_legacy_format=True, session=session)
    assert made.data_storage_version == "0.1"
    assert made.session() is session
    with pytest.raises(InvalidInputError, match="not both"):
        pilum.write_dataset(
            table, tmp_path / "u", use_legacy_format=True, data_storage_version="2.1"
        )
