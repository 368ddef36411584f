"""The functions of lists: which items they contain, single items, and lists of values.

    array_has(l, 2)                l [1, 2, 3]  true      []  false     null  null
    array_has_any(l, [5, null])    l [null, 1]  true      a null item equals a null item
    array_has_all(l, [1, 2])       l [1, 2, 3]  true
    l[1], l[-1]                    the first and the last item; null where there is none
    array_position(l, 3)           l [1, 2, 3]  3         []  null      [4]   null
    [1, 2] < [1, 3] < [2], [1] < [1, 0], [null] < [0]

Items are equal as values are in filters, except that 0.0 does not equal -0.0: floats are equal if
their bits are. Lists are compared item by item; a null item is less than others and equals a null
item.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.errors import FilterError
from pilum.expressions.compare import bits, ordinals
from pilum.expressions.types import FALSE, scalar_of

__all__ = [
    "cast_lists",
    "compare_lists",
    "has",
    "has_all",
    "has_any",
    "is_empty",
    "is_list",
    "item",
    "list_of",
    "list_scalar",
    "position",
]

Datum = Any
"""The input and output of Arrow kernels: pa.Array or pa.Scalar."""


def is_list(arrow: pa.DataType) -> bool:
    """Return whether values are lists, of any kind but maps."""
    return bool(pt.is_list(arrow) or pt.is_large_list(arrow) or pt.is_fixed_size_list(arrow))


def list_scalar(values: pa.Array) -> pa.Scalar:
    """Return one list of values."""
    return pa.ListArray.from_arrays(pa.array(np.array([0, len(values)], np.int32)), values)[0]


def cast_lists(lists: Datum, target: pa.DataType, cast: Callable[..., Datum]) -> Datum:
    """Return lists of any kind as lists of another kind.

    Args:
        lists: The lists.
        target: Their new type.
        cast: Function that casts the items to a type.

    Raises:
        FilterError: If a list has not as many items as the new type.
    """
    if isinstance(lists, pa.Scalar):
        return cast_lists(pa.repeat(lists, 1), target, cast)[0]
    items = cast(pc.list_flatten(lists), target.value_type)
    is_null = lists.is_null()
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    if not pt.is_fixed_size_list(target):
        width = np.int64 if pt.is_large_list(target) else np.int32
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(width)
        kind = pa.LargeListArray if pt.is_large_list(target) else pa.ListArray
        return kind.from_arrays(pa.array(offsets), items, type=target, mask=is_null)
    size, has_list = target.list_size, ~np.asarray(is_null)
    wrong = lengths[has_list & (lengths != size)]
    if len(wrong):
        raise FilterError(f"a list of {wrong[0]} items, where the type has {size}: {target}")
    places = np.zeros((len(lists), size), np.int64)
    places[has_list] = np.arange(len(items)).reshape(-1, size)
    missing = np.broadcast_to(~has_list[:, np.newaxis], places.shape)
    filled = items.take(pa.array(places.reshape(-1), mask=missing.reshape(-1)))
    return pa.FixedSizeListArray.from_arrays(filled, type=target, mask=is_null)


def has(lists: Datum, value: Datum) -> Datum:
    """Return whether each list contains a value; null where one of them is null."""
    if isinstance(lists, pa.Scalar) and isinstance(value, pa.Scalar):
        return has(pa.repeat(lists, 1), value)[0]
    if isinstance(lists, pa.Scalar):
        lists = _repeated(lists, len(value))
    items, rows = _items(lists)
    others = value if isinstance(value, pa.Scalar) else value.take(pa.array(rows))
    if isinstance(others, pa.Scalar):
        others = _repeated(others, len(items))
    same = pc.fill_null(pc.equal(_comparable(items), _comparable(others)), FALSE)
    return _nulled(_rows_with(len(lists), rows[np.asarray(same)]), lists, value)


def has_any(lists: Datum, others: Datum) -> Datum:
    """Return whether each list has an item in common with another one; null where one is null."""
    if isinstance(lists, pa.Scalar):
        return _with_constant(has_any, others, lists)
    if isinstance(others, pa.Scalar):
        codes, rows, _ = _codes(lists, others)
        return _nulled(_rows_with(len(lists), rows[codes >= 0]), lists, others)
    own, wanted = _pairs(lists, others)
    return _nulled(_rows_with(len(lists), own[np.isin(own, wanted)] // _STRIDE), lists, others)


def has_all(lists: Datum, others: Datum) -> Datum:
    """Return whether each list contains all items of another one; null where one is null."""
    if isinstance(others, pa.Scalar) and isinstance(lists, pa.Array):
        codes, rows, num_wanted = _codes(lists, others)
        found = np.unique((rows * _STRIDE + codes)[codes >= 0]) // _STRIDE
        return _nulled(np.bincount(found, minlength=len(lists)) == num_wanted, lists, others)
    if isinstance(lists, pa.Scalar):
        num_rows = 1 if isinstance(others, pa.Scalar) else len(others)
        repeated = _repeated(lists, num_rows)
        all_found = has_all(repeated, others)
        return all_found[0] if isinstance(others, pa.Scalar) else all_found
    own, wanted = _pairs(lists, others)
    missing = wanted[~np.isin(wanted, own)] // _STRIDE
    return _nulled(~_rows_with(len(lists), missing), lists, others)


def item(lists: Datum, number: Datum) -> Datum:
    """Return the item with a number of each list, counted from 1, or from -1 backwards."""
    if isinstance(lists, pa.Scalar) and isinstance(number, pa.Scalar):
        return item(pa.repeat(lists, 1), number)[0]
    if isinstance(lists, pa.Scalar):
        lists = _repeated(lists, len(number))
    items, rows = _items(lists)
    starts = rows.searchsorted(np.arange(len(lists)))
    lengths = rows.searchsorted(np.arange(len(lists)), side="right") - starts
    numbers = _repeated(number, len(lists)) if isinstance(number, pa.Scalar) else number
    wanted = pc.fill_null(numbers.cast(pa.int64()), scalar_of(0, pa.int64())).to_numpy()
    places = np.where(wanted > 0, wanted - 1, lengths + wanted)
    is_there = (wanted != 0) & (places >= 0) & (places < lengths)
    return items.take(pa.array(np.where(is_there, starts + places, 0), mask=~is_there))


def position(lists: Datum, value: Datum) -> Datum:
    """Return the number of the first item that equals a value, counted from 1; null if none does.

    A null value is the number of the first null item.
    """
    if isinstance(lists, pa.Scalar) and isinstance(value, pa.Scalar):
        return position(pa.repeat(lists, 1), value)[0]
    if isinstance(lists, pa.Scalar):
        lists = _repeated(lists, len(value))
    items, rows = _items(lists)
    others = value if isinstance(value, pa.Array) else _repeated(value, len(lists))
    others = others.take(pa.array(rows))
    same = pc.fill_null(pc.equal(_comparable(items), _comparable(others)), FALSE)
    same = pc.or_(same, pc.and_(items.is_null(), others.is_null()))
    places = np.flatnonzero(np.asarray(same))
    found, first = np.unique(rows[places], return_index=True)
    numbers = np.zeros(len(lists), np.uint64)
    numbers[found] = places[first] - rows.searchsorted(found) + 1
    return pa.array(numbers, mask=numbers == 0)


def compare_lists(operator: str, left: Datum, right: Datum) -> Datum:
    """Compare lists by their first items that differ, then by length; null where a list is null."""
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return compare_lists(operator, pa.repeat(left, 1), right)[0]
    if isinstance(left, pa.Scalar):
        left = _repeated(left, len(right))
    elif isinstance(right, pa.Scalar):
        right = _repeated(right, len(left))
    order = _OPERATORS[operator](_order(left, right), 0)
    return _nulled(np.asarray(order, np.bool_), left, right)


def _order(left: pa.Array, right: pa.Array) -> NDArray[np.int64]:
    """Return -1, 0 or 1 for each pair of lists, by their order."""
    (one, one_rows), (other, other_rows) = _items(left), _items(right)
    ranks = _ranks(pa.concat_arrays([one, other]))
    one_ranks, other_ranks = ranks[: len(one)], ranks[len(one) :]
    num_rows = len(left)
    lengths = np.bincount(one_rows, minlength=num_rows)
    other_lengths = np.bincount(other_rows, minlength=num_rows)
    common = np.minimum(lengths, other_lengths)
    rows = np.repeat(np.arange(num_rows), common)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(common) - common, common)
    starts, other_starts = np.cumsum(lengths) - lengths, np.cumsum(other_lengths) - other_lengths
    signs = np.sign(
        one_ranks[starts[rows] + within] - other_ranks[other_starts[rows] + within]
    ).astype(np.int64)
    differing = np.flatnonzero(signs)
    found, first = np.unique(rows[differing], return_index=True)
    order = np.sign(lengths - other_lengths).astype(np.int64)
    order[found] = signs[differing[first]]
    return np.asarray(order)


def _ranks(items: pa.Array) -> NDArray[np.int64]:
    """Return numbers that are ordered as values are; 0 for null."""
    values = ordinals(items) if pt.is_floating(items.type) else items
    distinct = values.drop_null().unique()
    ranks = np.empty(len(distinct), np.int64)
    ranks[pc.array_sort_indices(distinct).to_numpy()] = np.arange(1, len(distinct) + 1)
    codes = pc.fill_null(pc.index_in(values, value_set=distinct), -1).to_numpy()
    return np.asarray(np.append(ranks, 0)[codes])


def is_empty(lists: Datum) -> Datum:
    """Return whether each list has no items; null where it is null."""
    return pc.equal(pc.list_value_length(lists), 0)


def list_of(*values: Datum) -> Datum:
    """Return lists of one item from each argument, which have one type."""
    if not values:
        return list_scalar(pa.nulls(0))
    sizes = [len(one) for one in values if isinstance(one, pa.Array)]
    if not sizes:
        return list_scalar(pa.concat_arrays([pa.repeat(one, 1) for one in values]))
    columns = [_repeated(one, sizes[0]) if isinstance(one, pa.Scalar) else one for one in values]
    order = np.arange(sizes[0] * len(columns)).reshape(len(columns), -1).T.ravel()
    offsets = np.arange(0, len(order) + 1, len(columns), dtype=np.int32)
    items = pa.concat_arrays(columns).take(pa.array(order))
    return pa.ListArray.from_arrays(pa.array(offsets), items)


_STRIDE = np.int64(1) << 32
_OPERATORS: dict[str, Callable[..., Any]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def _items(lists: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the items of all lists that are not null, and the row of each."""
    lengths = pc.fill_null(pc.list_value_length(lists).cast(pa.int64()), 0).to_numpy()
    return pc.list_flatten(lists), np.repeat(np.arange(len(lists)), lengths)


