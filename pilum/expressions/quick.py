"""Parse the simplest filters without sqlglot, whose import and parser cost more than a lookup.

    id = 5        name >= 'a' AND name < 'b'        id IN (1, 2, 3)

Everything else is left to `pilum.expressions.parse`, which gives the same nodes for these filters.
"""

from __future__ import annotations

import re

from pilum.expressions.nodes import And, Column, Compare, Expression, InList, Literal

__all__ = ["quick_parse"]

_NAME = r"(?!(?:{})\b)([a-z_][a-z0-9_]*)".format(
    "all|and|any|array|as|between|binary|case|cast|char|date|distinct|div|else|end|escape|exists|"
    "false|filter|for|from|ilike|in|interval|is|isnull|like|map|not|notnull|null|operator|or|over|"
    "row|select|some|struct|table|then|time|timestamp|true|try_cast|union|unnest|values|when|"
    "with|x"
)
_INTEGER = r"-?[0-9]{1,18}"
_TEXT = r"'[^'\\]*'"
_COMPARISON = re.compile(
    rf"\s*{_NAME}\s*(=|<>|!=|<=|>=|<|>)\s*({_INTEGER}|{_TEXT})\s*(?:$|(and)\b)",
    re.IGNORECASE | re.ASCII,
)
_IN = re.compile(
    rf"\s*{_NAME}\s+in\s*\(\s*((?:{_INTEGER}\s*,\s*)*{_INTEGER}|(?:{_TEXT}\s*,\s*)*{_TEXT})\s*\)\s*$",
    re.IGNORECASE | re.ASCII,
)
_ITEM = re.compile(rf"{_INTEGER}|{_TEXT}")


def quick_parse(text: str) -> Expression | None:
    """Parse comparisons of columns with constants, connected by AND, or one IN; else None."""
    if found := _IN.match(text):
        items = tuple(map(_literal, _ITEM.findall(found[2])))
        return InList(Column((found[1],)), items)
    terms: list[Expression] = []
    start = 0
    while found := _COMPARISON.match(text, start):
        operator = "<>" if found[2] == "!=" else found[2]
        terms.append(Compare(operator, Column((found[1],)), _literal(found[3])))
        if found[4] is None:
            return terms[0] if len(terms) == 1 else And(tuple(terms))
        start = found.end()
    return None


def _literal(text: str) -> Literal:
    return Literal(text[1:-1] if text.startswith("'") else int(text))
