"""Type coercion: constants take the type of a column, and operands a common type.

i32 = 1.0      1            int32         ts >= date '2020-01-01'    2020-01-01 00:00
f32 = 0.1      nearest      float         dec = 1.5                  1.50
i8 + i32       the int8 becomes an int32
i32 < 1.5      i32 <= 1     i8 = 1000: no value
f32 < dec      both as double (`pilum.expressions.types.common_type`)
dec + 1        both stay decimals, with the digits that they need: of 256 bits beyond 38 digits
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from pilum.arrays import python_value
from pilum.errors import FilterError
from pilum.expressions.compare import is_zero
from pilum.expressions.geometry.layouts import EXTENSION_NAME, LISTS, layout_of
from pilum.expressions.lists import is_list, list_scalar
from pilum.expressions.moments import at_zone, floor_in_units
from pilum.expressions.nodes import (
    Cast,
    Column,
    Compare,
    Constant,
    Expression,
    Geometry,
    InSet,
    LiteralValue,
    Not,
)
from pilum.expressions.types import (
    MAX_DECIMAL128_DIGITS,
    array_of,
    as_decimal,
    common_type,
    decimal_type,
    is_binary,
    is_number,
    is_temporal,
    is_text,
    scalar_of,
)

__all__ = [
    "Typed",
    "align",
    "cast_to",
    "compared_exactly",
    "fit",
    "geometry",
    "in_set",
    "list_operands",
    "operands",
    "parse_temporal",
    "scalar",
]

_HALF_ENDS = 65520
_LEAST_UNITS, _MOST_UNITS = -(2**63), 2**63 - 1
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
    except ValueError as error:
        raise FilterError(f"the number {value!r} does not fit any type: {error}") from error


def _integer(value: int) -> pa.Scalar:
    if -(2**63) <= value < 2**63:
        return scalar_of(value, pa.int64())
    return scalar_of(value, pa.uint64()) if 0 <= value < 2**64 else _decimal(Decimal(value))


def _decimal(value: Decimal) -> pa.Scalar:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    return scalar_of(value, decimal_type(max(len(digits), scale), scale))


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
        return _fit_local(value, target)
    there = _try_cast(value, target)
    back = None if there is None else _try_cast(there, value.type)
    return there if back is not None and back.equals(value) else None


def _fit_local(value: pa.Scalar, target: pa.DataType) -> pa.Scalar | None:
    """Return the moment at which clocks of a zone show a date or timestamp."""
    if not (pt.is_timestamp(value.type) or pt.is_date(value.type)):
        return None
    number, is_whole = floor_in_units(value, target)
    if not is_whole or not _LEAST_UNITS <= number <= _MOST_UNITS:
        return None
    local = _try_cast(value, pa.timestamp(target.unit))
    return scalar_of(number, target) if local is None else at_zone(local, target.tz)


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
        raise FilterError(f"{text!r} cannot be parsed as {target}: {error}") from error
    raise FilterError(f"the text {text!r} does not compare with {target}")


def _parse_timestamp(text: str) -> pa.Scalar:
    fraction = text.partition(".")[2]
    digits = len(fraction) - len(fraction.lstrip("0123456789"))
    unit = _UNIT_OF_DIGITS[min(digits, 9)]
    try:
        return scalar_of(text).cast(pa.timestamp(unit))
    except pa.ArrowInvalid:
        return scalar_of(text).cast(pa.timestamp(unit, "UTC"))


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
            arrow = _common([arrow, _type_of_text(side.node, arrow)], sides)
    return arrow


def _type_of_text(node: Constant, arrow: pa.DataType) -> pa.DataType:
    """Return the type of a constant; of the text of a date or time, a type that holds it.

    A column of whole seconds, for example, is compared with a fraction of a second.
    """
    if not (is_text(node.value.type) and node.value.is_valid and is_temporal(arrow)):
        return node.value.type
    parsed = parse_temporal(node.value.as_py(), arrow).type
    return pa.timestamp(parsed.unit, arrow.tz) if pt.is_timestamp(arrow) else parsed


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
        return _wide_enough(operator, _own_decimal(left), _own_decimal(right))
    arrow = pa.float32() if pt.is_float16(arrow) else arrow
    return Typed(cast_to(left, arrow), arrow), Typed(cast_to(right, arrow), arrow)


def _wide_enough(operator: str, left: Typed, right: Typed) -> tuple[Typed, Typed]:
    """Widen decimals whose result has more digits than a decimal128, by Arrow's rules."""
    one, two = left.type, right.type
    scale = max(one.scale, two.scale)
    digits = max(one.precision - one.scale, two.precision - two.scale) + scale + 1
    if operator == "*":
        digits = one.precision + two.precision + 1
    elif operator == "/":
        fraction = max(4, one.scale + two.precision - two.scale + 1)
        digits = one.precision - one.scale + two.scale + fraction
    if digits <= MAX_DECIMAL128_DIGITS:
        return left, right
    one, two = (pa.decimal256(arrow.precision, arrow.scale) for arrow in (one, two))
    return Typed(cast_to(left, one), one), Typed(cast_to(right, two), two)


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


