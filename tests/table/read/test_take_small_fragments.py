"""Rows of many small fragments: read together, and the same as of one large one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pilum

ROWS = 200


def rows() -> pa.Table:
    members = [{"a": i, "b": None if i % 4 == 0 else f"b{i}"} for i in range(ROWS)]
    return pa.table(
        {
            "id": pa.array(range(ROWS)),
            "text": [None if i % 7 == 0 else "word" * (i % 5) for i in range(ROWS)],
            "struct": pa.array(members, pa.struct({"a": pa.int32(), "b": pa.string()})),
            "list": [[i] * (i % 3) for i in range(ROWS)],
        }
    )


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def dataset(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    """Small fragments, one large one in between, and deleted rows."""
    path = tmp_path_factory.mktemp("small") / "t"
    version = {"data_storage_version": request.param}
    table = rows()
    pilum.write_dataset(table.slice(0, 80), path, max_rows_per_file=9, **version)
    big = table.slice(80, 40).set_column(1, "text", pa.array(["x" * 3000] * 40))
    pilum.write_dataset(big, path, mode="append")
    made = pilum.write_dataset(table.slice(120), path, max_rows_per_file=11, mode="append")
    made.delete("id % 13 = 5")
    return made


@given(st.lists(st.integers(0, 184), max_size=60))
def test_any_rows_in_any_order(dataset: Any, wanted: list[int]) -> None:
    assert dataset.take(wanted).equals(dataset.to_table().take(pa.array(wanted, pa.int64())))


def test_columns_that_no_file_has(dataset: Any) -> None:
    names = ["struct.b", "_rowaddr", "id"]
    wanted = list(range(0, 180, 7))
    found = dataset.take(wanted, columns=names)
    whole = dataset.scanner(columns=["struct", "id"], with_row_address=True).to_table()
    expected = whole.take(pa.array(wanted))
    assert found["_rowaddr"].equals(expected["_rowaddr"])
    assert found["id"].equals(expected["id"])
    assert [row["b"] for row in found["struct"].to_pylist()] == [
        row["b"] for row in expected["struct"].to_pylist()
    ]


def test_small_files_are_one_request_each(tmp_path: Path) -> None:
    made = pilum.write_dataset(rows(), tmp_path / "t", max_rows_per_file=10)
    opened = pilum.dataset(tmp_path / "t", session=pilum.Session())
    opened.io_stats_incremental()
    taken = opened.take(np.arange(5, ROWS, 10))
    assert opened.io_stats_incremental().read_iops == len(made.get_fragments())
    assert taken["id"].to_pylist() == list(range(5, ROWS, 10))
