"""The tables that a text of SQL names, where they stand in it, and the text with others instead.

SELECT t.a FROM lance.`/data/t` VERSION AS OF 3 AS t
                └────────── a reference ──────┘
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from sqlglot import TokenType, exp, parse_one
from sqlglot.errors import SqlglotError

from pilum.errors import InvalidInputError
from pilum.spark.options import table_uri
from pilum.spark.statements.dialect import Spark4

__all__ = ["Reference", "Statement", "at", "described"]

_FORMATS = frozenset({"lance", "pilum"})


@dataclass(frozen=True)
class Reference:
    """A table, where a text names it.

    Attributes:
        uri: Location of the table.
        node: In the tree of the text.
        start: Where the text of it begins.
        stop: Behind its end; the version is part of it, an alias is not.
        version: The version, a number or the name of a tag, if one is named.
        as_of: The time, if one is named.
    """

    uri: str
    node: exp.Table
    start: int
    stop: int
    version: int | str | None = None
    as_of: str | None = None

    @property
    def alias(self) -> str:
        """How columns of it are qualified; empty where it has no word for a name."""
        return self.node.alias or ("" if self.node.db else self.node.name)


@dataclass(frozen=True)
class Statement:
    """A text that has been parsed.

    Attributes:
        text: As it was given.
        tree: What sqlglot made of it.
        tables: Names, in lower case, and the locations of their tables.
    """

    text: str
    tree: Any
    tables: Mapping[str, str]

    @classmethod
    def parse(cls, text: str, tables: Mapping[str, str]) -> Statement | None:
        """Parses a text, if it names a table.

        Args:
            text: One statement in Spark's SQL.
            tables: Names and locations.

        Returns:
            None for a text that has nothing to do with pilum.

        Raises:
            InvalidInputError: If it names a table and does not parse.
        """
        known = {name.lower(): table_uri(uri) for name, uri in tables.items()}
        try:
            tokens = _words(text)
        except SqlglotError as error:
            if any(f"{name}." in text.lower() for name in _FORMATS):
                raise InvalidInputError(f"SQL: {error}") from error
            return None
        if not _is_named(tokens, known):
            return None
        try:
            tree = parse_one(text, dialect=Spark4)
        except SqlglotError as error:
            raise InvalidInputError(described(error)) from error
        return cls(text, tree, known)

    @cached_property
    def tokens(self) -> list[Any]:
        """The words of the text."""
        return _words(self.text)

    @cached_property
    def references(self) -> list[Reference]:
        """Where tables are named, in order.

        Raises:
            InvalidInputError: If a version makes no sense, or a name stands for a table and for a
                common table expression.
        """
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
        """The reference that a node of the tree is."""
        return next((one for one in self.references if one.node is node), None)

    def rewritten(self, names: Mapping[int, str], start: int = 0, stop: int | None = None) -> str:
        """The text, or a part of it, with other names where tables are named.

        Args:
            names: For the start of each reference, the name of the parameter that replaces it.
            start: Where the part begins.
            stop: Behind its end.

        Returns:
            A text for `spark.sql(text, **frames)`, in which braces are doubled.
        """
        stop = len(self.text) if stop is None else stop
        inside = [one for one in self.references if start <= one.start and one.stop <= stop]
        return self._replaced(dict(map(partial(_parameter, names), inside)), start, stop)

    def replaced(self, names: Mapping[int, str], others: Mapping[tuple[int, int], str]) -> str:
        """The text with other names where tables are named, and other words in other places.

        Args:
            names: As for `rewritten`.
            others: For places, from the first letter to behind the last, what stands there instead.
        """
        tables = dict(map(partial(_parameter, names), self.references))
        literal = {place: _literal(text) for place, text in others.items()}
        return self._replaced(tables | literal, 0, len(self.text))

    def _replaced(self, places: Mapping[tuple[int, int], str], start: int, stop: int) -> str:
        parts = []
        for (first, behind), text in sorted(places.items()):
            parts += [_literal(self.text[start:first]), text]
            start = behind
        return "".join((*parts, _literal(self.text[start:stop])))

    def token_at(self, position: int) -> int:
        """The number of the first word that begins at a position or later."""
        starts = (number for number, token in enumerate(self.tokens) if token.start >= position)
        return next(starts, len(self.tokens))

    def _reference(self, node: exp.Table) -> Reference | None:
        name = node.this
        if not isinstance(name, exp.Identifier) or node.args.get("catalog"):
            return None
        database = node.args.get("db")
        if database is None:
            uri, first = self.tables.get(name.name.lower()), name
        else:
            is_path = database.name.lower() in _FORMATS and name.quoted
            uri, first = table_uri(name.name) if is_path else None, database
        if uri is None:
            return None
        start, stop = first.meta["start"], name.meta["end"] + 1
        return self._with_version(Reference(uri, node, start, stop))

    def _with_version(self, reference: Reference) -> Reference:
        words = self.tokens[self.token_at(reference.stop) :][:4]
        kind = words[0].text.upper() if words else ""
        is_of = [word.text.upper() for word in words[1:3]] == ["AS", "OF"]
        if kind not in {"VERSION", "TIMESTAMP"} or not is_of:
            return reference
        value = words[3] if len(words) > 3 else None
        allowed = {TokenType.STRING} | ({TokenType.NUMBER} if kind == "VERSION" else set())
        if value is None or value.token_type not in allowed:
            wanted = "a number or a 'name'" if kind == "VERSION" else "a 'time'"
            raise InvalidInputError(f"{at(reference.node)}: {kind} AS OF takes {wanted}")
        text, stop = value.text, value.end + 1
        if kind == "TIMESTAMP":
            return replace(reference, stop=stop, as_of=text)
        return replace(reference, stop=stop, version=int(text) if text.isdigit() else text)


def at(node: Any) -> str:
    """Where a node stands, for messages."""
    places = [one.meta for one in node.find_all(exp.Identifier) if "line" in one.meta]
    if not places:
        return "SQL"
    first = min(places, key=lambda place: place["start"])
    return f"line {first['line']}, column {first['col'] - first['end'] + first['start']}"


def described(error: SqlglotError) -> str:
    """What sqlglot says of a text that does not parse, and where."""
    found = getattr(error, "errors", None)
    if not found:
        return f"SQL: {error}"
    first = found[0]
    return f"line {first['line']}, column {first['col']}: {first['description']}"


def _words(text: str) -> list[Any]:
    """The words of a text; commands that sqlglot keeps as they are, are taken apart too."""
    tokens = list(Spark4().tokenize(text))
    if tokens and tokens[0].token_type is TokenType.COMMAND:
        return [tokens[0], *Spark4().tokenize(text[tokens[0].end + 1 :])]
    return tokens


def _is_named(tokens: Sequence[Any], tables: Mapping[str, str]) -> bool:
    words = [token.text.lower() for token in tokens]
    quoted = [token.token_type is TokenType.IDENTIFIER for token in tokens]
    paths = (
        word in _FORMATS and words[number + 1 : number + 2] == ["."] and quoted[number + 2]
        for number, word in enumerate(words[:-2])
    )
    return any(paths) or any(word in tables for word in words)


def _parameter(names: Mapping[int, str], one: Reference) -> tuple[tuple[int, int], str]:
    return (one.start, one.stop), f"{{{names[one.start]}}}{_alias(one)}"


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _alias(reference: Reference) -> str:
    if reference.node.alias or not reference.alias:
        return ""
    return f" AS `{reference.alias}`"
