"""What pages of version 2.0 are made of: ranges, adjusted offsets, packed integers, strings."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum import kernels
from pilum.errors import CorruptFileError
from pilum.kernels import reference


def pairs(ranges: list[tuple[int, int]]) -> np.ndarray:
    return np.array(ranges, np.int64).reshape(-1, 2)


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


@st.composite
def ranges_within(draw: st.DrawFn, size: int) -> list[tuple[int, int]]:
    starts = draw(st.lists(st.integers(0, size), max_size=9))
    return [(start, draw(st.integers(0, size - start))) for start in starts]


@given(st.data())
def test_ranges_are_joined(data: st.DataObject) -> None:
    content = data.draw(st.binary(max_size=40))
    ranges = data.draw(ranges_within(len(content)))
    joined = b"".join(content[start : start + size] for start, size in ranges)
    assert kernels.gather_bytes(array(content), pairs(ranges)).tobytes() == joined
    bits = data.draw(ranges_within(8 * len(content)))
    found = kernels.gather_bits(array(content), pairs(bits))
    expected = reference.gather_bits(content, bits)
    assert np.unpackbits(found, bitorder="little").tolist()[: len(expected)] == expected
    assert not np.unpackbits(found, bitorder="little")[len(expected) :].any()


@given(
    values=st.lists(st.none() | st.binary(max_size=3), max_size=12),
    dtype=st.sampled_from([np.int32, np.int64]),
    data=st.data(),
)
def test_ends_of_strings(values: list[bytes | None], dtype: type, data: st.DataObject) -> None:
    ranges = data.draw(ranges_within(len(values)))
    ends: Any = np.cumsum([0, *(len(value or b"") for value in values)]).astype(dtype)
    valid = np.array([value is not None for value in values], np.bool_)
    validity = np.packbits(valid, bitorder="little")
    joined = array(b"".join(value or b"" for value in values))
    found = kernels.text_ends(ends, joined, validity, pairs(ranges)).reshape(-1, 2)
    assert [tuple(pair) for pair in found.tolist()] == reference.text_ends(values, ranges)
    with pytest.raises(CorruptFileError):
        kernels.text_ends(ends, joined, None, pairs([(len(values), 1)]))


@pytest.mark.parametrize("bad", [(4, 1), (0, 5), (2**40, 1), (1, 2**59)])
def test_ranges_must_lie_within(bad: tuple[int, int]) -> None:
    with pytest.raises(CorruptFileError):
        kernels.gather_bytes(array(b"abcd"), pairs([bad]))
    with pytest.raises(CorruptFileError):
        kernels.gather_bits(array(b"abcd"), pairs([(8 * bad[0], 8 * bad[1])]))


@given(
    lengths=st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=30),
    room=st.integers(1, 9),
    cuts=st.lists(st.integers(0, 30), max_size=6),
    bits=st.sampled_from([32, 64]),
)
def test_entries_of_ranges(
    lengths: list[tuple[int, bool]], room: int, cuts: list[int], bits: int
) -> None:
    ends = np.cumsum([length for length, _ in lengths])
    adjustment = int(ends[-1]) + room
    stored = [int(e) + adjustment * null for e, (_, null) in zip(ends, lengths, strict=True)]
    points = sorted({min(cut, len(stored)) for cut in cuts})
    bounds = [pair for pair in pairwise(points) if sum(pair) % 3]
    words = [word for start, stop in bounds for word in stored[max(start - 1, 0) : stop]]
    offsets, spans, validity, null_count = kernels.adjusted_entries(
        np.array(words, np.uint64).view(np.uint8), adjustment, pairs(bounds), bits
    )
    expected = reference.adjusted_entries(stored, adjustment, bounds)
    assert offsets.dtype == f"int{bits}"
    assert null_count == expected.count(None)
    valid = [entry is not None for entry in expected]
    if validity is None:
        assert all(valid)
    else:
        assert np.unpackbits(validity, bitorder="little")[: len(valid)].tolist() == valid
    spans = spans.reshape(-1, 2)
    page = np.concatenate([np.empty(0, int), *(np.arange(a, b) for a, b in spans)])
    for entry, (start, stop) in zip(expected, pairwise(offsets.tolist()), strict=True):
        if entry is not None:
            assert page[start:stop].tolist() == list(range(*entry))


@pytest.mark.parametrize(
    ("stored", "adjustment"), [([5, 4], 9), ([1, 2], 0), ([1], 9), ([1, 2**62], 2**63), ([], 9)]
)
def test_offsets_that_cannot_be(stored: list[int], adjustment: int) -> None:
    words = np.array(stored, np.uint64).view(np.uint8)
    with pytest.raises(CorruptFileError):
        kernels.adjusted_entries(words, adjustment, pairs([(0, 2)]), 32)


@given(st.data(), st.sampled_from([8, 16, 32, 64]), st.booleans())
def test_packed_integers(data: st.DataObject, bits: int, signed: bool) -> None:
    width = data.draw(st.integers(1, bits))
    content = data.draw(st.binary(max_size=80))
    count = data.draw(st.integers(0, 8 * len(content) // width))
    found = kernels.unpack_linear(array(content), 0, width, bits, signed, count)
    kind = f"<{'i' if signed else 'u'}{bits // 8}"
    expected = reference.unpack_linear(content, width, signed, count)
    assert found.view(kind).tolist() == expected
    if count:
        rest = kernels.unpack_linear(array(content), width, width, bits, signed, count - 1)
        assert rest.view(kind).tolist() == expected[1:]


@pytest.mark.parametrize(("width", "count"), [(3, 6), (0, 1), (9, 1), (8, 2**61)])
def test_packed_integers_that_cannot_be(width: int, count: int) -> None:
    with pytest.raises(CorruptFileError):
        kernels.unpack_linear(array(b"\0\0"), 0, width, 8, False, count)


@given(st.lists(st.text(max_size=20), max_size=200))
def test_neighbouring_strings(texts: list[str]) -> None:
    raw = [text.encode() for text in texts]
    offsets = np.append(0, np.cumsum([len(text) for text in raw])).astype(np.int64)
    table, ends, codes = kernels.compress_fsst(offsets, array(b"".join(raw)))
    found, data = kernels.decompress_fsst(table.tobytes(), ends, codes)
    assert found.tolist() == offsets.tolist()
    assert data.tobytes() == b"".join(raw)


def test_a_string_that_ends_within_a_code() -> None:
    table, _, _ = kernels.compress_fsst(np.array([0, 4]), array(b"abab"))
    with pytest.raises(CorruptFileError):
        kernels.decompress_fsst(table.tobytes(), np.array([0, 1, 2]), array(b"\xffa"))


@given(st.binary(max_size=300))
def test_lz4_blocks(data: bytes) -> None:
    packed = kernels.compress("lz4", array(data), 0)
    assert kernels.decompress("lz4", packed).tobytes() == data
