"""Split a filter into sets of values of single columns, which pages can answer, and the rest.

    (a > 1 AND a < 5 OR a IS NULL) AND NOT (s LIKE 'x%' OR b = 3) AND a + b = 7

    AllOf    a in {null, 2..4}
             s in {texts without the prefix 'x'}
             b in {numbers other than 3}
    rest     a + b = 7

What cannot be split may still imply a set, for which rows are tested before the rest:

    a = 1 AND f(s) OR a = 2    implies    a in {1, 2}

A condition on one column is a set of values, to which null may belong. A filter keeps the rows for
which it is true, so two sets are built: the values for which a node is true, and, below NOT, those
for which it is false. With null, most nodes are neither. AND, OR and NOT of conditions on one
column become one set; those of several columns become a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pilum.expressions.compare import MIRRORED, is_zero
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
from pilum.expressions.types import scalar_of
from pilum.kernels import Condition

__all__ = ["AllOf", "AnyOf", "ColumnMask", "Mask", "column_masks", "split_filter"]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnMask:
    """A condition on one column.

    Attributes:
        path: The name of the column, then of each member below it.
        condition: The set of values for which the condition is true.
        node: An expression that is true for the same values, where pages cannot answer.
        is_hard: Whether the values are texts, whose test takes longer.
    """

    path: tuple[str, ...]
    condition: Condition
    node: Expression
    is_hard: bool


@dataclass(frozen=True, slots=True, eq=False)
class AllOf:
    """The rows of which all parts are true; the cheaper parts come first."""

    parts: tuple[Mask, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AnyOf:
    """The rows of which any part is true; the cheaper parts come first."""

    parts: tuple[Mask, ...]


Mask: TypeAlias = ColumnMask | AllOf | AnyOf
"""Which rows match, by conditions on single columns."""


Path: TypeAlias = tuple[str, ...]
"""The name of a column, then of each member below it."""


def split_filter(
    node: Expression, without: Collection[Path] = ()
) -> tuple[Mask | None, Expression | None]:
    """Return what pages can answer of a bound filter, and the rest; None for nothing.

    A row matches if both are true.

    Args:
        node: The filter.
        without: Columns that have no pages, or nested ones.
    """
    terms = node.operands if isinstance(node, And) else (node,)
    masks, rest = [], []
    splitter = _Splitter(without) if without else _EXACT
    for term in terms:
        mask = splitter.mask(term, truth=True)
        if mask is None:
            rest.append(term)
            mask = _Splitter(without, is_wider=True).mask(term, truth=True)
        if mask is not None:
            masks.append(mask)
    together = _combined(masks, is_all=True) if masks else None
    if not rest:
        return together, None
    return together, rest[0] if len(rest) == 1 else And(tuple(rest))


def column_masks(mask: Mask) -> Iterable[ColumnMask]:
    """Yield the conditions of a tree."""
    if isinstance(mask, ColumnMask):
        yield mask
        return
    for part in mask.parts:
        yield from column_masks(part)


@dataclass(frozen=True, slots=True)
class _Splitter:
    """Finds what pages can answer.

    Attributes:
        without: Columns that have no pages, or nested ones.
        is_wider: Whether further rows may be returned, where pages can answer only some conditions.
    """

    without: Collection[Path]
    is_wider: bool = False

    def mask(self, node: Expression, *, truth: bool) -> Mask | None:
        """Return the rows for which a node is true, or false; None if pages cannot answer that."""
        match node:
            case And(operands=operands) | Or(operands=operands):
                parts = [self.mask(operand, truth=truth) for operand in operands]
                known = [part for part in parts if part is not None]
                is_all = isinstance(node, And) == truth
                is_known = len(known) == len(parts) or (self.is_wider and is_all and known)
                return _combined(known, is_all=is_all) if is_known else None
            case Not(operand=operand):
                return self.mask(operand, truth=not truth)
            case IsTruth(operand=operand, truth=wanted):
                if truth:
                    return self.mask(operand, truth=wanted)
                inner = _Splitter(self.without).mask(operand, truth=wanted)
                if not isinstance(inner, ColumnMask):
                    return None
                return ColumnMask(inner.path, ~inner.condition, Not(node), inner.is_hard)
        leaf = _leaf(node, truth=truth)
        return None if leaf is None or leaf.path in self.without else leaf


_EXACT = _Splitter(())


def _combined(masks: list[Mask], *, is_all: bool) -> Mask:
    """Return AND or OR of masks; those of one column become one."""
    kind = AllOf if is_all else AnyOf
    flat = [part for mask in masks for part in (mask.parts if isinstance(mask, kind) else (mask,))]
    of_columns: dict[tuple[str, ...], list[ColumnMask]] = {}
    for mask in flat:
        if isinstance(mask, ColumnMask):
            of_columns.setdefault(mask.path, []).append(mask)
    columns = [_of_column(own, is_all=is_all) for own in of_columns.values()]
    columns.sort(key=lambda mask: mask.is_hard)
    parts = (*columns, *(mask for mask in flat if not isinstance(mask, ColumnMask)))
    return parts[0] if len(parts) == 1 else kind(parts)


def _of_column(masks: list[ColumnMask], *, is_all: bool) -> ColumnMask:
    """Return AND or OR of conditions on one column, combined in pairs."""
    if len(masks) == 1:
        return masks[0]
    nodes = tuple(mask.node for mask in masks)
    conditions = [mask.condition for mask in masks]
    while len(conditions) > 1:
        pairs = zip(conditions[::2], conditions[1::2], strict=False)
        left = conditions[len(conditions) // 2 * 2 :]
        conditions = [one & two if is_all else one | two for one, two in pairs] + left
    node = And(nodes) if is_all else Or(nodes)
    return ColumnMask(masks[0].path, conditions[0], node, any(mask.is_hard for mask in masks))


_VALUES, _NULL = Condition.every(True, False), Condition.every(False, True)
_NOTHING = Condition.every(False, False)


def _leaf(node: Expression, *, truth: bool) -> ColumnMask | None:
    """Return a condition on one column; None if the node is none, or of no known type."""
    found = _sets(node)
    if found is None or any("." in name for name in found.path):
        return None  # the path of a column with a dot in its name is not unique
    condition = found.true if truth else found.false
    if condition is None:
        condition = ~found.true & _VALUES
    return ColumnMask(found.path, condition, node if truth else Not(node), found.is_hard)


class _Sets(NamedTuple):
    """The path of a column, whether it has texts, for which values a node is true, and false.

    Where `false` is None, the node is false for all other values.
    """

    path: tuple[str, ...]
    is_hard: bool
    true: Condition
    false: Condition | None = None


def _sets(node: Expression) -> _Sets | None:
    match node:
        case IsNull(operand=Column(path=path)):
            return _Sets(path, False, _NULL, _VALUES)
        case Column(path=path):
            return _of_values(path, pa.bool_(), _compared("=", scalar_of(True)))
        case Compare(operator=operator, left=Column(path=path), right=Constant(value=value)):
            return _comparison(path, operator, value)
        case Compare(operator=operator, left=Constant(value=value), right=Column(path=path)):
            return _comparison(path, MIRRORED[operator], value)
        case InSet(operand=Column(path=path), values=values, has_null=has_null):
            found = _of_values(path, values.type, _among(values))
            return found._replace(false=_NOTHING) if found and has_null else found
        case Like(operand=Column(path=path), pattern=Constant(value=value), ignore_case=ignored):
            if not value.is_valid:
                return _Sets(path, True, _NOTHING, _NOTHING)
            pattern = value.as_py()
            like = _like_ignoring_case(pattern) if ignored else _like(pattern)
            return _of_values(path, value.type, like)
        case Call(name=name, arguments=(Column(path=path), Constant(value=value))):
            if name in _AROUND and value.is_valid and _is_bytes(value.type):
                return _of_values(path, value.type, _AROUND[name](_raw(value)))
    return None


_AROUND: dict[str, Callable[[bytes], Condition]] = {
    "starts_with": lambda text: Condition.texts_like(text, [], b""),
    "ends_with": lambda text: Condition.texts_like(b"", [], text),
    "contains": lambda text: Condition.texts_like(b"", [text], b""),
}
"""Functions that test texts for a part."""


def _of_values(path: tuple[str, ...], arrow: pa.DataType, true: Condition | None) -> _Sets | None:
    """Return the sets of a node that is false for all other values, and null for null."""
    return None if true is None else _Sets(path, _is_bytes(arrow), true)


def _comparison(path: tuple[str, ...], operator: str, value: pa.Scalar) -> _Sets | None:
    if not value.is_valid:
        return _Sets(path, False, _NOTHING, _NOTHING)
    return _of_values(path, value.type, _compared(operator, value))


def _compared(operator: str, value: pa.Scalar) -> Condition | None:
    """Return the values for which a comparison with a constant is true."""
    within = _within(value.type)
    if within is None:
        return None
    low, high = _ends(value)
    match operator:
        case "=":
            return Condition.texts_among([low]) if _is_bytes(value.type) else within(low, high)
        case "<>":
            equal = _compared("=", value)
            return equal and ~equal & _VALUES
        case "<":
            return ~within(low, None) & _VALUES
        case "<=":
            return within(None, high)
        case ">":
            return ~within(None, high) & _VALUES
    return within(low, None)


_Within: TypeAlias = Callable[[bytes | None, bytes | None], Condition]
"""A function that returns the set of the values between two, both included."""


def _within(arrow: pa.DataType) -> _Within | None:
    if _is_bytes(arrow):
        return Condition.texts_within
    order = _ORDERS.get(arrow.id)
    if order is None:
        return None
    return lambda low, high: Condition.numbers_within(order, arrow.bit_width, low, high)


_SIGNED = {kind.id: True for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())} | {
    kind.id: False for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
}
"""Whether integers are signed, by the id of their type."""

_ORDERS = {
    **{id: "signed" if is_signed else "unsigned" for id, is_signed in _SIGNED.items()},
    **{kind.id: "float" for kind in (pa.float16(), pa.float32(), pa.float64())},
    **{kind(1).id: "signed" for kind in (pa.decimal32, pa.decimal64, pa.decimal128)},
    **{kind.id: "signed" for kind in (pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns"))},
    **{kind.id: "signed" for kind in (pa.timestamp("s"), pa.duration("s"))},
    pa.bool_().id: "unsigned",
}
"""How the stored words of types are ordered, by the id of the type; others are no numbers.

