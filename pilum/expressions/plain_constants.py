"""Constants that have the type of a column as they are: no other type needs to be found.

They are the same as those of `coerce.align`, which takes longer than a look at the value.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pilum.expressions.nodes import InList, Literal, LiteralValue
from pilum.expressions.types import integers_of, scalar_of, texts_of

__all__ = ["plain_items", "plain_value"]

_TEXT = pa.string()
_NUMBERS = {pa.from_numpy_dtype(form).id: struct.Struct(f"<{form}") for form in "bhiqBHIQfd"}
"""The form of each type of numbers that constants often have, by the id of the type."""


def plain_value(value: LiteralValue, arrow: pa.DataType) -> pa.Scalar | None:
    """Return an integer or a text as a scalar of the type of a column that has it; else None."""
    if type(value) is int:
        form = _NUMBERS.get(arrow.id)
        try:
            data = None if form is None else form.pack(value)
        except (struct.error, OverflowError):  # the type does not have the value
            return None
        return pa.Array.from_buffers(arrow, 1, [None, pa.py_buffer(data)])[0] if data else None
    return scalar_of(value) if type(value) is str and arrow == _TEXT else None


def plain_items(node: InList, arrow: pa.DataType) -> pa.Array | None:
    """Return the items if all of them are small integers or texts, as is the column; else None.

    Binding long lists item by item would take longer than a lookup of the items.
    """
    values = [item.value for item in node.items if isinstance(item, Literal)]
    kinds = set(map(type, values))
    if len(values) == len(node.items) and kinds == {int} and pt.is_integer(arrow):
        found = np.array(values)
        sign = "u" if pt.is_unsigned_integer(arrow) else "i"
        limits = np.iinfo(f"{sign}{arrow.bit_width // 8}")
        if found.dtype == np.int64:
            is_held = (found >= limits.min) & (found <= limits.max)
            return integers_of(found[is_held].astype(limits.dtype), arrow)
    if len(values) == len(node.items) and kinds == {str} and pt.is_string(arrow):
        return texts_of([str(value) for value in values])
    return None
