"""Take and filter rows of arrays of any type.

From a fixed-size list of fixed-size lists that begins at an offset, also as a member of a struct,
Arrow 19 to 26 picks wrong items, and sometimes memory that was never written. Such arrays are
copied first, so that they begin at zero; all others are passed to Arrow as they are.
"""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa
import pyarrow.types as pt

__all__ = ["filtered", "from_zero", "taken", "without_nulls"]

Rows = TypeVar("Rows", pa.Array, pa.ChunkedArray, pa.RecordBatch)


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
        if not any(map(_is_picked_wrongly, rows.schema.types)):
            return rows
        columns = list(map(_from_zero, rows.columns))
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
    if isinstance(rows, pa.ChunkedArray):
        if not _is_picked_wrongly(rows.type):
            return rows
        return pa.chunked_array(list(map(_from_zero, rows.chunks)), rows.type)
    return _from_zero(rows)


def _from_zero(array: pa.Array) -> pa.Array:
    if not _is_picked_wrongly(array.type) or _begins_at_zero(array):
        return array
    return pa.concat_arrays([array])


def _is_picked_wrongly(kind: pa.DataType) -> bool:
    """Return whether a type is or contains a fixed-size list of fixed-size lists."""
    if kind.num_fields == 0:
        return False
    if pt.is_fixed_size_list(kind) and pt.is_fixed_size_list(kind.value_type):
        return True
    return any(_is_picked_wrongly(kind.field(index).type) for index in range(kind.num_fields))


def _begins_at_zero(array: pa.Array) -> bool:
    """Return whether neither the array nor any array below it has an offset."""
    if array.offset:
        return False
    if pt.is_struct(array.type):
        return all(_begins_at_zero(array.field(i)) for i in range(array.type.num_fields))
    return array.type.num_fields == 0 or _begins_at_zero(array.values)
