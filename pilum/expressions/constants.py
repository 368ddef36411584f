"""Constants of a filter and the Arrow types that they can take.

A constant that is compared with a column takes the type of the column if that type can hold it:

    i32 = 1.0      1            int32         ts >= date '2020-01-01'    2020-01-01 00:00
    f32 = 0.1      nearest      float         dec = 1.5                  1.50
    i32 < 1.5      cannot       -> both as double (`pilum.expressions.types.common_type`)
"""

from __future__ import annotations

import datetime
import math
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.errors import FilterError
from pilum.expressions.nodes import LiteralValue
from pilum.expressions.plain import scalar_of
from pilum.expressions.types import is_binary, is_number, is_temporal, is_text

__all__ = ["at_zone", "fit", "parse_temporal", "scalar"]

_HALF_ENDS = 65520
_UNIT_OF_DIGITS = ("s", "ms", "ms", "ms", "us", "us", "us", "ns", "ns", "ns")


def scalar(value: LiteralValue) -> pa.Scalar:
    """Return the scalar of a literal without context: int64, double, string, ...

    Raises:
        FilterError: If no type can hold the number.
    """
    try:
        if isinstance(value, int) and not isinstance(value, bool):
            return _integer(value)
        if isinstance(value, Decimal):
            return _decimal(value)
        return scalar_of(value)
    except pa.ArrowInvalid as error:
        raise FilterError(f"the number {value!r} does not fit any type: {error}") from error


def _integer(value: int) -> pa.Scalar:
    if -(2**63) <= value < 2**63:
        return scalar_of(value, pa.int64())
    return scalar_of(value, pa.uint64()) if 0 <= value < 2**64 else _decimal(Decimal(value))


def _decimal(value: Decimal) -> pa.Scalar:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    return scalar_of(value, pa.decimal128(max(len(digits), scale), scale))


def fit(value: pa.Scalar, target: pa.DataType) -> pa.Scalar | None:
    """Return the same value in another type.

    Returns:
        None if the type cannot hold the value (floats: not even nearly) or is of another kind.

    Raises:
        FilterError: If text that is compared with a date or time cannot be parsed as one.
    """
    if value.type == target:
        return value
    if not value.is_valid:
        return scalar_of(None, target)
    if is_number(value.type) and is_number(target):
        return _fit_number(value.as_py(), target)
    if is_temporal(target):
        return _fit_temporal(value, target)
    same_kind = any(kind(value.type) and kind(target) for kind in (is_text, is_binary))
    return _try_cast(value, target) if same_kind else None


def _fit_number(value: float | Decimal, target: pa.DataType) -> pa.Scalar | None:
    if pt.is_float16(target) and _HALF_ENDS <= abs(float(value)) < math.inf:
        return None
    if pt.is_floating(target):
        return scalar_of(float(value), target)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    try:
        if pt.is_decimal(target):
            return scalar_of(_as_decimal(value), target)
        return scalar_of(int(value), target) if value == int(value) else None
    except (pa.ArrowInvalid, OverflowError, InvalidOperation):
        return None


def _as_decimal(value: float | Decimal) -> Decimal:
    # The shortest text of a float is the text that was written in the filter.
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _fit_temporal(value: pa.Scalar, target: pa.DataType) -> pa.Scalar | None:
    if is_text(value.type):
        parsed = parse_temporal(value.as_py(), target)
        return fit(parsed, target)
    if not is_temporal(value.type):
        return None
    if pt.is_timestamp(target) and target.tz and not getattr(value.type, "tz", None):
        local = _try_cast(value, pa.timestamp(target.unit))
        return None if local is None else at_zone(local, target.tz)
    there = _try_cast(value, target)
    back = None if there is None else _try_cast(there, value.type)
    return there if back is not None and back.equals(value) else None


def at_zone(local: Any, zone: str) -> Any:
    """Read wall-clock timestamps (scalar or array) as local times of a zone."""
    return pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")


def _try_cast(value: pa.Scalar, target: pa.DataType) -> pa.Scalar | None:
    try:
        return value.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def parse_temporal(text: str, target: pa.DataType) -> pa.Scalar:
    """Read ISO 8601 text as a value of the kind of `target`.

    Args:
        text: A date, a time, or a date and time with or without a zone. A text without a zone is
            a local time in the zone of the column that it is compared with.
        target: A date, time or timestamp type.

    Returns:
        A date32, a time64 or a timestamp of the smallest unit that holds the text.

    Raises:
        FilterError: If the text cannot be parsed.
    """
    try:
        if pt.is_time(target):
            return scalar_of(datetime.time.fromisoformat(text), pa.time64("us"))
        if pt.is_date(target):
            return scalar_of(text).cast(pa.date32())
        if pt.is_timestamp(target):
            return _parse_timestamp(text)
    except (ValueError, pa.ArrowInvalid) as error:
        raise FilterError(f"{text!r} does not read as {target}: {error}") from error
    raise FilterError(f"the text {text!r} does not compare with {target}")


def _parse_timestamp(text: str) -> pa.Scalar:
    fraction = text.partition(".")[2]
    digits = len(fraction) - len(fraction.lstrip("0123456789"))
    unit = _UNIT_OF_DIGITS[min(digits, 9)]
    try:
        return scalar_of(text).cast(pa.timestamp(unit))
    except pa.ArrowInvalid:
        return scalar_of(text).cast(pa.timestamp(unit, "UTC"))
