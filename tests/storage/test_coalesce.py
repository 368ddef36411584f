"""Joining ranges: nothing is missing, nothing overlaps, and near ones are read together."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
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


def naive(ranges: list[tuple[int, int]], gap: int) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Lay out ranges byte by byte of the description."""
    starts = [0] * len(ranges)
    regions: list[tuple[int, int, int]] = []
    for index in sorted(range(len(ranges)), key=ranges.__getitem__):
        offset, size = ranges[index]
        last, length, place = regions[-1] if regions else (offset, 0, 0)
        if not regions or offset > last + length + gap:
            end = -(-(place + length) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
            last, length, place = offset, 0, end + offset % ALIGNMENT_BYTES
            regions.append((last, length, place))
        regions[-1] = last, max(length, offset + size - last), place
        starts[index] = place + offset - last
    return regions, starts


@given(st.lists(pairs, max_size=40), st.sampled_from([0, 100, GAP_BYTES]))
def test_a_layout_is_that_of_the_naive_twin(ranges: list[tuple[int, int]], gap: int) -> None:
    numbers = np.array(ranges, dtype=np.int64).reshape(-1, 2)
    layout = lay_out(numbers[:, 0], numbers[:, 1], FILE_SIZE, gap)
    assert isinstance(layout, Layout)
    assert (layout.regions, layout.starts.tolist()) == naive(ranges, gap)


@pytest.mark.parametrize("wrong", [(-1, 1), (5, -1), (FILE_SIZE, 1), (2**63 - 1, 2**63 - 1)])
def test_the_first_range_outside_of_the_file_is_named(wrong: tuple[int, int]) -> None:
    numbers = np.array([(0, FILE_SIZE), wrong, (-2, 1)], dtype=np.int64)
    assert lay_out(numbers[:, 0], numbers[:, 1], FILE_SIZE) == 1
