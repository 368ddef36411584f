"""Which ranges of rows a filter cannot match, by what is known about them.

    x > 10 AND NOT (s IN ('a', 'b'))          zone 0: x in [1, 9]    cannot match
                                              zone 1: x in [5, 12]   may match
    may be true / may be false, per zone      zone 2: x unknown      may match

Every node is asked twice: may it be true for some row of a zone, and may it be false? The second
question answers NOT. Whatever a node does not know about itself, it may be; so the answer is never
wrong, only sometimes of no use. Bounds may be wider than the values, and floats are ordered as in
`pilum.expressions.evaluate`: NaN is greater than all other values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.expressions.nodes import (
    And,
    Column,
    Compare,
    Constant,
    Expression,
    InSet,
    IsNull,
    IsTruth,
    Not,
    Or,
)
from pilum.expressions.plain import FALSE, TRUE, scalar_of

__all__ = ["Zones", "may_match"]

Mask = NDArray[np.bool_]

_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MAX_SET = 256


@dataclass(frozen=True, slots=True)
class Zones:
    """What is known about a column in ranges of rows that follow each other.

    Attributes:
        row_bounds: int64, shape (zones + 1,), first row of each zone and the end.
        least: No value is less; null where that is unknown.
        most: No value is greater, NaN excepted; null where that is unknown.
        may_be_null: bool, shape (zones,), whether some row may be null.
        may_have_value: bool, same shape, whether some row may not be null.
    """

    row_bounds: NDArray[np.int64]
    least: pa.Array
    most: pa.Array
    may_be_null: Mask
    may_have_value: Mask


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Whether a condition may be true, or false, for some row of each zone."""

    true: Mask
    false: Mask


def may_match(node: Expression, zones: Mapping[tuple[str, ...], Zones], num_zones: int) -> Mask:
    """Whether some row of each zone may match.

    Args:
        node: A bound filter.
        zones: By the path of the column; columns that nothing is known about are left out.
        num_zones: How many zones all of them have, with the same rows.
    """
    return _Pruner(zones, num_zones).outcome(node).true


class _Pruner:
    def __init__(self, zones: Mapping[tuple[str, ...], Zones], num_zones: int) -> None:
        self._zones = zones
        self._anything = np.ones(num_zones, dtype=np.bool_)

    def outcome(self, node: Expression) -> _Outcome:
        match node:
            case And(operands=operands):
                found = [self.outcome(operand) for operand in operands]
                return _Outcome(_all(o.true for o in found), _any(o.false for o in found))
            case Or(operands=operands):
                found = [self.outcome(operand) for operand in operands]
                return _Outcome(_any(o.true for o in found), _all(o.false for o in found))
            case Not(operand=operand):
                inner = self.outcome(operand)
                return _Outcome(inner.false, inner.true)
            case IsTruth(operand=operand, truth=truth):
                inner = self.outcome(operand)
                return _Outcome(inner.true if truth else inner.false, self._anything)
            case IsNull(operand=Column(path=path)) if zones := self._zones.get(path):
                return _Outcome(zones.may_be_null, zones.may_have_value)
            case Compare(operator=operator, left=Column(path=path), right=Constant(value=value)):
                return self._compare(operator, path, value)
            case Compare(operator=operator, left=Constant(value=value), right=Column(path=path)):
                return self._compare(_MIRRORED[operator], path, value)
            case InSet(operand=Column(path=path)) if zones := self._zones.get(path):
                return _Outcome(_in_set(zones, node), self._anything)
            case Constant(value=value) if pt.is_boolean(value.type):
                return _Outcome(self._anything & bool(value.as_py()), self._anything)
            case Column(path=path) if zones := self._zones.get(path):
                return self._compare("=", path, scalar_of(True))
        return _Outcome(self._anything, self._anything)

    def _compare(self, operator: str, path: tuple[str, ...], value: pa.Scalar) -> _Outcome:
        zones = self._zones.get(path)
        if zones is None or zones.least.type != value.type:
            return _Outcome(self._anything, self._anything)
        if not value.is_valid:
            return _Outcome(~self._anything, ~self._anything)
        return _Outcome(
            _may_hold(operator, zones, value), _may_hold(_OPPOSITE[operator], zones, value)
        )


def _may_hold(operator: str, zones: Zones, value: pa.Scalar) -> Mask:
    """Whether `column operator value` may be true, for a value that is not null."""
    floating = pt.is_floating(value.type)
    if floating and value.as_py() != value.as_py():
        return zones.may_have_value
    known = zones.may_have_value
    if operator in {"<", "<=", "="}:
        known = known & _or_unknown(_LEAST[operator](zones.least, value))
    # A NaN, which bounds say nothing about, is greater than any value.
    if (operator in {">", ">="} and not floating) or operator == "=":
        known = known & _or_unknown(_MOST[operator](zones.most, value))
    if operator == "<>" and not floating:
        only = pc.and_(pc.equal(zones.least, value), pc.equal(zones.most, value))
        known = known & ~np.asarray(pc.fill_null(only, FALSE))
    return known


_LEAST = {"<": pc.less, "<=": pc.less_equal, "=": pc.less_equal}
_MOST = {">": pc.greater, ">=": pc.greater_equal, "=": pc.greater_equal}


def _in_set(zones: Zones, node: InSet) -> Mask:
    """Whether one of the values may be among the rows."""
    if node.values.type != zones.least.type:
        return zones.may_have_value
    if len(node.values) == 0:
        return zones.may_have_value & False
    if pt.is_integer(node.values.type) and not (zones.least.null_count or zones.most.null_count):
        values = np.sort(node.values.to_numpy())
        first = values.searchsorted(zones.least.to_numpy(), side="left")
        behind = values.searchsorted(zones.most.to_numpy(), side="right")
        found: Mask = zones.may_have_value & (first < behind)
        return found
    if len(node.values) <= _MAX_SET:
        return _any(_may_hold("=", zones, value) for value in node.values)
    return zones.may_have_value


def _or_unknown(holds: pa.BooleanArray) -> Mask:
    found: Mask = np.asarray(pc.fill_null(holds, TRUE))
    return found


def _all(masks: Iterable[Mask]) -> Mask:
    found: Mask = np.logical_and.reduce(list(masks))
    return found


def _any(masks: Iterable[Mask]) -> Mask:
    found: Mask = np.logical_or.reduce(list(masks))
    return found
