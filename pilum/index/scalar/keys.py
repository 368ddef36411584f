"""Keys: values in a form whose plain order is the order of an index.

    integers, dates, times       as they are            int8 … uint64
    booleans                     0 or 1                 uint8
    floats                       ordinals of the total order of IEEE 754, int16 … int64
    decimals                     bytes from the highest to the lowest, sign bit flipped, S16 or S32
    fixed-size binary            as they are            S{width}
    text, binary                 bytes, in Arrow's layout (`TextKeys`)

All but the last are NumPy arrays. NumPy drops zero bytes at the end of an item of type S, which
changes neither order nor equality of items of one width.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.errors import UnsupportedTypeError
from pilum.expressions.compare import is_zero, ordinals
from pilum.expressions.types import array_of, is_binary, is_text, scalar_of
from pilum.index.queries import Between, StartsWith
from pilum.kernels import places_of_strings
from pilum.kernels import stable_order as order_of_keys

__all__ = [
    "KeyRange",
    "Keys",
    "Side",
    "TextKeys",
    "are_ascending",
    "differences",
    "has_prefixes",
    "integer_key",
    "integer_keys",
    "joined_keys",
    "key_of",
    "keys_at",
    "keys_of",
    "none_exceeds",
    "numbers_of",
    "range_of",
    "require_indexable",
    "sorted_keys",
    "stable_order",
    "strings_of",
    "values_of_numbers",
    "values_of_strings",
]

_SAMPLE_ROWS = 1 << 16
"""Number of texts that show whether texts repeat."""

_SIGN_BIT = np.uint8(0x80)
_SIGN_BIT_64 = np.uint64(1 << 63)


class TextKeys:
    """Keys of text and of binary values.

    Attributes:
        array: A binary or large_binary array without nulls.
        offsets: int32 or int64, shape (n + 1,): where each key begins in `data`, and the end.
        data: The bytes of all keys.
    """

    __slots__ = ("array", "data", "offsets")

    def __init__(self, array: pa.Array) -> None:
        self.array = array
        _, offsets, data = array.buffers()
        width: Any = np.int64 if pt.is_large_binary(array.type) else np.int32
        self.offsets: NDArray[np.int32] | NDArray[np.int64] = (
            np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
            if len(array)
            else np.zeros(1, width)
        )
        self.data = np.frombuffer(b"" if data is None else data, dtype=np.uint8)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, place: Any) -> Any:
        """Return one key as bytes, or the keys of a slice."""
        if isinstance(place, slice):
            start, stop, _ = place.indices(len(self.array))
            return TextKeys(self.array.slice(start, stop - start))
        if place < 0:
            place += len(self.array)
        return self.data[self.offsets[place] : self.offsets[place + 1]].tobytes()

    @property
    def nbytes(self) -> int:
        """The bytes of the keys."""
        return self.offsets.nbytes + int(self.offsets[-1] - self.offsets[0])

    def searchsorted(self, wanted: Any, side: Side = "left") -> Any:
        """Return where keys belong in these, which are ascending; as NumPy does.

        Args:
            wanted: One key as bytes, or `TextKeys`.
            side: Before ("left") or after ("right") equal keys.
        """
        if isinstance(wanted, bytes):
            return (bisect_left if side == "left" else bisect_right)(self, wanted)
        return places_of_strings(
            self.offsets, self.data, wanted.offsets, wanted.data, side == "right"
        )


_INTEGERS = {
    pa.from_numpy_dtype(name).id: np.dtype(name)
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}
"""The keys of types of integers, by the id of the type."""

_LIMITS = {
    kind: (form.type, int(np.iinfo(form).min), int(np.iinfo(form).max))
    for kind, form in _INTEGERS.items()
}
"""How to make such a key, and the least and the greatest one."""

Keys: TypeAlias = "NDArray[Any] | TextKeys"
Side: TypeAlias = Literal["left", "right"]
KeyRange: TypeAlias = tuple[Any, Any, Side, Side]


def require_indexable(column: str, kind: pa.DataType, index: str) -> None:
    """Raise an error if values of a type have no keys.

    Raises:
        UnsupportedTypeError: Names the column and its type.
    """
    is_known = (
        pt.is_boolean(kind)
        or pt.is_integer(kind)
        or pt.is_floating(kind)
        or pt.is_decimal128(kind)
        or pt.is_decimal256(kind)
        or is_text(kind)
        or pt.is_binary(kind)
        or pt.is_large_binary(kind)
        or (pt.is_fixed_size_binary(kind) and kind.byte_width > 0)
        or (pt.is_temporal(kind) and not pt.is_interval(kind))
    )
    if not is_known:
        raise UnsupportedTypeError(
            f"{index} index: column {column!r} has the type {kind}; it must be an integer, float, "
            "boolean, string, binary, decimal, date, time, timestamp or duration"
        )


def keys_of(values: pa.Array) -> Keys:
    """Return the keys of an array without nulls."""
    kind = values.type
    form = _INTEGERS.get(kind.id)
    if form is not None:  # the common case
        return _items(values, form.itemsize).view(form)
    if pt.is_floating(kind):
        return _numbers(ordinals(values), kind.bit_width)
    if pt.is_boolean(kind):
        return _numbers(values.cast(pa.uint8()), 8, is_signed=False)
    if is_text(kind) or pt.is_binary(kind) or pt.is_large_binary(kind):
        is_large = pt.is_large_string(kind) or pt.is_large_binary(kind)
        return TextKeys(values.view(pa.large_binary() if is_large else pa.binary()))
    if pt.is_decimal(kind):
        items = _items(values, kind.byte_width).reshape(-1, kind.byte_width)[:, ::-1].copy()
        items[:, 0] ^= _SIGN_BIT
        return items.view(f"S{kind.byte_width}").reshape(-1)
    if pt.is_fixed_size_binary(kind):
        return _items(values, kind.byte_width).view(f"S{kind.byte_width}")
    return _numbers(values, kind.bit_width)


def integer_key(value: int, kind: pa.DataType) -> Any:
    """Return the key of an integer; None if a type does not have it, or has other values."""
    limits = _LIMITS.get(kind.id)
    if limits is None:
        return None
    key, least, most = limits
    return key(value) if least <= value <= most else None


def integer_keys(values: Sequence[int], kind: pa.DataType) -> NDArray[Any] | None:
    """Return the keys of those of some integers that a type has, ascending.

    None if the type has other values than integers.
    """
    limits = _LIMITS.get(kind.id)
    if limits is None:
        return None
    key, least, most = limits
    return np.array(sorted([value for value in values if least <= value <= most]), key)


def numbers_of(keys: Keys) -> NDArray[np.uint64] | None:
    """Return numbers in the order of the keys; None if the keys are bytes."""
    if isinstance(keys, TextKeys) or keys.dtype.kind == "S":
        return None
    if keys.dtype.kind == "i":
        return keys.astype(np.int64).view(np.uint64) ^ _SIGN_BIT_64
    return keys.astype(np.uint64, copy=False)


def values_of_numbers(numbers: NDArray[np.uint64], kind: pa.DataType) -> pa.Array:
    """Return the values that have some `numbers_of` keys."""
    if pt.is_boolean(kind):
        return pa.array(numbers.astype(np.bool_))
    bits = kind.bit_width
    if pt.is_unsigned_integer(kind):
        return pa.array(numbers.astype(f"u{bits // 8}"), kind)
    keys = (numbers ^ _SIGN_BIT_64).view(np.int64).astype(f"i{bits // 8}")
    values = pa.Array.from_buffers(kind, len(keys), [None, pa.py_buffer(keys)])
    # Ordinals turn the order of negative floats around: twice, and it is as before.
    return ordinals(values).view(kind) if pt.is_floating(kind) else values


def strings_of(keys: Keys) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Return keys of bytes as the offsets and the bytes of strings, for kernels."""
    if isinstance(keys, TextKeys):
        return keys.offsets, keys.data
    width = keys.dtype.itemsize
    return np.arange(len(keys) + 1) * width, np.ascontiguousarray(keys).view(np.uint8)


