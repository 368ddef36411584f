"""Pushdown: the columns and rows that a query needs of each table.

    SELECT t.a, count(*) FROM lance.`/t` t JOIN u ON t.k = u.k WHERE t.b > 3 OR t.b < 0 GROUP BY 1
                                   columns a, k, b      rows with  b > 3 OR b < 0

Columns are found by their names alone: a column is read if any word of the query is its name. This
may read a column too many, but never one too few. Conditions in Spark's SQL become scan filters if
both mean the same:

    a > 5 OR length(s) = 3 AND day < DATE '2024-05-01'    ->    the same, in pilum's words
    a / 2 = 1                                             ->    None: Spark divides otherwise

Spark evaluates the whole condition again, so a filter may keep more rows than Spark does, but never
fewer. A term that is not known to mean the same is left to Spark.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from pilum.distributed.conditions import META_COLUMNS
from pilum.spark.literals import comparison, is_string, literal

if TYPE_CHECKING:
    from pilum.spark.statements.references import Reference

__all__ = ["Needs", "Resolve", "needs_of", "plain_value", "pushable", "resolver", "terms"]

Resolve = Callable[[exp.Column], tuple[str, ...] | None]
"""A function that returns the path of a column of the table; None for another table's column."""

_COMPARE: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_PATTERNS: dict[type[exp.Expression], str] = {
    exp.StartsWith: "{}%",
    exp.EndsWith: "%{}",
    exp.Contains: "%{}%",
}
_MAXIMUM = {
    exp.DataType.Type.TINYINT: 2**7 - 1,
    exp.DataType.Type.SMALLINT: 2**15 - 1,
    exp.DataType.Type.INT: 2**31 - 1,
    exp.DataType.Type.BIGINT: 2**63 - 1,
}
_READ = frozenset({"this", "expression", "expressions", "low", "high", "to"})
"""The parts of nodes that are translated; a node with another part is left to Spark."""

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_WIDENING = {"RIGHT", "FULL"}


@dataclass(frozen=True)
class Needs:
    """The columns and rows to read from a table.

    Attributes:
        columns: Columns in the order of the table; may be empty.
        filter: A condition in pilum's SQL that all needed rows fulfil; None for all rows.
        is_exact: Whether the filter is the whole condition of the query.
    """

    columns: tuple[str, ...]
    filter: str | None
    is_exact: bool


def needs_of(reference: Reference, tree: Any, schema: pa.Schema) -> Needs:
    """Return the columns and rows of a table that a query needs."""
    words = {one.name.lower() for one in tree.find_all(exp.Identifier)}
    own = tuple(schema.names)
    columns = own if _has_star(reference, tree) else [n for n in own if n.lower() in words]
    meta = [name for name in META_COLUMNS if name in words and name not in own]
    return Needs((*columns, *meta), *_filter(reference, schema))


def _has_star(reference: Reference, tree: Any) -> bool:
    """Return whether all columns are selected by a `*`, or in a way that names none."""
    node = reference.node
    select = node.parent_select
    if not isinstance(select, exp.Select) or node.args.get("pivots"):
        return True
    if any(join.method.upper() == "NATURAL" for join in select.args.get("joins") or ()):
        return True
    return any(_covers(star, reference, select) for star in tree.find_all(exp.Star))


def _covers(star: Any, reference: Reference, select: Any) -> bool:
    if isinstance(star.parent, exp.Count):
        return False
    if isinstance(star.parent, exp.Column) and star.parent.table:
        return bool(star.parent.table.lower() == reference.alias.lower()) or not reference.alias
    return star.parent_select is select


def _filter(reference: Reference, schema: pa.Schema) -> tuple[str | None, bool]:
    """Return the part of the condition that the scan can evaluate, and whether it is all of it."""
    select = reference.node.parent_select
    if not isinstance(select, exp.Select) or not _is_kept(reference, select):
        return None, False
    where = select.args.get("where")
    if where is None:
        return None, True
    resolve = resolver(reference, select, schema)
    texts = [pushable(term, schema, resolve) for term in terms(where.this)]
    return " AND ".join(text for text in texts if text) or None, None not in texts


def terms(node: Any) -> Iterator[Any]:
    """Yield the terms of a conjunction."""
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from terms(node.left)
        yield from terms(node.right)
    else:
        yield node


