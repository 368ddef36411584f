"""Scalars and arrays of plain values, without pandas.

`pa.scalar` and `pa.array` check whether they were given something of pandas, and import it to find
out whether it is installed. This takes a fifth of a second in a process that only filters.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

__all__ = ["FALSE", "TRUE", "array_of", "scalar_of"]

_INT64 = range(-(2**63), 2**63)


def scalar_of(value: Any, arrow: pa.DataType | None = None) -> pa.Scalar:
    """Return what `pa.scalar` returns or raise its errors; an overflow is always ArrowInvalid."""
    if value is None and arrow is not None:
        return pa.nulls(1, arrow)[0]
    plain = _plain(value)
    if plain is None or not (arrow is None or _casts_alike(plain.type, arrow)):
        return pa.scalar(value, arrow)
    return plain if arrow is None or plain.type == arrow else plain.cast(arrow)


def array_of(scalars: Sequence[pa.Scalar], arrow: pa.DataType) -> pa.Array:
    """Return an array of scalars of one type."""
    if not scalars:
        return pa.nulls(0, arrow)
    return pa.concat_arrays([pa.repeat(one, 1) for one in scalars])


def _casts_alike(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a cast treats the value as `pa.scalar` does."""
    is_float = bool(pt.is_float64(source) and pt.is_float32(target))
    is_integer = bool(pt.is_int64(source) and pt.is_integer(target))
    return bool(source == target) or is_float or is_integer


def _plain(value: Any) -> pa.Scalar | None:
    match value:
        case bool():
            return _fixed(pa.bool_(), "<?", value)
        case int() if value in _INT64:
            return _fixed(pa.int64(), "<q", value)
        case float():
            return _fixed(pa.float64(), "<d", value)
        case str():
            return _variable(pa.string(), value.encode())
        case bytes():
            return _variable(pa.binary(), value)
    return None


def _fixed(arrow: pa.DataType, form: str, value: object) -> pa.Scalar:
    return pa.Array.from_buffers(arrow, 1, [None, pa.py_buffer(struct.pack(form, value))])[0]


def _variable(arrow: pa.DataType, data: bytes) -> pa.Scalar:
    offsets = pa.py_buffer(struct.pack("<ii", 0, len(data)))
    return pa.Array.from_buffers(arrow, 1, [None, offsets, pa.py_buffer(data)])[0]


TRUE, FALSE = scalar_of(True), scalar_of(False)
"""Constants for functions of `pyarrow.compute`, which would otherwise convert Python's values."""
