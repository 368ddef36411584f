"""Conditions: a filter as queries that indices can answer, and parts that they cannot.

    a > 1 AND a <= 5 AND (b = 'x' OR c IS NULL) AND length(s) = 9

    AllOf
    ├── Ask(a, Between(1, 5, includes_low=False))
    ├── AnyOf
    │   ├── Ask(b, IsIn('x'))
    │   └── Ask(c, IsNull)
    └── Unknown

A condition is true wherever the filter is. A part that no query expresses is `Unknown`, and a query
that is true for further rows is not exact. Ranges and sets of values of one column are merged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.expressions import nodes
from pilum.expressions.compare import MIRRORED, OPPOSITE, is_zero, ordinals
from pilum.expressions.geometry.bounds import bounds_of
from pilum.expressions.geometry.relations import OVERLAPPING
from pilum.expressions.nodes import Call, Column, Compare, Constant, Expression, InSet
from pilum.expressions.patterns import Wildcard, like_parts, required_texts
from pilum.expressions.types import array_of, scalar_of
from pilum.expressions.words import words_of
from pilum.index.queries import (
    AtPath,
    Between,
    HasAll,
    HasAny,
    HasTexts,
    HasWords,
    InBox,
    IsIn,
    IsNull,
    Query,
    StartsWith,
)

__all__ = [
    "AllOf",
    "AnyOf",
    "Ask",
    "Condition",
    "Indexed",
    "Negation",
    "OneOf",
    "Truth",
    "Unknown",
    "condition_of",
]


@dataclass(frozen=True, slots=True)
class Indexed:
    """The values that an index may contain.

    Attributes:
        path: The name of the column, then of each member below it.
        json_path: The name of a member of JSON documents; None for other columns.
        json_type: The type of its values.
    """

    path: tuple[str, ...]
    json_path: str | None = None
    json_type: pa.DataType | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """Base of all conditions."""


@dataclass(frozen=True, slots=True)
class Ask(Condition):
    """A query for one column.

    Attributes:
        indexed: The values to search.
        query: The query.
        is_exact: Whether it is true, false and null for the same rows as the filter's part;
            otherwise it is true for further rows.
    """

    indexed: Indexed
    query: Query
    is_exact: bool = True

    @property
    def of_column(self) -> Query:
        """The query for an index of the column."""
        where, kind = self.indexed.json_path, self.indexed.json_type
        return self.query if where is None or kind is None else AtPath((where,), kind, self.query)


@dataclass(frozen=True, slots=True)
class OneOf(Condition):
    """Several conditions, each of which is true wherever the filter's part is; one suffices."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AllOf(Condition):
    """All of the parts, as AND."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf(Condition):
    """Any of the parts, as OR."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Negation(Condition):
    """The negation of an exact part."""

    part: Condition


@dataclass(frozen=True, slots=True)
class Truth(Condition):
    """True where the part is true, otherwise false; never null."""

    part: Condition


@dataclass(frozen=True, slots=True)
class Unknown(Condition):
    """A part that no query expresses."""


_UNKNOWN = Unknown()


