from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some

from pilum.errors import SchemaMismatchError
from pilum.spark.convert import check_fits, convert_batch, cut, with_missing

VECTOR = pa.list_(pa.float32(), 2)
LOOSE, STRICT = pa.field("x", pa.int8()), pa.field("x", pa.int8(), nullable=False)
ROWS = some.lists(
    some.none()
    | some.lists(some.none() | some.fixed_dictionaries({"x": some.none() | some.integers(0, 255)})),
    max_size=20,
)


def convert(values: Any, source: pa.DataType, target: pa.DataType, **how: Any) -> pa.Array:
    batch = pa.record_batch({"c": pa.array(values, source)})
    return convert_batch(batch, pa.schema([("c", target)]), **how).column("c")


@given(ROWS, some.integers(0, 3), some.integers(0, 3))
def test_nested_values_survive_in_any_slice(rows: list[Any], head: int, tail: int) -> None:
    wide = pa.large_list(pa.struct([("x", pa.uint8())]))
    narrow = pa.list_(pa.struct([("x", pa.int16())]))
    array = pa.array(rows, wide).slice(head, max(0, len(rows) - head - tail))
    there = convert(array, wide, narrow)
    there.validate(full=True)
    assert there.to_pylist() == array.to_pylist()
    back = convert(there, narrow, wide)
    back.validate(full=True)
    assert back == array


@given(
    some.lists(
        some.none() | some.lists(some.tuples(some.integers(0, 255), some.none() | some.text())),
        max_size=20,
    ),
    some.integers(0, 3),
    some.integers(0, 3),
)
def test_maps_survive_in_any_slice(rows: list[Any], head: int, tail: int) -> None:
    stored = pa.map_(pa.uint8(), pa.large_string())
    crossing = pa.map_(pa.int16(), pa.string())
    array = pa.array(rows, stored).slice(head, max(0, len(rows) - head - tail))
    there = convert(array, stored, crossing)
    there.validate(full=True)
    assert there.to_pylist() == array.to_pylist()
    back = convert(there, crossing, stored)
    back.validate(full=True)
    assert back == array


@given(some.lists(some.none() | some.tuples(some.floats(width=32), some.floats(width=32))))
def test_vectors_survive_in_any_slice(rows: list[Any]) -> None:
    array = pa.array(rows, VECTOR).slice(1 if rows else 0)
    there = convert(array, VECTOR, pa.list_(pa.float32()))
    there.validate(full=True)
    assert str(there.to_pylist()) == str(array.to_pylist())
    assert str(convert(there, there.type, VECTOR).to_pylist()) == str(array.to_pylist())


def test_vectors_and_strings_are_not_copied() -> None:
    vectors = pa.array([[1.0, 2.0], [3.0, 4.0]], VECTOR)
    lists = convert(vectors, VECTOR, pa.list_(pa.float32()))
    assert lists.values.buffers()[1].address == vectors.values.buffers()[1].address
    strings = pa.array(["one", "two"], pa.large_string())
    assert (
        convert(strings, strings.type, pa.string()).buffers()[2].address
        == strings.buffers()[2].address
    )


def test_columns_go_by_name_and_missing_ones_can_be_made_null() -> None:
    batch = pa.record_batch({"b": [1, 2], "a": ["x", "y"]})
    schema = pa.schema([("a", pa.string()), ("b", pa.int64()), ("v", VECTOR)])
    assert convert_batch(with_missing(batch, schema), schema).to_pylist() == [
        {"a": "x", "b": 1, "v": None},
        {"a": "y", "b": 2, "v": None},
    ]
    with pytest.raises(KeyError):
        convert_batch(batch, schema)


@pytest.mark.parametrize(
    ("values", "source", "target", "what"),
    [
        ([300], pa.int16(), pa.uint8(), "300"),
        ([b"abc"], pa.binary(), pa.binary(2), "widths"),
        ([[1.0]], pa.list_(pa.float32()), VECTOR, "expected size"),
        ([1], pa.timestamp("ns"), pa.timestamp("us"), "nanoseconds"),
        ([[1], [None]], pa.list_(pa.int8()), pa.list_(STRICT), "null"),
        ([{"x": None}], pa.struct([LOOSE]), pa.struct([STRICT]), "null"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_with_its_column(
    values: list[Any], source: pa.DataType, target: pa.DataType, what: str
) -> None:
    with pytest.raises(SchemaMismatchError, match=f"'c.*{what}"):
        convert(values, source, target)


def test_nulls_below_a_null_struct_break_no_promise() -> None:
    array = convert([None, {"x": 1}], pa.struct([LOOSE]), pa.struct([STRICT]))
    assert array.to_pylist() == [None, {"x": 1}]


def test_nanoseconds_are_cut_where_that_was_asked_for() -> None:
    array = convert([1_999], pa.timestamp("ns"), pa.timestamp("us"), truncate=True)
    assert array.to_pylist() == [datetime.datetime(1970, 1, 1, 0, 0, 0, 1)]


def test_types_may_widen_but_nothing_else() -> None:
    check_fits(pa.int8(), pa.int64(), "c")
    check_fits(pa.list_(pa.float32()), pa.list_(pa.float64()), "c")
    check_fits(pa.null(), pa.struct([("x", pa.int8())]), "c")
    for source, target in [(pa.int64(), pa.int32()), (pa.int64(), pa.string())]:
        with pytest.raises(SchemaMismatchError, match="'c'"):
            check_fits(source, target, "c")


def test_structs_may_lack_members_only_where_that_is_a_projection() -> None:
    whole, part = pa.struct([("x", pa.int8()), ("y", pa.int8())]), pa.struct([("x", pa.int8())])
    check_fits(whole, part, "c", subset=True)
    for source, target, subset in [(whole, part, False), (part, whole, True), (part, whole, False)]:
        with pytest.raises(SchemaMismatchError, match=r"\['x'"):
            check_fits(source, target, "c", subset=subset)


@given(some.integers(0, 50), some.integers(1, 500))
def test_a_cut_batch_has_all_its_rows_in_pieces_of_the_size(rows: int, max_bytes: int) -> None:
    batch = pa.record_batch({"c": pa.array(range(rows), pa.int64())})
    pieces = list(cut(batch, max_bytes))
    assert pa.Table.from_batches(pieces, batch.schema).column("c").to_pylist() == list(range(rows))
    assert all(piece.nbytes <= max(max_bytes, 8) for piece in pieces)
