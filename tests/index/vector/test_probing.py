"""The number of partitions that a query searches at first."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.index.vector.metrics import Metric
from pilum.index.vector.probing import num_probes

# k, then for each metric: margin, least, most, as observed in the reference.
GOLDEN = [
    (1, (0.2175, 5, 19), (0.235, 3, 50), (0.14, 56, 112)),
    (10, (0.265, 6, 24), (0.2875, 8, 77), (0.055, 144, 432)),
    (100, (0.33, 11, 38), (0.38, 7, 106), (0.0625, 200, 768)),
    (200, (0.375, 15, 56), (0.415, 18, 156), (0.0675, 211, 833)),
    (500, (0.3725, 22, 81), (0.45, 28, 192), (0.07, 244, 971)),
    (1000, (0.4175, 29, 93), (0.47, 34, 248), (0.0725, 279, 1092)),
    (10**6, (0.569, 98, 238), (0.647, 104, 447), (0.0825, 517, 1820)),
]
CASES = [
    (metric, last + 1 if is_first else k, rule)
    for last, (k, *rules) in zip([0, *(one[0] for one in GOLDEN)], GOLDEN, strict=False)
    for metric, rule in zip((Metric.L2, Metric.COSINE, Metric.DOT), rules, strict=True)
    for is_first in (False, True)
]
ALL = 2000


def count(distances: Any, metric: Metric, k: int, **keys: Any) -> int:
    """Return the number for one query."""
    [found] = num_probes(np.asarray(distances, np.float32)[None], metric, k, **keys).tolist()
    return int(found)


def distances_with(near: int, margin: float, nearest: float, scale: float) -> Any:
    """Return distances of which `near` are just within a margin, and the others just outside."""
    found = np.full(ALL, nearest + 1.002 * margin * scale, np.float32)
    found[:near] = nearest + 0.998 * margin * scale
    found[0] = nearest
    return np.random.default_rng(near).permutation(found)


@pytest.mark.parametrize(("metric", "k", "rule"), CASES)
def test_partitions_within_a_margin_between_two_limits(
    metric: Metric, k: int, rule: tuple[float, int, int]
) -> None:
    margin, least, most = rule
    # The scale of dot is 1 - distance: the product with the nearest centroid.
    nearest, scale = (-4.0, 5.0) if metric is Metric.DOT else (2.0, 2.0)
    for near in (1, least, least + 1, most, most + 1, ALL):
        found = count(distances_with(near, margin, nearest, scale), metric, k)
        assert found == min(max(near, least), most), near


@pytest.mark.parametrize(("k", "factor"), [(1, 0.6), (2, 7), (10, 7), (11, 81), (5000, 81)])
def test_hamming_counts_up_to_a_multiple_of_the_first(k: int, factor: float) -> None:
    distances = np.array([10, 69, 70, 71, 809, 810, 811])
    expected = max(int((distances <= 10 * factor).sum()), 1)
    assert count(distances, Metric.HAMMING, k) == expected


def test_there_are_never_more_than_exist() -> None:
    for metric in Metric:
        for k in (1, 10, 5000):
            assert 1 <= count([1.0, 1.0, 1.0], metric, k) <= 3
            assert count([1.0], metric, k) == 1
            assert count([1.0, 1.0], metric, k, minimum=9) == 2
            assert count([1.0, 1.0], metric, k, minimum=9, effort=0.0) == 2
            assert count([1.0, 1.0], metric, k, maximum=9, effort=1.0) == 2


@pytest.mark.parametrize(
    ("minimum", "maximum", "expected"),
    [(1, None, 12), (12, None, 12), (13, None, 13), (1, 5, 5), (1, 12, 12), (20, 7, 7), (7, 7, 7)],
)
def test_the_caller_sets_limits(minimum: int, maximum: int | None, expected: int) -> None:
    distances = distances_with(12, 0.265, 2.0, 2.0)
    assert count(distances, Metric.L2, 10, minimum=minimum, maximum=maximum) == expected


@pytest.mark.parametrize(
    ("effort", "expected"), [(0.0, 1), (0.25, 4), (0.5, 12), (0.75, 155), (1.0, 2000)]
)
def test_effort_leads_from_the_minimum_by_the_automatic_number_to_all(
    effort: float, expected: int
) -> None:
    # 12 ** 0.5 is 3.46; 12 * (2000 / 12) ** 0.5 is 154.9.
    assert count(distances_with(12, 0.265, 2.0, 2.0), Metric.L2, 10, effort=effort) == expected


@given(
    effort=st.floats(0, 1),
    minimum=st.integers(1, 12),
    maximum=st.integers(1, ALL),
    near=st.integers(6, 24),
)
def test_effort_between_limits(effort: float, minimum: int, maximum: int, near: int) -> None:
    keys = {"minimum": minimum, "maximum": maximum}
    distances = distances_with(near, 0.265, 2.0, 2.0)
    low, middle = min(minimum, maximum), min(near, maximum)
    if effort <= 0.5:
        exact = low * (middle / low) ** (2 * effort)
    else:
        exact = middle * (maximum / middle) ** (2 * effort - 1)
    found = count(distances, Metric.L2, 10, effort=effort, **keys)
    assert ceil(exact - 1e-9) <= found <= ceil(exact + 1e-9)


def test_each_query_of_a_batch_has_its_own_number() -> None:
    one, other = (distances_with(near, 0.265, 2.0, 2.0) for near in (7, 23))
    assert num_probes(np.stack([one, other]), Metric.L2, 10).tolist() == [7, 23]
    far = np.full(ALL, 5.0, np.float32)
    far[0] = 1
    assert num_probes(np.stack([far, other]), Metric.L2, 10, effort=0.5).tolist() == [6, 23]