def condition_of(node: Expression) -> Condition:
    """Return the condition of a bound filter; `Unknown` if no part of it can be a query."""
    if type(node) is Compare:  # the common case
        return _compared(node.operator, node.left, node.right)
    match node:
        case nodes.And(operands=operands):
            return _all_of(map(condition_of, operands))
        case nodes.Or(operands=operands):
            return _any_of(map(condition_of, operands))
        case nodes.Not(operand=nodes.Or(operands=operands)):
            return _all_of(condition_of(nodes.Not(operand)) for operand in operands)
        case nodes.Not(operand=Compare(operator=operator, left=left, right=right)):
            return _compared(OPPOSITE[operator], left, right)
        case nodes.Not(operand=operand):
            return _negated(condition_of(operand))
        case nodes.IsTruth(operand=operand, truth=truth):
            part = condition_of(operand)
            return _truth(part if truth else _negated(part))
        case nodes.IsNull(operand=operand) if indexed := _indexed(operand):
            return Ask(indexed, IsNull())
        case nodes.Distinct(left=left, right=right):
            return _negated(_truth(_compared("=", left, right)))
        case InSet(operand=operand, values=values, has_null=has_null):
            # `a IN (1, NULL)` is true for 1, but null for all other values.
            indexed = _indexed(operand)
            return Ask(indexed, IsIn(values), not has_null) if indexed else _UNKNOWN
        case nodes.Like(operand=operand, pattern=Constant(value=pattern), ignore_case=False):
            indexed = _indexed(operand)
            return _like(indexed, pattern) if indexed and pattern.is_valid else _UNKNOWN
        case Call(name=name, arguments=(operand, Constant(value=value))) if name in _CALLS:
            indexed = _indexed(operand)
            return _CALLS[name](indexed, value) if indexed and value.is_valid else _UNKNOWN
        case Call(name=name, arguments=(left, right)) if name in OVERLAPPING:
            return _overlapping(left, right)
        case Column():  # of booleans
            return _compared("=", node, Constant(scalar_of(True)))
    return _UNKNOWN


def _indexed(node: Expression) -> Indexed | None:
    match node:
        case Column(path=path) | nodes.Geometry(operand=Column(path=path)):
            return Indexed(path)
        case Call(name=name, arguments=(Column(path=path), Constant(value=where))) if (
            name in _JSON and where.is_valid
        ):
            return Indexed(path, str(where.as_py()), _JSON[name])
    return None


_JSON = {
    "json_get_string": pa.string(),
    "json_get_int": pa.int64(),
    "json_get_float": pa.float64(),
    "json_get_bool": pa.bool_(),
}


_ROUNDED_UP = 1 + 1e-12
"""A distance is computed with some rounding."""

_LEAST_MARGIN = 1e-150
"""The squares of smaller differences are 0, and so is the distance."""


def _compared(operator: str, left: Expression, right: Expression) -> Condition:
    if isinstance(left, Constant):
        left, right, operator = right, left, MIRRORED[operator]
    if isinstance(left, Call) and left.name == "st_distance" and operator in {"<", "<="}:
        return _close(left, right)
    indexed = Indexed(left.path) if type(left) is Column else _indexed(left)
    if indexed is None or not isinstance(right, Constant) or not right.value.is_valid:
        return _UNKNOWN
    if pt.is_nested(right.value.type):  # no index orders lists
        return _UNKNOWN
    if operator == "<>":
        return Negation(_equal(indexed, right.value))
    if operator == "=":
        return _equal(indexed, right.value)
    value = _outer_zero(operator, right.value) if _is_float_zero(right.value) else right.value
    if operator in {"<", "<="}:
        return Ask(indexed, Between(high=value, includes_high=operator == "<="))
    return Ask(indexed, Between(low=value, includes_low=operator == ">="))


def _equal(indexed: Indexed, value: pa.Scalar) -> Condition:
    kind = value.type
    if pt.is_floating(kind) and is_zero(value):
        return Ask(indexed, IsIn(array_of([scalar_of(-0.0, kind), scalar_of(0.0, kind)], kind)))
    return Ask(indexed, IsIn(pa.repeat(value, 1)))


def _is_float_zero(value: pa.Scalar) -> bool:
    return bool(pt.is_floating(value.type)) and is_zero(value)


def _outer_zero(operator: str, zero: pa.Scalar) -> pa.Scalar:
    """Return the zero at which a range ends: a constant that is zero equals both zeros."""
    return scalar_of(-0.0 if operator in {"<", ">="} else 0.0, zero.type)


