"""Dictionary arrays, and types that have dictionaries at any depth."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

__all__ = ["has_dictionaries", "with_dictionaries_as", "without_null_values"]


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
