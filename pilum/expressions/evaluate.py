"""Evaluate bound nodes over a record batch, with Arrow kernels.

Nulls follow SQL: a comparison with null is null, and AND and OR use three-valued logic. Floats have
the total order of IEEE 754 (`pilum.expressions.compare`). Integers that overflow, division of an
integer by zero and a cast that does not fit are errors, not wrong rows.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.arrays import filtered
from pilum.errors import FilterError
from pilum.expressions.compare import bits, compare
from pilum.expressions.functions import FUNCTIONS, Datum
from pilum.expressions.geometry.layouts import named
from pilum.expressions.lists import cast_lists, compare_lists, is_list
from pilum.expressions.moments import at_zone, local_time
from pilum.expressions.nodes import (
    And,
    Arithmetic,
    Call,
    Cast,
    Column,
    Compare,
    Constant,
    Distinct,
    Expression,
    Geometry,
    InSet,
    IsNull,
    IsTruth,
    Like,
    Negative,
    Not,
    Or,
    compares_column,
    walk,
)
from pilum.expressions.patterns import match_like
from pilum.expressions.remainder import remainder
from pilum.expressions.types import FALSE, TRUE, is_text, scalar_of

__all__ = ["counts_units", "evaluate", "read_column", "to_array", "to_mask"]

_ONE, _NO_PLACE = scalar_of(1), scalar_of(None, pa.int64())
_CHECKED: dict[str, Callable[..., Datum]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": pc.divide_checked,
}
_FLOATING: dict[str, Callable[..., Datum]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "/": pc.divide,
}


def evaluate(node: Expression, batch: pa.RecordBatch) -> Datum:
    """Evaluate a bound node.

    Args:
        node: A node without `Literal` and `InList`.
        batch: Contains the columns that the node names. A member `s.x` may be a member of the
            column `s` or a column `s.x`.

    Returns:
        An array of as many values as the batch has rows, or a scalar.

    Raises:
        FilterError: If a value overflows, is divided by zero or does not fit a cast.
    """
    try:
        return _EVALUATORS[type(node)](node, batch)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise FilterError(f"cannot evaluate the expression: {error}") from error


def to_array(result: Datum, num_rows: int) -> pa.Array:
    """Return the result of `evaluate` as an array of `num_rows` values."""
    return pa.repeat(result, num_rows) if isinstance(result, pa.Scalar) else result


def to_mask(result: Datum, num_rows: int) -> pa.BooleanArray:
    """Return a boolean result of `evaluate` as a mask of `num_rows` values; nulls become false."""
    return pc.fill_null(to_array(result.cast(pa.bool_()), num_rows), FALSE)


def read_column(node: Column, batch: pa.RecordBatch) -> pa.Array:
    """Return a column of a batch as it is."""
    names = batch.schema.names
    for depth in range(len(node.path), 0, -1):
        name = ".".join(node.path[:depth])
        if name in names:
            members = list(node.path[depth:])
            column = batch.column(names.index(name))
            return pc.struct_field(column, members) if members else column
    raise FilterError(f"the batch has no column {'.'.join(node.path)!r}; it has {names}")


def _column(node: Column, batch: pa.RecordBatch) -> Datum:
    column = read_column(node, batch)
    return pc.dictionary_decode(column) if pt.is_dictionary(column.type) else column


def _constant(node: Constant, batch: pa.RecordBatch) -> Datum:
    return node.value


def _arithmetic(node: Arithmetic, batch: pa.RecordBatch) -> Datum:
    left, right = evaluate(node.left, batch), evaluate(node.right, batch)
    if node.operator == "%":
        return remainder(left, right)
    return (_FLOATING if pt.is_floating(left.type) else _CHECKED)[node.operator](left, right)


def _negative(node: Negative, batch: pa.RecordBatch) -> Datum:
    return pc.negate(evaluate(node.operand, batch))


def _compare(node: Compare, batch: pa.RecordBatch) -> Datum:
    return _compared(node.operator, evaluate(node.left, batch), evaluate(node.right, batch))


def _compared(operator: str, left: Datum, right: Datum) -> Datum:
    return (compare_lists if is_list(left.type) else compare)(operator, left, right)


def _distinct(node: Distinct, batch: pa.RecordBatch) -> Datum:
    left, right = evaluate(node.left, batch), evaluate(node.right, batch)
    one_is_null = pc.xor(pc.is_null(left), pc.is_null(right))
    return pc.or_(one_is_null, pc.fill_null(_compared("<>", left, right), FALSE))


def _and(node: And, batch: pa.RecordBatch) -> Datum:
    result = evaluate(node.operands[0], batch)
    for operand in node.operands[1:]:
        undecided = pc.fill_null(result, TRUE)
        result = pc.and_kleene(result, _guarded(operand, batch, undecided))
    return result


def _or(node: Or, batch: pa.RecordBatch) -> Datum:
    result = evaluate(node.operands[0], batch)
    for operand in node.operands[1:]:
        undecided = pc.invert(pc.fill_null(result, FALSE))
        result = pc.or_kleene(result, _guarded(operand, batch, undecided))
    return result


def _guarded(node: Expression, batch: pa.RecordBatch, rows: Datum) -> Datum:
    """Evaluate a node that can fail only for the given rows: `x <> 0 AND 1 / x > 2` works."""
    if isinstance(rows, pa.Scalar) and not rows.as_py() and _can_fail(node):
        return rows
    return _of_rows(node, batch, rows)


def _of_rows(node: Expression, batch: pa.RecordBatch, rows: Datum) -> Datum:
    """Evaluate a node, for the given rows only if it can fail; its value is null for others."""
    if isinstance(rows, pa.Scalar) or rows.true_count == len(rows) or not _can_fail(node):
        return evaluate(node, batch)
    part = filtered(batch, rows)
    found = to_array(evaluate(node, part), part.num_rows)
    places = pc.subtract(pc.cumulative_sum(rows.cast(pa.int64())), _ONE)
    return found.take(pc.if_else(rows, places, _NO_PLACE))


def _can_fail(node: Expression) -> bool:
    """Return whether there are values for which a node cannot be evaluated."""
    if compares_column(node):
        return False
    return any(isinstance(below, Arithmetic | Cast | Call) for below in walk(node))


def _not(node: Not, batch: pa.RecordBatch) -> Datum:
    return pc.invert(evaluate(node.operand, batch))


def _is_null(node: IsNull, batch: pa.RecordBatch) -> Datum:
    return pc.is_null(evaluate(node.operand, batch))


def _is_truth(node: IsTruth, batch: pa.RecordBatch) -> Datum:
    operand = pc.fill_null(evaluate(node.operand, batch), FALSE if node.truth else TRUE)
    return operand if node.truth else pc.invert(operand)


def _in_set(node: InSet, batch: pa.RecordBatch) -> Datum:
    operand, values = evaluate(node.operand, batch), node.values
    if pt.is_floating(operand.type):
        operand, values = bits(operand), bits(values)
    found = pc.is_in(operand, value_set=values)
    unknown = pc.is_null(operand)
    if node.has_null:
        unknown = pc.or_(unknown, pc.invert(found))
    return pc.if_else(unknown, scalar_of(None, pa.bool_()), found)


def _like(node: Like, batch: pa.RecordBatch) -> Datum:
    operand, pattern = evaluate(node.operand, batch), evaluate(node.pattern, batch)
    if not pattern.is_valid:
        return scalar_of(None, pa.bool_())
    return match_like(operand, pattern.as_py(), node.ignore_case)


def _cast(node: Cast, batch: pa.RecordBatch) -> Datum:
    operand = evaluate(node.operand, batch)
    return cast(operand, node.type)


def cast(values: Datum, target: pa.DataType) -> Datum:
    """Cast values as SQL does.

    Casts round towards zero to integers and to larger units of time, and half away from zero to
    fewer decimal places. A timestamp without a zone is a local time of the zone it gets. Dates and
    timestamps are the number of their units since 1970. As text they have no more digits than they
    need, in groups of three.
    """
    source = values.type
    if pt.is_dictionary(target):
        return _with_dictionary(cast(values, target.value_type), target)
    if is_list(source) and is_list(target):
        return cast_lists(values, target, cast)
    if counts_units(source, target):
        return values.cast(_units_of(source)).cast(target)
    if counts_units(target, source):
        return values.cast(_units_of(target)).cast(target)
    if pt.is_timestamp(source) and is_text(target):
        text = pc.replace_substring(values.cast(pa.string()), " ", "T", max_replacements=1)
        return pc.replace_substring_regex(text, r"\.?(000)+$", "").cast(target)
    if pt.is_integer(source) and pt.is_floating(target):
        return pc.cast(values, options=pc.CastOptions(target, allow_float_truncate=True))
    if pt.is_integer(source) and pt.is_decimal(target):
        values = values.cast(pa.decimal256(20 + target.scale, target.scale))
    if pt.is_integer(target) and (pt.is_floating(source) or pt.is_decimal(source)):
        values = pc.trunc(values)
    if pt.is_decimal(target) and pt.is_decimal(source) and target.scale < source.scale:
        values = pc.round(values, ndigits=target.scale, round_mode="half_towards_infinity")
    if pt.is_timestamp(source) and pt.is_timestamp(target):
        unit = pa.timestamp(target.unit, source.tz)
        values = pc.cast(values, options=pc.CastOptions(unit, allow_time_truncate=True))
    if pt.is_timestamp(target) and target.tz and not getattr(source, "tz", None):
        return at_zone(values.cast(pa.timestamp(target.unit)), target.tz)
    if pt.is_timestamp(source) and source.tz and pt.is_date(target):
        values = local_time(values)
    return values.cast(target)


def _with_dictionary(values: Datum, target: pa.DataType) -> Datum:
    """Give values a dictionary; Arrow casts only texts to one."""
    if isinstance(values, pa.Scalar):
        return _with_dictionary(pa.repeat(values, 1), target)[0]
    return values.dictionary_encode().cast(target)


def counts_units(temporal: pa.DataType, number: pa.DataType) -> bool:
    """Return whether values of a type are cast to or from the number of their units since 1970."""
    if pt.is_date32(temporal):
        return bool(pt.is_int32(number) or pt.is_int64(number))
    return bool(pt.is_timestamp(temporal) and not temporal.tz and pt.is_int64(number))


def _units_of(temporal: pa.DataType) -> pa.DataType:
    return pa.int32() if pt.is_date32(temporal) else pa.int64()


def _geometry(node: Geometry, batch: pa.RecordBatch) -> Datum:
    return named(evaluate(node.operand, batch), node.layout)


def _call(node: Call, batch: pa.RecordBatch) -> Datum:
    function = FUNCTIONS[node.name]
    if function.fills_in:
        return _filled_in(node, batch)
    return function.apply(*(evaluate(argument, batch) for argument in node.arguments))


def _filled_in(node: Call, batch: pa.RecordBatch) -> Datum:
    """Evaluate each argument for the rows that need it; it may fail for others."""
    apply = FUNCTIONS[node.name].apply
    result = evaluate(node.arguments[0], batch)
    for argument in node.arguments[1:]:
        missing = pc.is_null(result)
        if not (missing.as_py() if isinstance(missing, pa.Scalar) else missing.true_count):
            return result
        result = apply(result, _of_rows(argument, batch, missing))
    return result


_EVALUATORS: dict[type[Expression], Callable[..., Datum]] = {
    Column: _column,
    Constant: _constant,
    Arithmetic: _arithmetic,
    Negative: _negative,
    Compare: _compare,
    Distinct: _distinct,
    And: _and,
    Or: _or,
    Not: _not,
    IsNull: _is_null,
    IsTruth: _is_truth,
    InSet: _in_set,
    Like: _like,
    Cast: _cast,
    Call: _call,
    Geometry: _geometry,
}