def _is_kept(reference: Reference, select: Any) -> bool:
    """Return whether a table row that fails WHERE cannot affect any row of the result."""
    node: Any = reference.node
    if node.args.get("sample") or node.args.get("pivots") or select.args.get("sample"):
        return False
    joins = select.args.get("joins") or []
    if any(join.side.upper() in _WIDENING for join in joins):
        return False
    if isinstance(node.parent, exp.From):
        return node.parent.parent is select
    join = node.parent
    is_inner = isinstance(join, exp.Join) and not join.side and join.kind in {"", "INNER", "CROSS"}
    return is_inner and join.parent is select


def resolver(reference: Reference, select: Any, schema: pa.Schema) -> Resolve:
    """Return a function that resolves the columns of a query that belong to a table."""
    by_name: dict[str, list[str]] = {}
    for name in schema.names:
        by_name.setdefault(name.lower(), []).append(name)
    is_alone = not (select.args.get("joins") or select.args.get("laterals"))
    alias = reference.alias.lower()

    def resolve(column: exp.Column) -> tuple[str, ...] | None:
        names = [part.name for part in column.parts]
        if alias and len(names) > 1 and names[0].lower() == alias and alias not in by_name:
            names = names[1:]
        elif not is_alone:
            return None
        found = by_name.get(names[0].lower(), [])
        return (found[0], *names[1:]) if len(found) == 1 else None

    return resolve


def pushable(node: Any, schema: pa.Schema, resolve: Resolve) -> str | None:
    """Translate a condition to a parenthesized filter.

    It is None if the condition depends on other tables, or the filter would not mean the same.
    """
    return _Writer(schema, resolve).write(node)


def plain_value(node: Any, schema: pa.Schema, resolve: Resolve) -> str | None:
    """Translate a column, or an expression over one, to pilum's SQL; else as `pushable`."""
    return _Writer(schema, resolve).value(node)[0]


