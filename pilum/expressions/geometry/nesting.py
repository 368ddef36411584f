"""Refuse collections that are nested so deeply that parsing them would overflow the stack.

GEOS parses a collection inside of a collection by a call of the same function, without a limit. So
values that are long enough to be nested deeply are looked through first:

    text       the number of collections, nested or not
    binary     header by header, with a list of the parts that are still to come
"""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.compute as pc

from pilum.errors import FilterError
from pilum.expressions.geometry.layouts import Form

__all__ = ["require_shallow"]

_MOST_DEEP = 1000
"""A tenth of what a stack of 8 MiB takes."""

_HEADER_BYTES = 9
_COLLECTIONS = "COLLECTION|CURVE|SURFACE"
_POINT, _LINE, _POLYGON, _FIRST_COLLECTION, _LAST_COLLECTION = 1, 2, 3, 4, 12
_ARC = 8
"""A circular string: points, as a line has them."""

_HAS_Z, _HAS_M, _HAS_SYSTEM = 0x80000000, 0x40000000, 0x20000000
_NUMBERS = {0: struct.Struct(">I"), 1: struct.Struct("<I")}


def require_shallow(values: pa.Array, form: Form) -> None:
    """Raise an error if a value has collections that are nested too deeply.

    Args:
        values: Texts or binary values.
        form: Which of both they are.

    Raises:
        FilterError: If one has.
    """
    most_bytes = _MOST_DEEP * _HEADER_BYTES
    if values.nbytes <= most_bytes:
        return
    longest = pc.max(pc.binary_length(values)).as_py()
    if longest is None or longest <= most_bytes:
        return
    long = values.filter(pc.greater(pc.binary_length(values), most_bytes))
    if form is Form.TEXT:
        counts = pc.count_substring_regex(long, _COLLECTIONS, ignore_case=True)
        is_deep = pc.max(counts).as_py() > _MOST_DEEP
    else:
        is_deep = any(_is_deep(value.as_buffer()) for value in long)
    if is_deep:
        raise FilterError(f"a geometry of more than {_MOST_DEEP} nested collections")


def _is_deep(data: pa.Buffer) -> bool:
    """Return whether collections are nested too deeply; False if the value is cut short.

    A value without a byte order is refused elsewhere: shapely would read it as hexadecimal text.
    """
    view, at, order = memoryview(data), 0, 1
    parts_left: list[int] = []  # of each collection around the next header
    try:
        while len(parts_left) <= _MOST_DEEP:
            order = view[at] if view[at] in _NUMBERS else order
            number = _NUMBERS[order]
            [code] = number.unpack_from(view, at + 1)
            at += 9 if code & _HAS_SYSTEM else 5
            kind, place_bytes = code % 0x10000 % 1000, _place_bytes(code)
            if kind == _POINT:
                at += place_bytes
            elif _LINE <= kind <= _LAST_COLLECTION:
                [count] = number.unpack_from(view, at)
                at += 4
                if kind >= _FIRST_COLLECTION and kind != _ARC:
                    parts_left.append(count + 1)
                for _ in range(count if kind == _POLYGON else 0):
                    at += 4 + number.unpack_from(view, at)[0] * place_bytes
                at += count * place_bytes if kind in (_LINE, _ARC) else 0
            else:
                return False
            while parts_left:
                parts_left[-1] -= 1
                if parts_left[-1]:
                    break
                parts_left.pop()
            if not parts_left:
                return False
    except (struct.error, IndexError):
        return False
    return True


def _place_bytes(code: int) -> int:
    """Return the size of a place: x and y, and perhaps z and m."""
    thousands = code % 0x10000 // 1000
    has_z = code & _HAS_Z or thousands in {1, 3}
    has_m = code & _HAS_M or thousands in {2, 3}
    return 16 + 8 * bool(has_z) + 8 * bool(has_m)
