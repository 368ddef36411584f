"""The SQL of Lance filters, as a dialect of sqlglot.

It is what users of the reference write: DataFusion's SQL with two differences:

    'text' "text"   both are strings; a quote inside is doubled, the backslash is plain
    `name`          a column whose name is not a word

Functions are kept as they are written: our table decides which ones exist, not sqlglot's.
Source: docs/format/filters.md.
"""

from __future__ import annotations

from sqlglot import parser, tokens
from sqlglot.dialects.dialect import Dialect

__all__ = ["LanceFilter"]


class LanceFilter(Dialect):
    """The tokens and grammar of filters and of projected expressions."""

    class Tokenizer(tokens.Tokenizer):
        """A tokenizer with the quotes and backquotes of the dialect."""

        IDENTIFIERS = ["`"]
        QUOTES = ["'", '"']
        STRING_ESCAPES = ["'", '"']
        HEX_STRINGS = [("x'", "'"), ("X'", "'")]

    class Parser(parser.Parser):
        """A parser in which every function except the casts is an anonymous one."""

        FUNCTIONS = {}
        NO_PAREN_FUNCTIONS = {}
        FUNCTION_PARSERS = {
            name: parser.Parser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")
        }
