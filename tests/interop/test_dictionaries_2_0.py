"""Dictionary columns of version 2.0, nested and not, with nulls and without, in several chunks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import pilum
from pilum.dataset import ColumnOrdering

KIND = pa.dictionary(pa.int16(), pa.string())
WITH = ["a", "b", None, "c", "a", None, "d", "e"]
WITHOUT = ["x", "a", "y", "x", "z", "z", "b", "a"]


def null_keys(values: list[Any]) -> pa.Array:
    return pa.array(values, pa.string()).dictionary_encode().cast(KIND)


def null_entries(values: list[Any]) -> pa.Array:
    """The same values, whose nulls hide in the dictionary."""
    distinct = list(dict.fromkeys(values))
    keys = pa.array([distinct.index(value) for value in values], pa.int16())
    return pa.DictionaryArray.from_arrays(keys, pa.array(distinct, pa.string()))


def in_lists(items: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(range(0, len(items) + 1, 2), pa.int32()), items)


def in_structs(member: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([member, pa.array(range(len(member)))], ["d", "i"])


SHAPES: dict[str, Callable[[pa.Array], pa.Array]] = {
    "plain": lambda array: array,
    "lists": in_lists,
    "structs": in_structs,
    "lists of structs": lambda array: in_lists(in_structs(array)),
    "structs of lists": lambda array: in_structs(in_lists(array)),
    "lists of lists": lambda array: in_lists(in_lists(array)),
}
ORDERS: dict[str, tuple[list[Any], list[Any]]] = {
    "nulls first": (WITH, WITHOUT),
    "nulls last": (WITHOUT, WITH),
    "both": (WITH, WITH),
}
CHOICES = [*itertools.product(SHAPES, ORDERS, ["one file", "two files"])]


@pytest.mark.parametrize("shape", ["lists", "lists of structs", "lists of lists"])
def test_narrow_keys_of_several_dictionaries(tmp_path: Path, shape: str) -> None:
    """Pages of lists end where the dictionary of their items does, or nothing could read them."""
    kind = pa.dictionary(pa.int8(), pa.string())
    chunks = [
        SHAPES[shape](pa.array([f"{chunk}-{i}" for i in range(100)]).dictionary_encode().cast(kind))
        for chunk in range(3)
    ]
    expected = [one for chunk in chunks for one in chunk.to_pylist()]
    table = pa.table({"a": pa.chunked_array(chunks)})
    ds = pilum.write_dataset(table, tmp_path / "t", data_storage_version="2.0")
    assert ds.to_table()["a"].to_pylist() == expected
    rows = [0, 1, len(expected) // 2]
    assert ds.take(rows)["a"].to_pylist() == [expected[row] for row in rows]


@pytest.mark.parametrize("make", [null_keys, null_entries])
@pytest.mark.parametrize(("shape", "order", "files"), CHOICES)
def test_chunks_with_nulls_beside_chunks_without(
    tmp_path: Path, make: Callable[[list[Any]], pa.Array], shape: str, order: str, files: str
) -> None:
    path = str(tmp_path / "t")
    columns = [SHAPES[shape](make(values)) for values in ORDERS[order]]
    size = len(columns[0])
    first, second = (
        pa.table({"id": range(start, start + size), "a": column})
        for start, column in zip((0, size), columns, strict=True)
    )
    if files == "one file":
        pilum.write_dataset(pa.concat_tables([first, second]), path, data_storage_version="2.0")
    else:
        pilum.write_dataset(first, path, data_storage_version="2.0")
        pilum.write_dataset(second, path, mode="append")
    expected = columns[0].to_pylist() + columns[1].to_pylist()
    backwards = list(range(2 * size))[::-1]
    ds = pilum.dataset(path)

    assert lance.dataset(path).to_table()["a"].to_pylist() == expected
    table = ds.to_table()
    assert table["a"].to_pylist() == expected
    assert table.combine_chunks()["a"].to_pylist() == expected
    assert ds.take(backwards)["a"].to_pylist() == expected[::-1]
    assert ds.take(backwards[::-1])["a"].to_pylist() == expected
    sampled = ds.sample(2 * size - 1)
    assert sampled["a"].to_pylist() == [expected[row] for row in sampled["id"].to_pylist()]
    batches = ds.to_batches(batch_size=3)
    assert [one for batch in batches for one in batch["a"].to_pylist()] == expected
    assert ds.to_table(filter="id % 3 = 1")["a"].to_pylist() == expected[1::3]
    ordering = ColumnOrdering("id", ascending=False)
    ordered = ds.scanner(order_by=[ordering]).to_table()
    assert ordered["a"].to_pylist() == expected[::-1]

    source = pa.concat_tables([second.slice(0, 1), first.slice(1, 1)]).set_column(
        0, "id", pa.array([1, 1000])
    )
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(source)
    pilum.dataset(path).optimize.compact_files()
    rows = {row["id"]: row["a"] for row in pilum.dataset(path).to_table().to_pylist()}
    assert rows == {**dict(enumerate(expected)), 1: expected[size], 1000: expected[1]}
