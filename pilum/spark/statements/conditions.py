"""Translation of conditions in Spark's SQL to scan filters, if both mean the same.

    a > 5 OR length(s) = 3 AND day < DATE '2024-05-01'    ->    the same, in pilum's words
    a / 2 = 1                                             ->    None: Spark divides otherwise

Spark evaluates the whole condition again, so a filter may keep more rows than Spark does, but never
fewer. A term that is not known to mean the same is left to Spark.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from pilum.spark.literals import comparison, literal

__all__ = ["Resolve", "plain_value", "pushable"]

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
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}


def pushable(node: Any, schema: pa.Schema, resolve: Resolve) -> str | None:
    """Translate a condition to a parenthesized filter.

    Args:
        node: The condition.
        schema: Columns of the table.
        resolve: Resolves columns of the table.

    Returns:
        The filter; None if it depends on other tables, or would not mean the same.
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
        if isinstance(node, exp.Like):
            return self._like(node)
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
            if node.args.get("symmetric"):
                return None
            low = self._operand(node.args["low"], kind)
            high = self._operand(node.args["high"], kind)
            if not (low and high):
                return None
            ends = (comparison(text, ">=", low, kind), comparison(text, "<=", high, kind))
            return f"({' AND '.join(ends)})"
        if node.args.get("query") or node.args.get("unnest") or not node.expressions:
            return None
        values = self._joined([_constant(one, kind) for one in node.expressions], ", ")
        return values and f"({text} IN {values})"

    def _like(self, node: Any) -> str | None:
        text, kind = self.value(node.this)
        pattern = node.expression
        if text is None or kind is None or not _is_string(kind):
            return None
        if not isinstance(pattern, exp.Literal) or "\\" in pattern.name:
            return None
        return self._joined([text, _constant(pattern, kind)], " LIKE ")

    def value(self, node: Any) -> tuple[str | None, pa.DataType | None]:
        """Translate a column, or an expression over one, and return it with its type."""
        if isinstance(node, exp.Paren):
            return self.value(node.this)
        if isinstance(node, exp.Column | exp.Dot):
            return self._column(node)
        if isinstance(node, exp.Length):
            text, kind = self.value(node.this)
            is_text = text is not None and kind is not None and _is_string(kind)
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


def _is_string(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


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
        return -value if isinstance(value, Decimal) else None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Cast) and node.to.this is exp.DataType.Type.DATE:
        return _date(node.this)
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return None if "\\" in node.name else node.name
    try:
        return Decimal(node.name)
    except InvalidOperation:
        return None


def _date(node: Any) -> datetime.date | None:
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    try:
        return datetime.date.fromisoformat(node.name)
    except ValueError:
        return None
