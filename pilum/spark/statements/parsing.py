"""Parse a text into a statement, if it names a table of pilum or can be one of its statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from pilum.errors import InvalidInputError
from pilum.spark.catalog import Names
from pilum.spark.statements.dialect import Spark4
from pilum.spark.statements.places import described
from pilum.spark.statements.references import FORMATS, Statement
from pilum.spark.statements.versions import TABLE_FUNCTIONS

__all__ = ["parsed"]


def parsed(text: str, tables: Mapping[str, str] | Names) -> Statement | None:
    """Parse a text; return None if it names no pilum table and cannot be one of its statements.

    Raises:
        InvalidInputError: If a text that names a pilum table does not parse.
    """
    names = tables if isinstance(tables, Names) else Names.of(None, tables)
    try:
        tokens = list(Spark4().tokenize(text))
    except SqlglotError as error:
        if any(f"{name}." in text.lower() for name in FORMATS):
            raise InvalidInputError(f"SQL: {error}") from error
        return None
    if not _may_name(tokens, names):
        return None
    try:
        trees = Spark4().parser().parse(tokens, text)
    except SqlglotError as error:
        if not _is_named(tokens, names):
            return None
        raise InvalidInputError(described(error)) from error
    if len(trees) != 1 or trees[0] is None:
        if not _is_named(tokens, names):
            return None
        raise InvalidInputError(f"SQL: expected one statement, found {len(trees)}")
    return Statement(text, trees[0], names)


def _may_name(tokens: Sequence[Token], names: Names) -> bool:
    """Return whether a text may name a table, or list those that are attached."""
    if tokens and tokens[0].token_type is TokenType.SHOW and names.words:
        return True
    words = FORMATS | TABLE_FUNCTIONS
    return any(token.text.lower() in words for token in tokens) or _is_named(tokens, names)


def _is_named(tokens: Sequence[Token], names: Names) -> bool:
    words = [token.text.lower() for token in tokens]
    quoted = [token.token_type is TokenType.IDENTIFIER for token in tokens]
    paths = (
        word in FORMATS and words[number + 1 : number + 2] == ["."] and quoted[number + 2]
        for number, word in enumerate(words[:-2])
    )
    known = names.words
    return any(paths) or any(word in known for word in words)
