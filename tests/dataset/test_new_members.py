"""Structs that a table has get new members (S2.9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError, SchemaMismatchError, UnsupportedVersionError

ROWS: list[Any] = [{"x": 1}, None, {"x": None}, {"x": 4}, {"x": 5}]


@pytest.fixture(params=["2.1", "2.2"])
def dataset(tmp_path: Path, request: pytest.FixtureRequest) -> pilum.LanceDataset:
    table = pa.table({"k": range(5), "s": pa.array(ROWS, pa.struct([("x", pa.int64())]))})
    made = pilum.write_dataset(
        table, tmp_path / "t", max_rows_per_file=2, data_storage_version=request.param
    )
    made.delete("k = 3")
    return made


def structs(dataset: pilum.LanceDataset) -> list[Any]:
    found: list[Any] = dataset.to_table(["s"])["s"].to_pylist()
    return found


def test_null_structs_stay_null_and_others_do_not_become_it(dataset: pilum.LanceDataset) -> None:
    values = [{"z": [7]}, {"z": [8]}, None, {"z": None}]
    more = pa.table({"s": pa.array(values), "n": pa.array([1, 2, 3, 4])})
    dataset.add_columns(more.to_reader(max_chunksize=3))
    assert dataset.schema.names == ["k", "s", "n"]
    assert structs(dataset) == [
        {"x": 1, "z": [7]},
        None,
        {"x": None, "z": None},
        {"x": 5, "z": None},
    ]
    assert dataset.to_table(filter="s.x = 1")["n"].to_pylist() == [1]


def test_members_come_from_functions_and_without_values(dataset: pilum.LanceDataset) -> None:
    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        values = [{"t": {"u": row}} for row in batch["k"].to_pylist()]
        return pa.record_batch({"s": pa.array(values)})

    dataset.add_columns(function, batch_size=1)
    deeper = pa.struct([("t", pa.struct([pa.field("v", pa.string())]))])
    dataset.add_columns(pa.field("s", deeper))
    assert structs(dataset) == [
        {"x": 1, "t": {"u": 0, "v": None}},
        None,
        {"x": None, "t": {"u": 2, "v": None}},
        {"x": 5, "t": {"u": 4, "v": None}},
    ]
    assert [field.id for field in dataset.lance_schema.stored.walk()] == [0, 1, 2, 3, 4, 5]
    dataset.drop_columns(["s.t"])
    assert structs(dataset) == [ROWS[0], None, ROWS[2], ROWS[4]]


def test_a_member_that_must_not_be_null_needs_a_value_for_each_struct(
    dataset: pilum.LanceDataset,
) -> None:
    kind = pa.struct([pa.field("z", pa.int64(), nullable=False)])
    values = pa.array([{"z": 1}, None, {"z": 3}, {"z": 4}], kind)
    dataset.add_columns(pa.table({"s": values}))
    assert structs(dataset)[1] is None
    version = dataset.version
    other = pa.struct([pa.field("w", pa.int64(), nullable=False)])
    with pytest.raises(SchemaMismatchError, match="1 values of 'w' are null"):
        dataset.add_columns(pa.table({"s": pa.array([None, {"w": 2}, {"w": 3}, {"w": 4}], other)}))
    with pytest.raises(InvalidInputError, match=r"must be nullable: \['s\.w'\]"):
        dataset.add_columns(pa.field("s", other))
    assert pilum.dataset(dataset.uri).version == version


@pytest.mark.parametrize(
    "field",
    [
        pa.field("s", pa.struct([("x", pa.int8())])),
        pa.field("s", pa.struct([])),
        pa.field("s", pa.int8()),
        pa.field("k", pa.struct([("z", pa.int8())])),
    ],
)
def test_what_is_there_already_cannot_be_added(
    dataset: pilum.LanceDataset, field: pa.Field
) -> None:
    with pytest.raises(SchemaMismatchError, match="already"):
        dataset.add_columns(field)


def test_there_must_be_a_value_for_each_row(dataset: pilum.LanceDataset) -> None:
    for count in (3, 5):
        values = pa.table({"s": [{"z": 1}] * count})
        with pytest.raises(InvalidInputError, match="values of"):
            dataset.add_columns(values)


def test_files_of_version_2_0_keep_structs_together(tmp_path: Path) -> None:
    table = pa.table({"s": [{"x": 1}]})
    dataset = pilum.write_dataset(table, tmp_path / "t", data_storage_version="2.0")
    with pytest.raises(UnsupportedVersionError, match=r"alone in a table of version 2\.0"):
        dataset.add_columns(pa.table({"s": [{"z": 1}]}))
    with pytest.raises(UnsupportedVersionError, match=r"alone in a table of version 2\.0"):
        dataset.add_columns(pa.field("s", pa.struct([("z", pa.int8())])))
    assert dataset.version == 1


@pytest.mark.parametrize(
    "kind",
    [
        pa.map_(pa.string(), pa.int64()),
        pa.struct([pa.field("x", pa.int8(), nullable=False)]),
        pa.list_(pa.field("item", pa.int8(), nullable=False)),
        pa.list_(pa.field("item", pa.float32(), nullable=False), 2),
    ],
    ids=str,
)
def test_nested_columns_without_values_may_have_members_that_must_not_be_null(
    tmp_path: Path, kind: pa.DataType
) -> None:
    dataset = pilum.write_dataset(pa.table({"k": [1, 2]}), tmp_path / "t")
    dataset.add_columns(pa.field("new", kind))
    assert dataset.to_table()["new"].to_pylist() == [None, None]
    assert dataset.count_rows("new IS NULL") == 2
    more = pa.table({"k": [3], "new": pa.nulls(1, kind)}, schema=dataset.schema)
    dataset.insert(more)
    dataset.optimize.compact_files()
    assert dataset.to_table()["new"].to_pylist() == [None, None, None]
