"""Rows of one width are found by their pages, and copied as they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.errors import CorruptFileError
from pilum.kernels import bytes_within, gather_rows, plain_offsets

DATA = np.arange(251, dtype=np.uint8)
WIDTH = 12


@given(st.lists(st.integers(0, 5), min_size=1), st.data())
def test_rows_are_counted_from_the_first_one_of_their_page(
    lengths: list[int], data: st.DataObject
) -> None:
    bounds = np.cumsum([0, *lengths])
    page_of = np.repeat(np.arange(len(lengths)), lengths)
    places = np.array(data.draw(st.permutations(range(len(lengths))))) * 100
    rows = np.array(
        data.draw(st.lists(st.sampled_from(range(len(page_of))))) if any(lengths) else []
    )
    rows = rows.astype(np.int64)
    expected = [
        places[page] + (row - bounds[page]) * WIDTH for row in rows for page in [page_of[row]]
    ]
    for some in (rows, np.repeat(rows, 2)[::2]):  # adjacent numbers, and others
        found = plain_offsets(some, bounds, places, WIDTH)
        assert found is not None
        assert found.tolist() == expected
    unknown = data.draw(st.sampled_from(range(len(lengths))))
    places[unknown] = -data.draw(st.integers(1, 3))
    is_complete = plain_offsets(rows, bounds, places, WIDTH) is not None
    assert is_complete == (unknown not in page_of[rows])


@pytest.mark.parametrize("row", [-1, 7, 2**62])
def test_rows_of_no_page_are_damage(row: int) -> None:
    with pytest.raises(CorruptFileError, match="rows: out of range"):
        plain_offsets(np.array([0, row]), np.array([0, 7]), np.array([5]), WIDTH)


@given(st.lists(st.integers(0, len(DATA) - WIDTH)))
def test_the_bytes_of_each_row_come_back(starts: list[int]) -> None:
    found = gather_rows(DATA, np.array(starts, np.int64), WIDTH)
    assert found.shape == (len(starts), WIDTH)
    assert [row.tolist() for row in found] == [
        DATA[start : start + WIDTH].tolist() for start in starts
    ]


@pytest.mark.parametrize("start", [-1, len(DATA) - WIDTH + 1, 2**62])
def test_bytes_outside_are_damage(start: int) -> None:
    with pytest.raises(CorruptFileError, match="of a row"):
        gather_rows(DATA, np.array([0, start]), WIDTH)


@given(st.lists(st.tuples(st.integers(-5, 110), st.integers(-5, 110))))
def test_bytes_count_unless_a_range_is_outside(ranges: list[tuple[int, int]]) -> None:
    numbers = np.array(ranges, np.int64).reshape(-1, 2)
    is_outside = any(start < 0 or size < 0 or start + size > 100 for start, size in ranges)
    expected = None if is_outside else sum(size for _, size in ranges)
    assert bytes_within(numbers[:, 0], numbers[:, 1], 100) == expected
