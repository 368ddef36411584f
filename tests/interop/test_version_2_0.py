"""Files of version 2.0 in both directions: every type that they hold, every bit (S0.4)."""

from __future__ import annotations

import glob
import os
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop.comparison import as_stored, assert_same
from interop.reading import Request, assert_reads_as, requests
from interop.strategies import tables

import pilum

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

_NUMBERS = count()
_ROWS_PER_FILE = st.sampled_from([1_000_000, 1_000_000, 4096, 30_000])


def storable(table: pa.Table) -> pa.Table:
    """The table without null structs, which version 2.0 has no place for."""
    stored = as_stored(table)
    arrays = [_without_null_structs(pa.concat_arrays(c.chunks)) for c in _chunked(stored)]
    return pa.Table.from_arrays(arrays, schema=stored.schema)


def _chunked(table: pa.Table) -> list[pa.ChunkedArray]:
    return [c if c.num_chunks else pa.chunked_array([pa.nulls(0, c.type)]) for c in table.columns]


def _without_null_structs(array: pa.Array) -> pa.Array:
    kind = array.type
    if pt.is_struct(kind):
        members = [_without_null_structs(array.field(i)) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(members, fields=list(kind))
    if pt.is_list(kind) or pt.is_large_list(kind):
        make = pa.LargeListArray if pt.is_large_list(kind) else pa.ListArray
        mask = array.is_null() if array.null_count else None
        return make.from_arrays(
            array.offsets, _without_null_structs(array.values), type=kind, mask=mask
        )
    return array


@settings(max_examples=50)
@given(table=tables(), rows_per_file=_ROWS_PER_FILE)
def test_what_we_wrote_it_reads(tmp_path: Path, table: pa.Table, rows_per_file: int) -> None:
    path, table = str(tmp_path / str(next(_NUMBERS))), storable(table)
    pilum.write_dataset(table, path, data_storage_version="2.0", max_rows_per_file=rows_per_file)
    found = lance.dataset(path)
    assert found.data_storage_version == "2.0"
    assert_same(found.to_table(), table)
    if table.num_rows:
        rows = [table.num_rows - 1, 0, table.num_rows // 2, 0]
        assert_same(found.take(rows), table.take(rows))


@settings(max_examples=50)
@given(table=tables(), rows_per_file=_ROWS_PER_FILE, request=requests())
def test_what_it_wrote_we_read(
    tmp_path: Path, table: pa.Table, rows_per_file: int, request: Request
) -> None:
    path, table = str(tmp_path / str(next(_NUMBERS))), storable(table)
    lance.write_dataset(table, path, data_storage_version="2.0", max_rows_per_file=rows_per_file)
    assert_reads_as(pilum.dataset(path), table, request)


@settings(max_examples=40)
@given(table=tables(), rows_per_file=_ROWS_PER_FILE, request=requests())
def test_what_we_wrote_we_read(
    tmp_path: Path, table: pa.Table, rows_per_file: int, request: Request
) -> None:
    path, table = str(tmp_path / str(next(_NUMBERS))), storable(table)
    pilum.write_dataset(table, path, data_storage_version="2.0", max_rows_per_file=rows_per_file)
    assert_reads_as(pilum.dataset(path), table, request)


PACKED = {
    "numbers": pa.struct([("a", pa.int32()), ("b", pa.float64()), ("c", pa.int8())]),
    "lists": pa.struct([("a", pa.list_(pa.list_(pa.int8(), 2), 3)), ("b", pa.binary(5))]),
    "times": pa.struct([("a", pa.decimal128(25, 2)), ("b", pa.timestamp("us", "UTC"))]),
}


def packed(kind: pa.DataType, rows: int) -> pa.Table:
    members = [_values(member.type, rows) for member in kind]
    array = pa.StructArray.from_arrays(members, fields=list(kind))
    field = pa.field("p", array.type, metadata={"packed": "true"})
    return pa.table([array], schema=pa.schema([field]))


def _values(kind: pa.DataType, count: int) -> pa.Array:
    if pt.is_fixed_size_list(kind):
        items = _values(kind.value_type, count * kind.list_size)
        return pa.FixedSizeListArray.from_arrays(items, type=kind)
    numbers = pa.array(np.arange(count) % 100)
    if pt.is_fixed_size_binary(kind):
        return pc.utf8_lpad(numbers.cast(pa.string()), kind.byte_width).cast(kind)
    return (
        numbers.cast(pa.decimal128(19, 0)).cast(kind) if pt.is_decimal(kind) else numbers.cast(kind)
    )


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("ours", [True, False])
def test_packed_structs(tmp_path: Path, name: str, ours: bool) -> None:
    path, table = str(tmp_path / "t"), packed(PACKED[name], 700)
    writer: Any = pilum if ours else lance
    writer.write_dataset(table, path, data_storage_version="2.0", max_rows_per_file=300)
    found, expected = pilum.dataset(path), lance.dataset(path)
    assert_same(found.to_table(), expected.to_table())
    rows = [3, 699, 0, 301]
    assert_same(found.take(rows), expected.take(rows))
    # The reference takes a member's bytes from the wrong place if others are left out.
    part = found.to_table(columns=["p.b", "p.a"]).to_pylist()
    assert part == [{"p.b": row["b"], "p.a": row["a"]} for row in table["p"].to_pylist()]
    files = [fragment.data_files()[0] for fragment in expected.get_fragments()]
    assert [(file.fields, file.column_indices) for file in files] == [([0], [0])] * 3


def test_a_struct_that_asks_not_to_be_packed(tmp_path: Path) -> None:
    """The reference packs it on write, and then cannot read it."""
    field = pa.field("p", pa.struct([("a", pa.int8())]), metadata={"packed": "false"})
    table = pa.table([pa.array([{"a": 1}, {"a": None}], field.type)], schema=pa.schema([field]))
    path = str(tmp_path / "t")
    pilum.write_dataset(table, path, data_storage_version="2.0")
    assert_same(pilum.dataset(path).to_table(), table)
    assert_same(lance.dataset(path).to_table(), table)


def _number_of(kind: pa.DataType, count: int) -> pa.Array:
    keys = [i % 5 if i % 7 else None for i in range(count)]
    return pa.array(keys, kind)


DICTIONARIES = {
    "strings": lambda: pa.DictionaryArray.from_arrays(
        _number_of(pa.int8(), 200), ["a", "bb", "", "d", "e"]
    ),
    "numbers": lambda: pa.DictionaryArray.from_arrays(
        _number_of(pa.uint16(), 200), pa.array([1.5, 2.5, None, 4.0, 5.0])
    ),
    "all null": lambda: pa.DictionaryArray.from_arrays(pa.nulls(9, pa.int32()), ["a"]),
    "in lists": lambda: pa.ListArray.from_arrays(
        pa.array([0, 3, 3, 7]),
        pa.DictionaryArray.from_arrays(_number_of(pa.int16(), 7), [*"abcde"]),
    ),
    "in empty lists": lambda: pa.ListArray.from_arrays(
        pa.array([0, 0]), pa.DictionaryArray.from_arrays(pa.nulls(0, pa.int8()), pa.array(["a"]))
    ),
}


@pytest.mark.parametrize("name", DICTIONARIES)
@pytest.mark.parametrize("ours", [True, False])
def test_arrow_dictionaries(tmp_path: Path, name: str, ours: bool) -> None:
    path, table = str(tmp_path / "t"), pa.table({"d": DICTIONARIES[name]()})
    writer: Any = pilum if ours else lance
    writer.write_dataset(table, path, data_storage_version="2.0")
    found, expected = pilum.dataset(path), lance.dataset(path)
    assert found.schema == expected.schema
    assert found.to_table().to_pylist() == expected.to_table().to_pylist() == table.to_pylist()
    rows = [0, table.num_rows - 1, 0]
    assert found.take(rows).to_pylist() == table.take(rows).to_pylist()


def test_members_that_are_added_later(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1, 2, 3]}), path, data_storage_version="2.0")
    dataset = lance.dataset(path)
    dataset.add_columns({"b": "a * 2"})
    dataset.add_columns(pa.field("c", pa.struct([("x", pa.int8()), ("y", pa.string())])))
    expected = lance.dataset(path).to_table()
    assert pilum.dataset(path).to_table().to_pylist() == expected.to_pylist()


def _size(path: str) -> int:
    return sum(os.path.getsize(name) for name in glob.glob(f"{path}/data/*"))


@settings(max_examples=40)
@given(table=tables())
def test_no_file_is_larger(tmp_path: Path, table: pa.Table) -> None:
    ours, theirs = (str(tmp_path / f"{next(_NUMBERS)}") for _ in range(2))
    table = storable(table)
    pilum.write_dataset(table, ours, data_storage_version="2.0")
    lance.write_dataset(table, theirs, data_storage_version="2.0")
    assert _size(ours) <= 1.05 * _size(theirs) + 64


def test_tables_without_rows_keep_their_version(tmp_path: Path) -> None:
    path, table = str(tmp_path / "t"), pa.table({"a": pa.array([], pa.int8())})
    pilum.write_dataset(table, path, data_storage_version="2.0")
    assert lance.dataset(path).data_storage_version == "2.0"
    pilum.write_dataset(pa.table({"a": pa.array([1], pa.int8())}), path, mode="append")
    assert lance.dataset(path).to_table()["a"].to_pylist() == [1]
    assert lance.dataset(path).get_fragments()[0].data_files()[0].file_major_version == 2
