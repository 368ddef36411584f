"""Sequences of row ids: every form of segment, bytes that are known, and damage."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.errors import CorruptFileError
from pilum.format.pb import row_ids_pb2
from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.model.row_id_sequence import RowIdSequence

HOLES = np.delete(np.arange(1000, dtype=np.uint64), [10, 500])

IDS = st.one_of(
    st.lists(st.integers(0, 40), max_size=40),
    st.lists(st.integers(0, 2**64 - 1), max_size=10),
    st.lists(st.integers(2**40, 2**40 + 70000), max_size=30).map(sorted),
    st.sets(st.integers(2**64 - 60, 2**64 - 2), max_size=50).map(sorted),
    st.builds(
        lambda start, length: list(range(start, start + length)),
        st.integers(0, 2**50),
        st.integers(0, 200),
    ),
)


def ids_of(sequence: RowIdSequence) -> list[int]:
    """The ids, and a check that all ways to count them agree."""
    listed = sequence.ids()
    assert listed.dtype == np.uint64
    assert len(sequence) == len(listed)
    found: list[int] = listed.tolist()
    return found


def array(*ids: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array(ids, dtype=np.uint64)


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        (range(5), "0a 04 0a 02 10 05"),
        (range(5, 10), "0a 06 0a 04 08 05 10 0a"),
        (array(0, 1, 12), "0a 08 1a 06 10 0d 1a 02 03 10"),
        (array(4, 15), "0a 0a 1a 08 08 04 10 10 1a 02 01 08"),
        (HOLES, "0a 11 12 0f 10 e8 07 1a 0a 0a 08 08 0a 12 04 00 00 ea 01"),
    ],
)
def test_bytes_as_the_reference_writes_them(ids: Any, text: str) -> None:
    """S2.12: all representations of a sequence."""
    data = bytes.fromhex(text)
    assert RowIdSequence.of(ids).to_bytes() == data
    assert ids_of(RowIdSequence.from_bytes(data, 1000)) == list(ids)


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        ([3, 4, 5], "range"),
        ([7], "range"),
        ([5, 4], "array"),
        ([4, 4], "array"),
        ([0, 9], "range_with_bitmap"),
        ([0, 90], "sorted_array"),
        ([*range(500), *range(501, 1000)], "range_with_holes"),
    ],
)
def test_the_smallest_segment_is_chosen(ids: list[int], kind: str) -> None:
    """S2.12: all representations of a sequence."""
    data = RowIdSequence.of(array(*ids)).to_bytes()
    (segment,) = row_ids_pb2.RowIdSequence.FromString(data).segments
    assert segment.WhichOneof("segment") == kind
    assert ids_of(RowIdSequence.from_bytes(data, len(ids))) == ids


@given(st.lists(IDS, max_size=4))
def test_sequences_come_back(parts: list[list[int]]) -> None:
    whole = RowIdSequence.concatenate(RowIdSequence.of(array(*ids)) for ids in parts)
    expected = [one for ids in parts for one in ids]
    assert ids_of(whole) == expected
    assert ids_of(RowIdSequence.from_bytes(whole.to_bytes(), len(expected))) == expected
    assert whole.highest == max(expected, default=-1)


@given(st.lists(st.one_of(IDS.map(lambda ids: array(*ids)), st.just(range(9, 30)))), st.data())
def test_parts_of_sequences(parts: list[Any], data: st.DataObject) -> None:
    whole = RowIdSequence.concatenate(map(RowIdSequence.of, parts))
    ids = ids_of(whole)
    start, stop = sorted(data.draw(st.tuples(*2 * [st.integers(0, len(ids))])))
    assert ids_of(whole.slice(start, stop)) == ids[start:stop]
    offsets = st.lists(st.integers(0, len(ids) - 1), unique=True) if ids else st.just([])
    chosen = data.draw(offsets)
    assert whole.at(np.array(chosen, dtype=np.int64)).tolist() == [ids[one] for one in chosen]
    left = whole.without(DeletionVector.of(np.array(chosen, dtype=np.uint32)))
    assert ids_of(left) == [one for offset, one in enumerate(ids) if offset not in chosen]
    stored = RowIdSequence.from_bytes(left.to_bytes(), len(left))
    assert ids_of(stored) == ids_of(left)


def test_long_arrays_are_cut_where_that_is_smaller() -> None:
    ids = np.cumsum(np.tile(np.array([3, 28], dtype=np.uint64), 10_000))
    data = RowIdSequence.of(ids).to_bytes()
    assert len(data) < 2.1 * len(ids)
    found = RowIdSequence.from_bytes(data, len(ids))
    assert len(found.pieces) == 5
    assert [len(piece) for piece in found.joined().pieces] == [len(ids)]
    assert found.ids().tolist() == ids.tolist()


def test_ranges_that_continue_each_other_are_one() -> None:
    parts = [RowIdSequence.of(range(5)), RowIdSequence.of(range(5, 9)), RowIdSequence()]
    assert RowIdSequence.concatenate(parts).pieces == (range(9),)


def segment(**kinds: Any) -> bytes:
    message = row_ids_pb2.RowIdSequence()
    message.segments.add(**kinds)
    data: bytes = message.SerializeToString()
    return data


Segment = row_ids_pb2.U64Segment
Array = row_ids_pb2.EncodedU64Array
TOO_HIGH = Array(u16_array=Array.U16Array(base=2**64 - 1, offsets=b"\x01\x00"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x0a", "row ids"),
        (segment(), "unknown kind"),
        (segment(range=Segment.Range(start=0, end=2**63)), "more than the 10"),
        (segment(range=Segment.Range(start=0, end=2**64 - 1)), "more than the 10"),
        (segment(range=Segment.Range(start=0, end=11)), "more than the 10"),
        (segment(range=Segment.Range(start=3, end=2)), "from 3 to 2"),
        (segment(array=Array()), "unknown kind"),
        (segment(array=Array(u16_array=Array.U16Array(offsets=b"123"))), "3 bytes of 2"),
        (segment(array=TOO_HIGH), "64 bits"),
        (
            segment(sorted_array=Array(u16_array=Array.U16Array(offsets=b"\x02\0\x01\0"))),
            "not sorted",
        ),
        (
            segment(range_with_bitmap=Segment.RangeWithBitmap(end=2**62, bitmap=b"1")),
            "bitmap of 1 bytes",
        ),
        (
            segment(range_with_bitmap=Segment.RangeWithBitmap(end=3, bitmap=b"\xff")),
            "beyond its range",
        ),
        (
            segment(
                range_with_holes=Segment.RangeWithHoles(
                    end=1, holes=Array(u16_array=Array.U16Array(offsets=b"\0\0\1\0"))
                )
            ),
            "more holes",
        ),
        (
            segment(
                range_with_holes=Segment.RangeWithHoles(
                    end=3, holes=Array(u16_array=Array.U16Array(offsets=b"\3\0"))
                )
            ),
            "outside of their range",
        ),
    ],
)
def test_damage(data: bytes, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        RowIdSequence.from_bytes(data, 10)


def test_few_bytes_take_little_memory() -> None:
    holes = Array(u16_array=Array.U16Array(base=1000, offsets=b"\x01\x00\x05\x00"))
    data = segment(range_with_holes=Segment.RangeWithHoles(end=2**31, holes=holes))
    whole = RowIdSequence.from_bytes(data, 2**31)
    assert whole.pieces == (range(1001), range(1002, 1005), range(1006, 2**31))
    assert whole.at(np.array([1000, 1001, 1004])).tolist() == [1000, 1002, 1006]
    with pytest.raises(CorruptFileError, match="more than"):
        RowIdSequence.from_bytes(segment(range=Segment.Range(end=2**64 - 1)), 2**64 - 1)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_sequence_or_damage(data: bytes) -> None:
    with suppress(CorruptFileError):
        assert len(RowIdSequence.from_bytes(data, 100)) <= 100
