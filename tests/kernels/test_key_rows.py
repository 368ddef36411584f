"""The rows of each key, compared with a dictionary of sets."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pilum.kernels import NumberRows, StringRows, unpack_row_maps

_ROWS = st.integers(0, 300) | st.integers(0, 2**64 - 1)
_NUMBERS = st.integers(0, 3) | st.sampled_from([2**64 - 1, 2**63])


def _sets(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> list[list[int]]:
    rows, bounds = unpack_row_maps(data, ends)
    return [part.tolist() for part in np.split(rows, bounds[1:-1])] if len(bounds) > 1 else []


@given(st.lists(st.tuples(_NUMBERS, _ROWS)), st.lists(_ROWS, max_size=3), st.integers(1, 200))
def test_rows_of_numbers(pairs: list[tuple[int, int]], nulls: list[int], taken_bytes: int) -> None:
    """Numbers come in ascending order, in parts, each with the set of its rows."""
    found, half = NumberRows(), len(pairs) // 2
    for part in (pairs[:half], pairs[half:]):
        found.add(*(np.array([pair[side] for pair in part], np.uint64) for side in (0, 1)))
    found.add_nulls(np.array(nulls, np.uint64))
    assert (found.size_bytes > 0) == bool(pairs or nulls)
    found.sort()
    taken = found.take_nulls()
    assert (_sets(*taken) if taken else []) == ([sorted(set(nulls))] if nulls else [])
    assert found.take_nulls() is None
    rows: dict[int, list[int]] = {}
    for numbers, data, ends in iter(lambda: found.take(taken_bytes), None):
        if not len(numbers):
            break
        rows |= dict(zip(numbers.tolist(), _sets(data, ends), strict=True))
    expected = {key: sorted({row for one, row in pairs if one == key}) for key, _ in pairs}
    assert list(rows.items()) == sorted(expected.items())


@given(st.lists(st.tuples(st.binary(max_size=2), st.integers(0, 300))))
def test_rows_of_strings(pairs: list[tuple[bytes, int]]) -> None:
    """Strings are in the order of their bytes."""
    found = StringRows()
    offsets = np.cumsum([1, *(len(key) for key, _ in pairs)], dtype=np.int32)
    data = np.frombuffer(b"-" + b"".join(key for key, _ in pairs), np.uint8)
    found.add(offsets, data, np.array([row for _, row in pairs], np.uint64))
    found.sort()
    ends, strings, sets, bounds = found.take(1 << 20)
    assert found.take_nulls() is None
    keys = [strings[start:stop].tobytes() for start, stop in pairwise(ends)]
    expected = {key: sorted({row for one, row in pairs if one == key}) for key, _ in pairs}
    assert dict(zip(keys, _sets(sets, bounds), strict=True)) == expected
    assert keys == sorted(expected)


def test_impossible_rows() -> None:
    """As many rows as keys, and offsets within the data."""
    one = np.zeros(1, np.uint64)
    with pytest.raises(ValueError, match="rows"):
        NumberRows().add(one, one[:0])
    with pytest.raises(ValueError, match="key"):
        StringRows().add(np.array([0, 9], np.int32), np.zeros(1, np.uint8), one)
    with pytest.raises(ValueError, match="offsets"):
        StringRows().add(np.array([3, 2], np.int64), np.zeros(4, np.uint8), one)
