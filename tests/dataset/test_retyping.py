"""Columns get another type: only their values are written anew (S2.9)."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    UnsupportedVersionError,
)

STRUCT = pa.struct(
    [("x", pa.int64()), ("y", pa.string()), ("z", pa.list_(pa.struct([("u", pa.int64())])))]
)


def written(path: Path, table: pa.Table, version: str = "2.1") -> pilum.LanceDataset:
    dataset = pilum.write_dataset(
        table, path / "t", max_rows_per_file=3, data_storage_version=version
    )
    dataset.delete("k = 1")
    return dataset


def snapshot_of(dataset: pilum.LanceDataset) -> tuple[int, set[str]]:
    root = Path(dataset.uri)
    files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    return pilum.dataset(dataset.uri).version, files


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_column_keeps_its_place_and_name(tmp_path: Path, version: str) -> None:
    # The value that does not fit is deleted, so that nobody needs it.
    table = pa.table({"k": range(8), "a": [0, 1 << 40, 2, 3, None, 5, 6, 7], "b": ["x"] * 8})
    dataset = written(tmp_path, table, version)
    before = [file.path for one in dataset.get_fragments() for file in one.data_files()]
    dataset.alter_columns({"path": "a", "data_type": pa.int8(), "name": "small"})
    assert dataset.schema == pa.schema(
        [("k", pa.int64()), ("small", pa.int8()), ("b", pa.string())]
    )
    assert dataset.to_table()["small"].to_pylist() == [0, 2, 3, None, 5, 6, 7]
    assert [field.id for field in dataset.lance_schema.stored.fields] == [0, 3, 2]
    files = [one.data_files() for one in dataset.get_fragments()]
    assert [of_one[0].path for of_one in files] == before
    assert [len(of_one) for of_one in files] == [2, 2, 2]
    dataset.alter_columns({"path": "small", "data_type": pa.int64()})
    assert dataset.to_table(filter="small > 4")["small"].to_pylist() == [5, 6, 7]
    assert dataset.checkout_version(2).to_table()["a"].to_pylist() == [0, 2, 3, None, 5, 6, 7]


def test_members_change_alone(tmp_path: Path) -> None:
    values = [
        {"x": 1, "y": "a", "z": [{"u": 1}, None]},
        {"x": 9, "y": "b", "z": []},
        None,
        {"x": None, "y": None, "z": None},
        {"x": 5, "y": "e", "z": [{"u": None}]},
    ]
    table = pa.table({"k": range(5), "s": pa.array(values, STRUCT)})
    dataset = written(tmp_path, table)
    dataset.alter_columns(
        {"path": "s.x", "data_type": pa.int8(), "name": "w"},
        {"path": "s.z.item.u", "data_type": pa.uint16()},
        {"path": "s.y", "name": "v"},
    )
    item = pa.struct([("u", pa.uint16())])
    expected = pa.struct([("w", pa.int8()), ("v", pa.string()), ("z", pa.list_(item))])
    assert dataset.schema.field("s").type == expected
    found = [
        one and {"x": one["w"], "y": one["v"], "z": one["z"]}
        for one in dataset.to_table()["s"].to_pylist()
    ]
    assert found == [values[0], *values[2:]]
    new = dataset.get_fragments()[0].data_files()[1].fields
    assert sorted(new) == [7, 8]


@pytest.mark.parametrize(
    ("values", "old", "new", "expected"),
    [
        ([1.5, None], pa.float64(), pa.float16(), [1.5, None]),
        (["a", None], pa.string(), pa.large_string(), ["a", None]),
        ([b"a", None], pa.large_binary(), pa.binary(), [b"a", None]),
        ([Decimal("1.255")], pa.decimal128(9, 3), pa.decimal256(40, 2), [Decimal("1.26")]),
        ([date(2020, 1, 2)], pa.date32(), pa.timestamp("s"), [datetime(2020, 1, 2)]),
        (
            [datetime(2020, 1, 2, 12)],
            pa.timestamp("us"),
            pa.timestamp("ms", "America/New_York"),
            [datetime(2020, 1, 2, 17, tzinfo=UTC)],
        ),
        ([datetime(2020, 1, 2, 12)], pa.timestamp("us"), pa.time32("s"), [time(12)]),
        ([datetime(2020, 1, 2, 0, 0, 0, 7)], pa.timestamp("us"), pa.date64(), [date(2020, 1, 2)]),
        ([[1, 2], None], pa.list_(pa.int64()), pa.large_list(pa.int8()), [[1, 2], None]),
        ([[1, 2], None], pa.list_(pa.int64()), pa.list_(pa.int8(), 2), [[1, 2], None]),
        ([[1.0, 2.0], None], pa.list_(pa.float64(), 2), pa.list_(pa.float16()), [[1, 2], None]),
        (["a", None], pa.string(), pa.dictionary(pa.int8(), pa.string()), ["a", None]),
        ([3, None], pa.int64(), pa.dictionary(pa.int8(), pa.int16()), [3, None]),
    ],
)
def test_types_of_one_kind_follow_each_other(
    tmp_path: Path, values: list[Any], old: pa.DataType, new: pa.DataType, expected: list[Any]
) -> None:
    table = pa.table({"k": range(2, 2 + len(values)), "a": pa.array(values, old)})
    dataset = written(tmp_path, table)
    dataset.alter_columns({"path": "a", "data_type": new})
    assert dataset.schema.field("a").type == new
    assert dataset.to_table()["a"].to_pylist() == expected


@pytest.mark.parametrize(
    ("alteration", "error", "message"),
    [
        ({"data_type": pa.int8()}, SchemaMismatchError, "'a': values of type int64 do not fit"),
        ({"data_type": pa.string()}, SchemaMismatchError, "cannot change from int64 to string"),
        ({"data_type": pa.float64()}, SchemaMismatchError, "cannot change"),
        ({"data_type": "int8"}, InvalidInputError, "expected a pyarrow type"),
        ({"data_type": pa.int8(), "path": "z"}, ColumnNotFoundError, "'z'"),
        ({"data_type": pa.int16(), "path": "s"}, SchemaMismatchError, "cannot change from struct"),
        ({"data_type": pa.int16(), "name": "k"}, InvalidInputError, "two columns"),
        ({"data_type": pa.int16(), "nullable": False}, InvalidInputError, "a call of its own"),
        ({"data_type": pa.list_(pa.int8()), "path": "l"}, SchemaMismatchError, "do not fit"),
        (
            {"data_type": pa.map_(pa.string(), pa.int8()), "path": "l"},
            SchemaMismatchError,
            "cannot change",
        ),
    ],
)
def test_what_does_not_fit_changes_nothing(
    tmp_path: Path, alteration: dict[str, Any], error: type[Exception], message: str
) -> None:
    table = pa.table({"k": range(4), "a": [1, 2, 3, 300], "s": [{"x": 1}] * 4, "l": [[300]] * 4})
    dataset = written(tmp_path, table)
    before = snapshot_of(dataset)
    with pytest.raises(error, match=message):
        dataset.alter_columns({"path": "a"} | alteration)
    assert snapshot_of(dataset) == before


def test_a_list_and_its_items_cannot_both_change(tmp_path: Path) -> None:
    dataset = written(tmp_path, pa.table({"k": [2], "l": [[1]]}))
    with pytest.raises(InvalidInputError, match="its members go with it"):
        dataset.alter_columns(
            {"path": "l", "data_type": pa.list_(pa.int8())},
            {"path": "l.item", "data_type": pa.int16()},
        )


def test_tables_of_old_versions_refuse_what_their_files_cannot(tmp_path: Path) -> None:
    table = pa.table({"k": [2], "a": [1], "s": [{"x": 1}]})
    dataset = written(tmp_path / "2.0", table, "2.0")
    with pytest.raises(UnsupportedVersionError, match=r"alone in a table of version 2\.0"):
        dataset.alter_columns({"path": "s.x", "data_type": pa.int8()})


def test_members_of_maps_and_packed_structs_keep_their_types(tmp_path: Path) -> None:
    entries = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))
    dataset = pilum.write_dataset(
        pa.table({"m": entries}), tmp_path / "t", data_storage_version="2.2"
    )
    with pytest.raises(UnsupportedFeatureError, match="map"):
        dataset.alter_columns({"path": "m.entries.value", "data_type": pa.int8()})
