"""Find ranges of rows that a filter cannot match, or that all match, from zone maps.

    x > 10                                    zone 0: x in [1, 9]    cannot match
                                              zone 1: x in [5, 12]   may match
    may be true / false / null, per zone      zone 2: x unknown      may match
                                              zone 3: x in [11, 15]  all rows match

Three questions are answered for every node: may it be true for some row of a zone, may it be false,
and may it be null? The second question answers NOT. All rows match if the filter can be neither
false nor null. Where nothing is known about a node, the answer is yes. So the answer is never
wrong, only sometimes of no use. Bounds may be wider than the values.

Bounds of floats do not include NaN, which is less or greater than all numbers. So each condition is
checked three times: for the numbers of a zone, for a NaN above all of them, and for one below. A
zone is skipped if none of the three can match:

    x < 5                   a negative NaN may match, in any zone
    x BETWEEN 5 AND 10      no NaN matches, so the bounds decide
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from operator import and_, or_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.expressions.compare import MIRRORED, OPPOSITE, is_zero, ordinals
from pilum.expressions.nodes import (
    And,
    Call,
    Column,
    Compare,
    Constant,
    Expression,
    InSet,
    IsNull,
    IsTruth,
    Like,
    Not,
    Or,
)
from pilum.expressions.patterns import Wildcard, like_parts
from pilum.expressions.types import FALSE, TRUE, scalar_of
from pilum.lazy import cached_property

__all__ = ["Matching", "Zones", "may_match", "zones_matching"]

Mask = NDArray[np.bool_]
_Integers = NDArray[Any]

_MAX_SET = 256
_MAX_FLOATS = 3
"""The number of float columns that are considered: each takes three times the work."""


@dataclass(frozen=True)
class Zones:
    """Zone maps of a column: what is known about adjacent ranges of its rows.

    Attributes:
        row_bounds: int64, shape (zones + 1,), first row of each zone and the end.
        least: No value is less, NaN excepted; null where that is unknown.
        most: No value is greater, NaN excepted; null where that is unknown.
        may_be_null: bool, shape (zones,), whether some row may be null.
        may_have_value: bool, same shape, whether some row may not be null.
        may_be_nan: bool, same shape, whether some row may be NaN; None if any may be.
    """

    row_bounds: NDArray[np.int64]
    least: pa.Array
    most: pa.Array
    may_be_null: Mask
    may_have_value: Mask
    may_be_nan: Mask | None = None

    @cached_property
    def integers(self) -> tuple[_Integers, _Integers] | None:
        """The bounds of integers and of times; None for other types.

        Where a bound is unknown, it is the least or the greatest integer.
        """
        kind = self.least.type
        if not (pt.is_integer(kind) or pt.is_temporal(kind)) or pt.is_interval(kind):
            return None
        least, most = _integers_of(self.least), _integers_of(self.most)
        limits = np.iinfo(least.dtype)
        return _filled(self.least, least, limits.min), _filled(self.most, most, limits.max)

    @cached_property
    def cases(self) -> tuple[Zones, ...]:
        """Zones by what rows may hold, numbers or a NaN, with floats as integers of that order."""
        if not pt.is_floating(self.least.type):
            return (self,)
        least, most = ordinals(self.least), ordinals(self.most)
        infinities = pa.array([-np.inf, np.inf], self.least.type)
        first, last = ordinals(infinities).to_pylist()
        width, size = least.type.bit_width, len(least)

        has_nan = self.may_have_value
        if self.may_be_nan is not None:
            has_nan = has_nan & self.may_be_nan

        def between(low: int, high: int) -> Zones:
            lower, upper = (pa.repeat(scalar_of(end, least.type), size) for end in (low, high))
            return replace(self, least=lower, most=upper, may_have_value=has_nan)

        return (
            replace(self, least=least, most=most),
            between(last + 1, 2 ** (width - 1) - 1),
            between(-(2 ** (width - 1)), first - 1),
        )


@dataclass(frozen=True, slots=True)
class Matching:
    """Zones that a filter matches.

    Attributes:
        may: Whether some row of each zone may match.
        sure_terms: Whether all rows of each zone match, for each term of an AND; of any other
            filter for the filter.
    """

    may: Mask
    sure_terms: tuple[Mask, ...]

    @property
    def must(self) -> Mask:
        """Whether all rows of each zone match."""
        return _all(self.sure_terms)

    @property
    def are_sure(self) -> list[bool]:
        """Whether each term is true for all rows of the zones that may match."""
        never = ~self.may
        return [bool((never | sure).all()) for sure in self.sure_terms]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Whether a condition may be true, false or null for some row of each zone."""

    true: Mask
    false: Mask
    null: Mask


