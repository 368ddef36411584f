r"""JSONPath: the paths of `json_extract`, `json_exists` and the functions of JSON arrays.

    $.name   name   $:name       the member of an object; letters, digits and _
    $."a b"  $["a b"]            any name; a quote in it is written \"
    $.*                          all members
    $[0]  $[last]  $[last - 1]   an item of an array
    $[0, 2]  $[1 to last]        several items
    $[*]                         all items; a value that is no array is taken as it is

A path selects any number of values. `$` may be left out. Conditions (`?(…)`), `**` and computed
values are not supported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

from pilum.errors import FilterError

__all__ = ["Step", "parse_path"]

Step: TypeAlias = "str | tuple[str] | list[tuple[int, int]]"
"""A member, all `("members",)` or `("items",)`, or ranges of items; see the kernel."""

_NAME = r'\w+|"(?:[^"\\]|\\.)*"'
_QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'[^'\\]*'"
_NUMBER = r"\+?\d{1,9}|-\s*\d{1,9}|last(?:\s*[-+]\s*\d{1,9})?"
_SPAN = rf"\s*(?:{_NUMBER})\s*(?:\bto\s+(?:{_NUMBER})\s*)?"
_STEP = re.compile(
    rf"\s*(?:[.:](?:(?P<star>\*(?!\*))|(?P<name>{_NAME}))"
    rf"|\[\s*(?:(?P<items>\*)|(?P<key>{_QUOTED}))\s*\]"
    rf"|\[(?P<spans>{_SPAN}(?:,{_SPAN})*)\])"
)
_REFUSED = {"?": "conditions", "**": "'**'", ".**": "'**'"}


@lru_cache(maxsize=64)
def parse_path(function: str, path: str) -> tuple[Step, ...]:
    """Return the steps of a path.

    Raises:
        FilterError: If it cannot be parsed, or has a part that filters do not have.
    """
    return tuple(_steps(function, path))


def _steps(function: str, path: str) -> Iterator[Step]:
    text = path.strip()
    rest = text.removeprefix("$") if text.startswith("$") else text
    if rest and not text.startswith("$") and re.match(r"\w", rest):
        rest = f".{rest}"
    while rest.strip():
        found = _STEP.match(rest)
        if found is None:
            raise _refusal(function, path, rest.strip())
        try:
            yield _step(found)
        except json.JSONDecodeError:  # an escape that JSON does not have
            raise _refusal(function, path, rest.strip()) from None
        rest = rest[found.end() :]


def _step(found: re.Match[str]) -> Step:
    if found["star"]:
        return ("members",)
    if found["items"]:
        return ("items",)
    if found["spans"]:
        return [_span(one) for one in found["spans"].split(",")]
    name = found["name"] or found["key"]
    if name.startswith("'"):
        return name[1:-1]
    return str(json.loads(name)) if name.startswith('"') else name


def _span(text: str) -> tuple[int, int]:
    """Return the first and the last item of a range, counted from the end if they are negative."""
    ends = [_number(end) for end in re.split(r"\bto\b", text)]
    if None in ends:
        return (1, 0)  # no item
    first, last = ends[0], ends[-1]
    assert first is not None
    assert last is not None
    return (first, last)


def _number(text: str) -> int | None:
    """Return the number of an item, -1 for the last one; None for numbers that no item has."""
    plain = text.replace(" ", "")
    if not plain.startswith("last"):
        return int(plain) if not plain.startswith("-") else None
    distance = int(plain.removeprefix("last") or 0)
    return distance - 1 if distance <= 0 else None


def _refusal(function: str, path: str, rest: str) -> FilterError:
    for start, what in _REFUSED.items():
        if rest.startswith(start):
            return FilterError(f"{function}: paths with {what} are not supported: {path!r:.200}")
    return FilterError(
        f"{function}: the path {path!r:.200} cannot be parsed at {rest[:40]!r}; a path is like "
        "$.name[0].name"
    )
