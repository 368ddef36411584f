r"""Patterns of text: LIKE, and the texts that a match of a regular expression has to contain.

Patterns of LIKE, which are split here so that Arrow gets literals or regular expressions (its own
`match_like` treats a backslash next to `%` as text, and drops one at the end):

    %       any text             a%     starts with       \%, \_, \\, \x     the character itself
    _       one character        %a%    contains          a\       a backslash at the end is one

A regular expression is only surveyed, to find out which texts every match contains:

    \d+ab(c|d)ef?gh        "ab", "e", "gh"        alternatives and repetitions end a text
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from itertools import groupby
from typing import Any

import pyarrow.compute as pc

from pilum.expressions.types import scalar_of

__all__ = ["Wildcard", "like_parts", "match_like", "quoted", "required_texts"]


class Wildcard(Enum):
    """A wildcard of LIKE, as a regular expression."""

    ANY = "(?s:.*)"
    ONE = "(?s:.)"


Part = str | Wildcard
"""Literal text, or a wildcard."""


def match_like(text: Any, pattern: str, ignore_case: bool) -> Any:
    """Return which values match a pattern of LIKE; null where the value is null.

    Args:
        text: An array or scalar of text.
        pattern: A pattern with `%`, `_` and the backslash as escape of any character.
        ignore_case: Whether letters that differ in case only are equal, as for ILIKE.
    """
    match like_parts(pattern):
        case () if not ignore_case:
            return pc.equal(text, scalar_of("", text.type))
        case (str(literal),) if not ignore_case:
            return pc.equal(text, scalar_of(literal, text.type))
        case (str(literal), Wildcard.ANY):
            return pc.starts_with(text, pattern=literal, ignore_case=ignore_case)
        case (Wildcard.ANY, str(literal)):
            return pc.ends_with(text, pattern=literal, ignore_case=ignore_case)
        case (Wildcard.ANY, str(literal), Wildcard.ANY):
            return pc.match_substring(text, pattern=literal, ignore_case=ignore_case)
        case parts:
            regex = "".join(quoted(part) if isinstance(part, str) else part.value for part in parts)
            return pc.match_substring_regex(text, pattern=rf"\A{regex}\z", ignore_case=ignore_case)


@lru_cache(maxsize=64)
def like_parts(pattern: str) -> tuple[Part, ...]:
    """Split a pattern; adjacent literals and adjacent `%` become one part."""
    parts: list[Part] = []
    for is_text, group in groupby(_characters(pattern), lambda part: isinstance(part, str)):
        run = list(group)
        parts += ["".join(map(str, run))] if is_text else run
    return tuple(
        part
        for index, part in enumerate(parts)
        if not (part is Wildcard.ANY and index and parts[index - 1] is Wildcard.ANY)
    )


def _characters(pattern: str) -> list[Part]:
    found: list[Part] = []
    characters = iter(pattern)
    for character in characters:
        match character:
            case "%":
                found.append(Wildcard.ANY)
            case "_":
                found.append(Wildcard.ONE)
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


_TOKEN = re.compile(
    r"""(?xs)
    (?P<escaped>\\[^\w]) | (?P<class>\[\^?\]?(?:\\.|[^\[\]\\])*\]|\\[dwsDWS])
    | (?P<position>[\^$]|\\[bBAz]) | (?P<open>\((?:\?:)?(?!\?)) | (?P<close>\))
    | (?P<either>\|) | (?P<repeat>(?:[*+?]|\{\d+,?\d*\})[?+]?)
    | (?P<any>\.) | (?P<plain>[^\\\[\](){}|])
    """
)
"""The parts of the regular expressions that are surveyed; others contain none of these."""
_AT_LEAST_ONCE = re.compile(r"\+|\{0*[1-9]")


def required_texts(pattern: str) -> tuple[str, ...]:
    """Return texts that every match of a regular expression contains; none if that is unclear."""
    texts, depth, end = [""], 0, 0
    for token in _TOKEN.finditer(pattern):
        if token.start() != end:
            return ()
        end, kind, text = token.end(), token.lastgroup, token.group()
        depth += (kind == "open") - (kind == "close")
        if kind == "either" and depth == 0:
            return ()
        if depth or kind == "close":
            texts.append("")
        elif kind in {"plain", "escaped"}:
            texts[-1] += text[-1]
        else:
            if kind == "repeat" and not _AT_LEAST_ONCE.match(text):
                texts[-1] = texts[-1][:-1]
            texts.append("")
    return tuple(filter(None, texts)) if end == len(pattern) and depth == 0 else ()