def values_of_strings(
    offsets: NDArray[np.int64], data: NDArray[np.uint8], kind: pa.DataType
) -> pa.Array:
    """Return the values that have keys of bytes; the opposite of `strings_of`."""
    num_values = len(offsets) - 1
    if pt.is_decimal(kind):
        items = data.reshape(-1, kind.byte_width).copy()
        items[:, 0] ^= _SIGN_BIT
        data = np.ascontiguousarray(items[:, ::-1])
    if pt.is_decimal(kind) or pt.is_fixed_size_binary(kind):
        return pa.Array.from_buffers(kind, num_values, [None, pa.py_buffer(data)])
    is_large = pt.is_large_string(kind) or pt.is_large_binary(kind)
    ends = pa.py_buffer(offsets if is_large else offsets.astype(np.int32))
    return pa.Array.from_buffers(kind, num_values, [None, ends, pa.py_buffer(data)])


def sorted_keys(values: pa.Array) -> Keys:
    """Return the keys of an array without nulls in ascending order."""
    keys = keys_of(values)
    if len(keys) < 2:
        return keys
    if isinstance(keys, TextKeys):
        return keys_at(keys, stable_order(keys))
    return np.sort(keys)


def key_of(value: pa.Scalar) -> Any:
    """Return the key of one value that is not null."""
    return keys_of(array_of([value], value.type))[0]


