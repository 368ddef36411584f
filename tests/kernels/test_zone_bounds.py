"""Bounds of zones, compared with a loop over the values of each zone."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from index.scalar.strategies import columns, order_of

from pilum.kernels import zone_bounds

_KINDS = [
    *(pa.int8(), pa.uint16(), pa.int32(), pa.uint64(), pa.int64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    pa.decimal128(10, 2),
]


@given(columns(30, _KINDS), st.lists(st.integers(0, 30), max_size=4))
def test_bounds(column: pa.Array, cuts: list[int]) -> None:
    """The least and the greatest value that is neither null nor NaN, in the order of indices."""
    kind, width = column.type, column.type.bit_width // 8
    bounds = sorted({0, len(column), *(cut for cut in cuts if cut < len(column))})
    validity, data = column.buffers()
    first = column.offset * width
    least, most, nulls, nans = zone_bounds(
        np.frombuffer(data or b"", np.uint8)[first : first + len(column) * width],
        width,
        None if pa.types.is_floating(kind) else not pa.types.is_unsigned_integer(kind),
        (np.frombuffer(validity, np.uint8), column.offset) if validity else None,
        np.array(bounds, np.int64),
    )
    for zone, (start, stop) in enumerate(pairwise(bounds)):
        values = list(column[start:stop])
        known = [value for value in values if value.is_valid]
        numbers = [value for value in known if value.as_py() == value.as_py()]
        assert nulls[zone] == len(values) - len(known)
        assert nans[zone] == len(known) - len(numbers)
        if numbers:
            ends = (pa.array([pick(numbers, key=order_of)], kind) for pick in (min, max))
            for found, end in zip((least, most), ends, strict=True):
                stored = found[zone * width : (zone + 1) * width].tobytes()
                assert stored == end.buffers()[1].to_pybytes()[:width]


@pytest.mark.parametrize(
    ("width", "validity", "bounds", "message"),
    [
        (3, None, [0, 1], "3 bytes"),
        (8, None, [0, 9], "zone"),
        (8, None, [1, 0], "zone from 1 to 0"),
        (8, (np.zeros(0, np.uint8), 0), [0, 1], "validity"),
    ],
)
def test_impossible_zones(width: int, validity: Any, bounds: list[int], message: str) -> None:
    """Lengths are checked."""
    data = np.frombuffer(struct.pack("<d", 1), np.uint8)
    with pytest.raises(ValueError, match=message):
        zone_bounds(data, width, None, validity, np.array(bounds, np.int64))
