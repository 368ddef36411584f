"""Clauses after a table in FROM, and functions in its place.

VERSION AS OF 3 | 'tag'    TIMESTAMP AS OF '2026-01-31 12:00:00'
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlglot import exp

from pilum.errors import InvalidInputError
from pilum.spark.statements.places import at

__all__ = ["TABLE_FUNCTIONS", "version_of"]

TABLE_FUNCTIONS = frozenset({"nearest", "search", "changes", "table_changes"})
"""Names of functions in FROM, in lower case."""


def version_of(given: exp.Version, node: Any) -> tuple[int | str | None, datetime | None]:
    """Return the version or the time that a clause names; `node` is where errors are located."""
    value = given.expression
    is_literal = isinstance(value, exp.Literal) and given.args.get("kind") == "AS OF"
    if given.name == "TIMESTAMP":
        if not (is_literal and value.is_string):
            raise InvalidInputError(f"{at(node)}: TIMESTAMP AS OF takes a 'time'")
        return None, _time(value.name, node)
    if not is_literal or not (value.is_string or value.name.isdigit()):
        raise InvalidInputError(f"{at(node)}: VERSION AS OF takes a number or a 'name'")
    return int(value.name) if value.name.isdigit() else value.name, None


def _time(text: str, node: Any) -> datetime:
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(
            f"{at(node)}: TIMESTAMP AS OF takes a time such as '2026-01-31 12:00:00', found "
            f"{text!r}"
        ) from error
    return when if when.tzinfo else when.replace(tzinfo=UTC)
