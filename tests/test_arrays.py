"""Rows picked out of arrays of every nested shape, from every kind of offset, by every operation.

What Arrow does wrongly depends on shape, offsets and nulls. If a test of another operation than
`taken`, `filtered` and `without_nulls` fails with a new Arrow, that operation needs a place beside
them in `pilum.arrays`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
import pytest
from nested_shapes import ROWS, Case, cases, nested_types, sound, values_of

from pilum.arrays import chosen, filtered, from_zero, join_arrays, taken, without_nulls

MASK = [row % 3 != 1 for row in range(ROWS)]
PLACES = [6, 0, None, 3, 3]
LEAVES = [pa.int32(), pa.string()]
VECTORS = pa.list_(pa.list_(pa.int32(), 2), 2)

Operation = Callable[[Case], tuple[list[Any], list[Any]]]


def _at(values: list[Any]) -> list[Any]:
    return [None if place is None else values[place] for place in PLACES]


def _where(values: list[Any]) -> list[Any]:
    return [value for value, wanted in zip(values, MASK, strict=True) if wanted]


def _batch(array: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([array, pa.array(range(len(array)))], ["a", "b"])


def _large(kind: pa.DataType) -> pa.DataType:
    """Return a type that Arrow casts to without loss."""
    if pt.is_struct(kind):
        return pa.struct([field.with_type(_large(field.type)) for field in kind])
    if pt.is_map(kind):
        return pa.map_(kind.key_type, _large(kind.item_type))
    if pt.is_fixed_size_list(kind):
        return pa.list_(_large(kind.value_type), kind.list_size)
    if pt.is_list(kind) or pt.is_large_list(kind):
        return pa.large_list(_large(kind.value_type))
    return {pa.int32(): pa.int64(), pa.string(): pa.large_string()}.get(kind, kind)


def _taken(case: Case) -> tuple[list[Any], list[Any]]:
    return values_of(taken(case.array, pa.array(PLACES))), _at(case.values)


def _taken_of_batch(case: Case) -> tuple[list[Any], list[Any]]:
    found = taken(_batch(case.array), pa.array(PLACES))
    assert found["b"].to_pylist() == PLACES
    return values_of(found["a"]), _at(case.values)


def _taken_of_chunks(case: Case) -> tuple[list[Any], list[Any]]:
    chunks = pa.chunked_array([case.array, case.other])
    found = taken(chunks, pa.array([8, 0, None, 7]))
    expected = [case.other_values[1], case.values[0], None, case.other_values[0]]
    return [value for chunk in found.chunks for value in values_of(chunk)], expected


def _taken_of_one_chunk(case: Case) -> tuple[list[Any], list[Any]]:
    found = taken(pa.chunked_array([case.array]), pa.array(PLACES))
    return [value for chunk in found.chunks for value in values_of(chunk)], _at(case.values)


def _filtered(case: Case) -> tuple[list[Any], list[Any]]:
    return values_of(filtered(case.array, pa.array(MASK))), _where(case.values)


def _filtered_of_batch(case: Case) -> tuple[list[Any], list[Any]]:
    return values_of(filtered(_batch(case.array), pa.array(MASK))["a"]), _where(case.values)


def _filtered_by_a_slice(case: Case) -> tuple[list[Any], list[Any]]:
    mask = pa.array([True, False, True, *MASK]).slice(3)
    return values_of(filtered(case.array, mask)), _where(case.values)


def _without_nulls(case: Case) -> tuple[list[Any], list[Any]]:
    return values_of(without_nulls(case.array)), [one for one in case.values if one is not None]


def _joined(case: Case) -> tuple[list[Any], list[Any]]:
    joined = join_arrays([case.other, case.array], "values")
    return values_of(joined), case.other_values + case.values


def _joined_alone(case: Case) -> tuple[list[Any], list[Any]]:
    return values_of(join_arrays([case.array], "values")), case.values


def _chosen(case: Case) -> tuple[list[Any], list[Any]]:
    mask = [row % 3 == 0 for row in range(ROWS - 1)]
    one, other = case.array.slice(0, ROWS - 1), case.array.slice(1)
    pairs = zip(mask, case.values[:-1], case.values[1:], strict=True)
    expected = [first if wanted else second for wanted, first, second in pairs]
    return values_of(chosen(pa.array(mask), one, other, "values")), expected


def _chosen_of_two(case: Case) -> tuple[list[Any], list[Any]]:
    """Dictionaries differ."""
    found = chosen(pa.array([True, False]), case.other, _fresh_pair(case), "values")
    return values_of(found), [case.other_values[0], case.values[5]]


def _fresh_pair(case: Case) -> pa.Array:
    made = sound(pa.array(case.values[4:6], case.array.type))
    return case.array.slice(4, 2) if made is None else made


def _cast(case: Case) -> tuple[list[Any], list[Any]]:
    return values_of(case.array.cast(_large(case.array.type))), case.values


def _null_where_null(case: Case) -> tuple[list[Any], list[Any]]:
    return case.array.is_null().to_pylist(), [value is None for value in case.values]


def _equal_to_its_copy(case: Case) -> tuple[list[Any], list[Any]]:
    copy = pa.concat_arrays([case.array])
    reversed_ = taken(case.array, pa.array(range(ROWS - 1, -1, -1)))
    same = case.array.equals(copy) and copy.equals(case.array)
    is_palindrome = values_of(reversed_) == values_of(case.array)
    return [same, reversed_.equals(case.array)], [True, is_palindrome]


OPERATIONS: list[Operation] = [
    _taken,
    _taken_of_batch,
    _taken_of_chunks,
    _taken_of_one_chunk,
    _filtered,
    _filtered_of_batch,
    _filtered_by_a_slice,
    _without_nulls,
    _joined,
    _joined_alone,
    _chosen,
    _chosen_of_two,
    _cast,
    _null_where_null,
    _equal_to_its_copy,
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_every_shape_and_offset(operation: Operation) -> None:
    for kind in nested_types(2):
        for case in cases(kind):
            found, expected = operation(case)
            assert found == expected, (kind, case.array.offset, case.array)


def test_vectors_of_vectors_anywhere_below() -> None:
    """One level deeper than all shapes together."""
    around = [
        pa.list_(VECTORS, 2),
        pa.list_(VECTORS),
        pa.struct([("v", VECTORS), ("s", pa.string())]),
        pa.struct([("p", pa.struct([("v", VECTORS)]))]),
        pa.list_(pa.struct([("v", VECTORS)]), 2),
        pa.map_(pa.string(), VECTORS),
    ]
    for kind in around:
        for case in cases(kind):
            for operation in OPERATIONS:
                found, expected = operation(case)
                assert found == expected, (operation.__name__, kind, case.array)


def test_only_what_arrow_picks_wrongly_is_copied() -> None:
    def address(array: pa.Array) -> int:
        found: int = next(one.address for one in reversed(array.buffers()) if one is not None)
        return found

    vectors = pa.array([[[row, 1], [2, 3]] for row in range(9)], VECTORS)
    embeddings = pa.array([[row, 1, 2] for row in range(9)], pa.list_(pa.int32(), 3))
    for array in (vectors, embeddings, embeddings.slice(4)):
        assert address(from_zero(array)) == address(array)
    moved = from_zero(vectors.slice(4))
    assert moved.equals(vectors.slice(4))
    assert moved.offset == moved.values.offset == moved.values.values.offset == 0
    assert address(moved) != address(vectors)
