"""Arrow arrays of every type that files hold, with all that Arrow allows around them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from hypothesis import strategies as st

__all__ = ["LEAVES", "arrays", "chunky_arrays", "types"]

LEAVES: list[pa.DataType] = [
    pa.bool_(),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.string(), pa.binary(), pa.large_string(), pa.large_binary()),
    *(pa.binary(3), pa.binary(300)),
    *(pa.decimal128(38, 5), pa.decimal256(60, -2)),
    *(pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("ns"), pa.duration("us")),
    *(pa.timestamp("s"), pa.timestamp("ns", "Europe/Berlin")),
    pa.null(),
    pa.list_(pa.float32(), 3),
    pa.list_(pa.bool_(), 5),
    pa.list_(pa.bool_(), 8),
    pa.list_(pa.int8(), 300),
    pa.list_(pa.binary(2), 2),
    pa.list_(pa.list_(pa.int16(), 2), 3),
]


def types(depth: int = 3) -> st.SearchStrategy[pa.DataType]:
    """Leaf types, and lists and structs of them."""
    leaves = st.sampled_from(LEAVES)
    if depth == 0:
        return leaves
    below = types(depth - 1)
    members = st.lists(below, min_size=1, max_size=3)
    return st.one_of(
        leaves,
        below.map(pa.list_),
        below.map(pa.large_list),
        members.map(lambda kinds: pa.struct([(f"m{i}", kind) for i, kind in enumerate(kinds)])),
    )


class _Maker:
    """Arrays of one density of nulls, by chance."""

    def __init__(self, seed: int, nulls: float, repeats: bool, content_below_nulls: bool) -> None:
        self.random = np.random.default_rng(seed)
        self.nulls = nulls
        self.repeats = repeats
        self.content_below_nulls = content_below_nulls

    def mask(self, count: int) -> Any:
        return self.random.random(count) < self.nulls

    def make(self, kind: pa.DataType, count: int) -> pa.Array:
        if pt.is_null(kind):
            return pa.nulls(count)
        if pt.is_struct(kind):
            children = [self.make(field.type, count) for field in kind]
            return pa.StructArray.from_arrays(
                children, fields=list(kind), mask=pa.array(self.mask(count))
            )
        if pt.is_list(kind) or pt.is_large_list(kind):
            return self._lists(kind, count)
        if pt.is_fixed_size_list(kind):
            items = self.make(kind.value_type, count * kind.list_size)
            return pa.FixedSizeListArray.from_arrays(
                items, type=kind, mask=pa.array(self.mask(count))
            )
        return self._leaf(kind, count)

    def _lists(self, kind: pa.DataType, count: int) -> pa.Array:
        lengths = self.random.choice([0, 0, 1, 2, 7], count)
        mask = self.mask(count)
        if not self.content_below_nulls:
            lengths[mask] = 0
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        items = self.make(kind.value_type, int(offsets[-1]))
        make = pa.ListArray if pt.is_list(kind) else pa.LargeListArray
        width = pa.int32() if pt.is_list(kind) else pa.int64()
        return make.from_arrays(
            pa.array(offsets, width), items, type=kind, mask=pa.array(mask) if mask.any() else None
        )

    def _leaf(self, kind: pa.DataType, count: int) -> pa.Array:
        mask = self.mask(count)
        if pt.is_boolean(kind):
            return pa.array(self.random.random(count) < 0.5, mask=mask)
        if pt.is_decimal(kind):
            values = [Decimal(int(v)) * 100 for v in self._numbers(count, 31)]
            return pa.array([None if m else v for v, m in zip(values, mask, strict=True)], kind)
        if pt.is_fixed_size_binary(kind):
            data = self.random.bytes(count * kind.byte_width)
            values = pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])
            return _masked(values, mask)
        if not _is_string(kind):
            return self._numeric(kind, count, mask)
        sizes = self.random.choice([0, 1, 5, 30, 300] if not self.repeats else [0, 3], count)
        texts = ["".join(self.random.choice(list("abé"), size)) for size in sizes]
        return _masked(pa.array(texts).cast(kind), mask)

    def _numeric(self, kind: pa.DataType, count: int, mask: Any) -> pa.Array:
        if pt.is_floating(kind):
            values = self.random.normal(size=count).astype(kind.to_pandas_dtype())
            return pa.array(values, kind, mask=mask)
        bits = kind.bit_width
        day = 86_400_000
        high = min(31, bits - 1) if not pt.is_time(kind) else 26
        numbers = self._numbers(count, high)
        if pt.is_date64(kind):
            numbers = numbers % 1000 * day
        plain = pa.array(numbers.astype(f"i{bits // 8}"))
        return _masked(plain.view(kind), mask)

    def _numbers(self, count: int, bits: int) -> Any:
        if self.repeats:
            return np.repeat(self.random.integers(0, 3, count // 9 + 1), 9)[:count]
        return self.random.integers(0, 2 ** self.random.integers(1, bits + 1), count)


def _is_string(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())


def _masked(values: pa.Array, mask: Any) -> pa.Array:
    """The array with nulls, whose slots keep what stands in them."""
    bitmap = pa.py_buffer(np.packbits(~mask, bitorder="little").tobytes())
    return pa.Array.from_buffers(values.type, len(values), [bitmap, *values.buffers()[1:]])


def _made(kind: pa.DataType, count: int, maker: _Maker, before: int, behind: int) -> pa.Array:
    return maker.make(kind, before + count + behind).slice(before, count)


def _makers() -> st.SearchStrategy[_Maker]:
    return st.builds(
        _Maker,
        st.integers(0, 2**32 - 1),
        st.sampled_from([0.0, 0.0, 0.1, 0.5, 0.95, 1.0]),
        st.booleans(),
        st.booleans(),
    )


def arrays(max_size: int = 60) -> st.SearchStrategy[pa.Array]:
    """Small arrays of any type, cut out of longer ones."""
    edge = st.sampled_from([0, 0, 1, 8, 13])
    return st.builds(_made, types(), st.integers(1, max_size), _makers(), edge, edge)


def chunky_arrays() -> st.SearchStrategy[pa.Array]:
    """Arrays of types with few levels, long enough for several chunks."""
    edge = st.sampled_from([0, 3])
    sizes = st.sampled_from([1023, 1024, 1025, 3000])
    return st.builds(_made, types(1), sizes, _makers(), edge, edge)
