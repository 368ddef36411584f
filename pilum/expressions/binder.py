"""Assign types to an expression: from the schema to columns, from the other operand to constants.

Every error of an expression that does not depend on the data is found here, before a byte is read.
Source: docs/format/filters.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeGuard

import pyarrow as pa
import pyarrow.types as pt

from pilum.errors import ColumnNotFoundError, FilterError
from pilum.expressions.coerce import (
    Typed,
    align,
    cast_to,
    compared_exactly,
    geometry,
    in_set,
    list_operands,
    operands,
    parse_temporal,
    scalar,
)
from pilum.expressions.compare import MIRRORED
from pilum.expressions.evaluate import evaluate
from pilum.expressions.functions import ALIASES, FUNCTIONS, Kind
from pilum.expressions.lists import is_list
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
    InList,
    InSet,
    IsNull,
    IsTruth,
    Like,
    Literal,
    Negative,
    Not,
    Or,
)
from pilum.expressions.plain_constants import plain_items, plain_value
from pilum.expressions.result_types import castable, result_type
from pilum.expressions.types import FALSE, TRUE, is_number, is_temporal, is_text, scalar_of

__all__ = ["Binder"]

_REGEXP_MATCH = "regexp_match"
_BOOLEAN = pa.bool_()
_NO_ROWS = pa.RecordBatch.from_pylist([{}])

_EMPTY_LISTS = {"array_has_any": FALSE, "array_has_all": TRUE}
"""The results for an empty list of constants: as in the reference, also where a list is null."""

_WITHOUT_PARENTHESES = frozenset({"current_date", "current_timestamp"})
"""Functions that SQL calls without parentheses; a column of the name comes first."""


class Binder:
    """A binder of trees to one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._names: list[str] = schema.names
        self._columns: dict[Column, Typed] = {}
        self._rules: dict[type[Expression], Callable[..., Typed]] = {
            Column: self._column,
            Literal: self._literal,
            Arithmetic: self._arithmetic,
            Negative: self._negative,
            Compare: self._compare,
            Distinct: self._distinct,
            And: self._connector,
            Or: self._connector,
            Not: self._not,
            IsNull: self._is_null,
            IsTruth: self._is_truth,
            InList: self._in,
            Like: self._like,
            Cast: self._cast,
            Call: self._call,
        }

    def bind(self, node: Expression) -> Typed:
        """Bind a node and all below it."""
        return _fold(self._rules[type(node)](node))

    def condition(self, node: Expression) -> Typed:
        """Bind a node that decides about rows, and all below it."""
        return self.bind(_condition(node))

    def field(self, node: Column) -> pa.Field:
        """Find the field of a column as it is stored; a member is null where its struct is null."""
        field = self._schema.field(self._find(node))
        if len(node.path) == 1:
            return field
        nullable = field.nullable
        for depth, name in enumerate(node.path[1:], 1):
            field = _member(field, name, ".".join(node.path[:depth]))
            nullable = nullable or field.nullable
        return field.with_nullable(nullable)

    def column(self, node: Column) -> Typed:
        """Find a column, with the type in which it is stored."""
        name = self._names[self._find(node)]
        return Typed(Column((name, *node.path[1:])), self.field(node).type)

    def assigned(self, value: Typed, target: pa.DataType) -> Expression:
        """Return the node with values of the type of the column that stores them."""
        values = target.value_type if pt.is_dictionary(target) else target
        if value.type != values:
            value = _fold(self._cast_bound(value, values))
        if value.type != target:  # a time of another unit, or values that become a dictionary
            value = _fold(Typed(Cast(value.node, target), target))
        return value.node

    def _column(self, node: Column) -> Typed:
        """Return a column for use in an expression, as values instead of their dictionary."""
        known = self._columns.get(node)
        if known is not None:
            return known
        name = node.path[0].lower()
        if name in _WITHOUT_PARENTHESES and node.path == (node.path[0],) and not node.quoted:
            try:
                found = self.column(node)
            except ColumnNotFoundError:
                return self.bind(Call(name, ()))
        else:
            found = self.column(node)
        if pt.is_dictionary(found.type):
            found = Typed(found.node, found.type.value_type)
        if node.path[0] in self._names:  # other spellings of a name are unlimited
            self._columns[node] = found
        return found

    def _find(self, node: Column) -> int:
        name, names = node.path[0], self._names
        if name in names:
            return int(names.index(name))
        alike = [] if node.quoted else [other for other in names if other.lower() == name.lower()]
        if len(alike) == 1:
            return int(names.index(alike[0]))
        if alike:
            raise ColumnNotFoundError(f"column {name!r} is ambiguous: {', '.join(alike)}")
        raise ColumnNotFoundError(f"no column {name!r}; the columns are {', '.join(names)}")

    def _literal(self, node: Literal) -> Typed:
        value = scalar(node.value)
        return Typed(Constant(value), value.type)

    def _arithmetic(self, node: Arithmetic) -> Typed:
        left, right = self.bind(node.left), self.bind(node.right)
        for side in (left, right):
            if not (is_number(side.type) or pt.is_null(side.type)):
                raise FilterError(f"{node.operator!r} takes numbers, not {side.type}")
        left, right = operands(node.operator, left, right)
        bound = Arithmetic(node.operator, left.node, right.node)
        return Typed(bound, result_type(bound, [left.type, right.type]))

    def _negative(self, node: Negative) -> Typed:
        operand = self.bind(node.operand)
        if pt.is_floating(operand.type):
            return Typed(Negative(operand.node), operand.type)
        return self._arithmetic(Arithmetic("-", Literal(0), node.operand))

    def _compare(self, node: Compare) -> Typed:
        quick = self._compared_column(node)
        if quick is not None:
            return Typed(quick, _BOOLEAN)
        left, right = self.bind(node.left), self.bind(node.right)
        exact = compared_exactly(node.operator, left, right.node)
        if exact is None:
            exact = compared_exactly(MIRRORED[node.operator], right, left.node)
        if exact is None:
            one, other = _meet(left, right)
            exact = Compare(node.operator, one.node, other.node)
        return Typed(exact, pa.bool_())

    def _compared_column(self, node: Compare) -> Compare | None:
        """Bind the comparison of a column with a plain value; None for any other comparison."""
        if not (isinstance(node.left, Column) and isinstance(node.right, Literal)):
            return None
        column = self._column(node.left)
        value = plain_value(node.right.value, column.type)
        return None if value is None else Compare(node.operator, column.node, Constant(value))

    def _distinct(self, node: Distinct) -> Typed:
        left, right = self._aligned(node.left, node.right)
        return Typed(Distinct(left, right), pa.bool_())

    def _aligned(self, left: Expression, right: Expression) -> tuple[Expression, Expression]:
        one, other = _meet(self.bind(left), self.bind(right))
        return one.node, other.node

    def _connector(self, node: And | Or) -> Typed:
        return Typed(type(node)(tuple(map(self._boolean, node.operands))), pa.bool_())

    def _not(self, node: Not) -> Typed:
        return Typed(Not(self._boolean(node.operand)), pa.bool_())

    def _is_truth(self, node: IsTruth) -> Typed:
        return Typed(IsTruth(self._boolean(node.operand), node.truth), pa.bool_())

    def _boolean(self, node: Expression) -> Expression:
        if type(node) is Compare:  # most parts of filters
            quick = self._compared_column(node)
            if quick is not None:
                return quick
        bound = self.condition(node)
        if pt.is_null(bound.type):
            return Constant(scalar_of(None, pa.bool_()))
        if not pt.is_boolean(bound.type):
            raise FilterError(f"AND, OR, NOT and IS TRUE take conditions, not {bound.type}")
        return bound.node

    def _is_null(self, node: IsNull) -> Typed:
        if _is_regexp_match(node.operand):
            matched = self.bind(replace(node.operand, name="regexp_like"))
            return Typed(Not(IsTruth(matched.node, True)), pa.bool_())
        return Typed(IsNull(self.bind(node.operand).node), pa.bool_())

    def _in(self, node: InList) -> Typed:
        operand = self.bind(node.operand)
        if isinstance(operand.node, Column) and (values := plain_items(node, operand.type)):
            return Typed(InSet(operand.node, values, has_null=False), pa.bool_())
        items = [self.bind(item) for item in node.items]
        for item in {item.type: item for item in items}.values():
            _meet(operand, item)  # only to reject values that cannot be compared
        constants = [item.node.value for item in items if isinstance(item.node, Constant)]
        is_plain = len(constants) == len(items) and not is_list(operand.type)
        if not is_plain or isinstance(operand.node, Constant):
            equals = [_meet(operand, item) for item in items]
            return Typed(Or(tuple(Compare("=", a.node, b.node) for a, b in equals)), pa.bool_())
        return Typed(in_set(operand, constants), pa.bool_())

    def _like(self, node: Like) -> Typed:
        operand, pattern = _text(self.bind(node.operand)), _text(self.bind(node.pattern))
        if not (is_text(operand.type) and is_text(pattern.type)):
            raise FilterError(f"LIKE takes text, not {operand.type} and {pattern.type}")
        if not isinstance(pattern.node, Constant):
            raise FilterError("the pattern of LIKE must be a constant")
        text = Constant(pattern.node.value.cast(operand.type))  # indices have values of this type
        return Typed(Like(operand.node, text, node.ignore_case), pa.bool_())

    def _cast(self, node: Cast) -> Typed:
        return self._cast_bound(self.bind(node.operand), node.type)

    def _cast_bound(self, operand: Typed, target: pa.DataType) -> Typed:
        if isinstance(operand.node, Constant) and is_text(operand.type) and is_temporal(target):
            return self._temporal(operand.node.value, target)
        if not castable(operand.type, target):
            raise FilterError(f"cannot cast {operand.type} to {target}")
        return Typed(Cast(operand.node, target), target)

    def _temporal(self, text: pa.Scalar, target: pa.DataType) -> Typed:
        """Bind `timestamp '...'`, in the unit that its digits need."""
        value = parse_temporal(text.as_py(), target)
        return Typed(Constant(value), value.type)

    def _call(self, node: Call) -> Typed:
        name = ALIASES.get(node.name, node.name)
        function = FUNCTIONS.get(name)
        if _is_regexp_match(node):
            raise FilterError(
                "regexp_match gives the groups of a match, which filters do not have; it is a "
                "condition, or comes before IS [NOT] NULL. For a boolean use regexp_like"
            )
        if function is None:
            raise FilterError(f"no function {node.name!r}; the functions are {_functions()}")
        if not function.takes(len(node.arguments)):
            raise FilterError(f"{node.name} does not take {len(node.arguments)} arguments")
        arguments = [self.bind(argument) for argument in node.arguments]
        for index, argument in enumerate(arguments):
            kind = function.kind(index)
            if kind is Kind.GEOMETRY:
                field = self.field(argument.node) if isinstance(argument.node, Column) else None
                argument = geometry(argument, field)
            arguments[index] = _argument(node.name, argument, kind)
        if name in _EMPTY_LISTS and (_is_empty_list(arguments[1])):
            return Typed(Constant(_EMPTY_LISTS[name]), pa.bool_())
        if function.aligned and arguments:
            arguments = align(arguments)
        if function.kinds[:1] == (Kind.ITEMS,) and function.kind(1) is not Kind.INTEGER:
            arguments = list_operands(*arguments) if len(arguments) == 2 else arguments
        bound = Call(name, tuple(argument.node for argument in arguments))
        return Typed(bound, result_type(bound, [argument.type for argument in arguments]))


