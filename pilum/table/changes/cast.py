"""Casts of columns: the types that a column may change to, and the conversion of its values.

    from                        to
    an integer                  any other integer
    a float                     any other float
    string, binary              large or not
    a decimal                   any other decimal
    date, timestamp             each other; from timestamps also times
    time, duration              another unit
    a list, large or not        each other, and lists of a fixed size
    a list of a fixed size      one without, or with other items
    a dictionary                what its values may become, and the other way round

Nothing overflows silently: a value that does not fit raises an error. Units may become coarser,
decimals are rounded, and a time without a zone is taken as local time of the zone that it gets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.arrays import list_offsets
from pilum.errors import FilterError, SchemaMismatchError
from pilum.expressions.moments import at_zone
from pilum.format.fields import Field, FieldId

__all__ = ["cast_field", "is_castable"]

_FAMILIES: tuple[Callable[[pa.DataType], bool], ...] = (
    pt.is_integer,
    pt.is_floating,
    pt.is_decimal,
    pt.is_duration,
    pt.is_time,
    lambda arrow: pt.is_string(arrow) or pt.is_large_string(arrow),
    lambda arrow: pt.is_binary(arrow) or pt.is_large_binary(arrow),
    lambda arrow: pt.is_date(arrow) or pt.is_timestamp(arrow),
)


def is_castable(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether a column may change from one type to the other."""
    if old == new:
        return True
    if pt.is_dictionary(old) or pt.is_dictionary(new):
        return is_castable(_plain(old), _plain(new))
    if _is_listing(old) and _is_listing(new):
        if pt.is_fixed_size_list(old) and pt.is_fixed_size_list(new):
            return old.list_size == new.list_size and is_castable(old.value_type, new.value_type)
        return is_castable(old.value_type, new.value_type)
    if pt.is_timestamp(old) and pt.is_time(new):
        return True
    return any(belongs(old) and belongs(new) for belongs in _FAMILIES)


def cast_field(
    array: pa.Array, old: Field, new: Field, origins: Mapping[FieldId, Field]
) -> pa.Array:
    """Return the values of a column in which some or all members have a new type and id.

    `new` has only the members that change; `origins` has the old fields by the new ids.

    Raises:
        SchemaMismatchError: If a value does not fit.
    """
    if new.id in origins:
        return _checked_cast(array, old.name, new.arrow_type)
    array = pa.concat_arrays([array])  # without an offset, so that buffers can be used directly
    sources = [origins.get(child.id) or _of_same_id(old, child) for child in new.children]
    if new.is_struct:
        members = array.flatten()
        made = [
            cast_field(members[old.children.index(source)], source, child, origins)
            for source, child in zip(sources, new.children, strict=True)
        ]
        fields = [child.arrow for child in new.children]
        return pa.StructArray.from_arrays(made, fields=fields, mask=array.is_null())
    items = cast_field(array.values, sources[0], new.children[0], origins)
    if new.list_size is not None:
        return pa.FixedSizeListArray.from_arrays(items, type=new.arrow_type, mask=array.is_null())
    kind = pa.LargeListArray if pt.is_large_list(array.type) else pa.ListArray
    return kind.from_arrays(list_offsets(array), items, type=new.arrow_type, mask=array.is_null())


def _of_same_id(old: Field, child: Field) -> Field:
    return next(field for field in old.children if field.id == child.id)


def _checked_cast(array: pa.Array, name: str, arrow: pa.DataType) -> pa.Array:
    try:
        return _cast(array, arrow)
    except (FilterError, pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
        raise SchemaMismatchError(
            f"column {name!r}: values of type {array.type} do not fit {arrow}: {error}"
        ) from error


def _cast(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    if pt.is_dictionary(array.type):
        return _cast(array.dictionary_decode(), arrow)
    if pt.is_dictionary(arrow):
        return _cast(array, arrow.value_type).dictionary_encode().cast(arrow)
    if _is_listing(arrow) and array.type.value_type != arrow.value_type:
        array = _with_items(array, arrow.value_type)
    if pt.is_decimal(arrow) and arrow.scale < array.type.scale:
        array = pc.round(array, arrow.scale, round_mode="half_towards_infinity")
    if pt.is_timestamp(arrow) and arrow.tz and not getattr(array.type, "tz", None):
        return at_zone(_cast(array, pa.timestamp(arrow.unit)), arrow.tz, unclear="raise")
    return pc.cast(array, options=pc.CastOptions(arrow, allow_time_truncate=True))


def _with_items(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Return the same lists with items of another type."""
    array = pa.concat_arrays([array])
    items = _cast(array.values, arrow)
    if pt.is_fixed_size_list(array.type):
        size = array.type.list_size
        return pa.FixedSizeListArray.from_arrays(items, size, mask=array.is_null())
    kind = pa.LargeListArray if pt.is_large_list(array.type) else pa.ListArray
    return kind.from_arrays(list_offsets(array), items, mask=array.is_null())


def _plain(arrow: pa.DataType) -> pa.DataType:
    return arrow.value_type if pt.is_dictionary(arrow) else arrow


def _is_listing(arrow: pa.DataType) -> bool:
    return bool(pt.is_list(arrow) or pt.is_large_list(arrow) or pt.is_fixed_size_list(arrow))
