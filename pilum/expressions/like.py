r"""Patterns of LIKE.

    %       any text             a%     starts with       \%, \_, \\, \x     the character itself
    _       one character        %a%    contains          a\       a backslash at the end is one

Arrow's own `match_like` treats a backslash next to `%` as text, and drops one at the end. Patterns
are therefore split here, and Arrow gets literals or regular expressions.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from itertools import groupby
from typing import Any

import pyarrow.compute as pc

from pilum.expressions.plain import scalar_of

__all__ = ["match_like", "quoted"]


class _Wildcard(Enum):
    ANY = "(?s:.*)"
    ONE = "(?s:.)"


_Part = str | _Wildcard
"""Literal text, or a wildcard."""


def match_like(text: Any, pattern: str, ignore_case: bool) -> Any:
    """Return which values match a pattern of LIKE; null where the value is null.

    Args:
        text: An array or scalar of text.
        pattern: A pattern with `%`, `_` and the backslash as escape of any character.
        ignore_case: Whether letters that differ in case only are equal, as for ILIKE.
    """
    match _parts(pattern):
        case () if not ignore_case:
            return pc.equal(text, scalar_of("", text.type))
        case (str(literal),) if not ignore_case:
            return pc.equal(text, scalar_of(literal, text.type))
        case (str(literal), _Wildcard.ANY):
            return pc.starts_with(text, pattern=literal, ignore_case=ignore_case)
        case (_Wildcard.ANY, str(literal)):
            return pc.ends_with(text, pattern=literal, ignore_case=ignore_case)
        case (_Wildcard.ANY, str(literal), _Wildcard.ANY):
            return pc.match_substring(text, pattern=literal, ignore_case=ignore_case)
        case parts:
            regex = "".join(quoted(part) if isinstance(part, str) else part.value for part in parts)
            return pc.match_substring_regex(text, pattern=rf"\A{regex}\z", ignore_case=ignore_case)


@lru_cache(maxsize=64)
def _parts(pattern: str) -> tuple[_Part, ...]:
    """Split a pattern; adjacent literals and adjacent `%` become one part."""
    parts: list[_Part] = []
    for is_text, group in groupby(_characters(pattern), lambda part: isinstance(part, str)):
        run = list(group)
        parts += ["".join(map(str, run))] if is_text else run
    return tuple(
        part
        for index, part in enumerate(parts)
        if not (part is _Wildcard.ANY and index and parts[index - 1] is _Wildcard.ANY)
    )


def _characters(pattern: str) -> list[_Part]:
    found: list[_Part] = []
    characters = iter(pattern)
    for character in characters:
        match character:
            case "%":
                found.append(_Wildcard.ANY)
            case "_":
                found.append(_Wildcard.ONE)
            case "\\":
                found.append(next(characters, "\\"))
            case _:
                found.append(character)
    return found


def quoted(text: str) -> str:
    """Return the regular expression that matches a text."""
    return "".join(
        character if character.isalnum() or ord(character) > 127 else f"\\x{ord(character):02x}"
        for character in text
    )
