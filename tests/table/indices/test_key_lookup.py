"""Keys that are looked up in an index give the pairs of a join."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.table.indices import key_lookup
from pilum.table.indices.key_lookup import look_up

SIZE = 600


def make(path: Path, *, stable: bool = False) -> pilum.LanceDataset:
    random = np.random.default_rng(3)
    numbers = random.integers(0, 200, SIZE)
    rows = pa.table(
        {
            "i": pa.array([None if one < 9 else int(one) for one in numbers], pa.int32()),
            "s": [None if one < 9 else f"k{one}" for one in numbers],
            "d": pa.array([None if one < 9 else int(one) for one in numbers], pa.date32()),
            "f": pa.array(numbers.astype(float)),
            "row": np.arange(SIZE),
        }
    )
    dataset = pilum.write_dataset(rows, path, max_rows_per_file=100, enable_stable_row_ids=stable)
    for column in "isdf":
        dataset.create_scalar_index(column, "BTREE")
    dataset.delete("row % 11 = 4")
    return pilum.write_dataset(rows.slice(0, 50), path, mode="append")


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("column", ["i", "s", "d", "f"])
def test_pairs(tmp_path: Path, column: str, stable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_lookup, "_ROWS_PER_KEY", 1)
    dataset = make(tmp_path / "t", stable=stable)
    stored = dataset.to_table([column, "_rowaddr"])
    values = [50, 7, 50, 120, 300, 0, 199]
    type = pa.string() if column == "s" else pa.int32()
    array = pa.array([f"k{one}" for one in values] if column == "s" else values, type)
    keys = array.cast(stored.schema.field(column).type)
    found = look_up(dataset.snapshot, column, keys)
    assert found is not None
    assert sorted(found.covered) == list(range(6))
    pairs = zip(found.places.tolist(), found.addresses.tolist(), strict=True)
    rows = list(zip(stored[column].to_pylist(), stored["_rowaddr"].to_pylist(), strict=True))
    expected = [
        (place, address)
        for place, key in enumerate(keys.to_pylist())
        for value, address in rows
        if value == key and address >> 32 < 6
    ]
    assert Counter(pairs) == Counter(expected)


def test_joins_that_an_index_does_not_speed_up(tmp_path: Path) -> None:
    dataset = make(tmp_path / "t")
    keys = pa.array(range(9, 200), pa.int32())
    assert look_up(dataset.snapshot, "i", keys) is None
    assert look_up(dataset.snapshot, "i", keys[:3]) is not None
    assert look_up(dataset.snapshot, "row", pa.array([1])) is None


def test_a_damaged_index_is_not_used(tmp_path: Path) -> None:
    make(tmp_path / "t")
    dataset = pilum.dataset(tmp_path / "t", session=pilum.Session())
    [uuid] = [one["uuid"] for one in dataset.list_indices() if one["name"] == "i_idx"]
    page = tmp_path / "t" / "_indices" / uuid / "page_data.lance"
    page.write_bytes(page.read_bytes()[:50])
    with pytest.warns(RuntimeWarning, match=f"'i_idx', segment {uuid}, is not used"):
        assert look_up(dataset.snapshot, "i", pa.array([1], pa.int32())) is None


@pytest.mark.parametrize("key", ["i", "s", "d"])
def test_merges_by_an_indexed_key(tmp_path: Path, key: str) -> None:
    found = []
    for uses_index in (True, False):
        dataset = make(tmp_path / str(uses_index), stable=True)
        dataset.delete("i = 30")
        numbers = [12, 30, 61, 500, None, 77]
        source = pa.table(
            {
                "i": pa.array(numbers, pa.int32()),
                "s": [None if one is None else f"k{one}" for one in numbers],
                "d": pa.array(numbers, pa.int32()).cast(pa.date32()),
                "row": pa.array([-1] * len(numbers)),
            }
        )
        merge = dataset.merge_insert(key).use_index(uses_index)
        result = merge.when_matched_update_all().when_not_matched_insert_all().execute(source)
        rows = dataset.to_table(["i", "s", "d", "row", "_rowid"])
        found.append((result, rows))
    assert found[0][0] == found[1][0]
    assert found[0][0]["num_updated_rows"] > 3
    assert found[0][1].equals(found[1][1])