def has_prefixes(kind: pa.DataType) -> bool:
    """Return whether values of a type are text or bytes."""
    return is_text(kind) or is_binary(kind)


def range_of(query: Between | StartsWith, kind: pa.DataType) -> KeyRange:
    """Return the range of keys of a query.

    Both zeros of floats are one value to comparisons: a range with one of them has the other, too.

    Returns:
        The lowest and the highest key, None if that end is open; and the sides from which to search
        for them, so that the rows between both places match.
    """
    if isinstance(query, StartsWith):
        return (*_texts_with(query.prefix, kind), "left", "left")
    low, high = query.low, query.high
    if pt.is_floating(kind):
        low = _outer_zero(low, is_positive=not query.includes_low)
        high = _outer_zero(high, is_positive=query.includes_high)
    return (
        None if low is None else key_of(low),
        None if high is None else key_of(high),
        "left" if query.includes_low else "right",
        "right" if query.includes_high else "left",
    )


def are_ascending(keys: Keys) -> bool:
    """Return whether no key is less than the one before it."""
    return none_exceeds(keys[:-1], keys[1:])


def none_exceeds(left: Keys, right: Any) -> bool:
    """Return whether each key is at most as great as its counterpart in an array as long."""
    if isinstance(left, TextKeys):
        return bool(pc.all(pc.less_equal(left.array, right.array), min_count=0).as_py())
    return bool((left <= right).all())


def stable_order(keys: Keys) -> NDArray[np.int64]:
    """Return the places of keys in ascending order; those of equal keys in their own order."""
    if isinstance(keys, TextKeys):
        return _order_of_texts(keys.array)
    numbers = numbers_of(keys)
    return np.argsort(keys, kind="stable") if numbers is None else order_of_keys(numbers)


def keys_at(keys: Keys, places: NDArray[np.int64]) -> Keys:
    """Return the keys at some places."""
    if isinstance(keys, TextKeys):
        return TextKeys(keys.array.take(pa.array(places)))
    return keys[places]


def differences(keys: Keys) -> NDArray[np.bool_]:
    """Return for each key but the first whether it differs from the one before it."""
    if isinstance(keys, TextKeys):
        found = pc.not_equal(keys.array[1:], keys.array[:-1])
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)
    return np.asarray(keys[1:] != keys[:-1])


def _order_of_texts(texts: pa.Array) -> NDArray[np.int64]:
    """Return the stable order of texts; if they repeat, only the different ones are compared."""
    sample = texts[:_SAMPLE_ROWS]
    if len(texts) == len(sample) or pc.count_distinct(sample).as_py() > _SAMPLE_ROWS // 2:
        return np.asarray(pc.array_sort_indices(texts)).view(np.int64)
    encoded = texts.dictionary_encode()
    places = np.empty(len(encoded.dictionary), np.uint64)
    places[np.asarray(pc.array_sort_indices(encoded.dictionary))] = np.arange(len(places))
    return order_of_keys(places[encoded.indices.to_numpy()])


def joined_keys(parts: Sequence[Any]) -> Keys:
    """Return all keys of several parts."""
    texts = [part.array for part in parts if isinstance(part, TextKeys)]
    return TextKeys(pa.concat_arrays(texts)) if texts else np.concatenate(parts)


def _numbers(values: pa.Array, bits: int, *, is_signed: bool = True) -> NDArray[Any]:
    """Return fixed-width values as integers of the same bits."""
    return _items(values, bits // 8).view(f"{'i' if is_signed else 'u'}{bits // 8}")


def _items(values: pa.Array, width_bytes: int) -> NDArray[np.uint8]:
    if not len(values):
        return np.empty(0, dtype=np.uint8)
    data = np.frombuffer(values.buffers()[1], dtype=np.uint8)
    return data[values.offset * width_bytes : (values.offset + len(values)) * width_bytes]


def _outer_zero(value: pa.Scalar | None, *, is_positive: bool) -> pa.Scalar | None:
    if value is None or not is_zero(value):
        return value
    return scalar_of(0.0 if is_positive else -0.0, value.type)


def _texts_with(prefix: str | bytes, kind: pa.DataType) -> tuple[Any, Any]:
    """Return the least key with a prefix, and the least one after all of these."""
    low = prefix.encode() if isinstance(prefix, str) else prefix
    stem = low.rstrip(b"\xff")
    high = stem[:-1] + bytes([stem[-1] + 1]) if stem else None
    if not pt.is_fixed_size_binary(kind):
        return low, high
    if len(low) > kind.byte_width:  # no value has it
        return low[: kind.byte_width], low[: kind.byte_width]
    return low, high
