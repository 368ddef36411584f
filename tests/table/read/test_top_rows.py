"""Sorted scans with a limit give what sorting the whole table gives, and read less."""

import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pilum
from pilum.dataset.scan import ColumnOrdering
from pilum.table.read import top_rows

ROWS = 2_000


@pytest.fixture(autouse=True, scope="module")
def small_samples() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_rows, "_SAMPLES", 5)
        patch.setattr(top_rows, "_SAMPLE_ROWS", 20)
        yield


def columns() -> pa.Table:
    random = np.random.default_rng(7)
    numbers = random.integers(-40, 40, ROWS)
    floats = np.where(numbers % 9 == 0, np.nan, numbers / 4)
    floats[::17] = -0.0
    present = random.random(ROWS) < 0.8
    few = random.random(ROWS) < 0.01
    return pa.table(
        {
            "id": np.arange(ROWS),
            "n": pa.array(numbers, mask=~present),
            "rare": pa.array(numbers, mask=~few),
            "f": pa.array(floats, mask=~present),
            "t": pa.array([f"text {number}" for number in numbers]),
            "d": pa.array([Decimal(int(number)) / 100 for number in numbers], pa.decimal128(9, 2)),
            "at": pa.array(numbers.astype("datetime64[s]")),
            "s": pa.array([{"m": int(n)} if n % 5 else None for n in numbers]),
            "c": pa.array(numbers.astype(str)).dictionary_encode(),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pilum.LanceDataset:
    path = tmp_path_factory.mktemp("top") / "t"
    dataset = pilum.write_dataset(columns(), path, max_rows_per_file=450)
    dataset.delete("id % 7 = 3 OR id BETWEEN 470 AND 500")
    return dataset


def rank(value: Any) -> Any:
    """Return what Python sorts as the documentation of `ordering.py` says."""
    if not isinstance(value, float):
        return value
    is_nan = math.isnan(value)
    return is_nan, 0 if is_nan else value, math.copysign(1, value)


def expected(rows: list[dict[str, Any]], keys: list[ColumnOrdering]) -> list[int]:
    """Return the ids in order, by stable sorts of Python, the least important key first."""
    for key in reversed(keys):
        name, *members = key.column_name.split(".")

        def value(row: dict[str, Any], name: str = name, members: list[str] = members) -> Any:
            found = row[name]
            return found if not members or found is None else found[members[0]]

        values = [row for row in rows if value(row) is not None]
        nulls = [row for row in rows if value(row) is None]
        # Reversing twice keeps rows with equal values in order.
        values = values[:: 1 if key.ascending else -1]
        values.sort(key=lambda row: rank(value(row)))
        values = values[:: 1 if key.ascending else -1]
        rows = nulls + values if key.nulls_first else values + nulls
    return [row["id"] for row in rows]


NAMES = ["id", "n", "rare", "f", "t", "d", "at", "s.m", "c"]
KEYS = st.builds(ColumnOrdering, st.sampled_from(NAMES), st.booleans(), st.booleans())


@given(
    keys=st.lists(KEYS, min_size=1, max_size=2, unique_by=lambda key: key.column_name),
    limit=st.integers(0, 40),
    offset=st.integers(0, 9),
    filter=st.sampled_from([None, "n > 3", "id % 50 = 1", "f IS NULL OR t = 'text 5'", "id < 0"]),
    columns=st.sampled_from([None, ["id"], ["t", "id"]]),
)
def test_the_first_rows_of_an_order(
    table: pilum.LanceDataset,
    keys: list[ColumnOrdering],
    limit: int,
    offset: int,
    filter: str | None,
    columns: list[str] | None,
) -> None:
    rows = table.to_table(filter=filter).to_pylist()
    found = table.to_table(columns, filter=filter, order_by=keys, limit=limit, offset=offset)
    ids = expected(rows, keys)[offset : offset + limit]
    assert found["id"].to_pylist() == ids
    by_id = {row["id"]: row for row in rows}
    for row in found.to_pylist():
        assert all(repr(by_id[row["id"]][name]) == repr(value) for name, value in row.items())


def test_some_fragments_and_row_ids(table: pilum.LanceDataset) -> None:
    fragments = table.get_fragments()[1:3]
    rows = [row for part in fragments for row in part.to_table().to_pylist()]
    keys = [ColumnOrdering("n", False)]
    found = table.scanner(
        order_by=keys, limit=9, fragments=fragments, with_row_id=True, with_row_address=True
    ).to_table()
    assert found["id"].to_pylist() == expected(rows, keys)[:9]
    taken = table._take_rows(found["_rowid"].to_pylist(), columns=["id"])
    assert taken["id"].to_pylist() == found["id"].to_pylist()


def test_a_fast_search_leaves_out_no_rows_by_an_index_of_the_sort_key(tmp_path: Path) -> None:
    rows = pa.table({"x": np.arange(ROWS, 2 * ROWS), "y": np.arange(ROWS)})
    dataset = pilum.write_dataset(rows, tmp_path / "t")
    dataset.create_scalar_index("x", "BTREE")
    dataset.insert(pa.table({"x": np.arange(ROWS), "y": np.arange(ROWS)}))
    for where in (None, "y >= 0"):
        found = dataset.to_table(filter=where, order_by=["x"], limit=3, fast_search=True)
        assert found["x"].to_pylist() == [0, 1, 2]


def test_only_the_first_rows_of_other_columns_are_read(tmp_path: Path) -> None:
    rows = pa.table(
        {"x": np.random.default_rng(1).permutation(ROWS * 20), "blob": ["b" * 99] * (ROWS * 20)}
    )
    dataset = pilum.write_dataset(rows, tmp_path / "t", max_rows_per_file=ROWS * 5)
    read: list[int] = []
    found = dataset.scanner(
        order_by=["x"], limit=3, scan_stats_callback=lambda found: read.append(found.bytes_read)
    ).to_table()
    assert found["x"].to_pylist() == [0, 1, 2]
    assert found["blob"].to_pylist() == ["b" * 99] * 3
    assert read[0] < 99 * ROWS * 20 / 4
