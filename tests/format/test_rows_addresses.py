"""Row addresses: joined from and split into fragments and rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.format.rows import (
    MAX_FRAGMENT_ID,
    MAX_ROWS,
    addresses_in,
    addresses_of_rows,
    by_fragment,
    first_address,
    fragment_ids_of,
    rows_of,
)

ROWS = st.lists(st.tuples(st.integers(0, MAX_FRAGMENT_ID), st.integers(0, MAX_ROWS)), max_size=20)


@pytest.mark.parametrize(
    ("fragment", "row", "address"),
    [
        (0, 0, 0),
        (0, MAX_ROWS, 4294967295),
        (1, 0, 4294967296),
        (MAX_FRAGMENT_ID, MAX_ROWS, 2**64 - 1),
    ],
)
def test_the_upper_half_is_the_fragment_and_the_lower_half_the_row(
    fragment: int, row: int, address: int
) -> None:
    assert first_address(fragment) + row == address
    assert addresses_in(fragment, np.array([row])).tolist() == [address]
    assert addresses_of_rows(np.array([fragment]), np.array([row])).tolist() == [address]


@given(ROWS)
def test_addresses_are_split_into_what_they_were_made_of(rows: list[tuple[int, int]]) -> None:
    ids = np.array([fragment for fragment, _ in rows], np.int64)
    offsets = np.array([row for _, row in rows], np.int64)
    addresses = addresses_of_rows(ids, offsets)
    assert addresses.tolist() == [fragment * 2**32 + row for fragment, row in rows]
    assert fragment_ids_of(addresses).tolist() == ids.tolist()
    assert rows_of(addresses).tolist() == offsets.tolist()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=20))
def test_fragments_come_in_order_each_with_the_positions_of_its_addresses(
    rows: list[tuple[int, int]],
) -> None:
    addresses = np.array([fragment * 2**32 + row for fragment, row in rows], np.uint64)
    expected = {
        number: [place for place, (fragment, _) in enumerate(rows) if fragment == number]
        for number in sorted({fragment for fragment, _ in rows})
    }
    found = {number: positions.tolist() for number, positions in by_fragment(addresses)}
    assert list(found.items()) == list(expected.items())
