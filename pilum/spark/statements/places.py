"""Positions in a statement, and errors that show them.

line 2, column 5: no column 'nope'; the columns are ['id', 'name']

    UPDATE orders
    SET nope = 1
        ^
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from pilum.errors import InvalidInputError, PilumError

__all__ = ["at", "described", "located", "shown", "span"]

SPAN = "span"
"""Key in the `meta` of nodes: positions of the first character and after the last one."""

_PLACE = re.compile(r"line (\d+), column (\d+): ")
_LINES_AROUND = 2
_INDENT = " " * 4


def span(node: Any) -> tuple[int, int]:
    """Return the positions of a node that the dialect recorded."""
    found: tuple[int, int] | None = node.meta.get(SPAN)
    if found is None:
        raise InvalidInputError(f"{at(node)}: no position of {node.sql(dialect='spark')}")
    return found


def at(node: Any) -> str:
    """Return the line and column of a node, for the beginning of a message."""
    places = [one.meta for one in node.find_all(exp.Identifier) if "line" in one.meta]
    places += [node.meta] if "line" in node.meta else []
    if not places:
        return "SQL"
    first = min(places, key=lambda place: place["start"])
    return f"line {first['line']}, column {first['col'] - first['end'] + first['start']}"


def described(error: SqlglotError) -> str:
    """Return sqlglot's message for a text that does not parse, with the position."""
    found = getattr(error, "errors", None)
    if not found:
        return f"SQL: {error}"
    first = found[0]
    return f"line {first['line']}, column {first['col']}: {first['description']}"


@contextmanager
def located(node: Any) -> Iterator[None]:
    """Prepend the position of a node to errors that have none."""
    try:
        yield
    except PilumError as error:
        message = str(error)
        if not _PLACE.match(message):
            error.args = (f"{at(node)}: {message}",)
        raise


@contextmanager
def shown(text: str) -> Iterator[None]:
    """Append the statement to errors, with a mark below their position."""
    try:
        yield
    except PilumError as error:
        error.args = (f"{error}\n\n{_excerpt(text, str(error))}",)
        raise


def _excerpt(text: str, message: str) -> str:
    """Return the lines around the position that a message begins with."""
    lines = text.splitlines() or [""]
    found = _PLACE.match(message)
    if found is None:
        return "\n".join(_INDENT + line for line in lines[: 2 * _LINES_AROUND + 1])
    number, column = min(int(found[1]), len(lines)) - 1, max(1, int(found[2]))
    first = max(0, number - _LINES_AROUND)
    before = lines[first : number + 1]
    mark = re.sub(r"\S", " ", lines[number][: column - 1]) + "^"
    after = lines[number + 1 : number + 1 + _LINES_AROUND]
    return "\n".join(_INDENT + line for line in (*before, mark, *after))
