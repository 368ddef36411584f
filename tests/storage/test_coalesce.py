"""Joining ranges: nothing is missing, nothing overlaps, and near ones are read together."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pilum.storage.coalesce import ALIGNMENT_BYTES, GAP_BYTES, Layout, lay_out

FILE_SIZE = 10**6
pairs = st.tuples(st.integers(0, FILE_SIZE), st.integers(0, 60_000)).map(
    lambda pair: (pair[0], min(pair[1], FILE_SIZE - pair[0]))
)


def layout_of(ranges: list[tuple[int, int]]) -> Layout:
    numbers = np.array(ranges, dtype=np.int64).reshape(-1, 2)
    layout = lay_out(numbers[:, 0], numbers[:, 1], FILE_SIZE)
    assert isinstance(layout, Layout)
    return layout


@given(st.lists(pairs, max_size=80))
def test_a_layout_covers_its_ranges(ranges: list[tuple[int, int]]) -> None:
    layout = layout_of(ranges)
    regions = sorted(layout.regions)
    for (offset, size, place), (other, _, behind) in pairwise(regions):
        assert offset + size + GAP_BYTES < other
        assert place + size <= behind
    for offset, size, place in regions:
        assert offset % ALIGNMENT_BYTES == place % ALIGNMENT_BYTES
        assert place + size <= layout.size_bytes
    for (offset, size), start in zip(ranges, layout.starts.tolist(), strict=True):
        assert any(
            start - place == offset - begin and begin <= offset and offset + size <= begin + length
            for begin, length, place in regions
        )


@given(st.lists(pairs, min_size=1, max_size=20))
def test_few_and_many_ranges_are_laid_out_alike(ranges: list[tuple[int, int]]) -> None:
    few, many = layout_of(ranges), layout_of(ranges * 40)
    assert [*few.regions] == [*many.regions]
    assert few.size_bytes == many.size_bytes
    assert few.starts.tolist() == many.starts[: len(ranges)].tolist()
