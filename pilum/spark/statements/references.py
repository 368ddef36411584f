"""Find the tables that an SQL text names, and replace them in the text.

SELECT t.a FROM lance.`/data/t` VERSION AS OF 3 AS t
                └────────── a reference ──────┘
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sqlglot import TokenType, exp, parse_one
from sqlglot.dialects.databricks import Databricks
from sqlglot.errors import SqlglotError

from pilum.errors import InvalidInputError
from pilum.spark.options import table_uri

__all__ = ["Reference", "Spark4", "Statement", "at", "described"]

_FORMATS = frozenset({"lance", "pilum"})
_DEPTHS = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}


class Spark4(Databricks):
    """Differences of Spark 4 from its predecessors: casts fail, a doubled quote is one quote."""

    class Tokenizer(Databricks.Tokenizer):
        """Tokenizer settings for quotes within strings."""

        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012 - sqlglot requires this form


@dataclass(frozen=True)
class Reference:
    """A table name in a text, with its position.

    Attributes:
        uri: Location of the table.
        node: Node in the tree of the text.
        start: Position of its first character.
        stop: Position after its last character; the version is part of it, an alias is not.
        version: The version, a number or the name of a tag, if given.
        as_of: The time, if given.
    """

    uri: str
    node: exp.Table
    start: int
    stop: int
    version: int | str | None = None
    as_of: str | None = None

    @property
    def alias(self) -> str:
        """Return the qualifier of its columns; empty if the name is not an identifier."""
        return self.node.alias or ("" if self.node.db else self.node.name)


@dataclass(frozen=True)
class Statement:
    """A parsed SQL text: as given, as a tree of sqlglot, and the locations of tables by name.

    Names of tables are in lower case.
    """

    text: str
    tree: Any
    tables: Mapping[str, str]

    @classmethod
    def parse(cls, text: str, tables: Mapping[str, str]) -> Statement | None:
        """Parse a text; return None if it names no pilum table."""
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
        """Return the tokens of the text."""
        return _words(self.text)

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

    def rewritten(
        self,
        names: Mapping[int, str],
        start: int = 0,
        stop: int | None = None,
        others: Mapping[tuple[int, int], str] | None = None,
    ) -> str:
        """Return the text for `spark.sql(text, **frames)`, or a part of it, with doubled braces.

        `names` has the parameter for the start of each reference; `others` replaces other places,
        from the first character to after the last one.
        """
        stop = len(self.text) if stop is None else stop
        places = {place: _literal(text) for place, text in (others or {}).items()}
        for one in self.references:
            if start <= one.start and one.stop <= stop:
                places[one.start, one.stop] = f"{{{names[one.start]}}}{_alias(one)}"
        parts = []
        for (first, after), text in sorted(places.items()):
            parts += [_literal(self.text[start:first]), text]
            start = after
        return "".join((*parts, _literal(self.text[start:stop])))

    @property
    def outer_tokens(self) -> Iterator[Any]:
        """Yield the tokens outside of parentheses, and the closing ones."""
        depth = 0
        for token in self.tokens:
            depth += _DEPTHS.get(token.token_type, 0)
            if depth == 0:
                yield token

    def closing(self, first: int) -> int:
        """Return the index of the parenthesis that closes the one at the index of a token."""
        depth = 0
        for number in range(first, len(self.tokens)):
            depth += _DEPTHS.get(self.tokens[number].token_type, 0)
            if depth == 0:
                return number
        raise InvalidInputError("SQL: a bracket is not closed")

    def token_at(self, position: int) -> int:
        """Return the index of the first token that begins at a position or later."""
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
    """Return the position of a node, for messages."""
    places = [one.meta for one in node.find_all(exp.Identifier) if "line" in one.meta]
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


def _words(text: str) -> list[Any]:
    """Return the tokens of a text, including those of commands that sqlglot does not split."""
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


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _alias(reference: Reference) -> str:
    if reference.node.alias or not reference.alias:
        return ""
    return f" AS `{reference.alias}`"
