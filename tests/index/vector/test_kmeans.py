"""K-means: properties, checked with numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pilum.index.vector import kmeans
from pilum.index.vector.kmeans import (
    bits,
    directions,
    k_means,
    many_clusters,
    nearest,
    nearest_by_pool,
)


def _squares(rows: NDArray[np.float32], centroids: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = rows.astype(np.float64)[:, None] - centroids.astype(np.float64)[None]
    return np.asarray((wide**2).sum(axis=2))


def _blobs(num_rows: int, count: int, dimension: int = 8) -> NDArray[np.float32]:
    generator = np.random.default_rng(7)
    middles = generator.normal(size=(count, dimension)) * 30
    chosen = generator.integers(0, count, num_rows)
    return (middles[chosen] + generator.normal(size=(num_rows, dimension))).astype(np.float32)


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 20), st.integers(0, 99))
def test_nearest_is_that_of_numpy(n: int, dimension: int, count: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(n, dimension)).astype(np.float32)
    centroids = generator.normal(size=(count, dimension)).astype(np.float32)
    numbers, distances = nearest(rows, centroids)
    expected = _squares(rows, centroids)
    np.testing.assert_allclose(expected[np.arange(n), numbers], expected.min(axis=1), atol=1e-4)
    np.testing.assert_allclose(distances, expected.min(axis=1), atol=1e-4)


def test_threads_find_the_same() -> None:
    rows = np.random.default_rng(1).normal(size=(3001, 64)).astype(np.float32)
    alone, together = nearest(rows, rows[:64]), nearest_by_pool(rows, rows[:64])
    assert np.array_equal(alone[0], together[0])
    np.testing.assert_allclose(alone[1], together[1], atol=1e-3)


@given(st.integers(1, 80), st.integers(1, 6), st.data())
def test_rows_are_in_the_nearest_cluster(n: int, dimension: int, data: st.DataObject) -> None:
    count, seed = data.draw(st.integers(1, n)), data.draw(st.integers(0, 99))
    rows = np.random.default_rng(seed).integers(-3, 4, (n, dimension)).astype(np.float32)
    found = k_means(rows, count, np.random.default_rng(seed))
    expected = _squares(rows, found.centroids)
    own = expected[np.arange(n), found.numbers]
    np.testing.assert_allclose(own, expected.min(axis=1), atol=1e-3)
    assert found.loss == pytest.approx(own.sum(), abs=1e-2)
    assert found.centroids.shape == (count, dimension)


def test_the_loss_never_grows_with_iterations() -> None:
    rows = np.random.default_rng(2).normal(size=(2000, 6)).astype(np.float32)
    losses = [
        k_means(rows, 40, np.random.default_rng(3), max_iterations=number).loss
        for number in range(8)
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


def test_separate_blobs_are_found() -> None:
    rows = _blobs(3000, 12)
    centroids = many_clusters(rows, 24, np.random.default_rng(4))
    assert len(np.unique(nearest(rows, centroids)[0])) == 24
    assert nearest(rows, centroids)[1].mean() < 9  # one blob has 8 on average


def test_few_different_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.repeat(np.eye(3, dtype=np.float32), 200, axis=0)
    found = k_means(rows, 10, np.random.default_rng(5))
    assert found.loss == 0
    assert len(many_clusters(rows, 400, np.random.default_rng(5))) == 400
    monkeypatch.setattr(kmeans, "_MOST_PRODUCTS", 0)
    assert len(many_clusters(rows, 400, np.random.default_rng(5))) < 400


def test_empty_clusters_begin_again() -> None:
    rows = np.concatenate([np.zeros((990, 2)), _blobs(10, 10, 2)]).astype(np.float32)
    found = k_means(rows, 8, np.random.default_rng(6))
    assert len(np.unique(found.numbers)) == 8


def test_very_many_clusters_are_found_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kmeans, "_MOST_PRODUCTS", 0)
    rows = np.random.default_rng(7).normal(size=(9000, 8)).astype(np.float32)
    divided = many_clusters(rows, 300, np.random.default_rng(7))
    at_once = k_means(rows, 300, np.random.default_rng(7)).centroids
    assert len(divided) == 300
    assert nearest(rows, divided)[1].sum() < 1.1 * nearest(rows, at_once)[1].sum()


def test_directions_have_length_one() -> None:
    rows = _blobs(500, 5)
    found = k_means(rows, 5, np.random.default_rng(8), projection=directions)
    np.testing.assert_allclose(np.linalg.norm(found.centroids, axis=1), 1, atol=1e-6)
    products = rows @ found.centroids.T
    own = products[np.arange(len(rows)), found.numbers]
    np.testing.assert_allclose(own, products.max(axis=1), rtol=1e-4)
    assert np.array_equal(directions(np.zeros((1, 3), np.float32)), np.zeros((1, 3)))


def test_bits_are_those_of_most_rows() -> None:
    rows = np.random.default_rng(9).integers(0, 2, (300, 24)).astype(np.float32)
    found = k_means(rows, 4, np.random.default_rng(9), projection=bits)
    assert set(np.unique(found.centroids)) <= {0.0, 1.0}
    differing = (rows[:, None] != found.centroids[None]).sum(axis=2)
    assert np.array_equal(differing[np.arange(300), found.numbers], differing.min(axis=1))
    one = k_means(rows, 1, np.random.default_rng(9), projection=bits)
    assert np.array_equal(one.centroids[0], rows.mean(axis=0) > 0.5)


def test_the_same_seed_finds_the_same() -> None:
    rows = _blobs(700, 9)
    first, second = (many_clusters(rows, 20, np.random.default_rng(10)) for _ in range(2))
    assert np.array_equal(first, second)


def test_few_clusters_are_the_best_of_several_tries() -> None:
    rows = _blobs(600, 30)
    found = many_clusters(rows, 20, np.random.default_rng(11))
    generator = np.random.default_rng(11)
    losses = [k_means(rows, 20, generator).loss for _ in range(4)]
    assert len(set(losses)) > 1
    assert nearest(rows, found)[1].sum() == pytest.approx(min(losses), rel=1e-4)


def test_few_rows_first_find_clusters_that_are_as_good() -> None:
    rows = np.random.default_rng(2).normal(size=(4096, 4)).astype(np.float32)
    one, other, again = (
        k_means(rows, 16, np.random.default_rng(3), few_first=few) for few in (False, True, True)
    )
    assert not np.array_equal(one.centroids, other.centroids)
    assert abs(other.loss / one.loss - 1) < 0.03
    assert np.array_equal(other.centroids, again.centroids)
