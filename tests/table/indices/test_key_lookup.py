"""Keys that are looked up in an index give the pairs of a join."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError
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


_KEYS = (
    lambda random: random.permutation(4000),
    lambda random: random.integers(-(2**62), 2**62, 4000),
    lambda random: random.integers(0, 900, 4000),
    lambda random: random.integers(0, 9, 4000) * 2**40 + random.integers(0, 700, 4000),
)
"""Keys of a table: dense, random, repeated and clustered."""


@pytest.mark.seeds(8)
def test_random_merges_by_an_indexed_key(tmp_path: Path, seed: int) -> None:
    """Rows are those of a merge in plain Python: nulls, deleted rows, rows without index."""
    random = np.random.default_rng(seed)
    keys = pa.array(_KEYS[seed % 4](random), mask=random.random(4000) < 0.05)
    table = pa.table({"key": keys, "value": np.arange(4000)})
    stable = bool(random.integers(2))
    dataset = pilum.write_dataset(
        table[:3500], tmp_path / "t", max_rows_per_file=1000, enable_stable_row_ids=stable
    )
    has_small_pages = bool(seed // 4)  # so many that adjacent ones are joined
    dataset.create_scalar_index("key", "BTREE", zone_size=20 if has_small_pages else 4096)
    dataset = pilum.write_dataset(table[3500:], dataset.uri, mode="append")
    dataset.delete(f"value % 13 = {seed}")
    drawn = random.choice(4000, 200 if has_small_pages else 60, replace=False).tolist()
    wanted = dict.fromkeys([*keys.take(drawn).to_pylist(), -1, 10**15])
    rows = [row for row in table.to_pylist() if row["value"] % 13 != seed]
    values = -1 - np.arange(len(wanted))
    source = pa.table({"key": pa.array([*wanted], pa.int64()), "value": values})
    merge = dataset.merge_insert("key").when_not_matched_insert_all()
    deletes = bool(random.integers(2))
    merge = merge.when_matched_delete() if deletes else merge.when_matched_update_all()
    with pytest.raises(InvalidInputError, match="several rows of the source"):
        merge.execute(pa.concat_tables([source, source]))
    result = merge.execute(source)
    new = {row["key"]: row["value"] for row in source.to_pylist() if row["key"] is not None}
    known = {row["key"] for row in rows}
    matched = [row for row in rows if row["key"] in new]
    expected = [row for row in rows if row["key"] not in new]
    expected += [] if deletes else [{**row, "value": new[row["key"]]} for row in matched]
    inserted = [row for row in source.to_pylist() if row["key"] is None or row["key"] not in known]
    assert result == {
        "num_inserted_rows": len(inserted),
        "num_updated_rows": 0 if deletes else len(matched),
        "num_deleted_rows": len(matched) if deletes else 0,
    }
    found = dataset.to_table(["key", "value"]).to_pylist()
    assert Counter(map(str, found)) == Counter(map(str, expected + inserted))
    some = next(key for key in new if key in known)
    named = [row for row in expected if row["key"] == some]
    assert dataset.to_table(filter=f"key = {some}").num_rows == len(named)
