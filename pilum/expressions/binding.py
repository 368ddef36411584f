"""Assign types to a filter: from the schema to columns, from the opposite operand to constants.

Every error of a filter that does not depend on the data is found here, before a byte is read.
Source: docs/format/filters.md.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.cache import Cache
from pilum.errors import ColumnNotFoundError, FilterError
from pilum.expressions.coerce import (
    Typed,
    align,
    cast_to,
    compared_integers,
    geometry,
    in_set,
    list_operands,
    operands,
    parse_temporal,
    scalar,
)
from pilum.expressions.compare import MIRRORED
from pilum.expressions.evaluate import counts_units, evaluate
from pilum.expressions.filter import BoundFilter, BoundProjection, SqlFilter, bind_arrow
from pilum.expressions.functions import ALIASES, FUNCTIONS, Kind
from pilum.expressions.geometry.measures import CONSTRUCTORS
from pilum.expressions.geometry.relations import RELATIONS
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
    LiteralValue,
    Negative,
    Not,
    Or,
    references,
)
from pilum.expressions.quick import quick_parse
from pilum.expressions.types import (
    FALSE,
    TRUE,
    integers_of,
    is_binary,
    is_number,
    is_temporal,
    is_text,
    scalar_of,
    texts_of,
)
from pilum.format.meta_columns import META_COLUMNS

__all__ = ["Scope", "bind_assignment", "bind_projection", "bind_ranges"]

_REGEXP_MATCH = "regexp_match"
_NO_ROWS = pa.RecordBatch.from_pylist([{}])


_BOOLEAN, _TEXT = pa.bool_(), pa.string()
_NUMBERS = {pa.from_numpy_dtype(form).id: struct.Struct(f"<{form}") for form in "bhiqBHIQfd"}
"""The form of each type of numbers that constants often have, by the id of the type."""

_META_FIELDS = [pa.field(name, pa.uint64()) for name in META_COLUMNS]
_BOUND_BYTES = 1 << 20
_BOUND_FACTOR = 64
"""Bytes of memory of a parsed or bound filter per character."""

_PARSED = Cache(_BOUND_BYTES)
"""Parsed SQL by kind and text, for all tables: a new version of a table binds it again."""

_EMPTY_LISTS = {"array_has_any": FALSE, "array_has_all": TRUE}
"""The results for an empty list of constants: as in the reference, also where a list is null."""

_TYPED_BY_ARGUMENTS = frozenset(
    {
        "array_has",
        "array_has_all",
        "array_has_any",
        "contains",
        "ends_with",
        "make_array",
        "starts_with",
        *CONSTRUCTORS,
        *RELATIONS,
    }
)
"""Functions whose type depends on the types of arguments only, unless a constant is null."""

_RESULT_TYPES = Cache(4096)
"""The types of such calls by the name and the types of arguments."""

_MOMENTS = ("now", "current_", "today")
"""What SQL contains if it names the present moment, which is bound again each time."""

_WITHOUT_PARENTHESES = frozenset({"current_date", "current_timestamp"})
"""Functions that SQL calls without parentheses; a column of the name comes first."""

_MEANT = {
    "filter": "a filter is SQL or a pyarrow expression",
    "expression": "an expression is SQL",
}


class Scope:
    """The columns that filters of a table may name. It remembers the latest filters.

    Args:
        schema: The schema of the table.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = _with_meta(schema)
        self._binder = _Binder(self._schema)
        self._bound = Cache(_BOUND_BYTES)

    def bind(self, filter: str | pc.Expression) -> BoundFilter:
        """Bind a filter; see `pilum.expressions`."""
        # A text is looked up before it is searched for the present moment, which takes longer.
        key = filter if isinstance(filter, str) else _key(filter)
        found: BoundFilter | None = None if key is None else self._bound.get(key)
        if found is None:
            key = _key(filter) if key is filter else key
            found = self._newly_bound(filter, key is not None)
            if key is not None:
                self._bound.put(key, found, _BOUND_FACTOR * len(key))
        return found

    def _newly_bound(self, filter: str | pc.Expression, is_lasting: bool) -> BoundFilter:
        if isinstance(filter, pc.Expression):
            return bind_arrow(filter, self._schema)
        node, arrow = _bind_sql(filter, self._binder)
        if not pt.is_boolean(arrow):
            raise FilterError(f"the filter {filter!r} is of type {arrow}, not boolean")
        return SqlFilter(references(node), node, is_lasting)


