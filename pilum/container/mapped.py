"""Replace the values of some fields of a column, at any depth."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.format.fields import Field

__all__ = ["map_fields"]


def map_fields(
    field: Field,
    array: pa.Array,
    is_wanted: Callable[[Field], bool],
    form: Callable[[Field, pa.Array], pa.Array],
) -> pa.Array:
    """Replace the values of fields selected by `is_wanted` in a column, by as many from `form`.

    Below these fields, the rows may be of any type.
    """
    if is_wanted(field):
        return form(field, array)
    if not any(map(is_wanted, field.walk())):
        return array
    if field.is_struct:
        return _struct(field, array, is_wanted, form)
    if field.is_map:
        return _map(field, array, is_wanted, form)
    first, size = _span(array)
    items = map_fields(field.item, array.values.slice(first, size), is_wanted, form)
    item = pa.field(field.item.name, items.type, field.item.nullable)
    if field.list_size is not None:
        kind = pa.list_(item, field.list_size)
        return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=_mask(array))
    make = pa.large_list if pt.is_large_list(array.type) else pa.list_
    return type(array).from_arrays(
        _offsets(array, first), items, type=make(item), mask=_mask(array)
    )


def _struct(
    field: Field,
    array: pa.StructArray,
    is_wanted: Callable[[Field], bool],
    form: Callable[[Field, pa.Array], pa.Array],
) -> pa.Array:
    members = [
        map_fields(child, array.field(index), is_wanted, form)
        for index, child in enumerate(field.children)
    ]
    fields = [
        pa.field(child.name, made.type, child.nullable)
        for child, made in zip(field.children, members, strict=True)
    ]
    return pa.StructArray.from_arrays(members, fields=fields, mask=_mask(array))


def _map(
    field: Field,
    array: pa.MapArray,
    is_wanted: Callable[[Field], bool],
    form: Callable[[Field, pa.Array], pa.Array],
) -> pa.Array:
    first, size = _span(array)
    keys, values = (
        map_fields(child, items.slice(first, size), is_wanted, form)
        for child, items in zip(field.item.children, (array.keys, array.items), strict=True)
    )
    _, value = field.item.children
    kind = pa.map_(keys.type, pa.field(value.name, values.type, value.nullable))
    return pa.MapArray.from_arrays(
        _offsets(array, first), keys, values, type=kind, mask=_mask(array)
    )


def _span(array: pa.Array) -> tuple[int, int]:
    """Return the first item of an array of lists within its child, and the item count."""
    if pt.is_fixed_size_list(array.type):
        size = array.type.list_size
        return array.offset * size, len(array) * size
    first = array.offsets[0].as_py()
    return first, array.offsets[-1].as_py() - first


def _offsets(array: pa.Array, first: int) -> pa.Array:
    return pc.subtract(array.offsets, pa.scalar(first, array.offsets.type))


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
