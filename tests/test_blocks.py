"""Arrow arrays as the encodings see them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.blocks import (
    BitBlock,
    FixedBlock,
    ListBlock,
    StringBlock,
    block_of,
    kept_values,
    true_places,
    validity_mask,
)
from pilum.errors import UnsupportedTypeError

offsets = st.integers(0, 20)


@given(st.lists(st.integers(-128, 127) | st.none(), min_size=1), offsets)
def test_numbers_with_zeros_for_nulls(values: list[int | None], before: int) -> None:
    array = pa.array([7] * before + values + [7], pa.int16()).slice(before, len(values))
    block = block_of(array)
    assert isinstance(block, FixedBlock)
    assert (block.bits, block.num_values, block.max_value_bytes) == (16, len(values), 2)
    assert block.data.view(np.int16).tolist() == [value or 0 for value in values]


def test_numbers_without_nulls_are_views() -> None:
    array = pa.array(range(100), pa.int64())
    block = block_of(array.slice(10))
    assert isinstance(block, FixedBlock)
    assert block.data.__array_interface__["data"][0] == array.buffers()[1].address + 80


@given(
    rows=st.lists(st.tuples(st.none() | st.integers(0, 127), st.booleans()), max_size=300),
    kind=st.sampled_from(
        [pa.int8(), pa.uint16(), pa.date32(), pa.float64(), pa.timestamp("us"), pa.decimal128(9, 0)]
    ),
    starts=st.tuples(offsets, offsets),
)
def test_kept_values_are_those_that_arrow_filters(
    rows: list[tuple[int | None, bool]], kind: pa.DataType, starts: tuple[int, int]
) -> None:
    before, ahead = starts
    array = pa.array([1] * before + [value for value, _ in rows], kind)[before:]
    mask = pa.array([True] * ahead + [is_kept for _, is_kept in rows], pa.bool_())[ahead:]
    found = kept_values(array, mask)
    assert found is not None
    found.validate(full=True)
    assert found.equals(array.filter(mask))


def test_kept_values_of_other_types_are_left_to_arrow() -> None:
    mask = pa.array([True])
    for other in (pa.array([True]), pa.array(["a"]), pa.array(["a"]).dictionary_encode()):
        assert kept_values(other, mask) is None


@pytest.mark.parametrize(
    ("value", "kind", "bits"),
    [
        (1, pa.uint8(), 8),
        (1.5, pa.float16(), 16),
        (Decimal(1), pa.decimal128(5, 0), 128),
        (Decimal(1), pa.decimal256(50, 0), 256),
        (b"abc", pa.binary(3), 24),
        (0, pa.time32("s"), 32),
        (0, pa.timestamp("us", "UTC"), 64),
    ],
)
def test_widths(value: Any, kind: pa.DataType, bits: int) -> None:
    block = block_of(pa.array([value, value], kind))
    assert isinstance(block, FixedBlock)
    assert (block.bits, len(block.data)) == (bits, 2 * bits // 8)


@given(st.lists(st.booleans() | st.none(), min_size=1), offsets)
def test_bits(values: list[bool | None], before: int) -> None:
    block = block_of(pa.array([True] * before + values, pa.bool_()).slice(before))
    assert isinstance(block, BitBlock)
    bits = np.unpackbits(block.data, bitorder="little")[block.first :][: len(values)]
    assert [bool(b) for b, v in zip(bits, values, strict=True) if v is not None] == [
        value for value in values if value is not None
    ]
    assert block.max_value_bytes == 0


@pytest.mark.parametrize(
    ("kind", "bits", "is_text"),
    [
        (pa.string(), 32, True),
        (pa.binary(), 32, False),
        (pa.large_string(), 64, True),
        (pa.large_binary(), 64, False),
    ],
)
@given(values=st.lists(st.text(max_size=5), min_size=1), before=offsets)
def test_strings(
    kind: pa.DataType, bits: int, is_text: bool, values: list[str], before: int
) -> None:
    array = pa.array(["before"] * before + values).cast(kind).slice(before)
    block = block_of(array)
    assert isinstance(block, StringBlock)
    assert (block.offset_bits, block.is_text, block.num_values) == (bits, is_text, len(values))
    encoded = [value.encode() for value in values]
    pairs = zip(block.offsets[:-1].tolist(), block.offsets[1:].tolist(), strict=True)
    assert [block.data[start:end].tobytes() for start, end in pairs] == encoded
    assert block.data_bytes == sum(map(len, encoded))
    assert block.max_value_bytes == max(map(len, encoded))


@pytest.mark.checklist("S4.8")
@given(st.lists(st.booleans(), max_size=200), st.integers(0, 9), st.sampled_from([0, 5, -7]))
def test_places_of_true_values(values: list[bool], before: int, first: int) -> None:
    array = pa.array([True] * before + values + [True], pa.bool_())[before:-1]
    expected = [first + place for place, value in enumerate(values) if value]
    assert true_places(array, first).tolist() == expected


def test_lists_of_lists_with_null_items() -> None:
    kind = pa.list_(pa.list_(pa.int32(), 2), 3)
    rows = [[[9, 9]] * 3, [[1, 2], None, [3, None]], [[4, 5], [6, 7], [8, 9]]]
    block = block_of(pa.array(rows, kind).slice(1))
    assert isinstance(block, ListBlock)
    assert (block.dimensions, block.item_bits, block.bits) == ((3, 2), 32, 192)
    assert (block.num_values, block.max_value_bytes) == (2, 24)
    outer, inner = block.validity
    assert outer is not None
    assert inner is not None
    assert (outer.per_row, inner.per_row) == (3, 6)
    assert block.data.view(np.int32).reshape(2, 3, 2)[1].tolist() == rows[2]
    bits = np.unpackbits(outer.bitmap, bitorder="little")[outer.first :][:6]
    assert bits.tolist() == [1, 0, 1, 1, 1, 1]


def test_lists_of_booleans_begin_at_their_first_bit() -> None:
    kind = pa.list_(pa.bool_(), 3)
    block = block_of(pa.array([[True] * 3, [False, True, False]], kind).slice(1))
    assert isinstance(block, ListBlock)
    assert (block.bits, block.max_value_bytes, block.validity) == (3, 0, (None,))
    assert block.data.tobytes() == b"\x02"


def test_lists_of_strings_are_refused() -> None:
    with pytest.raises(UnsupportedTypeError):
        block_of(pa.array([["a"]], pa.list_(pa.string(), 1)))


@given(st.lists(st.integers(0, 1) | st.none(), min_size=1), offsets)
def test_validity(values: list[int | None], before: int) -> None:
    array = pa.array([None] * before + values, pa.int8()).slice(before)
    assert validity_mask(array).tolist() == [value is not None for value in values]
