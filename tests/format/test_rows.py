"""Row ranges against plain lists of rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pilum.format.rows import RowRanges

rows = st.sets(st.integers(0, 60)).map(sorted)


def ranges_of(wanted: list[int]) -> RowRanges:
    return RowRanges.of_rows(np.array(wanted, dtype=np.int64))


@given(rows)
def test_rows_there_and_back(wanted: list[int]) -> None:
    ranges = ranges_of(wanted)
    assert ranges.rows().tolist() == wanted
    assert ranges.rows(1000).tolist() == [1000 + row for row in wanted]
    assert ranges.num_rows == len(wanted)
    assert ranges.bounds.flags.c_contiguous
    assert (ranges.starts[1:] > ranges.stops[:-1]).all()


@given(rows.filter(bool), st.integers(0, 60), st.integers(0, 60))
def test_within(wanted: list[int], start: int, size: int) -> None:
    cut = ranges_of(wanted).within(start, start + size)
    assert cut.rows().tolist() == [row - start for row in wanted if start <= row < start + size]


@given(rows.filter(bool), rows.filter(bool))
def test_split(wanted: list[int], cuts: list[int]) -> None:
    found = {start: part.rows().tolist() for start, part in ranges_of(wanted).split(np.array(cuts))}
    between = {
        start: [row - start for row in wanted if start <= row < stop]
        for start, stop in pairwise(cuts)
    }
    assert found == {start: own for start, own in between.items() if own}


@given(st.integers(1, 60), rows)
def test_covers(count: int, wanted: list[int]) -> None:
    assert ranges_of(list(range(count))).covers(count)
    assert ranges_of(wanted).covers(count) == (wanted == list(range(count)))


def test_empty_ranges_are_dropped() -> None:
    assert RowRanges.of((0, 0), (2, 4), (4, 4)).bounds.tolist() == [[2, 4]]
    assert RowRanges.of().num_rows == 0
