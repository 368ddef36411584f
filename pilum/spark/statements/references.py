"""Find the tables that an SQL text names, and replace them in the text.

SELECT t.a FROM lance.`/data/t` VERSION AS OF 3 AS t
                └────────── a reference ──────┘
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlglot import exp

from pilum.errors import DatasetNotFoundError, InvalidInputError
from pilum.lazy import cached_property
from pilum.spark.catalog import Names, Place, TableName
from pilum.spark.options import table_uri
from pilum.spark.statements.places import at, located, span
from pilum.spark.statements.versions import version_of

__all__ = ["FORMATS", "Reference", "Statement"]

FORMATS = frozenset({"lance", "pilum"})
"""Words before a location, which say that it is one of a table."""


@dataclass(frozen=True)
class Reference:
    """A table name in a text, with its position.

    Attributes:
        name: What the name means.
        node: Node in the tree of the text.
        start: Position of its first character.
        stop: Position after its last character; the version is part of it, an alias is not.
        version: The version, a number or the name of a tag, if given.
        as_of: The time, if given.
        is_path: Whether the table is named by its location.
    """

    name: TableName
    node: exp.Table
    start: int
    stop: int
    version: int | str | None = None
    as_of: datetime | None = None
    is_path: bool = False

    @property
    def alias(self) -> str:
        """Return the qualifier of its columns; empty if the name is not an identifier."""
        return self.node.alias or ("" if self.is_path else self.node.name)

    @property
    def added_alias(self) -> str:
        """Return the alias that a frame gets in place of the table, unless the text has one.

        Spark allows none before TABLESAMPLE.
        """
        has_one = self.node.alias or self.node.args.get("sample")
        return f" AS `{self.alias}`" if self.alias and not has_one else ""

    @property
    def place(self) -> Place:
        """Return the place of the table.

        Raises:
            DatasetNotFoundError: If there is no table of this name.
        """
        if self.name.place is None:
            raise DatasetNotFoundError(
                f"{at(self.node)}: there is no table {'.'.join(self.name.names)!r}"
            )
        return self.name.place

    @property
    def uri(self) -> str:
        """Return the location of the table; the errors are those of `place`."""
        return self.place.uri


@dataclass(frozen=True)
class Statement:
    """A parsed SQL text: as given, as a tree of sqlglot, and the names of tables."""

    text: str
    tree: Any
    names: Names

    @cached_property
    def references(self) -> list[Reference]:
        """Return the references to tables, in order."""
        found = [self._reference(node) for node in self.tree.find_all(exp.Table)]
        present = [one for one in found if one is not None]
        ctes = {one.alias.lower(): one for one in self.tree.find_all(exp.CTE)}
        for one in present:
            if not one.node.db and one.node.name.lower() in ctes:
                raise InvalidInputError(
                    f"{at(one.node)}: {one.node.name!r} is a table and the name of a WITH; "
                    "rename one of them"
                )
        return sorted(present, key=lambda one: one.start)

    def reference_to(self, node: Any) -> Reference | None:
        """Return the reference at a node of the tree."""
        return next((one for one in self.references if one.node is node), None)

    def meaning(self, names: Sequence[str], *, is_path: bool) -> TableName | None:
        """Return what the parts of a name mean; None if they name no pilum table."""
        found = self.names.find(names)
        if found is None and is_path and names[0].lower() in FORMATS:
            return TableName((names[1],), Place(table_uri(names[1])))
        return found

    def rewritten(
        self,
        places: Mapping[tuple[int, int], str],
        start: int = 0,
        stop: int | None = None,
    ) -> str:
        """Return a part of the text for `spark.sql(text, **frames)`, with doubled braces.

        `places` replaces ranges of the text, from the first character to after the last one, by
        parameters such as `{table0}`.
        """
        stop = len(self.text) if stop is None else stop
        parts = []
        for (first, after), text in sorted(places.items()):
            if start <= first and after <= stop:
                parts += [_literal(self.text[start:first]), text]
                start = after
        return "".join((*parts, _literal(self.text[start:stop])))

    def _reference(self, node: exp.Table) -> Reference | None:
        parts = [one for one in node.parts if isinstance(one, exp.Identifier)]
        if len(parts) != len(node.parts):
            return None
        is_path = len(parts) == 2 and parts[1].quoted
        with located(node):
            name = self.meaning([one.name for one in parts], is_path=is_path)
        if name is None:
            return None
        start, stop = parts[0].meta["start"], parts[-1].meta["end"] + 1
        version, as_of, given = None, None, node.args.get("version")
        if given is not None:
            stop = span(given)[1]
            version, as_of = version_of(given, node)
        is_path = is_path and name.collection is None
        return Reference(name, node, start, stop, version, as_of, is_path)


def _literal(text: str) -> str:
    """Return a text as it is written in a format string of Spark."""
    return text.replace("{", "{{").replace("}", "}}")
