"""Columns of every type that can be indexed, and their values one by one as an oracle."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from pilum.index.base import REFERENCE, VALUE, IndexRows

Values = list[Any]

_TEXTS = st.text(alphabet="ab\x00é\U0010ffff", max_size=4)
_BYTES = st.binary(max_size=3) | st.sampled_from([b"", b"\xff", b"\xff\xff", b"a\x00", b"a"])
_DECIMALS = st.integers(-(10**5), 10**5).map(lambda digits: Decimal(digits).scaleb(-2))


def _numbers(bits: int, *, is_signed: bool) -> st.SearchStrategy[int]:
    low = -(2 ** (bits - 1)) if is_signed else 0
    high = 2 ** (bits - 1) - 1 if is_signed else 2**bits - 1
    return st.integers(max(low, -3), 6) | st.sampled_from([low, high])


def _floats(bits: int) -> st.SearchStrategy[float]:
    tiny = {16: 6e-8, 32: 1e-45, 64: 5e-324}[bits]
    special = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), -float("nan"), tiny, -tiny]
    return st.sampled_from([*special, 1.0, -1.0, 1.5, 2.0])


_KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    **{
        kind: _numbers(kind.bit_width, is_signed=not str(kind).startswith("u"))
        for kind in (
            pa.int8(),
            pa.int16(),
            pa.int32(),
            pa.int64(),
            pa.uint8(),
            pa.uint16(),
            pa.uint32(),
            pa.uint64(),
        )
    },
    **{kind: _floats(kind.bit_width) for kind in (pa.float16(), pa.float32(), pa.float64())},
    **dict.fromkeys((pa.string(), pa.large_string()), _TEXTS),
    **dict.fromkeys((pa.binary(), pa.large_binary()), _BYTES),
    pa.binary(2): st.binary(min_size=2, max_size=2)
    | st.sampled_from([b"\0\0", b"a\0", b"\xff\xff"]),
    pa.decimal128(10, 2): _DECIMALS,
    pa.decimal256(50, 2): _DECIMALS,
    **{kind: st.integers(-3, 3) for kind in (pa.date32(), pa.timestamp("us", "UTC"))},
    **{kind: st.integers(-3, 3) for kind in (pa.timestamp("ns"), pa.duration("ms"))},
    **{kind: st.integers(0, 5) for kind in (pa.time32("s"), pa.time64("us"))},
    pa.date64(): st.integers(-3, 3).map(lambda days: days * 86_400_000),
}


def array_of(values: Values, kind: pa.DataType) -> pa.Array:
    """Return an array; floats keep the bits of their NaN."""
    if not pa.types.is_floating(kind):
        return pa.array(values, kind)
    numbers = np.array(
        [0 if value is None else value for value in values], f"f{kind.bit_width // 8}"
    )
    return pa.array(numbers, kind, mask=np.array([value is None for value in values], np.bool_))


@st.composite
def columns(
    draw: st.DrawFn, max_size: int = 40, kinds: Sequence[pa.DataType] = tuple(_KINDS)
) -> pa.Array:
    """Draw a column with nulls and few distinct values, of one of some types."""
    kind = draw(st.sampled_from(kinds))
    pool = draw(st.lists(_KINDS[kind], min_size=1, max_size=8))
    one = st.sampled_from(pool)
    values = draw(st.lists(st.none() | one | one | one, max_size=max_size))
    return array_of(values, kind)


@st.composite
def values_like(draw: st.DrawFn, column: pa.Array, max_size: int = 4) -> pa.Array:
    """Draw values to look for: of the column, and others of its type."""
    some = [value for value in (_plain(one) for one in column) if value is not None]
    one = _KINDS[column.type] | (st.sampled_from(some) if some else st.nothing())
    return array_of(draw(st.lists(one, min_size=1, max_size=max_size)), column.type)


def order_of(value: pa.Scalar) -> Any:
    """Return a Python value that is ordered as indices order values; None for null."""
    if not value.is_valid:
        return None
    kind = value.type
    if pa.types.is_floating(kind):
        code = {16: "<e", 32: "<f", 64: "<d"}[kind.bit_width]
        number = int.from_bytes(struct.pack(code, value.as_py()), "little")
        highest = 1 << (kind.bit_width - 1)
        return number if number < highest else highest - 1 - number
    plain = _plain(value)
    return plain.encode() if isinstance(plain, str) else plain


def _plain(value: pa.Scalar) -> Any:
    if value.is_valid and pa.types.is_temporal(value.type):
        return value.value
    return value.as_py()


def rows_of(column: pa.Array, references: list[int] | None = None, step: int = 7) -> IndexRows:
    """Return rows to index in small batches."""
    numbers = range(len(column)) if references is None else references
    table = pa.table({VALUE: column, REFERENCE: pa.array(numbers, pa.uint64())})

    def batches() -> Iterator[pa.RecordBatch]:
        yield from table.to_batches(max_chunksize=step)

    return IndexRows(column.type, batches(), len(column))


Truth = Callable[[Any], bool | None]
