"""Permutations reach each place exactly once, and stay the same for ever."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.training import permutation
from pilum.training.permutation import Permutation, key_of


@given(size=st.integers(1, 5000), key=st.integers(0, 2**64 - 1), with_table=st.booleans())
def test_each_place_is_reached_once(size: int, key: int, with_table: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if not with_table:
            patch.setattr(permutation, "_TABLE_PLACES", 0)
        moved = Permutation(size, key).at(np.arange(size))
    assert np.array_equal(np.sort(moved), np.arange(size))


def test_places_of_a_size_beyond_any_table() -> None:
    places = np.concatenate([np.arange(1000), np.arange(10**12 - 1000, 10**12)])
    order = Permutation(10**12, 7)
    moved = order.at(places)
    assert len(set(moved.tolist())) == 2000
    assert 0 <= moved.min() <= moved.max() < 10**12
    assert np.array_equal(order.at(places[::-1]), moved[::-1])
    assert abs(moved.mean() / 10**12 - 0.5) < 0.05


@pytest.mark.parametrize("most", [0, 100])
def test_all_orders_of_four_places_are_about_as_likely(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permutation, "_TABLE_PLACES", most)
    orders = Counter(
        tuple(Permutation(4, key_of(seed)).at(np.arange(4)).tolist()) for seed in range(2400)
    )
    assert len(orders) == 24
    assert min(orders.values()) > 60
    assert max(orders.values()) < 140


def test_the_order_never_changes_between_releases() -> None:
    table = Permutation(10, key_of(1, 2)).at(np.arange(10))
    network = Permutation((1 << 20) + 1, key_of(1, 2)).at(np.arange(5))
    assert table.tolist() == [7, 5, 0, 9, 2, 1, 6, 4, 8, 3]
    assert network.tolist() == [942696, 256191, 805463, 875227, 843659]


def test_keys_depend_on_the_order_of_numbers() -> None:
    assert len({key_of(1, 2), key_of(2, 1), key_of(1), key_of(1, 2, 0), key_of(0, 1, 2)}) == 5
