"""Expressions of Spark Connect, which are protobuf messages, as texts in Spark's SQL.

    unresolved_function ">=" (unresolved_attribute "q", literal long 3)    ->    (`q` >= 3L)

Source: `spark/connect/expressions.proto` of Spark 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any

from pilum.spark.names import quoted

__all__ = ["text_of"]

_INFIX = {
    "==": "=",
    "=": "=",
    "!=": "<>",
    "<>": "<>",
    "<=>": "<=>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "%": "%",
    "and": "AND",
    "or": "OR",
    "like": "LIKE",
}
_AFTER = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
_EPOCH = date(1970, 1, 1)


def text_of(message: Any) -> str | None:
    """Return an expression as SQL; None if it has parts that are not known."""
    kind = message.WhichOneof("expr_type")
    if kind == "expression_string":
        return str(message.expression_string.expression)
    if kind == "alias" and len(message.alias.name) == 1:
        text = _nested(message.alias.expr)
        return text and f"{text} AS {quoted(message.alias.name[0])}"
    return _nested(message)


def _nested(message: Any) -> str | None:
    kind = message.WhichOneof("expr_type")
    if kind == "expression_string":
        return f"({message.expression_string.expression})"
    if kind == "unresolved_star" and not message.unresolved_star.unparsed_target:
        return "*"
    if kind == "unresolved_attribute":
        return _column(message.unresolved_attribute.unparsed_identifier)
    if kind == "unresolved_function":
        return _function(message.unresolved_function)
    return _literal(message.literal) if kind == "literal" else None


def _column(name: str) -> str:
    return name if "`" in name else ".".join(map(quoted, name.split(".")))


def _function(message: Any) -> str | None:
    if message.is_distinct or message.is_user_defined_function:
        return None
    name = message.function_name.lower()
    found = [_nested(one) for one in message.arguments]
    args = [text for text in found if text is not None]
    if len(args) < len(found):
        return None
    if name in _INFIX and len(args) == 2:
        return f"({args[0]} {_INFIX[name]} {args[1]})"
    if name in _AFTER and len(args) == 1:
        return f"({args[0]} {_AFTER[name]})"
    if name in {"not", "!"} and len(args) == 1:
        return f"(NOT {args[0]})"
    if name == "in" and len(args) > 1:
        return f"({args[0]} IN ({', '.join(args[1:])}))"
    return _call(name, args) if name.isidentifier() else None


def _call(name: str, args: Sequence[str]) -> str:
    return f"{name}({', '.join(args)})"


def _literal(message: Any) -> str | None:
    kind = message.WhichOneof("literal_type")
    write = _LITERALS.get(kind)
    return None if write is None else write(getattr(message, kind))


def _double(value: float) -> str | None:
    return f"{value!r}D" if math.isfinite(value) else None


def _string(value: str) -> str | None:
    return None if "\\" in value else "'" + value.replace("'", "\\'") + "'"


_LITERALS: dict[str, Callable[[Any], str | None]] = {
    "boolean": lambda value: str(value).upper(),
    "byte": lambda value: f"{value}Y",
    "short": lambda value: f"{value}S",
    "integer": str,
    "long": lambda value: f"{value}L",
    "double": _double,
    "string": _string,
    "date": lambda days: f"DATE '{_EPOCH + timedelta(days=days)}'",
}