def _like(indexed: Indexed, pattern: pa.Scalar) -> Condition:
    parts = like_parts(pattern.as_py())
    literals = [part for part in parts if isinstance(part, str)]
    if not parts or parts == (literals[0] if literals else None,):
        text = scalar_of(literals[0] if literals else "", pattern.type)
        return Ask(indexed, IsIn(array_of([text], pattern.type)))
    if not literals:
        return _UNKNOWN
    texts = HasTexts(tuple(literals))
    if isinstance(parts[0], str):
        is_prefix = parts[1:] == (Wildcard.ANY,)
        starts = Ask(indexed, StartsWith(parts[0]), is_prefix)
        return OneOf((starts, Ask(indexed, texts, False)))
    return Ask(indexed, texts, parts == (Wildcard.ANY, literals[0], Wildcard.ANY))


def _starts_with(indexed: Indexed, value: pa.Scalar) -> Condition:
    text = value.as_py()
    if not text:
        return _UNKNOWN
    return OneOf((Ask(indexed, StartsWith(text)), Ask(indexed, HasTexts((text,)), False)))


def _contains(indexed: Indexed, value: pa.Scalar) -> Condition:
    return Ask(indexed, HasTexts((value.as_py(),))) if value.as_py() else _UNKNOWN


def _ends_with(indexed: Indexed, value: pa.Scalar) -> Condition:
    return Ask(indexed, HasTexts((value.as_py(),)), False) if value.as_py() else _UNKNOWN


def _matches(indexed: Indexed, value: pa.Scalar) -> Condition:
    texts = required_texts(value.as_py())
    return Ask(indexed, HasTexts(texts), False) if texts else _UNKNOWN


def _has_words(indexed: Indexed, value: pa.Scalar) -> Condition:
    words = tuple(words_of(value.as_py()))
    return Ask(indexed, HasWords(words), False) if words else _UNKNOWN


def _has(indexed: Indexed, value: pa.Scalar) -> Condition:
    return Ask(indexed, HasAny(array_of([value], value.type)))


def _has_any(indexed: Indexed, values: pa.Scalar) -> Condition:
    found = values.values
    return Ask(indexed, HasAny(found)) if len(found) and not found.null_count else _UNKNOWN


def _has_all(indexed: Indexed, values: pa.Scalar) -> Condition:
    found = values.values
    return Ask(indexed, HasAll(found)) if len(found) and not found.null_count else _UNKNOWN


def _close(distance: Call, limit: Expression) -> Condition:
    """Return the query for geometries that may be closer than a limit to a constant."""
    left, right = distance.arguments
    most = limit.value.as_py() if isinstance(limit, Constant) else None
    if most is None or not 0 <= most < math.inf:
        return _UNKNOWN
    return _overlapping(left, right, max(float(most) * _ROUNDED_UP, _LEAST_MARGIN))


def _overlapping(left: Expression, right: Expression, margin: float = 0.0) -> Condition:
    """Return the query for the bounding box of a constant, which is on either side.

    Args:
        left: One side.
        right: The other side.
        margin: The box is larger by so much on each side.
    """
    if isinstance(left, Constant):
        left, right = right, left
    indexed = _indexed(left)
    if indexed is None or not isinstance(right, Constant) or not right.value.is_valid:
        return _UNKNOWN
    low_x, low_y, high_x, high_y = bounds_of(pa.repeat(right.value, 1))[0].tolist()
    if any(map(math.isnan, (low_x, low_y, high_x, high_y))):
        return _UNKNOWN
    if margin:
        low_x, low_y = (math.nextafter(end - margin, -math.inf) for end in (low_x, low_y))
        high_x, high_y = (math.nextafter(end + margin, math.inf) for end in (high_x, high_y))
    return Ask(indexed, InBox((low_x, low_y, high_x, high_y)), is_exact=False)


_CALLS: dict[str, Callable[[Indexed, pa.Scalar], Condition]] = {
    "starts_with": _starts_with,
    "ends_with": _ends_with,
    "contains": _contains,
    "contains_tokens": _has_words,
    "regexp_like": _matches,
    "array_has": _has,
    "array_has_any": _has_any,
    "array_has_all": _has_all,
}


