"""Join several arrays of any type into one.

dictionaries    "a" "b"   +   "b" null        Arrow unites them, unless one has a null
by value        "a" "b" "b" null              else values are joined, and get a new dictionary
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.arrays.picking import from_zero, taken
from pilum.arrays.retype import retyped
from pilum.errors import UnsupportedTypeError

__all__ = [
    "chosen",
    "has_dictionaries",
    "join_arrays",
    "with_dictionaries_as",
    "without_null_values",
]

_Change: TypeAlias = Callable[[pa.Array, pa.DataType], pa.Array]


def has_dictionaries(kind: pa.DataType) -> bool:
    """Return whether a type is a dictionary, or has one below it."""
    below = (has_dictionaries(kind.field(i).type) for i in range(kind.num_fields))
    return pt.is_dictionary(kind) or any(below)


def with_dictionaries_as(
    kind: pa.DataType, other: Callable[[pa.DictionaryType], pa.DataType]
) -> pa.DataType:
    """Return the type with other types in place of dictionaries, at any depth."""
    if pt.is_dictionary(kind):
        return other(kind)
    if not has_dictionaries(kind):
        return kind
    fields = [kind.field(i) for i in range(kind.num_fields)]
    fields = [field.with_type(with_dictionaries_as(field.type, other)) for field in fields]
    if pt.is_struct(kind):
        return pa.struct(fields)
    if pt.is_map(kind):
        return pa.map_(*fields[0].type)
    if pt.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    return pa.list_(fields[0]) if pt.is_list(kind) else pa.large_list(fields[0])


def without_null_values(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return the same values with a null only where a key is null.

    Arrow 26 cannot unite dictionaries that have nulls, and the format has no place for them.
    """
    values = array.dictionary
    if values.null_count == 0:
        return array
    valid = values.is_valid()
    places = pc.cumulative_sum(valid.cast(pa.int64()))
    keys = pc.if_else(valid, pc.subtract(places, 1), pa.scalar(None, pa.int64()))
    keys = keys.cast(array.indices.type).take(array.indices)
    return pa.DictionaryArray.from_arrays(
        keys, values.drop_null(), ordered=array.type.ordered, safe=False
    )


def join_arrays(arrays: list[pa.Array], what: str) -> pa.Array:
    """Join several arrays into one; dictionaries in them, at any depth, are united.

    Args:
        arrays: At least one array, all of one type.
        what: The owner of the values, for the message.

    Raises:
        UnsupportedTypeError: If the keys of a dictionary are too narrow for all values.
    """
    if len(arrays) == 1:
        return from_zero(arrays[0])
    kind = arrays[0].type
    plain = with_dictionaries_as(kind, _without_half_floats)
    if plain != kind:
        return retyped(join_arrays([retyped(array, plain) for array in arrays], what), kind)
    try:
        joined: pa.Array = pa.concat_arrays(arrays)
    except pa.ArrowInvalid as error:
        message = str(error)
        if "larger index type" not in message and "dictionaries with nulls" not in message:
            raise
        return _joined_by_value(arrays, kind, what)
    return joined


def chosen(mask: pa.BooleanArray, one: pa.Array, other: pa.Array, what: str) -> pa.Array:
    """Return the values of one array where the mask is true, else those of the other.

    Arrow 26 mixes up the dictionaries below structs and lists.

    Args:
        mask: A mask without nulls.
        one: An array as long as the mask.
        other: Another one, of the same length and type.
        what: The owner of the values, for the message.

    Raises:
        UnsupportedTypeError: If the keys of a dictionary are too narrow for all values.
    """
    if not has_dictionaries(one.type):
        return pc.if_else(mask, one, other)
    rows = np.arange(len(one))
    places = pc.if_else(mask, pa.array(rows), pa.array(rows + len(one)))
    return taken(join_arrays([one, other], what), places)


def _joined_by_value(arrays: list[pa.Array], kind: pa.DataType, what: str) -> pa.Array:
    """Join the values and give them new dictionaries, which contain only these values."""
    values = with_dictionaries_as(kind, lambda dictionary: dictionary.value_type)
    plain = [_with_leaves(array, values, _decoded) for array in arrays]
    try:
        return _with_leaves(pa.concat_arrays(plain), kind, _encoded)
    except pa.ArrowInvalid as error:
        raise UnsupportedTypeError(
            f"{what}: the keys of a dictionary are too narrow for the values of these rows "
            f"together; read fewer rows at a time ({error})"
        ) from error


def _decoded(leaf: pa.Array, kind: pa.DataType) -> pa.Array:
    return leaf.dictionary_decode() if pt.is_dictionary(leaf.type) else leaf


def _encoded(leaf: pa.Array, kind: pa.DataType) -> pa.Array:
    return leaf.dictionary_encode().cast(kind) if pt.is_dictionary(kind) else leaf


def _with_leaves(array: pa.Array, kind: pa.DataType, change: _Change) -> pa.Array:
    """Return an array of a type of the same nesting, with every leaf changed to that type."""
    if array.type.num_fields == 0:
        return change(array, kind)
    if pt.is_struct(kind):
        members = [
            _with_leaves(array.field(i), kind.field(i).type, change) for i in range(kind.num_fields)
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
    items = _with_leaves(array.values, kind.field(0).type, change)
    own = array.buffers()[: 1 if pt.is_fixed_size_list(kind) else 2]
    return pa.Array.from_buffers(
        kind, len(array), own, array.null_count, array.offset, children=[items]
    )


def _without_half_floats(kind: pa.DictionaryType) -> pa.DataType:
    """Return a dictionary of integers for one of half floats, which Arrow 26 unites wrongly."""
    if not pt.is_float16(kind.value_type):
        return kind
    return pa.dictionary(kind.index_type, pa.int16(), kind.ordered)
