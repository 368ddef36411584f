"""The tree of a filter: small frozen nodes that can be pickled.

    i > 1 AND lower(s) = 'a'

    And
    ├── Compare(">", Column(i), Constant(1))
    └── Compare("=", Call("lower", Column(s)), Constant('a'))

The parser creates `Literal` and `InList`. Binding turns them into `Constant` and `InSet`, whose
Arrow types are known, and inserts a `Cast` wherever two types meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TypeGuard

import pyarrow as pa

__all__ = [
    "And",
    "Arithmetic",
    "Call",
    "Cast",
    "Column",
    "Compare",
    "Constant",
    "Distinct",
    "Expression",
    "Geometry",
    "InList",
    "InSet",
    "IsNull",
    "IsTruth",
    "Like",
    "Literal",
    "LiteralValue",
    "Negative",
    "Not",
    "Opaque",
    "Or",
    "compares_column",
    "references",
    "walk",
]

LiteralValue = bool | int | float | Decimal | str | bytes | None


@dataclass(frozen=True, slots=True)
class Expression:
    """Base of all nodes."""


@dataclass(frozen=True, slots=True)
class Column(Expression):
    """A column, or a member of a struct column.

    Attributes:
        path: The name of the column, then of each member below it.
        quoted: Whether the column was named in backquotes, so that case matters.
    """

    path: tuple[str, ...]
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A value as it was written, not yet of any Arrow type."""

    value: LiteralValue


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """A value of a known Arrow type."""

    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class Arithmetic(Expression):
    """`left operator right`, where the operator is one of `+ - * / %`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Negative(Expression):
    """`-operand`; for floats, the sign of zero and NaN changes too."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Compare(Expression):
    """`left operator right`, where the operator is one of `= <> < <= > >=`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Distinct(Expression):
    """`left IS DISTINCT FROM right`: an inequality that treats null as a value."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class And(Expression):
    """All of the operands, in order."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or(Expression):
    """Any of the operands, in order."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """`NOT operand`."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class IsNull(Expression):
    """`operand IS NULL`."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class IsTruth(Expression):
    """`operand IS TRUE` or `operand IS FALSE`."""

    operand: Expression
    truth: bool


@dataclass(frozen=True, slots=True)
class InList(Expression):
    """`operand IN (items)`, as parsed."""

    operand: Expression
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class InSet(Expression):
    """`operand IN (values)`, bound.

    Attributes:
        operand: The values to look up.
        values: The values to compare with, of the type of the operand, without nulls.
        has_null: Whether NULL was among the items.
    """

    operand: Expression
    values: pa.Array
    has_null: bool


@dataclass(frozen=True, slots=True)
class Like(Expression):
    """`operand LIKE pattern` or `ILIKE`, with the backslash as escape."""

    operand: Expression
    pattern: Expression
    ignore_case: bool


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """`CAST(operand AS type)`; a value that the type cannot hold is an error."""

    operand: Expression
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A function by its lower-case SQL name (`pilum.expressions.functions`)."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Geometry(Expression):
    """A column of lists of points, with the name of their layout.

    Attributes:
        operand: The column.
        layout: One of `pilum.expressions.geometry.layouts.LISTS`.
    """

    operand: Expression
    layout: str


@dataclass(frozen=True, slots=True)
class Opaque(Expression):
    """A part of a filter that only Arrow evaluates; it may be true, false or null for any row."""


def walk(node: Expression) -> list[Expression]:
    """Return the node and all nodes below it, in pre-order."""
    found: list[Expression] = []
    _collect(node, found)
    return found


def _collect(node: Expression, found: list[Expression]) -> None:
    """Add a node and all nodes below it: a generator for each would take longer than a lookup."""
    found.append(node)
    names: tuple[str, ...] = type(node).__slots__  # `dataclasses.fields` takes much longer
    for name in names:
        value = getattr(node, name)
        for child in value if isinstance(value, tuple) else (value,):
            if isinstance(child, Expression):
                _collect(child, found)


def compares_column(node: Expression) -> TypeGuard[Compare]:
    """Return whether a node compares a column with a constant, as most parts of filters do."""
    return type(node) is Compare and type(node.left) is Column and type(node.right) is Constant


def references(node: Expression) -> tuple[str, ...]:
    """Return the columns that a bound expression reads, each once, in order of appearance.

    A member of a struct is a dotted path. If a name in the path contains a dot, or the whole struct
    is read too, the struct is named instead.
    """
    parts = node.operands if type(node) is And else (node,)
    columns: list[Expression] = [part.left for part in parts if compares_column(part)]
    every = columns if len(columns) == len(parts) else walk(node)
    paths = [below.path for below in every if isinstance(below, Column)]
    if max(map(len, paths), default=0) == 1:
        return tuple(dict.fromkeys([path[0] for path in paths]))
    wanted = dict.fromkeys(_addressable(path) for path in paths)
    return tuple(".".join(path) for path in wanted if not _covered(path, wanted))


def _addressable(path: tuple[str, ...]) -> tuple[str, ...]:
    for depth, name in enumerate(path):
        if "." in name and depth:
            return path[:depth]
    return path


def _covered(path: tuple[str, ...], wanted: dict[tuple[str, ...], None]) -> bool:
    return any(path[:depth] in wanted for depth in range(1, len(path)))
