"""Arrow nesting to levels, against the walk over Python lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.test_levels import EXAMPLES, as_arrow, columns

from pilum.kernels import reference
from pilum.levels import Levels, ravel


def check(array: pa.Array, rows: list[Any], nesting: str) -> Levels:
    """Compares levels, their summary and the leaf with those of the twin."""
    levels, leaf = ravel(array)
    codes = list(levels.codes)
    assert codes == reference.layer_codes(rows, nesting)
    entries = reference.entries_of(rows, codes)
    numbers = reference.layer_levels(codes)
    assert levels.max_rep == nesting.count("l")
    assert levels.max_def == max(max(layer.null, layer.empty) for layer in numbers)
    assert levels.max_visible == reference.max_visible(codes)
    assert levels.num_entries == len(entries)
    if levels.max_rep:
        assert levels.rep.tolist() == [entry.rep for entry in entries]
    if levels.max_def:
        assert levels.def_.tolist() == [entry.def_ for entry in entries]
    owners = [entry for entry in entries if entry.def_ <= levels.max_visible]
    assert levels.num_visible == len(owners) == len(leaf)
    values = zip(leaf.to_pylist(), owners, strict=True)
    assert all(value == owner.value for value, owner in values if owner.def_ == 0)
    starts = [at for at, entry in enumerate(entries) if entry.rep == levels.max_rep]
    assert levels.row_starts.tolist() == starts
    return levels


@pytest.mark.parametrize("name", [name for name in EXAMPLES if "sibling" not in name])
@pytest.mark.checklist("S4.5")
def test_examples_of_the_format(name: str) -> None:
    rows, nesting, codes, rep, def_ = EXAMPLES[name]
    levels = check(as_arrow(rows, nesting), rows, nesting)
    assert list(levels.codes) == codes
    assert levels.def_.tolist() == def_
    assert not any(rep) or levels.rep.tolist() == rep


@given(columns, st.integers(0, 9), st.integers(0, 9))
@pytest.mark.checklist("S4.5")
def test_any_column_and_any_slice(column: Any, before: int, behind: int) -> None:
    nesting, rows = column
    array = as_arrow([*rows[:1] * before, *rows, *rows[:1] * behind], nesting)
    check(array.slice(before, len(rows)), rows, nesting)


@given(columns)
def test_wide_lists_have_the_same_levels(column: Any) -> None:
    nesting, rows = column
    narrow = as_arrow(rows, nesting)
    wide = narrow.cast(_wide(narrow.type))
    check(wide, rows, nesting)


def _wide(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.large_list(_wide(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _wide(field.type)) for field in kind])
    return kind


def test_nothing_to_tell_no_levels() -> None:
    levels, leaf = ravel(pa.array([{"m": 1}, {"m": 2}]))
    assert (levels.codes, levels.num_entries, levels.num_visible) == (b"\1\1", 2, 2)
    assert len(levels.rep) == len(levels.def_) == 0
    assert leaf.to_pylist() == [1, 2]


def test_a_bitmap_without_nulls_is_no_layer_of_nulls() -> None:
    bitmap = pa.py_buffer(b"\xff")
    data = pa.py_buffer(np.arange(3, dtype=np.int8).tobytes())
    levels, _ = ravel(pa.Array.from_buffers(pa.int8(), 3, [bitmap, data]))
    assert levels.codes == b"\1"


def test_nulls_of_members_below_null_structs_stay_apart() -> None:
    members = pa.array([1, None, 3], pa.int8())
    array = pa.StructArray.from_arrays([members], ["m"], mask=pa.array([False, False, True]))
    levels, leaf = ravel(array)
    assert (levels.codes, levels.def_.tolist()) == (b"\3\3", [0, 1, 2])
    assert len(leaf) == 3


def test_what_stands_below_null_lists_is_dropped() -> None:
    offsets = pa.py_buffer(np.array([0, 2, 4, 5], np.int32))
    items = pa.array([1, 2, 3, 4, 5], pa.int32())
    array = pa.ListArray.from_buffers(
        pa.list_(pa.int32()), 3, [pa.py_buffer(b"\5"), offsets], children=[items]
    )
    levels, leaf = ravel(array)
    assert leaf.to_pylist() == [1, 2, 5]
    assert (levels.rep.tolist(), levels.def_.tolist()) == ([1, 0, 1, 1], [0, 0, 1, 0])


@pytest.mark.parametrize("kind", [pa.null(), pa.int8()])
@pytest.mark.checklist("S4.3")
def test_nothing_but_nulls(kind: pa.DataType) -> None:
    levels, leaf = ravel(pa.nulls(9, kind))
    assert (levels.codes, levels.def_.tolist(), len(leaf)) == (b"\3", [1] * 9, 9)


def structs_in_lists(mask: list[bool]) -> pa.Array:
    """Two lists of structs of structs of three valid integers."""
    inner = pa.StructArray.from_arrays([pa.array([1, 2, 3], pa.int8())], names=["x"])
    outer = pa.StructArray.from_arrays([inner], names=["m"], mask=pa.array(mask))
    return pa.ListArray.from_arrays(pa.array([0, 2, 2, 3]), outer)


def test_a_null_struct_is_a_null_of_all_its_members() -> None:
    levels, leaf = ravel(structs_in_lists([False, True, False]))
    assert levels.codes == bytes([3, 3, 3, 5])
    assert levels.def_.tolist() == [0, 3, 4, 0]
    assert (levels.max_def, levels.max_visible, len(leaf)) == (4, 3, 3)


def test_lists_end_what_null_structs_mean() -> None:
    lists = pa.array([[1], [2, 3]])
    array = pa.StructArray.from_arrays([lists], names=["m"], mask=pa.array([False, True]))
    levels, leaf = ravel(array)
    assert levels.codes == bytes([1, 4, 3])
    assert (levels.rep.tolist(), levels.def_.tolist()) == ([1, 1], [0, 2])
    assert leaf.to_pylist() == [1]


def test_null_fixed_size_lists_are_nulls_of_their_items() -> None:
    items = pa.StructArray.from_arrays([pa.array(range(4))], names=["x"])
    lists = pa.FixedSizeListArray.from_arrays(items, 2)
    array = pa.StructArray.from_arrays([lists], names=["m"], mask=pa.array([False, True]))
    levels, _ = ravel(array)
    assert (levels.codes, levels.def_.tolist()) == (bytes([3, 3, 3, 3]), [0, 0, 4, 4])


def test_layers_can_have_levels_for_nulls_that_are_not_there() -> None:
    levels, leaf = ravel(structs_in_lists([False] * 3), as_if_null=(False, True, False, False))
    assert levels.codes == bytes([3, 3, 3, 5])
    assert levels.def_.tolist() == [0, 0, 4, 0]
    assert (levels.max_visible, leaf.to_pylist()) == (3, [1, 2, 3])
