"""The SQL dialect of Spark 4, with the statements of tables, and positions in the text.

The parser of sqlglot records where names are. This one also records where clauses are, which are
cut out of the text or replaced: queries, conditions, calls, versions and lists of columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import TokenType
from sqlglot.dialects.databricks import Databricks

from pilum.spark.statements.grammar import Words
from pilum.spark.statements.places import SPAN
from pilum.spark.statements.registry import STATEMENTS

__all__ = ["Spark4"]

_OWN_WORDS = ("EXPLAIN", "OPTIMIZE", "VACUUM")
_OWN_FUNCTIONS = ("SEARCH",)


class Spark4(Databricks):
    """Differences of Spark 4 from its predecessors: casts fail, a doubled quote is one quote."""

    class Tokenizer(Databricks.Tokenizer):
        """A tokenizer that splits all statements into words, with quotes in strings."""

        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012 - sqlglot requires this form
        KEYWORDS = {  # noqa: RUF012
            word: kind
            for word, kind in Databricks.Tokenizer.KEYWORDS.items()
            if word not in _OWN_WORDS
        }
        COMMANDS = Databricks.Tokenizer.COMMANDS - {TokenType.SHOW}

    class Parser(Databricks.Parser):  # type: ignore[valid-type, misc]  # not a class to mypy
        """A parser that asks the registered statements first."""

        FUNCTIONS = {  # noqa: RUF012
            name: build
            for name, build in Databricks.Parser.FUNCTIONS.items()
            if name not in _OWN_FUNCTIONS
        }

        def _parse_statement(self) -> Any:
            words, start = Words(self), self._index
            for rule in STATEMENTS:
                if rule.parse is None:
                    continue
                found = rule.parse(words)
                if found is not None:
                    words.end()
                    return found
                self._retreat(start)
            if self._match(TokenType.SHOW):
                return self._parse_as_command(self._prev)
            return super()._parse_statement()

        def _parse_ddl_select(self, *args: Any, **keywords: Any) -> Any:
            return self._spanned(super()._parse_ddl_select, *args, **keywords)

        def _parse_derived_table_values(self, *args: Any, **keywords: Any) -> Any:
            return self._spanned(super()._parse_derived_table_values, *args, **keywords)

        def _parse_function_call(self, *args: Any, **keywords: Any) -> Any:
            return self._spanned(super()._parse_function_call, *args, **keywords)

        def _parse_schema(self, this: Any = None) -> Any:
            return self._spanned(super()._parse_schema, this)

        def _parse_table(self, *args: Any, **keywords: Any) -> Any:
            return self._spanned(super()._parse_table, *args, **keywords)

        def _parse_version(self) -> Any:
            return self._spanned(super()._parse_version)

        def _parse_where(self, *args: Any, **keywords: Any) -> Any:
            return self._spanned(super()._parse_where, *args, **keywords)

        def _parse_with(self, *args: Any, **keywords: Any) -> Any:
            return self._spanned(super()._parse_with, *args, **keywords)

        def _spanned(self, parse: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
            """Parse a node and record where it begins and ends."""
            first, index = self._curr, self._index
            node = parse(*args, **keywords)
            if node is not None and self._index > index:
                node.meta[SPAN] = (first.start, self._prev.end + 1)
            return node
