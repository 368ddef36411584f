"""Arrays of every nested shape that begin at every kind of offset, made from Python values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as pt

__all__ = ["Case", "cases", "nested_types", "sound", "values_of"]

_LEAVES = (pa.int32(), pa.string(), pa.bool_(), pa.dictionary(pa.int8(), pa.string()))
_NULLS = tuple(itertools.product((0.0, 0.3), repeat=3))
ROWS = 7


class Case(NamedTuple):
    """An array, what it holds, and rows of the same type that are no part of it.

    Attributes:
        array: Seven rows, which may begin at an offset; so may any array below it.
        values: The same rows as Python values.
        other: Two more rows.
        other_values: These as Python values.
    """

    array: pa.Array
    values: list[Any]
    other: pa.Array
    other_values: list[Any]


def nested_types(depth: int) -> list[pa.DataType]:
    """Return all types of so many levels of lists, vectors, structs and maps at most."""
    if depth == 0:
        return list(_LEAVES)
    types = list(_LEAVES)
    for inner in nested_types(depth - 1):
        types += [
            pa.list_(inner),
            pa.large_list(inner),
            pa.list_(inner, 2),
            pa.struct([("x", inner), ("y", pa.int8())]),
            pa.map_(pa.string(), inner),
        ]
    return list(dict.fromkeys(types))


@cache
def cases(kind: pa.DataType) -> tuple[Case, ...]:
    """Return arrays of a type: with nulls at each level or without, from each kind of offset."""
    return tuple(_cases(kind))


def _cases(kind: pa.DataType) -> Iterator[Case]:
    random = Random(str(kind))
    for nulls, start, shifted in itertools.product(_NULLS, (0, 1, 4), (False, True)):
        rows = [_value(kind, random, nulls) for _ in range(start + ROWS + 2)]
        array = sound(pa.array(rows, kind))
        if array is None:
            continue
        whole = _shifted(array, random) if shifted else array
        yield Case(
            whole.slice(start, ROWS),
            rows[start : start + ROWS],
            whole.slice(start + ROWS),
            rows[start + ROWS :],
        )


def values_of(array: pa.Array) -> list[Any]:
    """Return what an array holds; it must be sound."""
    array.validate(full=True)
    found: list[Any] = array.to_pylist()
    return found


def _value(kind: pa.DataType, random: Random, nulls: tuple[float, ...]) -> Any:
    if nulls and random.random() < nulls[0]:
        return None
    below = nulls[1:]
    if pt.is_dictionary(kind):
        return _value(kind.value_type, random, ())
    if pt.is_struct(kind):
        return {field.name: _value(field.type, random, below) for field in kind}
    if pt.is_map(kind):
        return [
            (f"k{i}", _value(kind.item_type, random, below)) for i in range(random.randrange(3))
        ]
    if pt.is_nested(kind):
        size = kind.list_size if pt.is_fixed_size_list(kind) else random.randrange(3)
        return [_value(kind.value_type, random, below) for _ in range(size)]
    number = random.randrange(100)
    return number % 2 == 1 if pt.is_boolean(kind) else str(number) if pt.is_string(kind) else number


def sound(array: pa.Array) -> pa.Array | None:
    """Return the array, or None where Arrow made keys of an empty dictionary below nulls."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return array


def _shifted(array: pa.Array, random: Random) -> pa.Array:
    """Return the same values; arrays below vectors and structs begin at an offset."""
    kind = array.type
    mask = array.is_null() if array.null_count else None
    if pt.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(
            _after_others(array.values, random), type=kind, mask=mask
        )
    if pt.is_struct(kind):
        members = [_after_others(array.field(i), random) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
    return array


def _after_others(array: pa.Array, random: Random) -> pa.Array:
    before = pa.array([_value(array.type, random, (0.0,)) for _ in range(3)], array.type)
    return pa.concat_arrays([before, _shifted(array, random)]).slice(3)
