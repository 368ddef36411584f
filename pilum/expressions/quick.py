"""Parse the simplest filters without sqlglot, whose import and parser cost more than a lookup.

    id = 5        name >= 'a' AND `group` < 'b'        id IN (1, 2, 3)
    name LIKE 'a%'        contains(name, 'ab')        array_has_any(labels, ['a', 'b'])
    st_within(place, st_geomfromtext('POLYGON((…))'))

Everything else is left to `pilum.expressions.parse`, which gives the same nodes for these filters.
"""

from __future__ import annotations

import re

from pilum.expressions.nodes import And, Call, Column, Compare, Expression, InList, Like, Literal

__all__ = ["integers_sought", "quick_parse"]

_WORD = r"(?!(?:{})\b)[a-z_][a-z0-9_]*".format(
    "all|and|any|array|as|between|binary|case|cast|char|date|distinct|div|else|end|escape|exists|"
    "false|filter|for|from|ilike|in|interval|is|isnull|like|map|not|notnull|null|operator|or|over|"
    "row|select|some|struct|table|then|time|timestamp|true|try_cast|union|unnest|values|when|"
    "with|x"
)
_NAME = rf"({_WORD}|`[^`]+`)"
_INTEGER = r"-?[0-9]{1,18}"
_TEXT = r"'[^'\\]*'"
_ITEMS = rf"(?:{_INTEGER}\s*,\s*)*{_INTEGER}|(?:{_TEXT}\s*,\s*)*{_TEXT}"
_END = r"\s*(?:$|(and)\b)"
_FLAGS = re.IGNORECASE | re.ASCII
_COMPARISON = re.compile(
    rf"\s*{_NAME}\s*(=|<>|!=|<=|>=|<|>|\blike\b)\s*({_INTEGER}|{_TEXT}){_END}", _FLAGS
)
_CALL = re.compile(
    r"\s*(contains|contains_tokens|starts_with|ends_with|regexp_like|array_has|array_has_any|"
    rf"array_has_all)\s*\(\s*{_NAME}\s*,\s*(?:({_INTEGER}|{_TEXT})|\[\s*({_ITEMS})\s*\])\s*\){_END}",
    _FLAGS,
)
_RELATION = re.compile(
    rf"\s*(st_[a-z]+)\s*\(\s*{_NAME}\s*,\s*(st_geomfromtext)\s*\(\s*({_TEXT})\s*\)\s*\){_END}",
    _FLAGS,
)
_IN = re.compile(rf"\s*{_NAME}\s+in\s*\(\s*({_ITEMS})\s*\)\s*$", _FLAGS)
_EQUALITY = re.compile(rf"\s*({_WORD})\s*=\s*({_INTEGER})\s*", _FLAGS)
_MEMBERSHIP = re.compile(
    rf"\s*({_WORD})\s+in\s*\(\s*((?:{_INTEGER}\s*,\s*)*{_INTEGER})\s*\)\s*", _FLAGS
)
_OPERATORS = frozenset({"=", "<>", "!=", "<=", ">=", "<", ">"})
_ITEM = re.compile(_TEXT)


def integers_sought(text: str) -> tuple[str, list[int]] | None:
    """Return the column and the integers of `column = integer` or `column IN (integers)`.

    None for any other filter.
    """
    if found := _EQUALITY.fullmatch(text):
        return found[1], [int(found[2])]
    found = _MEMBERSHIP.fullmatch(text)
    return None if found is None else (found[1], list(map(int, found[2].split(","))))


def quick_parse(text: str) -> Expression | None:
    """Parse comparisons and calls with constants, connected by AND, or one IN; else None."""
    if found := _IN.match(text):
        return InList(_column(found[1]), _literals(found[2]))
    terms: list[Expression] = []
    start = 0
    while True:
        if found := _COMPARISON.match(text, start):
            term = _compared(found[1], found[2], _literal(found[3]))
        elif found := _CALL.match(text, start):
            term = _called(found)
        elif found := _RELATION.match(text, start):
            term = _related(found)
        else:
            return None
        if term is None:
            return None
        terms.append(term)
        if found[found.re.groups] is None:
            return terms[0] if len(terms) == 1 else And(tuple(terms))
        start = found.end()


def _compared(name: str, operator: str, value: Literal) -> Expression | None:
    column = _column(name)
    if operator in _OPERATORS:
        return Compare("<>" if operator == "!=" else operator, column, value)
    return Like(column, value, ignore_case=False) if isinstance(value.value, str) else None


def _called(found: re.Match[str]) -> Expression:
    name, column, plain, items = found.group(1, 2, 3, 4)
    value = _literal(plain) if items is None else Call("make_array", _literals(items))
    return Call(name.lower(), (_column(column), value))


def _related(found: re.Match[str]) -> Expression:
    name, column, make, text = found.group(1, 2, 3, 4)
    return Call(name.lower(), (_column(column), Call(make.lower(), (_literal(text),))))


def _column(name: str) -> Column:
    return Column((name[1:-1],), quoted=True) if name.startswith("`") else Column((name,))


def _literals(text: str) -> tuple[Literal, ...]:
    if "'" not in text:
        return tuple(map(Literal, map(int, text.split(","))))
    return tuple(map(_literal, _ITEM.findall(text)))


def _literal(text: str) -> Literal:
    return Literal(text[1:-1] if text.startswith("'") else int(text))
