"""Conversion of Spark values to filter literals."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

__all__ = ["comparison", "is_string", "literal"]


def literal(value: Any, arrow: pa.DataType) -> str | None:
    """Return a literal that compares with this type exactly as in Spark, or None."""
    for is_type, write in _LITERALS:
        if is_type(arrow):
            return write(value)
    return None


def comparison(value: str, operator: str, text: str, arrow: pa.DataType) -> str:
    """Return a parenthesized comparison that selects the same rows as in Spark.

    In Spark, a NaN of either sign is greater than all numbers. The `value` is a column or an
    expression over one; `text` is as returned by `literal`; both sides have the type `arrow`.
    """
    if not pt.is_floating(arrow) or operator in {"=", "<>"}:
        return f"({value} {operator} {text})"
    nan = f"OR isnan({value})" if operator in {">", ">="} else f"AND NOT isnan({value})"
    return f"({value} {operator} {text} {nan})"


def _integer(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    return str(int(value)) if value == int(value) else None


def _double(value: Any) -> str | None:
    return repr(value) if isinstance(value, float) and math.isfinite(value) else None


def _float(value: Any) -> str | None:
    # A literal between two floats, or beyond all of them, must not be rounded to one of them.
    if not isinstance(value, float):
        return None
    with np.errstate(over="ignore"):
        return _double(value) if float(np.float32(value)) == value else None


def _boolean(value: Any) -> str | None:
    return str(value).upper() if isinstance(value, bool) else None


def _string(value: Any) -> str | None:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else None


def _date(value: Any) -> str | None:
    is_date = isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
    return f"DATE '{value.isoformat()}'" if is_date else None


def _timestamp(value: Any) -> str | None:
    if not isinstance(value, datetime.datetime):
        return None
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC)
    return f"TIMESTAMP '{value.isoformat(sep=' ', timespec='microseconds')}'"


def is_string(arrow: pa.DataType) -> bool:
    """Return whether values of a type are texts."""
    return bool(pt.is_string(arrow) or pt.is_large_string(arrow))


def _is_micros(arrow: pa.DataType) -> bool:
    return bool(pt.is_timestamp(arrow) and arrow.unit == "us")


_LITERALS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], str | None]], ...] = (
    (pt.is_integer, _integer),
    (pt.is_float32, _float),
    (pt.is_float64, _double),
    (pt.is_boolean, _boolean),
    (is_string, _string),
    (pt.is_date32, _date),
    (_is_micros, _timestamp),
)
