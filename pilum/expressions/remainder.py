"""Remainders, with the sign of the dividend: -7 % 3 is -1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.expressions.functions import Datum
from pilum.expressions.types import integers_of, scalar_of

__all__ = ["remainder"]


def remainder(left: Datum, right: Datum) -> Datum:
    """Return the remainders of numbers of one type; null where one of them is null.

    Raises:
        pa.ArrowInvalid: If an integer is divided by zero.
    """
    if pt.is_floating(left.type):
        return _of_floats(left, right)
    divisor = right.as_py() if isinstance(right, pa.Scalar) and isinstance(left, pa.Array) else None
    if divisor and abs(divisor) < 1 << (left.type.bit_width - 1):
        return _by_constant(left, abs(divisor))
    quotient = pc.divide_checked(left, right)
    return pc.subtract(left, pc.multiply(quotient, right))  # neither exceeds `left`


def _by_constant(values: pa.Array, divisor: int) -> pa.Array:
    """Return the remainders of integers; NumPy divides by a constant without a slow instruction."""
    if not len(values):
        return values
    width, sign = values.type.bit_width // 8, "u" if pt.is_unsigned_integer(values.type) else "i"
    # Nulls have any numbers. `to_numpy` would import pandas.
    first = values.offset * width
    numbers = np.frombuffer(values.buffers()[1], f"{sign}{width}", len(values), first)
    own = numbers.dtype.type(divisor)
    found = numbers // own
    np.multiply(found, own, out=found)
    np.subtract(numbers, found, out=found)
    if numbers.min() < 0:  # NumPy rounds quotients down, SQL towards zero
        found[(numbers < 0) & (found != 0)] -= own
    result = integers_of(found, values.type)
    if not values.null_count:
        return result
    return pc.if_else(values.is_valid(), result, scalar_of(None, values.type))


def _of_floats(left: Datum, right: Datum) -> Datum:
    missing = pc.or_(pc.is_null(left), pc.is_null(right))
    with np.errstate(all="ignore"):
        values = np.fmod(_floats(left), _floats(right))
    found = pa.array(values, left.type) if np.ndim(values) else scalar_of(float(values), left.type)
    return pc.if_else(missing, scalar_of(None, left.type), found)


def _floats(values: Datum) -> Any:
    filled = pc.fill_null(values, scalar_of(0.0, values.type))
    return filled.as_py() if isinstance(filled, pa.Scalar) else filled.to_numpy()