def may_match(node: Expression, zones: Mapping[tuple[str, ...], Zones], num_zones: int) -> Mask:
    """Return whether some row of each zone may match, given zone maps by the path of the column."""
    return _any(_Pruner(case, num_zones).outcome(node).true for case in _cases(zones))


def zones_matching(
    node: Expression, zones: Mapping[tuple[str, ...], Zones], num_zones: int
) -> Matching:
    """Return which zones a filter may match, and of which all rows match."""
    terms = node.operands if isinstance(node, And) else (node,)
    may: list[Mask] = []
    unsure: list[list[Mask]] = [[] for _ in terms]
    for case in _cases(zones):
        pruner = _Pruner(case, num_zones)
        outcomes = [pruner.outcome(term) for term in terms]
        may.append(_all(outcome.true for outcome in outcomes))
        for outcome, of_term in zip(outcomes, unsure, strict=True):
            of_term.append(outcome.false | outcome.null)
    return Matching(_any(may), tuple(~_any(of_term) for of_term in unsure))


def _cases(zones: Mapping[tuple[str, ...], Zones]) -> Iterator[dict[tuple[str, ...], Zones]]:
    """Yield every combination of what rows may hold."""
    floats = [path for path, own in zones.items() if pt.is_floating(own.least.type)]
    if not floats:
        yield dict(zones)
        return
    others = {path: own for path, own in zones.items() if path not in floats}
    paths = floats[:_MAX_FLOATS]
    for case in product(*(zones[path].cases for path in paths)):
        yield others | dict(zip(paths, case, strict=True))


class _Pruner:
    def __init__(self, zones: Mapping[tuple[str, ...], Zones], num_zones: int) -> None:
        self._zones = zones
        self._num_zones = num_zones
        self._anything: Mask = np.ones(num_zones, dtype=np.bool_)
        self._unknown = _Outcome(self._anything, self._anything, self._anything)

    def outcome(self, node: Expression) -> _Outcome:
        match node:
            case And(operands=operands):
                found = [self.outcome(operand) for operand in operands]
                true, false = _all(o.true for o in found), _any(o.false for o in found)
                return _Outcome(true, false, _any(o.null for o in found))
            case Or(operands=operands):
                found = [self.outcome(operand) for operand in operands]
                true, false = _any(o.true for o in found), _all(o.false for o in found)
                return _Outcome(true, false, _any(o.null for o in found))
            case Not(operand=operand):
                inner = self.outcome(operand)
                return _Outcome(inner.false, inner.true, inner.null)
            case IsTruth(operand=operand, truth=truth):
                inner = self.outcome(operand)
                same, other = (inner.true, inner.false) if truth else (inner.false, inner.true)
                return _Outcome(same, other | inner.null, self._nothing)
            case IsNull(operand=Column(path=path)) if zones := self._zones.get(path):
                return _Outcome(zones.may_be_null, zones.may_have_value, self._nothing)
            case Compare(operator=operator, left=Column(path=path), right=Constant(value=value)):
                return self._compare(operator, path, value)
            case Compare(operator=operator, left=Constant(value=value), right=Column(path=path)):
                return self._compare(MIRRORED[operator], path, value)
            case InSet(operand=Column(path=path)) if zones := self._zones.get(path):
                return _Outcome(_in_set(zones, node), self._anything, self._anything)
            case Constant(value=value) if pt.is_boolean(value.type):
                return self._constant(value.as_py())
            case Column(path=path) if self._zones.get(path):
                return self._compare("=", path, scalar_of(True))
            case Like(operand=Column(path=path), pattern=Constant(value=value), ignore_case=False):
                match like_parts(value.as_py()) if value.is_valid else ():
                    case (str(prefix), *rest):
                        return self._prefix(path, value.type, prefix, rest == [Wildcard.ANY])
            case Call(name="starts_with", arguments=(Column(path=path), Constant(value=value))):
                if value.is_valid:
                    return self._prefix(path, value.type, value.as_py(), is_all=True)
        return self._unknown

    @property
    def _nothing(self) -> Mask:
        return np.zeros(self._num_zones, dtype=np.bool_)

    def _constant(self, value: bool | None) -> _Outcome:
        no, yes = self._nothing, self._anything
        return _Outcome(*(yes if value is case else no for case in (True, False, None)))

    def _compare(self, operator: str, path: tuple[str, ...], value: pa.Scalar) -> _Outcome:
        zones, ends = self._zones.get(path), _ends(value)
        if zones is None or zones.least.type != ends[0].type:
            return self._unknown
        if not value.is_valid:
            return self._constant(None)
        return _Outcome(
            _may_hold(operator, zones, *ends),
            _may_hold(OPPOSITE[operator], zones, *ends),
            zones.may_be_null,
        )

    def _prefix(
        self, path: tuple[str, ...], type: pa.DataType, prefix: str | bytes, is_all: bool
    ) -> _Outcome:
        """Return the outcome of a condition that is false without a prefix.

        With the prefix, it is true, or if not `is_all`, anything.
        """
        zones = self._zones.get(path)
        if zones is None or zones.least.type != type:
            return self._unknown
        begins, ends = (pc.starts_with(own, prefix) for own in (zones.least, zones.most))
        start = pa.scalar(prefix, type)
        true = zones.may_have_value & _or_unknown(
            pc.and_kleene(
                pc.or_(begins, pc.less_equal(zones.least, start)),
                pc.greater_equal(zones.most, start),
            )
        )
        both = _known(pc.and_(begins, ends), FALSE)
        false = zones.may_have_value & ~both if is_all else self._anything
        return _Outcome(true, false, zones.may_be_null)