def _negated(part: Condition) -> Condition:
    match part:
        case Negation(part=inner):
            return inner
        case Unknown() | Ask(is_exact=False):
            return _UNKNOWN
    return Negation(part)


def _truth(part: Condition) -> Condition:
    return part if isinstance(part, Unknown | Truth) else Truth(part)


def _all_of(parts: Iterable[Condition]) -> Condition:
    flat = [one for part in parts for one in (part.parts if isinstance(part, AllOf) else (part,))]
    merged = [_without_empty_range(part) for part in _merged(flat, Between, _both)]
    return _connected(AllOf, [one for one in merged if one != _UNKNOWN], _UNKNOWN in merged)


def _any_of(parts: Iterable[Condition]) -> Condition:
    flat = [one for part in parts for one in (part.parts if isinstance(part, AnyOf) else (part,))]
    if _UNKNOWN in flat:
        return _UNKNOWN
    return _connected(AnyOf, _merged(flat, IsIn, _either), False)


def _connected(kind: type[AllOf | AnyOf], parts: list[Condition], has_unknown: bool) -> Condition:
    if not parts:
        return _UNKNOWN
    if has_unknown:
        parts = [*parts, _UNKNOWN]
    return parts[0] if len(parts) == 1 else kind(tuple(parts))


def _merged(
    parts: list[Condition], kind: type[Query], merge: Callable[[Query, Query], Query]
) -> list[Condition]:
    """Merge exact queries of one kind for one column into the first of them."""
    groups: dict[object, list[Condition]] = {}
    for number, part in enumerate(parts):
        is_ask = isinstance(part, Ask) and part.is_exact and isinstance(part.query, kind)
        key = part.indexed if isinstance(part, Ask) and is_ask else number
        groups.setdefault(key, []).append(part)
    merged: list[Condition] = []
    for group in groups.values():
        first = group[0]
        if isinstance(first, Ask) and len(group) > 1:
            queries = [part.query for part in group if isinstance(part, Ask)]
            first = replace(first, query=reduce(merge, queries))
        merged.append(first)
    return merged


def _either(left: Query, right: Query) -> Query:
    assert isinstance(left, IsIn)
    assert isinstance(right, IsIn)
    return IsIn(pa.concat_arrays([left.values, right.values]))


def _both(left: Query, right: Query) -> Query:
    """Return the range of the values that are in two ranges."""
    assert isinstance(left, Between)
    assert isinstance(right, Between)
    low = _later((left.low, left.includes_low), (right.low, right.includes_low))
    high = _earlier((left.high, left.includes_high), (right.high, right.includes_high))
    return Between(low[0], high[0], low[1], high[1])


def _without_empty_range(part: Condition) -> Condition:
    match part:
        case Ask(query=Between(low=low, high=high, includes_low=first, includes_high=last)):
            if low is None or high is None:
                return part
            if _is_less(high, low) or not (_is_less(low, high) or (first and last)):
                return replace(part, query=IsIn(pa.nulls(0, low.type)))
    return part


_End = tuple[pa.Scalar | None, bool]


def _later(left: _End, right: _End) -> _End:
    """Return the lower end that leaves fewer values."""
    if left[0] is None or right[0] is None:
        return right if left[0] is None else left
    if _is_less(left[0], right[0]) or _is_less(right[0], left[0]):
        return right if _is_less(left[0], right[0]) else left
    return left[0], left[1] and right[1]


def _earlier(left: _End, right: _End) -> _End:
    """Return the upper end that leaves fewer values."""
    if left[0] is None or right[0] is None:
        return right if left[0] is None else left
    if _is_less(left[0], right[0]) or _is_less(right[0], left[0]):
        return left if _is_less(left[0], right[0]) else right
    return left[0], left[1] and right[1]


def _is_less(left: pa.Scalar, right: pa.Scalar) -> bool:
    if pt.is_floating(left.type):
        left, right = ordinals(array_of([left, right], left.type))
    return bool(pc.less(left, right).as_py())
