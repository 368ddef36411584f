"""Expressions and columns of statements, translated to pilum's SQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlglot import exp

from pilum.distributed.conditions import META_COLUMNS, condition_text
from pilum.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from pilum.spark.statements.places import at

__all__ = ["Sides", "known_column", "known_path", "limited", "plain_text", "require_unlimited"]


def plain_text(node: Any, alias: str, columns: Collection[str]) -> str:
    """Return the SQL of an expression over one table, with unqualified columns."""
    aliases = {alias.lower(): "target"} if alias else {}
    sides = Sides(aliases, {"target": [*columns, *META_COLUMNS]})

    def unqualified(one: Any) -> Any:
        return _path(sides.column(one)[1]) if isinstance(one, exp.Column) else one

    _require_simple(node)
    return condition_text(node.transform(unqualified))


def known_column(node: Any, names: Sequence[str]) -> str:
    """Return the column that an identifier or a column means, in any case.

    Raises:
        ColumnNotFoundError: If there is none.
        UnsupportedFeatureError: If the node is another expression, or a member of a struct.
    """
    is_name = isinstance(node, exp.Identifier)
    if not is_name and not (isinstance(node, exp.Column) and len(node.parts) == 1):
        raise UnsupportedFeatureError(
            f"{at(node)}: expected a column, found {node.sql(dialect='spark')}"
        )
    found = [name for name in names if name == node.name]
    found += [name for name in names if name.lower() == node.name.lower()]
    if not found:
        raise ColumnNotFoundError(
            f"{at(node)}: no column {node.name!r}; the columns are {[*names]}"
        )
    return found[0]


def known_path(node: Any, names: Sequence[str]) -> str:
    """Return the dotted path of a column or a member of a struct; the errors as `known_column`."""
    if not isinstance(node, exp.Column):
        return known_column(node, names)
    first, *rest = node.parts
    return ".".join((known_column(first, names), *(part.name for part in rest)))


def require_unlimited(column: Any) -> None:
    """Refuse CHAR and VARCHAR in a definition of a column: a table does not check lengths."""
    for kind in column.find_all(exp.DataType):
        if kind.this in {exp.DataType.Type.CHAR, exp.DataType.Type.VARCHAR}:
            raise limited(column, kind.sql(dialect="spark"))


def limited(column: Any, kind: str) -> UnsupportedFeatureError:
    """Return the error for a column of texts of limited length."""
    return UnsupportedFeatureError(
        f"{at(column)}: {kind}: a table does not check the length of texts; declare the type as "
        "STRING"
    )


class Sides:
    """The columns of the two sides of a merge, as `source.x` and `target.x`."""

    def __init__(
        self,
        aliases: Mapping[str, str],
        columns: Mapping[str, Collection[str]],
        prefix: str = "",
    ) -> None:
        """Set the lower-case names, "source" or "target" for each, and the columns of each side.

        The columns of the source get a prefix.
        """
        self._aliases = aliases
        self._columns = columns
        self._prefix = prefix

    def column(self, node: Any) -> tuple[str, list[str]]:
        """Return the side of a column, and its path as that side spells it."""
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
        return condition_text(node.transform(qualified))

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
