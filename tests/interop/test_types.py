"""Every Arrow type in every place: both libraries take it and read it back, or both refuse it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from interop.comparison import assert_same
from interop.reading import side_by_side

import pilum
from pilum.errors import SchemaMismatchError, UnsupportedTypeError

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

MOMENTS = [
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.date32()),
]
NUMBERS = [
    *(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(pa.float16(), pa.float32(), pa.float64()),
]
THREE: dict[str, pa.Array] = {
    **{str(kind): pa.array([1, None, 2]).cast(pa.int32()).cast(kind) for kind in NUMBERS},
    **{
        str(kind): pa.array([1, None, 2], pa.int64() if kind.bit_width == 64 else pa.int32()).view(
            kind
        )
        for kind in MOMENTS
    },
    "null": pa.nulls(3),
    "bool": pa.array([True, None, False]),
    "date64": pa.array([86_400_000, None, 0], pa.date64()),
    **{
        str(kind): pa.array([Decimal(1), None, Decimal(2)], kind)
        for kind in (
            pa.decimal32(5, 1),
            pa.decimal64(12, 1),
            pa.decimal128(9, 2),
            pa.decimal256(50, 1),
        )
    },
    **{
        str(kind): pa.array(["a", None, "bc"]).cast(kind)
        for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    },
    "fixed_size_binary": pa.array([b"aaa", None, b"bbb"], pa.binary(3)),
    "list": pa.array([[1], None, []]),
    "large_list": pa.array([[1], None, []], pa.large_list(pa.int64())),
    "list_view": pa.array([[1], None, []], pa.list_view(pa.int64())),
    "struct": pa.array([{"x": 1}, None, {"x": None}]),
    "struct without members": pa.array([{}, {}, {}], pa.struct([])),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "sorted map": pa.array(
        [[("a", 1)], None, []], pa.map_(pa.string(), pa.int64(), keys_sorted=True)
    ),
    "vector": pa.array([[1, 2], None, [3, None]], pa.list_(pa.int32(), 2)),
    "empty vector": pa.array([[], None, []], pa.list_(pa.int32(), 0)),
    "vector of booleans": pa.array([[True, False], None, [True, None]], pa.list_(pa.bool_(), 2)),
    "dictionary": pa.array(["a", None, "b"]).dictionary_encode(),
    "dictionary of integers": pa.array([5, None, 6]).dictionary_encode(),
    "run ends": pa.RunEndEncodedArray.from_arrays([1, 3], [5, 6]),
    "interval": pa.array([(1, 2, 3), None, None], pa.month_day_nano_interval()),
    "union": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["x", "y", "z"])]
    ),
}
PLACES: dict[str, Callable[[pa.Array], pa.Array]] = {
    "column": lambda array: array,
    "member": lambda array: pa.StructArray.from_arrays(
        [array], ["m"], mask=pa.array([False, False, True])
    ),
    "item": lambda array: pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), array),
    "vector": lambda array: pa.FixedSizeListArray.from_arrays(array, 3),
    "dictionary": lambda array: pa.DictionaryArray.from_arrays(pa.array([0, 2, None]), array),
    "map value": lambda array: pa.MapArray.from_arrays(
        pa.array([0, 2, 3], pa.int32()), pa.array(["a", "b", "c"]), array
    ),
    "member of a vector": lambda array: pa.FixedSizeListArray.from_arrays(
        pa.StructArray.from_arrays([array], ["m"]), 3
    ),
}
OWN_WAY = {("null", "vector")}
"""Refused by us alone: vectors of nothing."""


def attempt(library: Any, table: pa.Table, path: str, version: str) -> pa.Table | None:
    """What comes back, or None if it is refused."""
    try:
        library.write_dataset(table, path, data_storage_version=version)
        return library.dataset(path).to_table()
    except BaseException as error:  # the reference panics at some types
        if library is pilum and not isinstance(error, UnsupportedTypeError):
            raise
        return None


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", THREE)
def test_both_take_it_or_both_refuse_it(
    tmp_path: Path, name: str, place: str, version: str
) -> None:
    try:
        array = PLACES[place](THREE[name])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return  # there is no such array
    table = pa.table({"c": array})
    theirs = attempt(lance, table, str(tmp_path / "theirs"), version)
    ours = attempt(pilum, table, str(tmp_path / "ours"), version)
    assert (ours is None) == (theirs is None) or (name, place) in OWN_WAY
    if ours is not None and theirs is not None:
        assert_same(ours, theirs)
        assert_same(lance.dataset(str(tmp_path / "ours")).to_table(), theirs)
        assert_same(pilum.dataset(str(tmp_path / "theirs")).to_table(), theirs)


def words(start: int) -> pa.Array:
    return pa.array([f"w{(start + i) % 7}" if i % 5 else None for i in range(40)])


COLUMNS: dict[str, Callable[[int], pa.Array]] = {
    "d": lambda start: words(start).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
    "m": lambda start: pa.array(
        [[(f"k{i}", start + i)] * (i % 3) if i % 4 else None for i in range(40)],
        pa.map_(pa.string(), pa.int32()),
    ),
    "v": lambda start: pa.array(
        [[{"x": start + i}, None] if i % 4 else None for i in range(40)],
        pa.list_(pa.struct([("x", pa.int32())]), 2),
    ),
}


@pytest.mark.parametrize("turns", ["ours", "theirs"])
def test_appends_takes_and_filters(tmp_path: Path, turns: str) -> None:
    path = str(tmp_path / "t")
    parts = [
        pa.table(
            {"n": np.arange(start, start + 40), **{k: make(start) for k, make in COLUMNS.items()}}
        )
        for start in (0, 40, 80)
    ]
    libraries = [pilum, lance, pilum] if turns == "ours" else [lance, pilum, lance]
    for library, part in zip(libraries, parts, strict=True):
        library.write_dataset(
            part,
            path,
            mode="append" if part is not parts[0] else "create",
            data_storage_version="2.2",
        )
    expected = pa.concat_tables(parts)
    ours, theirs = pilum.dataset(path), lance.dataset(path)
    assert_same(ours.to_table(), expected)
    assert_same(side_by_side(lambda names: theirs.to_table(names), expected.schema), expected)
    rows = [119, 0, 41, 41, 80, 5]
    assert_same(ours.take(rows), expected.take(rows))
    for condition in ("d = 'w3'", "d IN ('w1', 'w2') AND n > 30", "m IS NULL", "d IS NOT NULL"):
        found = theirs.to_table(["n", "d", "m"], filter=condition)
        assert_same(ours.to_table(["n", "d", "m"], filter=condition), found)
        assert_same(ours.to_table(filter=condition), expected.take(found["n"]))


def test_data_that_does_not_fit_a_table_of_such_columns(tmp_path: Path) -> None:
    path = tmp_path / "t"
    pilum.write_dataset(
        pa.table({name: make(0) for name, make in COLUMNS.items()}),
        path,
        data_storage_version="2.2",
    )
    for name, kind in {
        "d": pa.dictionary(pa.int16(), pa.int64()),
        "m": pa.map_(pa.string(), pa.int64()),
        "v": pa.list_(pa.struct([("x", pa.int32())]), 3),
    }.items():
        with pytest.raises(SchemaMismatchError, match=f"column '{name}"):
            pilum.write_dataset(pa.table({name: pa.nulls(2, kind)}), path, mode="append")
    renamed = pa.map_(pa.field("key_", pa.string(), False), pa.field("value_", pa.int32()))
    pilum.write_dataset(pa.table({"m": pa.array([[("a", 1)]], renamed)}), path, mode="append")
    assert pilum.dataset(path).take([40])["m"].to_pylist() == [[("a", 1)]]
    batch = pa.record_batch({"m": pa.array([[("b", 2)]], renamed)})
    pilum.write_dataset(batch, path, mode="append")
    pilum.write_dataset(iter([batch]), path, mode="append")
    for library in (pilum, lance):
        found = library.dataset(str(path)).take([41, 42])["m"].to_pylist()
        assert found == [[("b", 2)], [("b", 2)]]
