"""Comparisons of values. Floats follow the total order of IEEE 754.

    value     -nan     -inf     -1.0     -0.0     0.0     1.0     inf     nan
    bits      ff…      ff…      bf…      80…      00…     3f…     7f…     7f…

Positive floats are ordered like their bits as signed integers, and each negative float is less.
Negative floats have the opposite order of their bits as unsigned integers, and each positive float
is less. So a constant needs one comparison of integers. A constant that is zero equals both zeros;
otherwise -0.0 is less than 0.0. A NaN equals a NaN of the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.expressions.types import scalar_of

__all__ = ["MIRRORED", "OPPOSITE", "bits", "compare", "is_zero", "ordinals"]

_COMPARE: dict[str, Callable[..., Any]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator that means the same with its sides exchanged."""
OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The operator that is true where the first one is false."""

_SIGNED = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_UNSIGNED = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


def bits(values: pa.Array) -> pa.Array:
    """Return floats as the signed integers that have the same bits."""
    return values.view(_SIGNED[values.type.bit_width])


def ordinals(values: pa.Array) -> pa.Array:
    """Return signed integers that are ordered as the floats are."""
    signed = bits(values)
    flipped = pc.bit_wise_xor(signed, scalar_of(2 ** (signed.type.bit_width - 1) - 1, signed.type))
    return pc.if_else(pc.less(signed, scalar_of(0, signed.type)), flipped, signed)


def is_zero(value: pa.Scalar) -> bool:
    """Return whether a float is 0.0 or -0.0."""
    return bool(value.is_valid and value.as_py() == 0)


def compare(operator: str, left: Any, right: Any) -> Any:
    """Compare two arrays or scalars of one type; null where a side is null."""
    if not pt.is_floating(left.type):
        return _COMPARE[operator](left, right)
    if isinstance(right, pa.Scalar):
        if isinstance(left, pa.Scalar):
            return _with_constant(operator, pa.repeat(left, 1), right)[0]
        return _with_constant(operator, left, right)
    if isinstance(left, pa.Scalar):
        return _with_constant(MIRRORED[operator], right, left)
    return _in_total_order(operator, bits(left), bits(right))


def _in_total_order(operator: str, left: pa.Array, right: pa.Array) -> pa.Array:
    result = _COMPARE[operator](left, right)
    if operator in {"=", "<>"}:
        return result
    # Of two negative floats, the one with the lesser bits is the greater.
    are_negative = pc.less(pc.bit_wise_and(left, right), scalar_of(0, left.type))
    return pc.xor(result, pc.and_(are_negative, pc.not_equal(left, right)))


def _with_constant(operator: str, values: pa.Array, constant: pa.Scalar) -> pa.Array:
    if is_zero(constant):
        if operator in {"=", "<>"}:
            magnitude = pc.shift_left(_unsigned(values), scalar_of(1, _unsigned(values).type))
            return _COMPARE[operator](magnitude, scalar_of(0, magnitude.type))
        # The zeros are one value: the range of the operator begins or ends at the outer zero.
        constant = scalar_of(-0.0 if operator in {"<", ">="} else 0.0, constant.type)
    own = pa.repeat(constant, 1)
    if constant.is_valid and bits(own)[0].as_py() < 0:
        return _COMPARE[MIRRORED[operator]](_unsigned(values), _unsigned(own)[0])
    return _COMPARE[operator](bits(values), bits(own)[0])


def _unsigned(values: pa.Array) -> pa.Array:
    return values.view(_UNSIGNED[values.type.bit_width])
