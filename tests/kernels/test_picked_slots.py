"""Values of one width of several buffers in one call."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.chunks import as_bytes

from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges
from pilum.kernels import PickedSlots
from pilum.kernels.reference import bits_of_rows

DATA = bytes(i * 37 % 251 for i in range(20_000))

buffers = st.tuples(
    st.integers(0, 50),
    st.sampled_from([1, 8, 16, 32, 64, 24]),
    st.sets(st.integers(0, 800), min_size=1, max_size=9),
)


def ranges_of(rows: set[int]) -> RowRanges:
    return RowRanges.of_rows(np.array(sorted(rows), np.int64))


@given(st.lists(buffers, max_size=5))
def test_the_values_of_each_buffer_come_back(some: list[tuple[int, int, set[int]]]) -> None:
    picked = PickedSlots([(at, bits, ranges_of(rows).bounds) for at, bits, rows in some])
    offsets, sizes = picked.ranges()
    parts = [DATA[at : at + n] for at, n in zip(offsets.tolist(), sizes.tolist(), strict=True)]
    starts = np.cumsum([0, *map(len, parts)])[:-1].astype(np.int64)
    found = picked.decode(as_bytes(b"".join(parts)), starts)
    for values, (at, bits, rows) in zip(found, some, strict=True):
        flags = bits_of_rows(DATA[at:], bits, sorted(rows))
        assert values.tobytes() == np.packbits(flags, bitorder="little").tobytes()


def test_only_what_is_near_is_read_with_others() -> None:
    rows = ranges_of({1, 100, 1_000})
    offsets, sizes = PickedSlots([(7, 64, rows.bounds)]).ranges()
    assert offsets.tolist() == [15, 8_007]
    assert sizes.tolist() == [800, 8]


@pytest.mark.parametrize("starts", [[], [-1], [6], [2**62]])
def test_places_beyond_the_bytes_are_refused(starts: list[int]) -> None:
    for bits in (1, 64):
        picked = PickedSlots([(0, bits, RowRanges.one(0, 64 // bits).bounds)])
        with pytest.raises(CorruptFileError):
            picked.decode(as_bytes(bytes(13)), np.array(starts, np.int64))
