"""Masks of rows agree with sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.index.answers import RowBits, RowSet
from pilum.index.vector.row_masks import RowMask

rows = st.builds(
    lambda fragment, row: (fragment << 32) + row,
    st.sampled_from([0, 1, 2, 7, 40, (1 << 20) - 1, 1 << 20, (1 << 32) - 1]),
    st.one_of(st.integers(0, 20), st.sampled_from([5000, (1 << 32) - 2, (1 << 32) - 1])),
)


@given(
    listed=st.sets(rows, max_size=30),
    asked=st.lists(rows, max_size=40),
    is_complement=st.booleans(),
)
def test_masks_agree_with_sets(listed: set[int], asked: list[int], is_complement: bool) -> None:
    asked = [*asked, *listed]
    mask = RowMask(RowSet(np.array(sorted(listed), np.uint64), is_complement))
    expected = [(one in listed) != is_complement for one in asked]
    assert mask.of(np.array(asked, np.uint64)).tolist() == expected


runs = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 70), st.lists(st.booleans(), min_size=1)),
    max_size=4,
)


@given(runs=runs, skipped=st.integers(0, 9), is_complement=st.booleans())
def test_masks_agree_with_sets_of_bits(
    runs: list[tuple[int, int, list[bool]]], skipped: int, is_complement: bool
) -> None:
    """Also where a run begins within a byte of its bitmap."""
    bits: list[RowBits] = []
    expected: list[int] = []
    next_row: dict[int, int] = {}
    for fragment, gap, flags in sorted(runs, key=lambda run: run[0]):
        first = (fragment << 32) + next_row.get(fragment, 0) + gap
        next_row[fragment] = first + len(flags) - (fragment << 32)
        bitmap = np.packbits([True] * skipped + flags + [True], bitorder="little")
        bits.append(RowBits(first, bitmap, skipped, len(flags), sum(flags)))
        expected += [first + place for place, flag in enumerate(flags) if flag]
    rows = RowSet.of_bits(bits)
    assert rows.num_listed == len(expected)
    wanted = ~rows if is_complement else rows
    asked = np.array([(one << 32) + row for one in range(5) for row in range(700)], np.uint64)
    listed = np.isin(asked, np.array(expected, np.uint64))
    assert RowMask(wanted).of(asked).tolist() == (listed ^ is_complement).tolist()
    assert rows.listed.tolist() == expected


@pytest.mark.parametrize("far", [5, 1 << 52])
def test_masks_of_partitions_are_kept(far: int) -> None:
    mask = RowMask(RowSet(np.array([2, 3, far], np.uint64)))
    parts = [np.array(own, np.uint64) for own in ([3, 4, far], [6, 7], [2])]
    one, none, last = mask.of_partitions([8, 0, 1], parts)
    assert one is not None
    assert last is not None
    assert (one.tolist(), none, last.tolist()) == ([True, False, True], None, [True])
    before = mask.size_bytes
    again = mask.of_partitions([1, 0, 8, 9], [parts[2], parts[1], parts[0], parts[0]])
    assert again[:3] == [last, none, one]
    assert again[3] is not None
    assert mask.size_bytes == before + 3


def test_a_mask_is_a_bit_for_each_row() -> None:
    listed = np.array([2, 5, (7 << 32) + 1], np.uint64)
    mask = RowMask(RowSet(listed))
    assert mask.size_bytes == 8
    asked = np.array([5, 6, (7 << 32) + 1, (7 << 32) + 2, 3 << 32, 9 << 32], np.uint64)
    assert mask.of(asked).tolist() == [True, False, True, False, False, False]
    assert mask.allowed.listed is listed


@pytest.mark.parametrize("is_complement", [False, True])
def test_rows_that_lie_far_apart_take_no_table(is_complement: bool) -> None:
    for far in (1 << 31, 1 << 52):  # a high row, a high fragment
        listed = np.array([0, far], np.uint64)
        mask = RowMask(RowSet(listed, is_complement))
        assert mask.size_bytes == 0
        asked = np.array([0, 1, far - 1, far, far + 1], np.uint64)
        expected = np.array([True, False, False, True, False]) ^ is_complement
        assert mask.of(asked).tolist() == expected.tolist()
        assert len(mask.of(np.empty(0, np.uint64))) == 0
