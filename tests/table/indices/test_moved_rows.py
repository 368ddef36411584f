"""Recorded moves are followed as a dict of addresses would be."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from pilum.errors import CorruptFileError
from pilum.format.pb import reuse_pb2
from pilum.table.indices.moved_rows import MovedRows

Details = reuse_pb2.FragmentReuseIndexDetails
Rows = dict[int, list[int]]


def version(*groups: tuple[Rows, dict[int, int]]) -> reuse_pb2.FragmentReuseIndexDetails.Version:
    """The record of a compaction: live rows of old fragments, sizes of new ones."""
    return Details.Version(groups=[group(old, new) for old, new in groups])


def group(old: Rows, new: dict[int, int]) -> reuse_pb2.FragmentReuseIndexDetails.Group:
    parts = [
        struct.pack("<I", number) + BitMap(rows).serialize()
        for number, rows in sorted(old.items())
        if rows
    ]
    return Details.Group(
        changed_row_addrs=struct.pack("<Q", len(parts)) + b"".join(parts),
        old_fragments=[Details.Fragment(id=number) for number in old],
        new_fragments=[Details.Fragment(id=n, physical_rows=count) for n, count in new.items()],
    )


FRAGMENT = st.lists(st.integers(0, 12) | st.integers(0, 200), max_size=12, unique=True).map(sorted)


@given(st.lists(st.lists(FRAGMENT, min_size=1, max_size=3), max_size=3), st.data())
def test_rows_are_followed(groups: list[list[list[int]]], data: st.DataObject) -> None:
    expected: dict[int, int | None] = {}
    records = []
    number, new_number = 0, 100
    for fragments in groups:
        old = {number + place: rows for place, rows in enumerate(fragments)}
        number += len(fragments)
        alive = [one << 32 | row for one, rows in old.items() for row in rows]
        first = data.draw(st.integers(0, len(alive)))
        new = {new_number: first, new_number + 1: len(alive) - first}
        places = [one << 32 | row for one, count in new.items() for row in range(count)]
        expected.update(zip(alive, places, strict=True))
        new_number += 2
        records.append((old, new))
    asked = sorted(expected) + [f << 32 | row for f in range(number + 2) for row in (0, 7, 250)]
    moved = MovedRows([version(*records)])
    found, is_there = moved(np.array(asked, np.uint64))
    for address, place, there in zip(asked, found.tolist(), is_there.tolist(), strict=True):
        if address >> 32 >= number:
            assert (place, there) == (address, True)
        else:
            assert there == (address in expected)
            assert not there or place == expected[address]


def test_moves_follow_each_other_and_so_does_coverage() -> None:
    moved = MovedRows(
        [version(({0: [0, 2], 1: [1]}, {4: 3})), version(({4: [1, 2], 3: [0]}, {5: 3}))]
    )
    asked = np.array([0, 2, 1 << 32 | 1, 3 << 32, 7 << 32], np.uint64)
    found, is_there = moved(asked)
    assert is_there.tolist() == [False, True, True, True, True]
    # Rows are in the order of their old addresses: that of fragment 3 comes first.
    assert found[1:].tolist() == [5 << 32 | 1, 5 << 32 | 2, 5 << 32, 7 << 32]
    assert moved.covered(BitMap([0, 1, 3])) == BitMap([5])
    assert moved.covered(BitMap([0, 1])) == BitMap()
    assert moved.covered(BitMap([0, 3, 9])) == BitMap([9])
    assert moved.new_fragments == BitMap([4, 5])


@pytest.mark.parametrize(
    ("damaged", "text"),
    [
        (group({0: [0, 1]}, {4: 1}), "fewer rows"),
        (group({0: [0], 1: [1]}, {4: 2}), "rows of other fragments"),
        (group({0: [0]}, {2**40: 1}), "more than 32 bits"),
        (Details.Group(changed_row_addrs=b"\x01"), "moved rows"),
        (Details.Group(changed_row_addrs=b""), "moved rows"),
    ],
)
def test_damaged_records_are_refused(
    damaged: reuse_pb2.FragmentReuseIndexDetails.Group, text: str
) -> None:
    if "other" in text:
        del damaged.old_fragments[1:]
    with pytest.raises(CorruptFileError, match=text):
        MovedRows([Details.Version(groups=[damaged])])
