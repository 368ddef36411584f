"""Type coercion: the common type of two operands.

i32 = 1.0          the constant becomes an int32
i8 < 1000          the column becomes an int64
dec + 1            both stay decimals, with the digits that they need
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from pilum.errors import FilterError
from pilum.expressions.compare import is_zero
from pilum.expressions.constants import fit, scalar
from pilum.expressions.nodes import Cast, Column, Constant, Expression, InSet
from pilum.expressions.plain import array_of, scalar_of
from pilum.expressions.types import as_decimal, common_type

__all__ = ["Typed", "align", "cast_to", "in_set", "operands"]


class Typed(NamedTuple):
    """A bound node and the type of its values."""

    node: Expression
    type: pa.DataType


def align(sides: Sequence[Typed]) -> list[Typed]:
    """Convert the operands to one type: that of a column for constants, or a common one.

    Raises:
        FilterError: If there is none.
    """
    arrow = _meeting_type(sides)
    if pt.is_nested(arrow):
        raise FilterError(f"values of type {arrow} cannot be compared; compare their members")
    return [Typed(cast_to(side, arrow), arrow) for side in sides]


def _meeting_type(sides: Sequence[Typed]) -> pa.DataType:
    columns = [side for side in sides if not isinstance(side.node, Constant)]
    arrow = _common([side.type for side in columns], sides) if columns else pa.null()
    for side in sides:
        if isinstance(side.node, Constant) and _fitted(side.node, arrow) is None:
            arrow = _common([arrow, side.type], sides)
    return arrow


def _fitted(node: Constant, arrow: pa.DataType) -> pa.Scalar | None:
    if pt.is_null(arrow) and node.value.is_valid:
        return None
    return fit(node.value, arrow)


def operands(operator: str, left: Typed, right: Typed) -> tuple[Typed, Typed]:
    """Convert two numbers to one type, but keep the digits of decimals."""
    if operator == "%" and pt.is_uint64(left.type):
        right = _divisor(right)
    arrow = common_type(left.type, right.type)
    if arrow is None or pt.is_null(arrow):
        arrow = pa.int64()
    if pt.is_decimal(arrow):
        if operator == "%":
            raise FilterError("decimals have no '%'; cast them to double")
        return _own_decimal(left), _own_decimal(right)
    arrow = pa.float32() if pt.is_float16(arrow) else arrow
    return Typed(cast_to(left, arrow), arrow), Typed(cast_to(right, arrow), arrow)


def _divisor(right: Typed) -> Typed:
    """Return the divisor of an unsigned number; a constant loses its sign, which has no effect."""
    if isinstance(right.node, Constant) and pt.is_signed_integer(right.type):
        magnitude = right.node.value.as_py()
        value = scalar_of(None if magnitude is None else abs(magnitude), pa.uint64())
        return Typed(Constant(value), value.type)
    return right


def _own_decimal(side: Typed) -> Typed:
    constant = side.node.value.as_py() if isinstance(side.node, Constant) else None
    if constant is not None:
        value = scalar(Decimal(str(constant)))
        return Typed(Constant(value), value.type)
    arrow = as_decimal(side.type)
    return Typed(cast_to(side, arrow), arrow)


def _common(types: Sequence[pa.DataType], sides: Sequence[Typed]) -> pa.DataType:
    arrow = types[0]
    for other in types[1:]:
        common = common_type(arrow, other)
        if common is None:
            where = " and ".join(filter(None, map(_named, sides)))
            raise FilterError(f"{arrow} does not compare with {other} ({where}); cast one of them")
        arrow = common
    return arrow


def _named(side: Typed) -> str:
    """Return the name of a column or constant, as users write it."""
    if isinstance(side.node, Column):
        return f"column {'.'.join(side.node.path)!r}"
    return repr(side.node.value.as_py()) if isinstance(side.node, Constant) else ""


def cast_to(side: Typed, arrow: pa.DataType) -> Expression:
    """Return the node with its values cast to another type."""
    if side.type == arrow:
        return side.node
    if isinstance(side.node, Constant):
        fitted = fit(side.node.value, arrow)
        return Cast(side.node, arrow) if fitted is None else Constant(fitted)
    return Cast(side.node, arrow)


def in_set(operand: Typed, constants: Sequence[pa.Scalar]) -> Expression:
    """Return the node that tests whether values are among constants."""
    arrow = operand.type
    # A constant that the type cannot hold equals none of its values.
    fitted = [fit(value, arrow) for value in constants if value.is_valid]
    values = [value for value in fitted if value is not None]
    if pt.is_floating(arrow) and any(map(is_zero, values)):
        values += [scalar_of(0.0, arrow), scalar_of(-0.0, arrow)]
    has_null = any(not value.is_valid for value in constants)
    return InSet(operand.node, array_of(values, arrow), has_null)