def _with_constant(apply: Callable[..., Datum], lists: Datum, constant: pa.Scalar) -> Datum:
    """Apply a function whose arguments may be exchanged to a constant and another argument."""
    if isinstance(lists, pa.Scalar):
        return apply(pa.repeat(lists, 1), constant)[0]
    return apply(lists, constant)


def _repeated(constant: pa.Scalar, count: int) -> pa.Array:
    """Return an array of one value; unlike `pa.repeat`, also for no repetition of a list."""
    return pa.repeat(constant, count) if count else pa.nulls(0, constant.type)


def _codes(
    lists: pa.Array, constant: pa.Scalar
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return which item of a constant each item of lists is, and its row; -1 for none of them.

    The third result is the number of distinct items of the constant.
    """
    items, rows = _items(lists)
    wanted = _comparable(constant.values if constant.is_valid else items[:0]).unique()
    found = pc.index_in(_comparable(items), value_set=wanted)
    return pc.fill_null(found, -1).to_numpy().astype(np.int64), rows, len(wanted)


def _pairs(lists: pa.Array, others: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a number for each pair of a row and an item, of both sides."""
    (left, left_rows), (right, right_rows) = _items(lists), _items(others)
    both = pa.concat_arrays([_comparable(left), _comparable(right)])
    codes = both.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
    own = left_rows * _STRIDE + codes[: len(left)]
    return own, right_rows * _STRIDE + codes[len(left) :]


def _comparable(items: pa.Array) -> pa.Array:
    return bits(items) if pt.is_floating(items.type) else items


def _rows_with(num_rows: int, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    found = np.zeros(num_rows, np.bool_)
    found[rows] = True
    return found


def _nulled(found: NDArray[np.bool_], lists: pa.Array, other: Datum) -> pa.BooleanArray:
    """Return a result that is null where one of the arguments is."""
    unknown = pc.or_(pc.is_null(lists), pc.is_null(other))
    return pc.if_else(unknown, scalar_of(None, pa.bool_()), pa.array(found))
