"""Operations on Arrow arrays that Arrow does wrongly, slowly or not at all for nested types.

All code in pilum that takes, filters or joins arrays which may be nested uses these functions.

pick       From a fixed-size list of fixed-size lists that begins at an offset, also as a member of
           a struct, Arrow 19 to 26 picks wrong items, and sometimes memory that was never written.
           Such arrays are copied first, so that they begin at zero.
offsets    Arrow permits lists without any to have none, but reads one that follows in memory.
join       Arrow unites dictionaries, unless one has a null; else values are joined by value, and
           get a new dictionary.
least, greatest
           Arrow and NumPy ignore a NaN, but forget all values before one that is signaling. Floats
           get quiet NaNs first.
objects    Arrow raises an error for moments that Python has no object for, such as those after the
           year 9999. They become texts.
reinterpret as another type of the same layout, through Arrow's C interface.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.errors import UnsupportedTypeError

__all__ = [
    "chosen",
    "filtered",
    "from_zero",
    "has_dictionaries",
    "is_picked_wrongly",
    "join_arrays",
    "list_offsets",
    "python_value",
    "python_values",
    "retyped",
    "storage_type",
    "taken",
    "with_dictionaries_as",
    "with_members",
    "with_quiet_nans",
    "without_null_values",
    "without_nulls",
]


def retyped(array: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Return the same buffers as an array of another type; nothing is copied or checked.

    Types that the metadata of nested fields name remain storage; Arrow would otherwise convert
    them.
    """
    return pa.array(_Retyped(array, storage_type(arrow_type)))


@dataclass(frozen=True, slots=True)
class _Retyped:
    """An object that Arrow imports: the schema of a type, and the buffers of an array."""

    array: pa.Array
    arrow_type: pa.DataType

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        return self.arrow_type.__arrow_c_schema__(), self.array.__arrow_c_array__()[1]


def storage_type(arrow: pa.DataType) -> pa.DataType:
    """Return the type with storage in place of extension types, and no metadata, at any depth."""
    if isinstance(arrow, pa.BaseExtensionType):
        return storage_type(arrow.storage_type)
    if pt.is_map(arrow):
        return pa.map_(_storage_field(arrow.key_field), _storage_field(arrow.item_field))
    return with_members(arrow, _storage_field)


def _storage_field(field: pa.Field) -> pa.Field:
    return field.with_type(storage_type(field.type)).remove_metadata()


Rows = TypeVar("Rows", pa.Array, pa.ChunkedArray, pa.RecordBatch)


def with_members(arrow: pa.DataType, change: Callable[[pa.Field], pa.Field]) -> pa.DataType:
    """Return a nested type with changed fields below it, and any other type as it is."""
    if pt.is_struct(arrow):
        return pa.struct([change(member) for member in arrow])
    if pt.is_list(arrow):
        return pa.list_(change(arrow.value_field))
    if pt.is_large_list(arrow):
        return pa.large_list(change(arrow.value_field))
    if pt.is_fixed_size_list(arrow):
        return pa.list_(change(arrow.value_field), arrow.list_size)
    if pt.is_map(arrow):
        key, item = change(arrow.key_field), change(arrow.item_field)
        return pa.map_(key, item, keys_sorted=arrow.keys_sorted)
    return arrow


def taken(rows: Rows, places: pa.Array) -> Rows:
    """Return the rows at some places; null where a place is null."""
    return from_zero(rows).take(places)


def filtered(rows: Rows, mask: pa.BooleanArray) -> Rows:
    """Return the rows for which the mask is true; filter a chunked array chunk by chunk."""
    return from_zero(rows).filter(mask)


def without_nulls(array: pa.Array) -> pa.Array:
    """Return the values that are not null; the array itself if all are valid."""
    return filtered(array, array.is_valid()) if array.null_count else array


def from_zero(rows: Rows) -> Rows:
    """Return the rows, with copies of the arrays from which Arrow would pick wrong items."""
    if isinstance(rows, pa.RecordBatch):
        if not any(map(is_picked_wrongly, rows.schema.types)):
            return rows
        columns = list(map(_from_zero, rows.columns))
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
    if isinstance(rows, pa.ChunkedArray):
        if not is_picked_wrongly(rows.type):
            return rows
        return pa.chunked_array(list(map(_from_zero, rows.chunks)), rows.type)
    return _from_zero(rows)


def _from_zero(array: pa.Array) -> pa.Array:
    kind = array.type
    if kind.num_fields and is_picked_wrongly(kind) and not _begins_at_zero(array):
        return pa.concat_arrays([array])
    return array


def is_picked_wrongly(kind: pa.DataType) -> bool:
    """Return whether a type is or contains a fixed-size list of fixed-size lists."""
    if kind.num_fields == 0:
        return False
    if pt.is_fixed_size_list(kind) and pt.is_fixed_size_list(kind.value_type):
        return True
    return any(is_picked_wrongly(kind.field(index).type) for index in range(kind.num_fields))


def _begins_at_zero(array: pa.Array) -> bool:
    """Return whether neither the array nor any array below it has an offset."""
    if array.offset:
        return False
    if pt.is_struct(array.type):
        return all(_begins_at_zero(array.field(i)) for i in range(array.type.num_fields))
    return array.type.num_fields == 0 or _begins_at_zero(array.values)


_Change: TypeAlias = Callable[[pa.Array, pa.DataType], pa.Array]


def with_quiet_nans(values: pa.Array) -> pa.Array:
    """Return values of which the least and the greatest can be computed, by Arrow or by NumPy."""
    if not pt.is_floating(values.type):
        return values
    is_nan = pc.is_nan(values)
    if not pc.any(is_nan).as_py():
        return values
    return pc.if_else(is_nan, pa.scalar(np.nan, pa.float64()).cast(values.type), values)


def python_values(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return values as Python objects; see `python_value`."""
    try:
        found: list[Any] = values.to_pylist()
    except (ValueError, OverflowError):
        return [python_value(value) for value in values]
    return found


def python_value(value: pa.Scalar) -> Any:
    """Return a value as a Python object: a text if Python has none for a moment, at any depth.

    Those are moments before the year 1 or after the year 9999 and, without pandas, those with
    fractions of a microsecond.
    """
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        if pt.is_struct(value.type):
            return {name: python_value(member) for name, member in value.items()}
        if pt.is_nested(value.type):
            return python_values(value.values)
        return str(value.cast(pa.string()).as_py())


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
    return with_members(
        kind, lambda field: field.with_type(with_dictionaries_as(field.type, other))
    )


def list_offsets(array: pa.Array) -> pa.Array:
    """Return the offsets of lists, one more than lists, also where their writer left them out.

    Arrow permits an empty buffer where there are no lists, as writers in Java make it; `offsets` of
    such an array reads what happens to follow in memory.
    """
    if len(array):
        return array.offsets
    return pa.array([0], pa.int64() if pt.is_large_list(array.type) else pa.int32())


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
    """Join arrays of one type, at least one; dictionaries in them, at any depth, are united.

    UnsupportedTypeError, which names the owner `what`, is raised if the keys of a dictionary are
    too narrow for all values.
    """
    if len(arrays) == 1:
        return _from_zero(arrays[0])
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
