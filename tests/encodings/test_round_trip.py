"""What was written is read: every type, every nesting, whole, by ranges and row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from container.arrays import LEAVES, arrays, chunky_arrays
from container.files import MemorySource, read_rows, write_table
from hypothesis import given, settings
from hypothesis import strategies as st

from pilum.container.reader import FileReader
from pilum.format.rows import RowRanges


def check(array: pa.Array, rows: list[list[int]], batches: list[pa.Array] | None = None) -> None:
    """Writes an array and reads all of it, and each of the sorted lists of rows."""
    parts = [pa.record_batch({"a": part}) for part in batches or [array]]
    data, _ = write_table(pa.table({"a": array}), parts)
    reader = FileReader.open(MemorySource(data))
    expected = flattened(array)
    for wanted in [list(range(len(array))), *rows]:
        found = read_rows(reader, RowRanges.of_rows(np.array(wanted, dtype=np.int64)))
        column = found["a"].combine_chunks()
        assert column.type == array.type
        assert_equal(column, expected.take(pa.array(wanted, pa.int64())))


def flattened(array: pa.Array) -> pa.Array:
    """The same values without offsets and hidden content."""
    return pa.concat_arrays([array.slice(0, 0), array])


def assert_equal(found: pa.Array, expected: pa.Array) -> None:
    if not found.equals(expected):
        # Arrow says that NaN is not NaN.
        assert str(found.to_pylist()) == str(expected.to_pylist())


def row_lists(count: int) -> st.SearchStrategy[list[list[int]]]:
    rows = st.sets(st.integers(0, count - 1), min_size=1, max_size=30).map(sorted)
    ranges = st.tuples(st.integers(0, count - 1), st.integers(1, count)).map(
        lambda pair: list(range(pair[0], min(pair[0] + pair[1], count)))
    )
    return st.lists(rows | ranges, min_size=1, max_size=4)


@settings(max_examples=150)
@given(arrays(), st.data())
def test_small_arrays_of_any_type(array: pa.Array, data: st.DataObject) -> None:
    rows = data.draw(row_lists(len(array)))
    cut = data.draw(st.integers(0, len(array)))
    check(array, rows, [part for part in (array.slice(0, cut), array.slice(cut)) if len(part)])


@settings(max_examples=30)
@given(chunky_arrays(), st.data())
def test_arrays_of_several_chunks(array: pa.Array, data: st.DataObject) -> None:
    check(array, data.draw(row_lists(len(array))))


@pytest.mark.parametrize("kind", LEAVES, ids=str)
def test_one_row(kind: pa.DataType) -> None:
    check(pa.nulls(1, kind), [[0]])
    if not pa.types.is_null(kind):
        check(pa.array([_some(kind)], kind), [[0]])


def _some(kind: pa.DataType) -> Any:
    if pa.types.is_fixed_size_list(kind):
        return [_some(kind.value_type)] * kind.list_size
    if pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind):
        return b"x" * kind.byte_width
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return b"\xff\0"
    return {pa.bool_(): True, pa.date64(): 86_400_000, pa.decimal256(60, -2): 100}.get(kind, 1)


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 4096, 4097])
@pytest.mark.checklist("S4.1")
def test_borders_of_chunks(count: int) -> None:
    for array in (
        pa.array(np.arange(count)),
        pa.array(np.arange(count) % 7 == 0),
        pa.array([str(i) for i in range(count)]),
        pa.array(np.full(count, 5, np.int16)),
        pa.array([None if i % 2 else i for i in range(count)]),
        pa.array([[i] * (i % 3) for i in range(count)]),
    ):
        check(array, [[0], [count - 1], sorted({0, count - 1}), [count // 2]])


EMPTIES = 70_000
LONG: dict[str, Any] = {
    "empty lists": lambda: pa.array([[]] * 200_000, pa.list_(pa.int32())),
    "empty lists and one value": lambda: pa.array(
        [[]] * 100_000 + [[1]] + [[]] * 100_000, pa.list_(pa.int32())
    ),
    "null lists around values": lambda: pa.array(
        [[1, 2]] + [None] * 150_000 + [[3], []], pa.list_(pa.int8())
    ),
    "one row of empty lists": lambda: pa.array(
        [[[]] * EMPTIES + [[1, None]], None, [[2]]], pa.list_(pa.list_(pa.int64()))
    ),
    "rows of empty lists": lambda: pa.array(
        [[[]] * EMPTIES, [[1]], None] * 3, pa.list_(pa.list_(pa.int16()))
    ),
    "one row of booleans and empty lists": lambda: pa.array(
        [[[True, None]] + [[]] * EMPTIES, [[False]]], pa.list_(pa.list_(pa.bool_()))
    ),
    "one row of strings and empty lists": lambda: pa.array(
        [[["a"]] + [[]] * EMPTIES + [None, ["", None]]], pa.list_(pa.list_(pa.string()))
    ),
    "one row of bytes in eights and empty lists": lambda: pa.array(
        [[[[True] * 8]] + [[]] * EMPTIES], pa.list_(pa.list_(pa.list_(pa.bool_(), 8)))
    ),
    "one huge row": lambda: pa.array([[1] * 200_000, [2], list(range(50_000))]),
    "one huge row of strings": lambda: pa.array([["x" * (i % 9) for i in range(30_000)], []]),
    "wide values after empty lists": lambda: pa.array(
        [[]] * 100_000 + [["x" * 300, None]], pa.list_(pa.string())
    ),
    "empty lists in structs": lambda: pa.array(
        [{"l": []}, None] * 50_000 + [{"l": [1]}], pa.struct([("l", pa.list_(pa.int8()))])
    ),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.checklist("S4.1")
def test_more_levels_than_a_chunk_holds(name: str) -> None:
    array = LONG[name]()
    last = len(array) - 1
    middle = last // 2
    check(array, [[0], [last], sorted({0, middle, last}), sorted({middle, min(middle + 1, last)})])


def test_content_below_nulls_is_not_stored() -> None:
    validity = pa.py_buffer(b"\x05")
    offsets = pa.py_buffer(np.array([0, 2, 4, 5], np.int32))
    items = pa.array([1, 2, 3, 4, 5], pa.int32())
    lists = pa.ListArray.from_buffers(
        pa.list_(pa.int32()), 3, [validity, offsets], children=[items]
    )
    check(lists, [[0], [1, 2]])
    structs = pa.StructArray.from_arrays([lists], ["l"], mask=pa.array([True, False, False]))
    check(structs, [[0], [1], [0, 2]])
    check(pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), structs), [[1]])


@pytest.mark.parametrize("most", [2, 9, 300])
def test_few_of_many_lists(most: int) -> None:
    """Rows are found among the levels of their chunks, also those that began in the one before."""
    random = np.random.default_rng(most)
    counts = random.integers(0, most, 40_000 // most)
    items = pa.array(
        random.integers(0, 1_000, counts.sum()), mask=random.random(counts.sum()) < 0.1
    )
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    lists = pa.ListArray.from_arrays(
        offsets, items, mask=pa.array(random.random(len(counts)) < 0.05)
    )
    rows = [np.unique(random.integers(0, len(lists), n)).tolist() for n in (1, 5, 40, 400)]
    check(flattened(lists), [*rows, [0], [len(lists) - 1], list(range(30, 35))])


@pytest.mark.parametrize("start", range(5))
def test_slices_that_begin_with_empty_and_null_lists(start: int) -> None:
    for array in (
        pa.array([[], None, [], [1], None]),
        pa.array([[], None, [[]], [None], [[1]]], pa.list_(pa.list_(pa.int8()))),
        pa.array([None, {"l": []}, {"l": None}, {"l": [1]}, None]),
    ):
        check(array.slice(start), [[0]])


def test_structs_without_members() -> None:
    check(pa.array([{}, {}, {}], pa.struct([])), [[1]])


@pytest.mark.parametrize("size", [255, 256, 32_768, 32_769, 100_000])
@pytest.mark.checklist("S4.9")
def test_strings_of_every_length_class(size: int) -> None:
    texts = ["x" * size, None, "", "ab" * (size // 2), "z"]
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        check(pa.array(texts).cast(kind), [[0], [1, 2], [4]])


@pytest.mark.checklist("S4.6")
def test_dictionaries() -> None:
    words = [f"word {i % 40}" for i in range(5000)]
    with_nulls = [None if i % 3 == 0 else word for i, word in enumerate(words)]
    for array in (
        pa.array(words),
        pa.array(with_nulls, pa.large_string()),
        pa.array([i % 9 for i in range(2000)], pa.decimal128(20, 2)),
        pa.array([[word, None] for word in with_nulls]),
        pa.array([None] * 4999 + ["only"]),
    ):
        check(array, [[0], [1, 2, 4999 % len(array)]])


@pytest.mark.checklist("S4.9")
def test_text_that_fsst_compresses() -> None:
    urls = [f"https://example.org/items/{i * 7919 % 100_003}?page={i}" for i in range(3000)]
    check(pa.array(urls), [[0], [2999], [5, 6, 7, 2000]])
    check(pa.array([None if i % 2 else u for i, u in enumerate(urls)]), [[1], [2998]])
    check(pa.array([(url + " ") * 8 for url in urls[:300]]), [[0], [299]])
