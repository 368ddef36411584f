"""Rules of statements, and the words from which they read what sqlglot does not parse.

OPTIMIZE orders ZORDER BY (a, b)

take("OPTIMIZE")  table()  take("ZORDER", "BY")  columns()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql import DataFrame
from sqlglot import exp

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["Rule", "Words", "property_text"]


@dataclass(frozen=True)
class Rule:
    """A statement: its node in the tree of sqlglot, and the function that executes it.

    Attributes:
        node: Class of the node.
        run: Executes the statement and returns its result.
        kind: The kind of the node, such as "TABLE" for `DROP TABLE`; empty if it has none.
        parse: Parses the statement if sqlglot does not; returns None if it is another statement.
    """

    node: type[Any]
    run: Callable[[Call], DataFrame]
    kind: str = ""
    parse: Callable[[Words], exp.Expression | None] | None = None

    def is_for(self, tree: Any) -> bool:
        """Return whether a tree is a statement of this rule."""
        kind = str(tree.args.get("kind") or "").upper()
        return isinstance(tree, self.node) and (not self.kind or kind == self.kind)


class Words:
    """The words of a statement, read from the left by its grammar."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    def take(self, *words: str) -> bool:
        """Read some words, if they come next."""
        return bool(self._parser._match_text_seq(*words))

    def need(self, *words: str) -> None:
        """Read some words, or refuse the statement."""
        if not self.take(*words):
            self.refuse(" ".join(words))

    def has_ended(self) -> bool:
        """Return whether no word is left."""
        return not self._parser._curr

    def end(self) -> None:
        """Refuse the statement if a word is left."""
        if not self.has_ended():
            self.refuse("the end of the statement")

    def table(self) -> exp.Table:
        """Read the name of a table."""
        found = None if self.has_ended() else self._parser._parse_table_parts(schema=True)
        if not isinstance(found, exp.Table):
            self.refuse("the name of a table")
        return found

    def shown_table(self) -> exp.Table:
        """Read the name of a table, perhaps after FROM, IN or ON."""
        any(self.take(word) for word in ("FROM", "IN", "ON"))
        return self.table()

    def name(self) -> exp.Identifier:
        """Read one name."""
        found = None if self.has_ended() else self._parser._parse_id_var()
        if not isinstance(found, exp.Identifier):
            self.refuse("a name")
        return found

    def columns(self) -> list[Any]:
        """Read columns with commas between them, in parentheses or not."""
        parser = self._parser
        found = parser._parse_wrapped_csv(parser._parse_column, optional=True)
        if not found or not all(isinstance(one, exp.Column) for one in found):
            self.refuse("columns")
        return list(found)

    def number(self) -> int:
        """Read a whole number."""
        found = self._parser._parse_number()
        if not isinstance(found, exp.Literal) or not found.name.isdigit():
            self.refuse("a whole number")
        return int(found.name)

    def string(self) -> str:
        """Read a text in quotes."""
        found = self._parser._parse_string()
        if not isinstance(found, exp.Literal):
            self.refuse("a text in quotes")
        return str(found.name)

    def properties(self) -> list[Any]:
        """Read `(name = value, …)`; also `(name value, …)` and `('name' = 'value')`."""
        return list(self._parser._parse_wrapped_csv(self._property))

    def keys(self) -> list[str]:
        """Read `(name, …)` of properties."""
        return [property_text(one) for one in self._parser._parse_wrapped_csv(self._property_name)]

    def version(self) -> exp.Version | None:
        """Read `VERSION AS OF …` or `TIMESTAMP AS OF …`, if it comes next."""
        found: exp.Version | None = self._parser._parse_version()
        return found

    def where(self) -> exp.Where | None:
        """Read `WHERE condition`, if it comes next."""
        found: exp.Where | None = self._parser._parse_where()
        return found

    def query(self) -> Any:
        """Read a query; return None if another statement comes next."""
        found = self._parser._parse_statement()
        return found if isinstance(found, exp.Query) else None

    def refuse(self, expected: str) -> NoReturn:
        """Raise the error for an unexpected word."""
        parser = self._parser
        found = repr(parser._curr.text) if parser._curr else "the end of the statement"
        parser.raise_error(f"expected {expected}, found {found}")
        raise AssertionError("sqlglot raises errors of its parser")

    def _property(self) -> exp.Property:
        name = self._property_name()
        self.take("=")
        return exp.Property(this=name, value=self._parser._parse_primary() or self._property_name())

    def _property_name(self) -> Any:
        parser = self._parser
        return parser._parse_string() or parser._parse_column() or self.refuse("a property")


def property_text(node: Any) -> str:
    """Return the key or the value of a property, however it is written."""
    if isinstance(node, exp.Boolean):
        return str(bool(node.this)).lower()
    if isinstance(node, exp.Literal | exp.Identifier | exp.Var):
        return str(node.name)
    if isinstance(node, exp.Neg):
        return "-" + property_text(node.this)
    parts = node.flatten() if isinstance(node, exp.Dot) else getattr(node, "parts", [])
    return ".".join(part.name for part in parts) or str(node.sql(dialect="spark"))
