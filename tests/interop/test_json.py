"""JSON columns: text for users, one binary form for both libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import pilum
from pilum.errors import CorruptFileError, FilterError, InvalidInputError, SchemaMismatchError

pytestmark = pytest.mark.reference

TEXTS = ['{"a":1,"b":[1,2.5,null,true,"x"]}', None, "3", '"é"', "[]", '{"a":{},"b":-5}']
JSON = pa.array(TEXTS, pa.json_())
FLAT = {
    "j": JSON,
    "s": pa.StructArray.from_arrays([JSON, pa.array(range(6))], ["j", "n"]),
    "x": pa.array(range(6)),
}
LISTS = {"l": pa.ListArray.from_arrays(pa.array([0, 1, None, 3, 4, 5, 6], pa.int32()), JSON)}
MAPS = {"m": pa.MapArray.from_arrays([0, 2, 2, 3, 6, 6, 6], list("abcdef"), JSON)}
TABLES = {
    "0.1": pa.table(FLAT),
    "2.0": pa.table(FLAT | LISTS),
    "2.1": pa.table(FLAT | LISTS),
    "2.2": pa.table(FLAT | LISTS | MAPS),
}


@pytest.mark.parametrize("version", TABLES)
@pytest.mark.parametrize(("writer", "reader"), [(pilum, lance), (lance, pilum), (pilum, pilum)])
def test_both_read_what_both_write(tmp_path: Path, version: str, writer: Any, reader: Any) -> None:
    table = TABLES[version]
    writer.write_dataset(table, tmp_path / "t", data_storage_version=version)
    writer.write_dataset(table, tmp_path / "t", mode="append")
    dataset = reader.dataset(tmp_path / "t")
    found = dataset.to_table()
    assert found.schema == table.schema
    assert found.to_pylist() == 2 * table.to_pylist()
    assert dataset.take([7, 0]).to_pylist() == table.take([1, 0]).to_pylist()
    assert dataset.to_table(filter="x = 3", columns=["j"]).to_pylist() == 2 * [{"j": '"é"'}]
    assert dataset.count_rows("j IS NULL") == 2


def test_slices_and_plain_text_fit(tmp_path: Path) -> None:
    table = TABLES["2.2"]
    dataset = pilum.write_dataset(table.slice(3, 2), tmp_path / "t", data_storage_version="2.2")
    pilum.write_dataset(pa.table({"j": [" {} "], "x": [9]}), tmp_path / "t", mode="append")
    dataset.checkout_latest()
    assert dataset.to_table().slice(0, 2).to_pylist() == table.slice(3, 2).to_pylist()
    assert dataset.take([2], columns=["j"]).to_pylist() == [{"j": "{}"}]
    assert dataset.schema == table.schema


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (pa.array(["1", "[1"], pa.json_()), InvalidInputError, r"column 'j' is JSON: row 1: EOF"),
        (pa.array([b"1"]), SchemaMismatchError, "the type json, the data has binary"),
        (pa.array([1]), SchemaMismatchError, "the type json, the data has int64"),
    ],
)
def test_what_does_not_fit(tmp_path: Path, data: Any, error: Any, message: str) -> None:
    dataset = pilum.write_dataset(pa.table({"j": JSON}), tmp_path / "t")
    with pytest.raises(error, match=message):
        pilum.write_dataset(pa.table({"j": data}), tmp_path / "t", mode="append")
    with pytest.raises(FilterError, match="large_binary does not compare with string"):
        dataset.count_rows("j = '3'")
    assert dataset.latest_version == 1


def test_damaged_values_are_named(tmp_path: Path) -> None:
    metadata = {"ARROW:extension:name": "lance.json", "ARROW:extension:metadata": ""}
    schema = pa.schema([pa.field("j", pa.large_binary(), metadata=metadata)])
    pilum.write_dataset(pa.table([[b"\x80\0\0\1"]], schema), tmp_path / "t")
    with pytest.raises(CorruptFileError, match=r"(?s)row 0.*column 'j', binary JSON"):
        pilum.dataset(tmp_path / "t").to_table()
