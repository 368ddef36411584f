"""Arrow expressions as nodes of SQL filters, for indices and zone maps.

    (pc.field("i") > 5) & pc.field("s").isin(["x"])        And(i > 5, (s IN ('x')) IS TRUE)
    (pc.field("f") > 5) | (pc.field("i") % 2 == 0)         Or(And(f > 5, ?), ?)

A part that is written without a question mark is true, false and null for the same rows as in
Arrow. `Opaque`, the question mark, may be anything. Floats are compared in another order: a NaN is
greater or less than all numbers, where Arrow's comparisons are false. So these parts are true for
further rows. Constants must have a value of the type of the column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.expressions.arrow_tree import ArrowCall, ArrowField, ArrowNode, ArrowValue, arrow_tree
from pilum.expressions.compare import MIRRORED
from pilum.expressions.nodes import (
    And,
    Call,
    Column,
    Compare,
    Constant,
    Expression,
    InSet,
    IsNull,
    IsTruth,
    Like,
    Not,
    Opaque,
    Or,
)
from pilum.expressions.types import is_text, scalar_of

__all__ = ["implied_by"]

_COMPARE = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_CONNECTORS: dict[str, Callable[[tuple[Expression, ...]], Expression]] = {
    "and_kleene": And,
    "or_kleene": Or,
}
_MATCH_NULLS, _SKIP_NULLS = 0, 1
_PATTERNS = {
    "starts_with": "starts_with",
    "ends_with": "ends_with",
    "match_substring": "contains",
}
_OPAQUE = Opaque()


def implied_by(expression: pc.Expression, schema: pa.Schema) -> Expression:
    """Return a bound expression that is true wherever a filter is.

    Args:
        expression: The filter, which binds to the schema.
        schema: The columns of the table.
    """
    tree = arrow_tree(expression)
    return _OPAQUE if tree is None else _Translation(schema).node(tree)


class _Translation:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def node(self, tree: ArrowNode) -> Expression:
        match tree:
            case ArrowField():
                column = self._column(tree)
                if column and pt.is_boolean(column[1]):
                    return column[0]
            case ArrowCall(name=name, arguments=(left, right)) if name in _COMPARE:
                return self._compared(_COMPARE[name], left, right)
            case ArrowCall(name=name, arguments=parts) if name in _CONNECTORS:
                return _CONNECTORS[name](tuple(map(self.node, parts)))
            case ArrowCall(name="invert", arguments=(part,)):
                return Not(self.node(part))
            case ArrowCall(name=name, arguments=(ArrowField() as field,), options=options):
                if column := self._column(field):
                    return _tested(name, *column, options)
        return _OPAQUE

    def _column(self, field: ArrowField) -> tuple[Column, pa.DataType] | None:
        """Return a column and the type of its values; None if there is none of this path."""
        name, *members = field.path
        places = self._schema.get_all_field_indices(name)
        if len(places) != 1:
            return None
        kind = self._schema.field(places[0]).type
        for member in members:
            place = kind.get_field_index(member) if pt.is_struct(kind) else -1
            if place < 0:
                return None
            kind = kind.field(place).type
        return Column(field.path, quoted=True), kind.value_type if pt.is_dictionary(kind) else kind

    def _compared(self, operator: str, left: ArrowNode, right: ArrowNode) -> Expression:
        if isinstance(left, ArrowValue):
            left, right, operator = right, left, MIRRORED[operator]
        column = self._column(left) if isinstance(left, ArrowField) else None
        if column is None or not isinstance(right, ArrowValue):
            return _OPAQUE
        value = _as_type(right.value, column[1])
        if value is None:
            return _OPAQUE
        compared = Compare(operator, column[0], Constant(value))
        if not pt.is_floating(column[1]):
            return compared
        return _OPAQUE if _is_nan(value) else And((compared, _OPAQUE))


def _tested(name: str, column: Column, kind: pa.DataType, options: dict[str, Any]) -> Expression:
    """Return the node of a function of a column."""
    if name == "is_valid":
        return Not(IsNull(column))
    if name == "is_null" and not (pt.is_floating(kind) and options["nan_is_null"].as_py()):
        return IsNull(column)
    if name == "is_in":
        return _among(column, kind, options)
    if is_text(kind) and name in {*_PATTERNS, "match_like"}:
        return _like(name, column, kind, options)
    return _OPAQUE


def _like(name: str, column: Column, kind: pa.DataType, options: dict[str, Any]) -> Expression:
    """Return the node of a test for a pattern."""
    pattern, ignores_case = options["pattern"].as_py(), options["ignore_case"].as_py()
    if ignores_case or "\\" in pattern:
        return _OPAQUE
    text = Constant(scalar_of(pattern, kind))
    if name == "match_like":
        return And((Like(column, text, ignore_case=False), _OPAQUE))
    return Call(_PATTERNS[name], (column, text))


def _among(column: Column, kind: pa.DataType, options: dict[str, Any]) -> Expression:
    """Return the node of `is_in`, which is never null."""
    nulls, given = options["null_matching_behavior"].as_py(), options["value_set"].values
    values = given.drop_null()
    if pt.is_floating(kind) or nulls not in {_MATCH_NULLS, _SKIP_NULLS}:
        return _OPAQUE
    if values.type != kind:
        if not _are_alike(values.type, kind):
            return _OPAQUE
        try:
            values = values.cast(kind)
        except pa.ArrowException:  # a value that the type of the column does not have
            return _OPAQUE
    found: Expression = IsTruth(InSet(column, values, has_null=False), truth=True)
    return Or((found, IsNull(column))) if nulls == _MATCH_NULLS and given.null_count else found


def _is_nan(value: pa.Scalar) -> bool:
    return bool(value.as_py() != value.as_py())


def _as_type(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    """Return the same value with the type of a column; None if it has no such value, or is null."""
    if not value.is_valid:
        return None
    if value.type == kind:
        return value
    is_number = pt.is_integer(value.type) or pt.is_floating(value.type)
    if not _are_alike(value.type, kind) and not (is_number and pt.is_floating(kind)):
        return None
    try:
        found = value.cast(kind)
        return found if found.cast(value.type).equals(value) else None
    except pa.ArrowException:
        return None


def _are_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether equal values of two types remain equal when they are cast."""
    return bool(
        (pt.is_integer(one) and pt.is_integer(other))
        or (is_text(one) and is_text(other))
        or (pt.is_timestamp(one) and pt.is_timestamp(other) and one.tz == other.tz)
    )
