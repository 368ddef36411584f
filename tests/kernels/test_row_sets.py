"""Sets of rows and Bloom filters, compared with pyroaring and naive Python."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from pilum.errors import CorruptFileError
from pilum.kernels import (
    RowBitmap,
    bloom_filters,
    bloom_matches,
    hash_fixed,
    hash_strings,
    intersect_rows,
    pack_row_sets,
    unpack_row_sets,
)

_SETS = st.lists(
    st.sets(st.integers(0, 70_000) | st.integers(0, 2**64 - 1), max_size=30), min_size=1, max_size=4
)
_HASHES = {  # of XXH64 with seed 0, published with the algorithm
    b"": 0xEF46DB3751D8E999,
    b"abc": 0x44BC2CF5AD770999,
}


@given(_SETS)
def test_sets_of_rows(sets: list[set[int]]) -> None:
    """Packed sets are those of pyroaring; they come back, alone and intersected."""
    rows = np.array([row for one in sets for row in sorted(one)], dtype=np.uint64)
    bounds = np.cumsum([0, *map(len, sets)], dtype=np.int64)
    data, ends = pack_row_sets(rows, bounds)
    for one, start, stop in zip(sets, ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        assert set(BitMap64.deserialize(data[start:stop].tobytes())) == one
    unpacked, counts = unpack_row_sets(data, ends)
    assert unpacked.tolist() == rows.tolist()
    assert counts.tolist() == bounds.tolist()
    bitmaps = [RowBitmap(data[start:stop]) for start, stop in pairwise(ends.tolist())]
    assert sum(one.size_bytes for one in bitmaps) == len(data)
    assert intersect_rows(bitmaps).tolist() == sorted(set.intersection(*sets))


@given(st.binary(max_size=80), st.lists(st.integers(0, 100), min_size=2, max_size=3))
def test_damaged_sets(data: bytes, bounds: list[int]) -> None:
    """Damaged sets and impossible ends are errors, never a crash."""
    ends, array = np.array(bounds, dtype=np.int64), np.frombuffer(data, dtype=np.uint8)
    with suppress(CorruptFileError):
        unpack_row_sets(array, ends)
    with suppress(CorruptFileError):
        intersect_rows([RowBitmap(array)])
    with pytest.raises(CorruptFileError, match="no set of rows"):
        intersect_rows([])


def test_hashes() -> None:
    """Strings and fixed values have the published hashes of their bytes."""
    data = np.frombuffer(b"abc", dtype=np.uint8)
    assert hash_strings(np.array([0, 0, 3], np.int32), data).tolist() == list(_HASHES.values())
    assert hash_fixed(data, 3).tolist() == [_HASHES[b"abc"]]
    with pytest.raises(ValueError, match="multiple of the width"):
        hash_fixed(data, 2)


@given(
    st.lists(st.integers(0, 2**64 - 1), max_size=30),
    st.lists(st.integers(0, 2**64 - 1), max_size=5),
    st.sampled_from([32, 128]),
    st.data(),
)
def test_bloom_filters(
    hashes: list[int], others: list[int], size: int, data: st.DataObject
) -> None:
    """Filters have the bits that a naive implementation sets, and match as it does."""
    cut = data.draw(st.integers(0, len(hashes)))
    bounds = np.array([0, cut, len(hashes)], dtype=np.int64)
    found = bloom_filters(np.array(hashes, np.uint64), bounds, size)
    naive = [_filter(hashes[:cut], size), _filter(hashes[cut:], size)]
    assert found.tobytes() == b"".join(naive)
    looked_up = [*others, *hashes[:1]]
    ends = np.array([0, size, 2 * size], dtype=np.int64)
    expected = [any(_contains(one, _filter([hash], size)) for hash in looked_up) for one in naive]
    assert bloom_matches(found, ends, np.array(looked_up, np.uint64)).tolist() == expected


def _filter(hashes: list[int], size: int) -> bytes:
    salts = (
        0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947,
        0x5C6BFB31,
    )  # fmt: skip
    words = [0] * (size // 4)
    for hash in hashes:
        block = (hash >> 32) * (size // 32) >> 32
        for place, salt in enumerate(salts):
            words[8 * block + place] |= 1 << ((hash & 0xFFFFFFFF) * salt % 2**32 >> 27)
    return b"".join(word.to_bytes(4, "little") for word in words)


def _contains(filter: bytes, bits: bytes) -> bool:
    return all(own & bit == bit for own, bit in zip(filter, bits, strict=True))
