"""Answers of indices follow SQL's logic of true, false and null."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from pilum.index.answers import Answer, RowSet

_ROWS = np.arange(6, dtype=np.uint64)
_TRUTHS = st.lists(st.sampled_from([True, False, None]), min_size=6, max_size=6)


def _answer(truths: list[bool | None]) -> Answer:
    rows = [row for row, truth in enumerate(truths) if truth]
    nulls = [row for row, truth in enumerate(truths) if truth is None]
    return Answer(RowSet.of(np.array(rows, np.uint64)), RowSet.of(np.array(nulls, np.uint64)))


def _truths(answer: Answer) -> list[bool | None]:
    rows, nulls = answer.rows.contains(_ROWS), answer.nulls.contains(_ROWS)
    assert not (rows & nulls).any()
    return [None if null else bool(row) for row, null in zip(rows, nulls, strict=True)]


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _not(one: bool | None) -> bool | None:
    return None if one is None else not one


@given(_TRUTHS, _TRUTHS, _TRUTHS)
def test_logic(one: list[bool | None], two: list[bool | None], three: list[bool | None]) -> None:
    """`NOT (a AND NOT b) OR c` has the same truth in every row as value by value."""
    found = ~(_answer(one) & ~_answer(two)) | _answer(three)
    expected = [
        _not(_and(_and(a, _not(b)), _not(c))) for a, b, c in zip(one, two, three, strict=True)
    ]
    assert _truths(found) == expected


_SETS = st.sets(st.integers(0, 5))


def _row_set(rows: set[int], is_bitmap: bool) -> RowSet:
    return RowSet(BitMap64(rows)) if is_bitmap else RowSet(np.array(sorted(rows), np.uint64))


@given(_SETS, st.booleans(), _SETS, st.booleans(), st.tuples(st.booleans(), st.booleans()))
def test_sets(
    left: set[int],
    negate_left: bool,
    right: set[int],
    negate_right: bool,
    are_bitmaps: tuple[bool, bool],
) -> None:
    """Sets and complements, as arrays and as bitmaps, behave like sets of a small universe."""
    universe = set(range(6))
    one, two = _row_set(left, are_bitmaps[0]), _row_set(right, are_bitmaps[1])
    assert (one.num_listed, two.num_listed) == (len(left), len(right))
    one, two = (~one if negate_left else one), (~two if negate_right else two)
    left, right = (
        (universe - left if negate_left else left),
        (universe - right if negate_right else right),
    )
    unordered = RowSet.of(np.array([*left, *right, *left], np.uint64))
    assert unordered.listed.tolist() == sorted(left | right)
    for found, expected in (
        (one & two, left & right),
        (one | two, left | right),
        (one - two, left - right),
        (~one, universe - left),
    ):
        assert set(found.within(_ROWS).tolist()) == expected


def test_what_is_known_at_most_stays_so() -> None:
    """A combination with an answer that holds too many rows has to be tested again."""
    maybe = Answer(RowSet.of(np.array([1, 2], np.uint64)), is_exact=False)
    exact = Answer(RowSet.of(np.array([2, 3], np.uint64)))
    assert not (maybe & exact).is_exact
    assert (maybe & exact).rows.within(_ROWS).tolist() == [2]
    assert not (maybe | exact).is_exact
    assert (maybe | exact).rows.within(_ROWS).tolist() == [1, 2, 3]


def test_nulls_are_read_when_they_matter() -> None:
    """An index is asked for the rows that are null only where a condition is negated, and once."""
    calls: list[int] = []

    def nulls() -> RowSet:
        calls.append(1)
        return RowSet.of(_ROWS[4:])

    answer = Answer(RowSet.of(_ROWS[:2]), nulls)
    both = (answer & _answer([True] * 6)) | answer
    assert both.rows.listed.tolist() == [0, 1]
    assert not calls
    assert _truths(~both) == [False, False, True, True, None, None]
    assert len(calls) == 1
