"""A bitmap behaves like a set of numbers, of any iterable of them."""

from __future__ import annotations

import pickle
from collections.abc import MutableSet
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.bitmap import Bitmap
from pilum.errors import InvalidInputError

NUMBERS = st.sets(st.integers(0, 2**32 - 1) | st.integers(0, 20))
OPERATORS = ["__and__", "__or__", "__sub__", "__xor__", "__rsub__"]
METHODS = ["intersection", "union", "difference", "symmetric_difference"]
QUESTIONS = ["__le__", "__lt__", "__ge__", "__gt__", "issubset", "issuperset", "isdisjoint"]


@given(NUMBERS, NUMBERS)
def test_operations_are_those_of_sets(left: set[int], right: set[int]) -> None:
    bitmap = Bitmap(left)
    for name in [*OPERATORS, *METHODS]:
        expected = getattr(left, name)(right)
        for other in (Bitmap(right), right, list(right) * 2):
            found = getattr(bitmap, name)(other)
            assert isinstance(found, Bitmap)
            assert set(found) == expected
    for name in QUESTIONS:
        assert getattr(bitmap, name)(right) == getattr(left, name)(right)
    assert list(bitmap) == sorted(left)
    assert len(bitmap) == len(left)
    assert (bitmap == Bitmap(right)) == (left == right) == (bitmap == right)


@given(NUMBERS, NUMBERS)
def test_operations_in_place_change_only_one(left: set[int], right: set[int]) -> None:
    for name in ("__iand__", "__ior__", "__isub__", "__ixor__"):
        original = Bitmap(left)
        changed = getattr(original.copy(), name)(Bitmap(right))
        assert set(changed) == getattr(set(left), name)(right)
        assert set(original) == left


def test_single_values() -> None:
    bitmap = Bitmap(pa.array([5, 3]))
    bitmap.add(4)
    bitmap.discard(5)
    bitmap.discard(-1)
    bitmap.update([9, 9])
    assert 4 in bitmap
    assert -1 not in bitmap
    assert bitmap.__contains__("4") is False
    assert bitmap.pop() == 3
    assert repr(bitmap) == "Bitmap([4, 9])"
    assert pickle.loads(pickle.dumps(bitmap)) == bitmap
    assert isinstance(bitmap, MutableSet)
    bitmap.clear()
    assert not bitmap
    with pytest.raises(KeyError):
        bitmap.pop()
    with pytest.raises(KeyError):
        bitmap.remove(1)


@pytest.mark.parametrize("values", [[-1], [2**32], ["a"], [1.5], 3])
def test_other_values_are_refused(values: Any) -> None:
    with pytest.raises(InvalidInputError, match="integers from 0"):
        Bitmap(values)