def _key(filter: str | pc.Expression) -> str | bytes | None:
    """Return the key by which the bound filter is kept; None if it has to be bound each time."""
    if isinstance(filter, pc.Expression):
        try:
            return pickle.dumps(filter)
        except pa.ArrowNotImplementedError:  # it names columns by position
            return None
    if not isinstance(filter, str):
        return None
    text = filter.lower()  # a regular expression takes a hundred times as long
    for moment in _MOMENTS:
        if moment in text:
            return None
    return filter


def bind_projection(text: str, schema: pa.Schema) -> BoundProjection:
    """Bind one SQL expression whose values become a column; see `pilum.expressions`."""
    binder = _Binder(_with_meta(schema))
    node, arrow = _bind_sql(text, binder, "expression")
    field = pa.field("", arrow)
    if isinstance(node, Column):
        field = binder.field(node)
    return BoundProjection(references(node), field, node)


def bind_assignment(text: str, schema: pa.Schema, target: pa.DataType) -> BoundProjection:
    """Bind one SQL expression whose values are stored; see `pilum.expressions`."""
    binder = _Binder(_with_meta(schema))
    node, arrow = _bind_sql(text, binder, "expression")
    if not (isinstance(node, Column) and binder.field(node).type == target):
        node = binder.assigned(Typed(node, arrow), target)
    return BoundProjection(references(node), pa.field("", target), node)


def bind_ranges(ranges: Mapping[str, range], schema: pa.Schema) -> BoundFilter:
    """Return a filter that keeps rows whose integers lie in ranges; see `pilum.expressions`."""
    binder = _Binder(_with_meta(schema))
    limits: list[Expression] = []
    for name, wanted in ranges.items():
        column = Column((name,), quoted=True)
        kind = binder.field(column).type
        limits.append(Compare(">=", column, Constant(scalar_of(wanted.start, kind))))
        limits.append(Compare("<", column, Constant(scalar_of(wanted.stop, kind))))
    node = And(tuple(limits))
    return SqlFilter(references(node), node)


def _with_meta(schema: pa.Schema) -> pa.Schema:
    names = set(schema.names)
    missing = [field for field in _META_FIELDS if field.name not in names]
    return pa.schema([*schema, *missing])


def _parsed(text: str, what: str) -> Expression:
    tree: Expression | None = _PARSED.get((what, text))
    if tree is None:
        from pilum.expressions.parse import parse

        tree = parse(text, what)
        _PARSED.put((what, text), tree, _BOUND_FACTOR * len(text))
    return tree


def _bind_sql(text: str, binder: _Binder, what: str = "filter") -> Typed:
    if not isinstance(text, str):
        raise FilterError(f"{_MEANT[what]}, not {type(text).__name__}")
    tree = quick_parse(text) or _parsed(text, what)
    return binder.bind(_condition(tree) if what == "filter" else tree)


def _condition(node: Expression) -> Expression:
    """Return a node for use as a condition: `regexp_match` becomes a test for any match."""
    return Not(IsNull(node)) if _is_regexp_match(node) else node


def _is_regexp_match(node: Expression) -> TypeGuard[Call]:
    return isinstance(node, Call) and node.name == _REGEXP_MATCH


class _Binder:
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
        return Typed(bound, _result_type(bound, [left.type, right.type]))

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
        exact = compared_integers(node.operator, left, right.node)
        if exact is None:
            exact = compared_integers(MIRRORED[node.operator], right, left.node)
        if exact is None:
            one, other = _meet(left, right)
            exact = Compare(node.operator, one.node, other.node)
        return Typed(exact, pa.bool_())

    def _compared_column(self, node: Compare) -> Compare | None:
        """Bind the comparison of a column with a plain value; None for any other comparison."""
        if not (isinstance(node.left, Column) and isinstance(node.right, Literal)):
            return None
        column = self._column(node.left)
        value = _plain_value(node.right.value, column.type)
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
        bound = self.bind(_condition(node))
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
        if isinstance(operand.node, Column) and (values := _plain_items(node, operand.type)):
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
        if not _castable(operand.type, target):
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
        return Typed(bound, _result_type(bound, [argument.type for argument in arguments]))