def _ends(value: pa.Scalar) -> tuple[pa.Scalar, pa.Scalar]:
    """Return the least and greatest value that equal a constant: they differ for a float zero."""
    if not pt.is_floating(value.type):
        return value, value
    if is_zero(value):
        least, most = ordinals(pa.array([-0.0, 0.0], value.type))
        return least, most
    [own] = ordinals(pa.repeat(value, 1))
    return own, own


def _integers_of(values: pa.Array) -> _Integers:
    """Return integers, times and dates as the integers that are stored; anything for nulls."""
    form = "u" if pt.is_unsigned_integer(values.type) else "i"
    stored = np.frombuffer(values.buffers()[1], f"{form}{values.type.bit_width // 8}")
    return stored[values.offset : values.offset + len(values)]


def _integer_of(value: pa.Scalar) -> int:
    return int(value.as_py() if pt.is_integer(value.type) else value.value)


def _filled(ends: pa.Array, integers: _Integers, unknown: int) -> _Integers:
    """Replace the integers of nulls."""
    return np.where(ends.is_valid(), integers, unknown) if ends.null_count else integers


def _may_hold(operator: str, zones: Zones, low: pa.Scalar, high: pa.Scalar) -> Mask:
    """Return whether `column operator value` may be true; `value` equals all of `low` to `high`."""
    integers = zones.integers
    if integers is None:
        holds = _may_hold_values(operator, zones, low, high)
    else:
        holds = _may_hold_integers(operator, *integers, _integer_of(low), _integer_of(high))
    return zones.may_have_value & holds


def _may_hold_integers(
    operator: str, least: _Integers, most: _Integers, low: int, high: int
) -> Mask:
    match operator:
        case "<":
            holds = least < low
        case "<=":
            holds = least <= high
        case ">":
            holds = most > high
        case ">=":
            holds = most >= low
        case "=":
            holds = (least <= high) & (most >= low)
        case _:
            holds = (least < low) | (most > high)
    return np.asarray(holds)


def _may_hold_values(operator: str, zones: Zones, low: pa.Scalar, high: pa.Scalar) -> Mask:
    if operator == "<>":
        only = pc.and_(pc.greater_equal(zones.least, low), pc.less_equal(zones.most, high))
        return ~_known(only, FALSE)
    holds: list[Mask] = []
    if operator in _LEAST:
        holds.append(_or_unknown(_LEAST[operator](zones.least, low if operator == "<" else high)))
    if operator in _MOST:
        holds.append(_or_unknown(_MOST[operator](zones.most, high if operator == ">" else low)))
    return _all(holds)


_LEAST = {"<": pc.less, "<=": pc.less_equal, "=": pc.less_equal}
_MOST = {">": pc.greater, ">=": pc.greater_equal, "=": pc.greater_equal}


def _in_set(zones: Zones, node: InSet) -> Mask:
    """Return whether one of the values may be among the rows."""
    looked_up = ordinals(node.values) if pt.is_floating(node.values.type) else node.values
    if looked_up.type != zones.least.type:
        return zones.may_have_value
    if len(looked_up) == 0:
        return zones.may_have_value & False
    if zones.integers is not None:
        least, most = zones.integers
        values = np.sort(_integers_of(looked_up))
        first = values.searchsorted(least, side="left")
        stop = values.searchsorted(most, side="right")
        found: Mask = zones.may_have_value & (first < stop)
        return found
    if len(looked_up) <= _MAX_SET:
        return _any(_may_hold("=", zones, value, value) for value in looked_up)
    return zones.may_have_value


def _or_unknown(holds: pa.BooleanArray) -> Mask:
    return _known(holds, TRUE)


def _known(holds: pa.BooleanArray, unknown: pa.BooleanScalar) -> Mask:
    """Return a mask with a value where something is unknown, which is seldom the case."""
    found: Mask = np.asarray(pc.fill_null(holds, unknown) if holds.null_count else holds)
    return found


def _all(masks: Iterable[Mask]) -> Mask:
    return reduce(and_, masks)


def _any(masks: Iterable[Mask]) -> Mask:
    return reduce(or_, masks)