A few lookups take less time than to ask Arrow what a type is.
"""

_BYTES = frozenset(
    kind.id for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
)
"""The ids of types of texts and bytes."""


def _is_bytes(arrow: pa.DataType) -> bool:
    return arrow.id in _BYTES


def _ends(value: pa.Scalar) -> tuple[bytes, bytes]:
    """Return the least and greatest value that equal a constant: they differ for a float zero."""
    if pt.is_floating(value.type) and is_zero(value):
        least, most = (_raw(scalar_of(zero, value.type)) for zero in (-0.0, 0.0))
        return least, most
    own = _raw(value)
    return own, own


def _raw(value: pa.Scalar) -> bytes:
    """Return a value as it is stored."""
    if _is_bytes(value.type):
        return bytes(value.as_buffer())
    is_signed = _SIGNED.get(value.type.id)
    if is_signed is not None:
        return int(value.as_py()).to_bytes(value.type.bit_width // 8, "little", signed=is_signed)
    if pt.is_boolean(value.type):
        return bytes([value.as_py()])
    return _bytes_of(pa.repeat(value, 1)).tobytes()


def _bytes_of(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    width = values.type.bit_width // 8
    data = np.frombuffer(values.buffers()[1], np.uint8)
    return data[values.offset * width : (values.offset + len(values)) * width]


def _among(values: pa.Array) -> Condition | None:
    """Return the set of the given values, none of which is null."""
    if _is_bytes(values.type):
        return Condition.texts_among(values.cast(pa.large_binary()).to_pylist())
    order = _ORDERS.get(values.type.id)
    if order is None:
        return None
    if len(values) == 0:
        return _NOTHING
    if pt.is_boolean(values.type):
        first, *others = [_compared("=", value) for value in values.unique()]
        return first | others[0] if first and others and others[0] else first
    return Condition.numbers_among(order, values.type.bit_width, _bytes_of(values))


def _like(pattern: str) -> Condition | None:
    """Return the texts that match a pattern."""
    parts = like_parts(pattern)
    if Wildcard.ONE in parts:
        return _by_character(parts, ignores_case=False)
    texts = [part.encode() for part in parts if isinstance(part, str)]
    if Wildcard.ANY not in parts:
        return Condition.texts_among(texts or [b""])
    prefix = texts.pop(0) if isinstance(parts[0], str) else b""
    suffix = texts.pop() if isinstance(parts[-1], str) else b""
    return Condition.texts_like(prefix, texts, suffix)


def _like_ignoring_case(pattern: str) -> Condition | None:
    """Return the texts that match a pattern, whatever the case; None if it is not ASCII."""
    return _by_character(like_parts(pattern), ignores_case=True) if pattern.isascii() else None


def _by_character(parts: tuple[str | Wildcard, ...], *, ignores_case: bool) -> Condition | None:
    """Return the texts that match a pattern; None if it does not begin with a text.

    Few characters of most texts are then compared; otherwise, Arrow is faster.
    """
    if not parts or isinstance(parts[0], Wildcard):
        return None
    return Condition.texts_matching(_numbered(parts), ignores_case)


def _numbered(parts: Iterable[str | Wildcard]) -> list[tuple[str, int | None]]:
    """Return parts of a pattern with the number of characters of a wildcard, 0 for any."""
    counts = {Wildcard.ONE: 1, Wildcard.ANY: 0}
    return [("", counts[part]) if isinstance(part, Wildcard) else (part, None) for part in parts]
