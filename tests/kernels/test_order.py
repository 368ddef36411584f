"""Orders of keys, places in strings and sets of rows, compared with naive Python."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyroaring import BitMap64

from pilum.errors import CorruptFileError
from pilum.index.row_maps import pack_rows
from pilum.kernels import (
    equal_pairs,
    equal_rows,
    pack_row_maps,
    places_of_strings,
    sort_pairs,
    stable_order,
    unite_grouped_row_maps,
    unite_row_maps,
    unpack_row_maps,
)

_WIDE = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1])
_SETS = st.lists(
    st.sets(st.integers(0, 70_000) | st.integers(0, 2**64 - 1), max_size=30), min_size=1, max_size=4
)


@given(st.lists(_WIDE, max_size=50) | st.lists(st.integers(5, 8), max_size=50))
def test_order(keys: list[int]) -> None:
    """Places are in the order of their keys; equal keys keep theirs."""
    expected = sorted(range(len(keys)), key=lambda place: keys[place])
    assert stable_order(np.array(keys, np.uint64)).tolist() == expected


@pytest.mark.parametrize("bits", [1, 11, 12, 23, 44, 64])
def test_order_of_many(bits: int) -> None:
    """Digits of several passes."""
    keys = np.random.default_rng(bits).integers(0, 2**bits, 5000, dtype=np.uint64)
    assert (stable_order(keys) == np.argsort(keys, kind="stable")).all()


@given(st.lists(st.tuples(_WIDE | st.integers(5, 8), _WIDE), max_size=50))
def test_pairs_in_order(pairs: list[tuple[int, int]]) -> None:
    """Keys take their values with them; values of equal keys keep their order."""
    keys, values = (np.array([pair[side] for pair in pairs], np.uint64) for side in (0, 1))
    found = zip(*(one.tolist() for one in sort_pairs(keys, values)), strict=True)
    assert list(found) == sorted(pairs, key=lambda pair: pair[0])
    with pytest.raises(ValueError, match="values"):
        sort_pairs(keys, np.zeros(len(keys) + 1, np.uint64))


_ASCENDING = st.lists(st.integers(0, 30) | st.integers(0, 2**31 - 1), max_size=40).map(sorted)


@given(_ASCENDING, _ASCENDING, st.sampled_from([np.int32, np.uint32, np.int64, np.uint64]))
def test_equal_pairs(wanted: list[int], keys: list[int], kind: Any) -> None:
    """All pairs of equal items, in the order of both."""
    places, found = equal_pairs(np.array(wanted, kind), np.array(keys, kind))
    expected = [
        (place, number)
        for place, one in enumerate(wanted)
        for number, other in enumerate(keys)
        if one == other
    ]
    assert list(zip(places.tolist(), found.tolist(), strict=True)) == expected


_DRAWN: dict[str, Callable[[np.random.Generator, tuple[int, int]], NDArray[Any]]] = {
    "even": lambda random, ends: np.arange(ends[0], ends[1], (ends[1] - ends[0]) // 5000),
    "random": lambda random, ends: random.integers(ends[0], ends[1], 5000),
    "clustered": lambda random, ends: (
        random.integers(ends[0], ends[1], 20).repeat(250) // 2 + random.integers(0, 300, 5000)
    ),
    "growing": lambda random, ends: (ends[1] - 1) // random.integers(1, 10**6, 5000),
    "equal": lambda random, ends: random.choice([ends[0], ends[1] - 1], 5000),
}
"""Keys between two ends."""


@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("drawn", _DRAWN)
def test_pairs_of_few_keys(drawn: str, kind: Any) -> None:
    """Places that are guessed are those of a binary search, whatever the distribution."""
    random, info = np.random.default_rng(5), np.iinfo(kind)
    keys = np.sort(_DRAWN[drawn](random, (int(info.min), min(int(info.max), 2**63 - 1))))
    keys = keys.astype(kind)
    ends = np.array([info.min, info.max], kind)
    wanted = np.sort(
        np.concatenate([random.choice(keys, 90), random.choice(keys[9:], 30) // 2, ends])
    )
    places, found = equal_pairs(wanted, keys)
    starts, stops = (keys.searchsorted(wanted, side) for side in ("left", "right"))
    assert places.tolist() == np.repeat(np.arange(len(wanted)), stops - starts).tolist()
    pairs = zip(starts.tolist(), stops.tolist(), strict=True)
    assert found.tolist() == [place for start, stop in pairs for place in range(start, stop)]


def test_pairs_of_two_types() -> None:
    """Keys of two types are refused."""
    with pytest.raises(ValueError, match="two types"):
        equal_pairs(np.zeros(1, np.int64), np.zeros(1, np.uint64))


@given(
    st.lists(st.tuples(_ASCENDING, _ASCENDING), max_size=4),
    st.sampled_from([np.int32, np.uint32, np.int64, np.uint64]),
)
def test_equal_rows(pages: list[tuple[list[int], list[int]]], kind: Any) -> None:
    """The references of equal keys, page by page; each page has a part of the wanted keys."""
    wanted = np.array([one for _, part in pages for one in part], kind)
    sought, expected, first = [], [], 0
    for number, (keys, part) in enumerate(pages):
        references = np.arange(len(keys), dtype=np.uint64) + np.uint64(100 * number)
        sought.append((np.array(keys, kind), references, first, first + len(part)))
        first += len(part)
        expected += [
            100 * number + place for one in part for place, key in enumerate(keys) if key == one
        ]
    assert equal_rows(wanted, sought).tolist() == expected


def test_rows_of_few_keys_of_a_long_page() -> None:
    """They are searched by halving."""
    keys, references = np.arange(5000) // 2, np.arange(5000, dtype=np.uint64)
    found = equal_rows(np.array([7, 1500, 9999]), [(keys, references, 0, 3)])
    assert found.tolist() == [14, 15, 3000, 3001]


def test_rows_of_pages_that_contradict_each_other() -> None:
    """Keys of two types, references of other keys and parts beyond the end are refused."""
    keys, references = np.zeros(2, np.int64), np.zeros(2, np.uint64)
    for page, problem in (
        ((keys.astype(np.uint64), references, 0, 1), "two types"),
        ((keys, references[:1], 0, 1), "references of keys"),
        ((keys, references, 1, 3), "part of the keys"),
    ):
        with pytest.raises(ValueError, match=problem):
            equal_rows(keys, [page])


@given(
    st.lists(st.binary(max_size=3), max_size=20),
    st.lists(st.binary(max_size=3), max_size=9),
    st.sampled_from([pa.binary(), pa.large_binary()]),
)
def test_places(strings: list[bytes], wanted: list[bytes], kind: pa.DataType) -> None:
    """Strings are found as by bisection, in slices, too."""
    strings.sort()
    offsets, data = _parts(pa.array([b"before", *strings], kind)[1:])
    for after, bisect in ((False, bisect_left), (True, bisect_right)):
        found = places_of_strings(offsets, data, *_parts(pa.array(wanted, pa.binary())), after)
        assert found.tolist() == [bisect(strings, one) for one in wanted]


def test_damaged_strings() -> None:
    """Offsets outside of the data are an error."""
    offsets = np.array([0, 9], np.int32)
    with pytest.raises(ValueError, match="string"):
        places_of_strings(offsets, np.zeros(1, np.uint8), offsets, np.zeros(9, np.uint8), False)


def _parts(array: pa.Array) -> tuple[Any, NDArray[np.uint8]]:
    """Return the offsets and the bytes of strings."""
    width = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
    return ends, np.frombuffer(b"" if data is None else data, np.uint8)


@given(_SETS)
def test_maps(sets: list[set[int]]) -> None:
    """Sets are packed as by `pack_rows`, in any order, and come back alone and united."""
    rows = np.array([row for one in sets for row in one], dtype=np.uint64)
    bounds = np.cumsum([0, *map(len, sets)], dtype=np.int64)
    data, ends = pack_row_maps(rows, bounds)
    expected = [pack_rows(np.array(sorted(one), np.uint64)) for one in sets]
    assert data.tobytes() == b"".join(expected)
    unpacked, counts = unpack_row_maps(data, ends)
    assert unpacked.tolist() == [row for one in sets for row in sorted(one)]
    assert counts.tolist() == bounds.tolist()
    united = BitMap64.deserialize(unite_row_maps(data, ends).tobytes())
    assert set(united) == set().union(*sets)


@given(_SETS, st.data())
def test_groups_of_maps(sets: list[set[int]], data: st.DataObject) -> None:
    """The sets of each group are united; a set that is alone keeps its bytes."""
    groups = data.draw(st.lists(st.lists(st.sampled_from(range(len(sets)))), max_size=4))
    rows = np.array([row for one in sets for row in one], dtype=np.uint64)
    packed, ends = pack_row_maps(rows, np.cumsum([0, *map(len, sets)], dtype=np.int64))
    order = np.array([place for group in groups for place in group], np.int64)
    bounds = np.cumsum([0, *map(len, groups)], dtype=np.int64)
    united, places = unite_grouped_row_maps(packed, ends, order, bounds)
    expected = [sorted(set().union(*(sets[place] for place in group))) for group in groups]
    stored = [pack_rows(np.array(one, np.uint64)) for one in expected]
    assert united.tobytes() == b"".join(stored)
    assert places.tolist() == np.cumsum([0, *map(len, stored)]).tolist()


@given(_SETS, st.data())
def test_damaged_maps(sets: list[set[int]], data: st.DataObject) -> None:
    """Damaged sets are an error, or a set of rows."""
    rows = np.array([row for one in sets for row in one], dtype=np.uint64)
    packed, ends = pack_row_maps(rows, np.cumsum([0, *map(len, sets)], dtype=np.int64))
    packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    try:
        united = BitMap64.deserialize(unite_row_maps(packed, ends).tobytes())
        unpacked, _ = unpack_row_maps(packed, ends)
        places = np.arange(len(sets))
        grouped, _ = unite_grouped_row_maps(packed, ends, places, np.array([0, len(sets)]))
    except CorruptFileError:
        return
    assert set(united) == set(unpacked.tolist())
    rows, _ = unpack_row_maps(grouped, np.array([0, len(grouped)]))
    assert set(rows.tolist()) == set(united)