def _condition(node: Expression) -> Expression:
    """Return a node for use as a condition: `regexp_match` becomes a test for any match."""
    return Not(IsNull(node)) if _is_regexp_match(node) else node


def _is_regexp_match(node: Expression) -> TypeGuard[Call]:
    return isinstance(node, Call) and node.name == _REGEXP_MATCH


def _meet(left: Typed, right: Typed) -> list[Typed]:
    """Convert the sides of a comparison to one type; of lists, the items."""
    if is_list(left.type) and (is_list(right.type) or pt.is_null(right.type)):
        return list_operands(left, _as_list(right, left.type))
    if is_list(right.type) and pt.is_null(left.type):
        return list_operands(_as_list(left, right.type), right)
    return align([left, right])


def _as_list(side: Typed, arrow: pa.DataType) -> Typed:
    return Typed(cast_to(side, arrow), arrow) if pt.is_null(side.type) else side


def _is_empty_list(argument: Typed) -> bool:
    value = argument.node.value if isinstance(argument.node, Constant) else None
    return value is not None and value.is_valid and len(value.values) == 0


def _functions() -> str:
    names = [name for name in (*FUNCTIONS, *ALIASES) if name.isidentifier()]
    return ", ".join(sorted([*names, _REGEXP_MATCH]))