def compared_exactly(operator: str, side: Typed, constant: Expression) -> Expression | None:
    """Compare integers or timestamps with a constant that their type cannot hold.

    Such constants are 1.5, half a second for seconds, and the year 9999 for nanoseconds.

    Returns:
        A comparison with an integer, or a test that no or every value passes, and null for null;
        None for other operands.
    """
    if isinstance(side.node, Constant) or not isinstance(constant, Constant):
        return None
    if not constant.value.is_valid:
        return None
    if pt.is_integer(side.type):
        return _compared_integers(operator, side, constant.value)
    if pt.is_timestamp(side.type):
        return _compared_timestamps(operator, side, constant.value)
    return None


def _compared_integers(operator: str, side: Typed, value: pa.Scalar) -> Expression | None:
    arrow = side.type
    if not is_number(value.type):
        return None
    number = value.as_py()
    if not math.isfinite(number) or fit(value, arrow) is not None:
        return None
    is_signed = pt.is_signed_integer(arrow)
    most = 2 ** (arrow.bit_width - is_signed) - 1
    return _compared_above(operator, side, math.floor(number), -most - 1 if is_signed else 0, most)


def _compared_timestamps(operator: str, side: Typed, value: pa.Scalar) -> Expression | None:
    if is_text(value.type):
        value = parse_temporal(value.as_py(), side.type)
    if not (pt.is_timestamp(value.type) or pt.is_date(value.type)):
        return None
    floor, is_whole = floor_in_units(value, side.type)
    if is_whole and _LEAST_UNITS <= floor <= _MOST_UNITS:
        return None
    return _compared_above(operator, side, floor, _LEAST_UNITS, _MOST_UNITS)


def _compared_above(operator: str, side: Typed, floor: int, least: int, most: int) -> Expression:
    """Compare values from `least` to `most` with a constant above `floor` that none equals."""
    if operator not in {"=", "<>"} and least <= floor < most:
        bound = Constant(scalar_of(floor, side.type))
        return Compare("<=" if operator in {"<", "<="} else ">", side.node, bound)
    return _compared_beyond(operator, side, is_above=floor >= most)


def _compared_beyond(operator: str, side: Typed, is_above: bool) -> Expression:
    """Compare values with a constant that none of them equals, and that is above or below all."""
    nothing = InSet(side.node, array_of([], side.type), has_null=False)
    if operator in {"=", "<>"}:
        return nothing if operator == "=" else Not(nothing)
    return Not(nothing) if (operator in {"<", "<="}) == is_above else nothing


def list_operands(lists: Typed, other: Typed) -> list[Typed]:
    """Convert lists, and values or other lists, to one type of items."""
    if pt.is_null(lists.type):
        lists = Typed(cast_to(lists, pa.list_(pa.int64())), pa.list_(pa.int64()))
    items = Typed(Column(("items",)), lists.type.value_type)
    if not is_list(other.type):
        [_, value] = align([items, other])
        return [_with_items(lists, value.type), value]
    if isinstance(other.node, Constant) and other.node.value.is_valid:
        fitted = [fit(value, items.type) for value in other.node.value.values]
        if None not in fitted:
            values = list_scalar(array_of(fitted, items.type))
            return [lists, Typed(Constant(values), values.type)]
    [meeting, _] = align([items, Typed(Column(("others",)), other.type.value_type)])
    return [_with_items(side, meeting.type) for side in (lists, other)]


def _with_items(lists: Typed, items: pa.DataType) -> Typed:
    if lists.type.value_type == items:
        return lists
    return Typed(Cast(lists.node, pa.list_(items)), pa.list_(items))


def _common(types: Sequence[pa.DataType], sides: Sequence[Typed]) -> pa.DataType:
    arrow = types[0]
    for other in types[1:]:
        common = common_type(arrow, other)
        if common is None:
            named = " and ".join(filter(None, map(_named, sides)))
            where = f" ({named})" if named else ""
            raise FilterError(f"{arrow} does not compare with {other}{where}; cast one of them")
        arrow = common
    return arrow


def _named(side: Typed) -> str:
    """Return the name of a column or constant, as users write it."""
    if isinstance(side.node, Column):
        return f"column {'.'.join(side.node.path)!r}"
    return repr(python_value(side.node.value)) if isinstance(side.node, Constant) else ""


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


def geometry(argument: Typed, field: pa.Field | None) -> Typed:
    """Return an argument of a function of geometries; lists of points with their layout.

    Args:
        argument: The argument.
        field: The field of a column, whose metadata names the layout; None for other arguments.

    Raises:
        FilterError: If a column of lists has no layout.
    """
    arrow = argument.type
    if pt.is_null(arrow):
        return Typed(cast_to(argument, pa.binary()), pa.binary())
    layout = layout_of(arrow)
    if layout is None or layout.depth == 0 or field is None:
        return argument
    name = (field.metadata or {}).get(EXTENSION_NAME, b"").decode()
    if LISTS.get(name) != layout.depth:
        names = " or ".join(known for known, depth in LISTS.items() if depth == layout.depth)
        raise FilterError(
            f"column {field.name!r} of {arrow} has no layout of geometries: the metadata "
            f"{EXTENSION_NAME.decode()} of its field is {name!r}, not {names}"
        )
    return Typed(Geometry(argument.node, name), pa.struct([pa.field(name, arrow)]))
