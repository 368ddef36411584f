"""Translation of a statement's expressions to pilum's SQL."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from pilum.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from pilum.expressions.parse import LanceFilter
from pilum.format.meta_columns import META_COLUMNS
from pilum.spark.statements.dialect import Spark4
from pilum.spark.statements.references import at, described

__all__ = ["Sides", "plain_text", "zorder_columns"]

_ZORDER = re.compile(r"ZORDER\s+BY\s*(?:\((.+)\)|\s([^()]+))", re.IGNORECASE | re.DOTALL)


def plain_text(node: Any, alias: str, columns: Collection[str]) -> str:
    """Return the SQL of an expression over one table, with unqualified columns.

    Args:
        node: The expression.
        alias: The qualifier of its columns, if any.
        columns: Columns of the table.

    Raises:
        ColumnNotFoundError: If the table has no such column.
    """
    aliases = {alias.lower(): "target"} if alias else {}
    sides = Sides(aliases, {"target": [*columns, *META_COLUMNS]})

    def unqualified(one: Any) -> Any:
        return _path(sides.column(one)[1]) if isinstance(one, exp.Column) else one

    _require_simple(node)
    return str(node.transform(unqualified).sql(dialect=LanceFilter))


def zorder_columns(text: str, columns: Collection[str]) -> list[str]:
    """Return the columns of `ZORDER BY (a, b)`, with or without parentheses.

    Args:
        text: The text after the table.
        columns: Columns of the table.

    Raises:
        ColumnNotFoundError: If the table has no such column.
        UnsupportedFeatureError: If the text is anything else.
    """
    found = _ZORDER.fullmatch(text)
    if found is None:
        raise UnsupportedFeatureError(
            f"OPTIMIZE takes a table, and perhaps ZORDER BY (columns); found {text!r}"
        )
    try:
        nodes = parse_one(f"SELECT {found[1] or found[2]}", dialect=Spark4).expressions
    except SqlglotError as error:
        raise InvalidInputError(f"ZORDER BY: {described(error)}") from error
    return [_own_column(node, columns) for node in nodes]


def _own_column(node: Any, columns: Collection[str]) -> str:
    if not isinstance(node, exp.Column) or len(node.parts) > 1:
        raise UnsupportedFeatureError(f"ZORDER BY takes columns, found {node.sql(dialect=Spark4)}")
    known = [name for name in columns if name.lower() == node.name.lower()]
    if not known:
        raise ColumnNotFoundError(f"ZORDER BY: no column {node.name!r}; the columns are {columns}")
    return known[0]


class Sides:
    """The columns of the two sides of a merge, as `source.x` and `target.x`."""

    def __init__(
        self,
        aliases: Mapping[str, str],
        columns: Mapping[str, Collection[str]],
        prefix: str = "",
    ) -> None:
        """Set the names of the two sides.

        Args:
            aliases: Names in lower case, and "source" or "target" for each.
            columns: Columns of each side.
            prefix: Prefix for the columns of the source.
        """
        self._aliases = aliases
        self._columns = columns
        self._prefix = prefix

    def column(self, node: Any) -> tuple[str, list[str]]:
        """Return the side of a column, and its path as that side spells it.

        Raises:
            ColumnNotFoundError: If neither or both sides have the column.
        """
        names = [part.name for part in node.parts]
        if len(names) > 1 and names[0].lower() in self._aliases:
            sides, names = [self._aliases[names[0].lower()]], names[1:]
        else:
            sides = [side for side in self._columns if self._known(side, names[0])]
        found = [(side, self._known(side, names[0])) for side in sides]
        if len(found) != 1 or found[0][1] is None:
            what = "is ambiguous" if len(found) > 1 else "does not exist"
            raise ColumnNotFoundError(f"{at(node)}: column {node.sql(dialect='spark')} {what}")
        side, first = found[0]
        return side, [str(first), *names[1:]]

    def text(self, node: Any) -> str:
        """Return the SQL of an expression over both sides."""

        def qualified(one: Any) -> Any:
            if not isinstance(one, exp.Column):
                return one
            side, (first, *rest) = self.column(one)
            return _path([side, (self._prefix if side == "source" else "") + first, *rest])

        _require_simple(node)
        return str(node.transform(qualified).sql(dialect=LanceFilter))

    def _known(self, side: str, name: str) -> str | None:
        columns = self._columns[side]
        return next((one for one in columns if one.lower() == name.lower()), None)


def _path(names: list[str]) -> exp.Column:
    """Return a column with each part of its path in backquotes."""
    parts = [exp.to_identifier(name, quoted=True) for name in names]
    found = exp.column(parts[-1]) if len(parts) == 1 else None
    return found or exp.column(*reversed(parts[-4:]))


def _require_simple(node: Any) -> None:
    query = node.find(exp.Query, exp.AggFunc)
    if query is not None:
        raise InvalidInputError(
            f"{at(query)}: {query.sql(dialect='spark')}: no subqueries and aggregates here"
        )
