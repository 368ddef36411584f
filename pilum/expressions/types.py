"""Types in filters: their SQL names, the common type of two types, and plain scalars.

Two types are compared in a type that holds the values of both:

    int8, int32         int32            uint64, int64       decimal(20, 0)
    int32, float32      double           decimal, int        decimal with the digits of both
    date, timestamp     timestamp        string, large_string    large_string

Text is never compared with numbers, nor numbers with booleans: cast one side.

Scalars are made without pandas: `pa.scalar` and `pa.array` check whether they were given something
of pandas, and import it to find out whether it is installed. This takes a fifth of a second in a
process that only filters.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.errors import FilterError

__all__ = [
    "FALSE",
    "MAX_DECIMAL128_DIGITS",
    "TRUE",
    "array_of",
    "as_decimal",
    "common_type",
    "decimal_type",
    "integers_of",
    "is_binary",
    "is_number",
    "is_temporal",
    "is_text",
    "scalar_of",
    "sql_type",
    "texts_of",
]

_SQL_TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINT": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
}
MAX_DECIMAL128_DIGITS = 38
_UNITS = {"0": "s", "3": "ms", "6": "us", "9": "ns"}
_UNIT_ORDER = ("s", "ms", "us", "ns")
_INT64 = range(-(2**63), 2**63)


def sql_type(name: str, parameters: tuple[str, ...]) -> pa.DataType:
    """Return the Arrow type that SQL names in a CAST.

    Args:
        name: The upper-case name, such as "BIGINT".
        parameters: The SQL in parentheses: digits of a timestamp (0, 3, 6, 9; 6 if not given),
            precision and scale of a decimal.

    Raises:
        FilterError: If filters do not have the type.
    """
    if name in {"TIMESTAMP", "DATETIME"} and len(parameters) <= 1:
        digits = parameters[0] if parameters else "6"
        if digits in _UNITS:
            return pa.timestamp(_UNITS[digits])
    if name == "DECIMAL" and len(parameters) == 2 and "".join(parameters).isdecimal():
        precision, scale = map(int, parameters)
        if 0 <= scale <= precision <= MAX_DECIMAL128_DIGITS and precision > 0:
            return pa.decimal128(precision, scale)
    if name in _SQL_TYPES and not parameters:
        return _SQL_TYPES[name]
    shown = f"{name}({', '.join(parameters)})" if parameters else name
    raise FilterError(
        f"cannot cast to {shown}; the types are boolean, tinyint, smallint, int, bigint (each also "
        "unsigned), float, double, decimal(precision, scale), string, binary, date, timestamp(0 | "
        "3 | 6 | 9)"
    )


def is_text(arrow: pa.DataType) -> bool:
    """Return whether values are UTF-8 text."""
    return bool(pt.is_string(arrow) or pt.is_large_string(arrow))


def is_binary(arrow: pa.DataType) -> bool:
    """Return whether values are bytes."""
    return bool(pt.is_binary(arrow) or pt.is_large_binary(arrow) or pt.is_fixed_size_binary(arrow))


def is_number(arrow: pa.DataType) -> bool:
    """Return whether values are numbers that arithmetic accepts."""
    return bool(pt.is_integer(arrow) or pt.is_floating(arrow) or pt.is_decimal(arrow))


def is_temporal(arrow: pa.DataType) -> bool:
    """Return whether values are dates, times, timestamps or durations."""
    return bool(pt.is_temporal(arrow))


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type in which values of both types are compared; None if there is none."""
    if left == right or pt.is_null(right):
        return left
    if pt.is_null(left):
        return right
    if is_number(left) and is_number(right):
        return _common_number(left, right)
    if is_text(left) and is_text(right):
        return pa.large_string()
    if is_binary(left) and is_binary(right):
        large = pt.is_large_binary(left) or pt.is_large_binary(right)
        return pa.large_binary() if large else pa.binary()
    return _common_temporal(left, right)


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pt.is_floating(left) and pt.is_floating(right):
        return max(left, right, key=lambda arrow: arrow.bit_width)
    if pt.is_floating(left) or pt.is_floating(right):
        return pa.float64()
    if pt.is_integer(left) and pt.is_integer(right):
        return _common_integer(left, right)
    return _common_decimal(as_decimal(left), as_decimal(right))


def _common_integer(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pt.is_signed_integer(left) == pt.is_signed_integer(right):
        return max(left, right, key=lambda arrow: arrow.bit_width)
    unsigned = left if pt.is_unsigned_integer(left) else right
    if unsigned.bit_width == 64:
        return pa.decimal128(20, 0)
    signed = {8: pa.int16(), 16: pa.int32(), 32: pa.int64()}[unsigned.bit_width]
    return max(left, right, signed, key=lambda arrow: (arrow.bit_width, arrow == signed))


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """Return the narrowest decimal type with these digits.

    Raises:
        ValueError: If no type has so many.
    """
    wide = precision > MAX_DECIMAL128_DIGITS
    return pa.decimal256(precision, scale) if wide else pa.decimal128(precision, scale)


def as_decimal(arrow: pa.DataType) -> pa.DataType:
    """Return the decimal type that holds every value of an integer type; a decimal is its own."""
    if pt.is_decimal(arrow):
        return arrow
    if pt.is_null(arrow):
        return pa.decimal128(1, 0)
    return pa.decimal128({8: 3, 16: 5, 32: 10, 64: 20}[arrow.bit_width], 0)


def _common_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return decimal_type(whole + scale, scale)


def _common_temporal(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    left, right = _date_as_timestamp(left), _date_as_timestamp(right)
    unit = max(getattr(left, "unit", "s"), getattr(right, "unit", "s"), key=_UNIT_ORDER.index)
    if pt.is_timestamp(left) and pt.is_timestamp(right):
        # A timestamp without a zone is in UTC.
        return pa.timestamp(unit, left.tz or right.tz)
    if pt.is_time(left) and pt.is_time(right):
        return pa.time32(unit) if unit in {"s", "ms"} else pa.time64(unit)
    if pt.is_duration(left) and pt.is_duration(right):
        return pa.duration(unit)
    return None


def _date_as_timestamp(arrow: pa.DataType) -> pa.DataType:
    if pt.is_date(arrow):
        return pa.timestamp("s" if pt.is_date32(arrow) else "ms")
    return arrow


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
    if len(scalars) == 1:
        return pa.repeat(scalars[0], 1)
    return pa.concat_arrays([pa.repeat(one, 1) for one in scalars])


def integers_of(values: NDArray[np.integer], arrow: pa.DataType) -> pa.Array:
    """Return an array of integers, which have the width of `arrow`."""
    return pa.Array.from_buffers(arrow, len(values), [None, pa.py_buffer(values)])


def texts_of(values: Sequence[str]) -> pa.Array:
    """Return an array of texts."""
    encoded = [value.encode() for value in values]
    offsets = struct.pack(f"<{len(encoded) + 1}i", *accumulate(map(len, encoded), initial=0))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


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
