"""When two tables are the same: schema and every bit of every value, NaNs and zeros with sign."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from pilum.arrays import storage_type

__all__ = ["as_stored", "assert_same", "retyped"]

_BITS = {pa.float16(): pa.uint16(), pa.float32(): pa.uint32(), pa.float64(): pa.uint64()}


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Fails with the first column that differs."""
    found.validate(full=True)
    assert found.schema.equals(expected.schema, check_metadata=True), found.schema
    assert found.num_rows == expected.num_rows
    for name in expected.column_names:
        ours, theirs = _bits(found[name]), _bits(expected[name])
        if not ours.equals(theirs):
            raise AssertionError(f"{name}: {_first_difference(ours, theirs)}")


def as_stored(table: pa.Table) -> pa.Table:
    """The table as it comes back: the format knows no name of items of fixed-size lists.

    Whether they may be null it does not know either, so they may.
    """
    schema = pa.schema([_stored_field(field) for field in table.schema], table.schema.metadata)
    arrays = [
        retyped(_whole(column), field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """One array from the start of its buffers.

    Arrow 26 takes wrong items out of fixed-size lists of fixed-size lists that begin elsewhere.
    """
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
    assert array.offset == 0
    return array


def _stored_field(field: pa.Field) -> pa.Field:
    kind = field.type
    if pt.is_struct(kind):
        return field.with_type(pa.struct([_stored_field(member) for member in kind]))
    if pt.is_fixed_size_list(kind):
        item = _stored_field(kind.value_field)
        if not pt.is_struct(item.type):
            item = pa.field("item", item.type)
        return field.with_type(pa.list_(item, kind.list_size))
    if pt.is_map(kind):
        key, item = _stored_field(kind.key_field), _stored_field(kind.item_field)
        return field.with_type(pa.map_(key, item))
    if pt.is_list(kind):
        return field.with_type(pa.list_(_stored_field(kind.value_field)))
    if pt.is_large_list(kind):
        return field.with_type(pa.large_list(_stored_field(kind.value_field)))
    return field


def _first_difference(found: pa.Array, expected: pa.Array) -> str:
    low, high = 0, len(expected)
    while high - low > 1:
        middle = (low + high) // 2
        if found.slice(low, middle - low).equals(expected.slice(low, middle - low)):
            low = middle
        else:
            high = middle
    with suppress(OverflowError, ValueError):  # not every moment is one that Python can print
        return f"row {low} of {len(expected)}: {found[low]!r} instead of {expected[low]!r}"
    return f"row {low} of {len(expected)}"


def retyped(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same buffers under a type of the same layout."""
    return pa.array(_Retyped(array, kind))


@dataclass(frozen=True, slots=True)
class _Retyped:
    """An array under a type of the same layout, through Arrow's C interface."""

    array: pa.Array
    kind: pa.DataType

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        return self.kind.__arrow_c_schema__(), self.array.__arrow_c_array__()[1]


def _bits(column: pa.ChunkedArray) -> pa.Array:
    """One array with the bits of floats as integers."""
    # Decoded chunk by chunk, as Arrow 26 joins no dictionaries with nulls.
    parts = [pa.chunked_array([chunk]) for chunk in column.chunks] or [column]
    array = _whole(pa.chunked_array([_plain(_whole(part)) for part in parts]))
    return retyped(array, _changed(array.type, _without_floats))


def _plain(array: pa.Array) -> pa.Array:
    array = retyped(array, storage_type(array.type))
    return _decoded(array, _changed(array.type, _without_dictionary))


def _decoded(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array with values in the place of dictionaries."""
    if array.type == kind:
        return array  # and Arrow does not cast all that is equal
    if pt.is_dictionary(array.type):
        return array.cast(kind)
    assert array.offset == 0
    validity = array.buffers()[0]
    if pt.is_struct(kind):
        below = [_decoded(array.field(i), kind.field(i).type) for i in range(kind.num_fields)]
        buffers = [validity]
    else:
        below = [_decoded(array.values, kind.field(0).type)]
        buffers = [validity] if pt.is_fixed_size_list(kind) else [validity, array.buffers()[1]]
    return pa.Array.from_buffers(kind, len(array), buffers, children=below)


def _without_floats(kind: pa.DataType) -> pa.DataType:
    return _BITS.get(kind, kind)


def _without_dictionary(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pt.is_dictionary(kind) else kind


def _changed(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with other leaves."""

    def changed(field: pa.Field) -> pa.Field:
        return field.with_type(_changed(field.type, leaf))

    if pt.is_struct(kind):
        return pa.struct([changed(member) for member in kind])
    if pt.is_fixed_size_list(kind):
        return pa.list_(changed(kind.value_field), kind.list_size)
    if pt.is_list(kind):
        return pa.list_(changed(kind.value_field))
    if pt.is_large_list(kind):
        return pa.large_list(changed(kind.value_field))
    if pt.is_map(kind):
        return pa.map_(changed(kind.key_field), changed(kind.item_field))
    return leaf(kind)
