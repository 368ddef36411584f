"""The SQL of Lance filters, as a dialect of sqlglot.

It is what users of the reference write, read from DataFusion's SQL with two departures:

    'text' "text"   both are strings; a quote is doubled to stand in one, the backslash is plain
    `name`          a column whose name is not a word

Functions are left as they are written: which exist is our table, not sqlglot's.
Source: docs/format/filters.md.
"""

from __future__ import annotations

from sqlglot import parser, tokens
from sqlglot.dialects.dialect import Dialect

__all__ = ["LanceFilter"]


class LanceFilter(Dialect):
    """Tokens and grammar of filters and of projected expressions."""

    class Tokenizer(tokens.Tokenizer):
        """Quotes and backquotes."""

        IDENTIFIERS = ["`"]
        QUOTES = ["'", '"']
        STRING_ESCAPES = ["'", '"']
        HEX_STRINGS = [("x'", "'"), ("X'", "'")]

    class Parser(parser.Parser):
        """Every function but the casts is an anonymous one."""

        FUNCTIONS = {}
        NO_PAREN_FUNCTIONS = {}
        FUNCTION_PARSERS = {
            name: parser.Parser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")
        }
