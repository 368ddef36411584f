r"""Comparisons of values, and LIKE. Floats follow the total order of IEEE 754.

    value     -nan     -inf     -1.0     -0.0     0.0     1.0     inf     nan
    bits      ff…      ff…      bf…      80…      00…     3f…     7f…     7f…

Positive floats are ordered like their bits as signed integers, and each negative float is less.
Negative floats have the opposite order of their bits as unsigned integers, and each positive float
is less. So a constant needs one comparison of integers. A constant that is zero equals both zeros;
otherwise -0.0 is less than 0.0. A NaN equals a NaN of the same bits.

Patterns of LIKE, which are split here so that Arrow gets literals or regular expressions (its own
`match_like` treats a backslash next to `%` as text, and drops one at the end):

    %       any text             a%     starts with       \%, \_, \\, \x     the character itself
    _       one character        %a%    contains          a\       a backslash at the end is one
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.expressions.types import scalar_of

__all__ = ["MIRRORED", "OPPOSITE", "bits", "compare", "is_zero", "match_like", "ordinals", "quoted"]

_COMPARE: dict[str, Callable[..., Any]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator that means the same with its sides exchanged."""
OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The operator that is true where the first one is false."""

_SIGNED = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_UNSIGNED = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


def bits(values: pa.Array) -> pa.Array:
    """Return floats as the signed integers that have the same bits."""
    return values.view(_SIGNED[values.type.bit_width])


def ordinals(values: pa.Array) -> pa.Array:
    """Return signed integers that are ordered as the floats are."""
    signed = bits(values)
    flipped = pc.bit_wise_xor(signed, scalar_of(2 ** (signed.type.bit_width - 1) - 1, signed.type))
    return pc.if_else(pc.less(signed, scalar_of(0, signed.type)), flipped, signed)


def is_zero(value: pa.Scalar) -> bool:
    """Return whether a float is 0.0 or -0.0."""
    return bool(value.is_valid and value.as_py() == 0)


def compare(operator: str, left: Any, right: Any) -> Any:
    """Compare two arrays or scalars of one type; null where a side is null."""
    if not pt.is_floating(left.type):
        return _COMPARE[operator](left, right)
    if isinstance(right, pa.Scalar):
        if isinstance(left, pa.Scalar):
            return _with_constant(operator, pa.repeat(left, 1), right)[0]
        return _with_constant(operator, left, right)
    if isinstance(left, pa.Scalar):
        return _with_constant(MIRRORED[operator], right, left)
    return _in_total_order(operator, bits(left), bits(right))


def _in_total_order(operator: str, left: pa.Array, right: pa.Array) -> pa.Array:
    result = _COMPARE[operator](left, right)
    if operator in {"=", "<>"}:
        return result
    # Of two negative floats, the one with the lesser bits is the greater.
    are_negative = pc.less(pc.bit_wise_and(left, right), scalar_of(0, left.type))
    return pc.xor(result, pc.and_(are_negative, pc.not_equal(left, right)))


def _with_constant(operator: str, values: pa.Array, constant: pa.Scalar) -> pa.Array:
    if is_zero(constant):
        if operator in {"=", "<>"}:
            magnitude = pc.shift_left(_unsigned(values), scalar_of(1, _unsigned(values).type))
            return _COMPARE[operator](magnitude, scalar_of(0, magnitude.type))
        # The zeros are one value: the range of the operator begins or ends at the outer zero.
        constant = scalar_of(-0.0 if operator in {"<", ">="} else 0.0, constant.type)
    own = pa.repeat(constant, 1)
    if constant.is_valid and bits(own)[0].as_py() < 0:
        return _COMPARE[MIRRORED[operator]](_unsigned(values), _unsigned(own)[0])
    return _COMPARE[operator](bits(values), bits(own)[0])


def _unsigned(values: pa.Array) -> pa.Array:
    return values.view(_UNSIGNED[values.type.bit_width])


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