def _member(field: pa.Field, name: str, path: str) -> pa.Field:
    if not pt.is_struct(field.type):
        raise ColumnNotFoundError(f"{path!r} is {field.type}, not a struct with a member {name!r}")
    if field.type.get_field_index(name) < 0:
        members = ", ".join(member.name for member in field.type.fields)
        raise ColumnNotFoundError(f"{path!r} has no member {name!r}; it has {members}")
    return field.type.field(name)


def _fold(bound: Typed) -> Typed:
    """Evaluate an expression that depends on no column, once."""
    node = bound.node
    first = node.operands[0] if type(node) is And else node
    if type(first) is Compare and type(first.left) is Column:  # the common case
        return bound
    if isinstance(node, Constant) or _has_column(node):
        return bound
    value = evaluate(bound.node, _NO_ROWS)
    return Typed(Constant(value if isinstance(value, pa.Scalar) else value[0]), bound.type)


def _has_column(node: Expression) -> bool:
    """Return whether a column is the node or below it; as `walk`, without what follows it."""
    if isinstance(node, Column):
        return True
    names: tuple[str, ...] = type(node).__slots__
    for name in names:
        value = getattr(node, name)
        for child in value if isinstance(value, tuple) else (value,):
            if isinstance(child, Expression) and _has_column(child):
                return True
    return False


def _text(side: Typed) -> Typed:
    """Treat a null without a type as text."""
    return Typed(cast_to(side, pa.string()), pa.string()) if pt.is_null(side.type) else side


def _argument(name: str, argument: Typed, kind: Kind) -> Typed:
    if kind is Kind.FLOAT and is_number(argument.type) and not pt.is_floating(argument.type):
        argument = Typed(cast_to(argument, pa.float64()), pa.float64())
    if kind in {Kind.TEXT, Kind.TEXT_OR_BINARY}:
        argument = _text(argument)
    if kind is Kind.JSON and pt.is_null(argument.type):
        argument = Typed(cast_to(argument, pa.large_binary()), pa.large_binary())
    is_constant = isinstance(argument.node, Constant)
    constant = kind not in {Kind.CONSTANT_TEXT, Kind.MEMBER, Kind.PLAIN} or is_constant
    if not (constant and kind.accepts(argument.type)):
        raise FilterError(f"{name} takes {kind.value}, not {argument.type}")
    return argument