def _meet(left: Typed, right: Typed) -> list[Typed]:
    """Convert the sides of a comparison to one type; of lists, the items."""
    if is_list(left.type) and (is_list(right.type) or pt.is_null(right.type)):
        return list_operands(left, _as_list(right, left.type))
    if is_list(right.type) and pt.is_null(left.type):
        return list_operands(_as_list(left, right.type), right)
    return align([left, right])


def _as_list(side: Typed, arrow: pa.DataType) -> Typed:
    return Typed(cast_to(side, arrow), arrow) if pt.is_null(side.type) else side


def _plain_value(value: LiteralValue, arrow: pa.DataType) -> pa.Scalar | None:
    """Return an integer or a text as a scalar of the type of a column that has it; else None.

    It is the same as that of `align`, which takes longer than a lookup of the value.
    """
    if type(value) is int:
        form = _NUMBERS.get(arrow.id)
        try:
            data = None if form is None else form.pack(value)
        except (struct.error, OverflowError):  # the type does not have the value
            return None
        return pa.Array.from_buffers(arrow, 1, [None, pa.py_buffer(data)])[0] if data else None
    return scalar_of(value) if type(value) is str and arrow == _TEXT else None


def _plain_items(node: InList, arrow: pa.DataType) -> pa.Array | None:
    """Return the items if all of them are small integers or texts, as is the column; else None.

    Binding long lists item by item would take longer than a lookup of the items.
    """
    values = [item.value for item in node.items if isinstance(item, Literal)]
    kinds = set(map(type, values))
    if len(values) == len(node.items) and kinds == {int} and pt.is_integer(arrow):
        found = np.array(values)
        sign = "u" if pt.is_unsigned_integer(arrow) else "i"
        limits = np.iinfo(f"{sign}{arrow.bit_width // 8}")
        if found.dtype == np.int64:
            is_held = (found >= limits.min) & (found <= limits.max)
            return integers_of(found[is_held].astype(limits.dtype), arrow)
    if len(values) == len(node.items) and kinds == {str} and pt.is_string(arrow):
        return texts_of([str(value) for value in values])
    return None


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


def _result_type(node: Arithmetic | Call, types: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type of the values; that of some calls is remembered."""
    key = _type_key(node, types)
    found: pa.DataType | None = None if key is None else _RESULT_TYPES.get(key)
    if found is None:
        found = _evaluated_type(node, types)
        if key is not None:
            _RESULT_TYPES.put(key, found, 1)
    return found


def _type_key(node: Arithmetic | Call, types: Sequence[pa.DataType]) -> tuple[object, ...] | None:
    """Return what determines the type of a call; None if its constants may be invalid."""
    if not isinstance(node, Call) or node.name not in _TYPED_BY_ARGUMENTS:
        return None
    for child in node.arguments:
        if isinstance(child, Constant) and not child.value.is_valid:
            return None
    return node.name, *types


def _evaluated_type(node: Arithmetic | Call, types: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type of the values, found by evaluating the node over no rows."""
    below = node.arguments if isinstance(node, Call) else (node.left, node.right)
    names = [str(index) for index in range(len(types))]
    batch = pa.RecordBatch.from_arrays([pa.nulls(0, arrow) for arrow in types], names)
    places = tuple(
        child if isinstance(child, Constant) else Column((name,))
        for child, name in zip(below, names, strict=True)
    )
    probe = (
        Call(node.name, places) if isinstance(node, Call) else Arithmetic(node.operator, *places)
    )
    return evaluate(probe, batch).type


def _castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a cast means the same here and in the reference."""
    if pt.is_null(source) or source == target:
        return True
    if is_list(source) and is_list(target):
        return _castable(source.value_type, target.value_type)
    if is_text(target):
        exact = pt.is_integer(source) or pt.is_decimal(source) or pt.is_boolean(source)
        local = pt.is_date32(source) or (pt.is_timestamp(source) and not source.tz)
        return bool(exact or local or is_text(source) or is_binary(source))
    if is_text(source):
        return not is_temporal(target) or pt.is_date(target) or pt.is_timestamp(target)
    if counts_units(source, target) or counts_units(target, source):
        return True
    if is_number(source):
        return bool(is_number(target) or (pt.is_boolean(target) and not pt.is_decimal(source)))
    if pt.is_boolean(source):
        return bool(pt.is_integer(target) or pt.is_floating(target))
    if is_binary(source):
        return is_binary(target)
    dates = (pt.is_date(source) or pt.is_timestamp(source)) and is_temporal(target)
    return bool(dates)