class _Writer:
    """A translator of conditions on one table."""

    def __init__(self, schema: pa.Schema, resolve: Resolve) -> None:
        self._schema = schema
        self._resolve = resolve

    def write(self, node: Any) -> str | None:
        if isinstance(node, exp.Like):
            return self._like(node)
        if not _is_plain(node):
            return None
        if isinstance(node, exp.Paren):
            return self.write(node.this)
        if isinstance(node, exp.And | exp.Or):
            word = "AND" if isinstance(node, exp.And) else "OR"
            return self._joined([self.write(node.left), self.write(node.right)], f" {word} ")
        if isinstance(node, exp.Not):
            return self._joined([self.write(node.this)], "", "NOT ")
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return self._joined([self.value(node.this)[0]], "", after=" IS NULL")
        if isinstance(node, exp.In | exp.Between):
            return self._listed(node)
        if type(node) in _PATTERNS:
            return self._pattern(node)
        if isinstance(node, exp.NullSafeEQ):
            return self._null_safe(node)
        if type(node) in _COMPARE:
            return self._compared(node)
        text, kind = self.value(node)
        return text if kind is not None and pt.is_boolean(kind) else None

    def _compared(self, node: Any) -> str | None:
        operator = _COMPARE[type(node)]
        text, kind = self.value(node.left)
        if text is None or kind is None:
            text, kind = self.value(node.right)
            other, operator = node.left, _MIRRORED[operator]
        else:
            other = node.right
        if text is None or kind is None:
            return None
        if (operand := self._operand(other, kind)) is None:
            return None
        return comparison(text, operator, operand, kind)

    def _operand(self, node: Any, kind: pa.DataType) -> str | None:
        """Translate a literal or a value of the same type; between floats, zeros would differ."""
        text, other = self.value(node)
        if text is not None:
            return text if other == kind and not pt.is_floating(kind) else None
        return _constant(node, kind)

    def _listed(self, node: Any) -> str | None:
        text, kind = self.value(node.this)
        if text is None or kind is None:
            return None
        if isinstance(node, exp.Between):
            low = self._operand(node.args["low"], kind)
            high = self._operand(node.args["high"], kind)
            if not (low and high):
                return None
            ends = (comparison(text, ">=", low, kind), comparison(text, "<=", high, kind))
            return f"({' AND '.join(ends)})"
        if not node.expressions:
            return None
        values = self._joined([_constant(one, kind) for one in node.expressions], ", ")
        return values and f"({text} IN {values})"

    def _like(self, node: Any) -> str | None:
        """Translate `LIKE` and `NOT LIKE`, which is a node of its own."""
        if not _is_plain(node, "negate"):
            return None
        text, kind = self.value(node.this)
        pattern = node.expression
        if text is None or kind is None or not is_string(kind):
            return None
        if not isinstance(pattern, exp.Literal) or "\\" in pattern.name:
            return None
        word = " NOT LIKE " if node.args.get("negate") else " LIKE "
        return self._joined([text, _constant(pattern, kind)], word)

    def _pattern(self, node: Any) -> str | None:
        """Translate `startswith`, `endswith` and `contains` with a text without wildcards."""
        text, kind = self.value(node.this)
        part = node.expression
        if text is None or kind is None or not is_string(kind):
            return None
        if not isinstance(part, exp.Literal) or any(one in part.name for one in "%_\\"):
            return None
        pattern = exp.Literal.string(_PATTERNS[type(node)].format(part.name))
        return self._joined([text, _constant(pattern, kind)], " LIKE ")

    def _null_safe(self, node: Any) -> str | None:
        """Translate `a <=> constant`."""
        text, kind = self.value(node.this)
        if text is None or kind is None:
            return None
        constant = _constant(node.expression, kind)
        return None if constant is None else f"({text} IS NOT NULL AND {text} = {constant})"

    def value(self, node: Any) -> tuple[str | None, pa.DataType | None]:
        """Translate a column, or an expression over one, and return it with its type."""
        if isinstance(node, exp.Paren):
            return self.value(node.this)
        if isinstance(node, exp.Column | exp.Dot):
            return self._column(node)
        if not _is_plain(node):
            return None, None
        if isinstance(node, exp.Length):
            text, kind = self.value(node.this)
            is_text = text is not None and kind is not None and is_string(kind)
            return (f"length({text})", pa.int32()) if is_text else (None, None)
        if isinstance(node, exp.Mod):
            text, kind = self.value(node.this)
            divisor = _constant(node.expression, kind) if kind and pt.is_integer(kind) else None
            is_safe = divisor is not None and int(divisor) > 0
            return (f"({text} % {divisor})", kind) if is_safe else (None, None)
        return None, None

    def _column(self, node: Any) -> tuple[str | None, pa.DataType | None]:
        path = self._resolve(node) if isinstance(node, exp.Column) else None
        if path is None or any("`" in name or "." in name for name in path):
            return None, None
        kind: Any = self._schema.field(path[0]).type
        for name in path[1:]:
            index = kind.get_field_index(name) if pt.is_struct(kind) else -1
            if index < 0:
                return None, None
            kind = kind.field(index).type
        return ".".join(f"`{name}`" for name in path), kind

    @staticmethod
    def _joined(
        parts: list[str | None], between: str, before: str = "", after: str = ""
    ) -> str | None:
        present = [part for part in parts if part is not None]
        if len(present) < len(parts):
            return None
        return f"({before}{between.join(present)}{after})"


def _is_plain(node: Any, *others: str) -> bool:
    """Return whether a node has no part but those that are translated, and some others."""
    return all(name in _READ or name in others or not part for name, part in node.args.items())


def _constant(node: Any, kind: pa.DataType) -> str | None:
    """Return a literal that compares with this type as in Spark; None for anything else."""
    value = _python(node)
    if value is None:
        return None
    if pt.is_floating(kind) and isinstance(value, Decimal):
        value = float(value)  # Spark compares decimals with floats as doubles
    return literal(value, kind)


def _python(node: Any) -> Any:
    if isinstance(node, exp.Neg):
        value = _python(node.this)
        return -value if isinstance(value, Decimal | float) else None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Cast) and node.to.this is exp.DataType.Type.DATE:
        return _date(node.this)
    if isinstance(node, exp.Cast):
        return _number(node)
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return None if "\\" in node.name else node.name
    try:
        return Decimal(node.name)
    except InvalidOperation:
        return None


def _number(node: Any) -> Decimal | float | None:
    """Return the value of a literal with a suffix: `3L`, `3S` or `1.5D`."""
    if not isinstance(node.this, exp.Literal) or node.this.is_string:
        return None
    kind, value = node.to.this, _python(node.this)
    if not isinstance(value, Decimal):
        return None
    if kind in _MAXIMUM:
        return value if value == int(value) and abs(value) <= _MAXIMUM[kind] else None
    return float(value) if kind is exp.DataType.Type.DOUBLE else None


def _date(node: Any) -> datetime.date | None:
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    try:
        return datetime.date.fromisoformat(node.name)
    except ValueError:
        return None
