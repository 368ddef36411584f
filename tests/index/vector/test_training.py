"""The models that are trained on samples: their forms, and that they fit their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pilum.index.vector.metrics import Metric
from pilum.index.vector.training import (
    indexed_vectors,
    sample_of,
    train_bounds,
    train_centroids,
    train_codebook,
)
from pilum.index.vector.vectors import VectorType, vector_column

_FLOATS = VectorType(np.dtype(np.float32), 2)


def _rows(count: int, dimension: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(1).normal(size=(count, dimension)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("metric", [Metric.L2, Metric.COSINE, Metric.DOT])
def test_centroids_have_the_element_type(dtype: Any, metric: Metric) -> None:
    found = train_centroids(_rows(500, 8, dtype), 7, metric, 20)
    assert (found.dtype, found.shape) == (np.dtype(dtype), (7, 8))
    if metric is Metric.DOT:
        np.testing.assert_allclose(np.linalg.norm(found.astype(float), axis=1), 1, atol=1e-3)


def test_centroids_of_bits_are_bits_of_the_majority() -> None:
    rows = np.random.default_rng(2).integers(0, 256, (301, 3)).astype(np.uint8)
    found = train_centroids(rows, 1, Metric.HAMMING, 5)
    expected = np.packbits(np.unpackbits(rows, axis=1).mean(axis=0) > 0.5)
    assert found.dtype == np.uint8
    assert found.tolist() == [expected.tolist()]


def test_digits_are_kept_where_all_rows_are_far_from_zero() -> None:
    rows = _rows(1000, 4) + np.float32(10_000)
    found = train_centroids(rows, 16, Metric.L2, 50)
    near = train_centroids(_rows(1000, 4), 16, Metric.L2, 50)
    assert np.linalg.norm(found - found.mean(axis=0)) > 0.8 * np.linalg.norm(near)


def test_a_codebook_has_words_for_each_sub_vector() -> None:
    words = np.random.default_rng(3).normal(size=(2, 16, 3)).astype(np.float32)
    codes = np.random.default_rng(4).integers(0, 16, (2, 2000))
    vectors = np.concatenate([words[0][codes[0]], words[1][codes[1]]], axis=1)
    found = train_codebook(vectors, 2, 4, 50)
    assert found.shape == (2, 16, 3)
    for number in range(2):
        gaps = np.abs(words[number][:, None] - found[number][None]).sum(axis=2).min(axis=1)
        assert (gaps < 1e-5).sum() >= 14  # nearly every word is found


def test_the_same_rows_have_the_same_models() -> None:
    rows = _rows(800, 8)
    for _ in range(2):
        assert np.array_equal(train_codebook(rows, 4, 4, 10), train_codebook(rows.copy(), 4, 4, 10))


def test_bounds_are_the_extreme_elements() -> None:
    assert train_bounds(np.array([[1, -2.5], [7, 0]], np.float32)) == (-2.5, 7.0)


def test_vectors_that_no_index_contains_are_left_out() -> None:
    values = [[3, 4], None, [np.nan, 1], [0, 0], [np.inf, 0], [0, 2]]
    array = pa.array(values, _FLOATS.arrow)
    found, rows = indexed_vectors(array, _FLOATS, Metric.L2)
    assert rows is not None
    assert (found.tolist(), rows.tolist()) == ([[3, 4], [0, 0], [0, 2]], [0, 3, 5])
    found, rows = indexed_vectors(array, _FLOATS, Metric.COSINE)
    np.testing.assert_allclose(found, np.array([[0.6, 0.8], [0, 1]]), rtol=1e-6)
    assert rows is not None
    assert rows.tolist() == [0, 5]
    found, rows = indexed_vectors(array.slice(5), _FLOATS, Metric.L2)
    assert (found.tolist(), rows) == ([[0, 2]], None)


def test_vectors_of_lists_belong_to_their_row() -> None:
    type = pa.list_(_FLOATS.arrow)
    array = pa.array([[[1, 0]], None, [], [[0, 1], [np.nan, 0], [2, 0]]], type)
    found, rows = indexed_vectors(array, VectorType.of("v", type), Metric.COSINE)
    assert rows is not None
    assert (found.tolist(), rows.tolist()) == ([[1, 0], [0, 1], [1, 0]], [0, 3, 3])


def test_samples_grow_where_many_rows_are_null() -> None:
    values = np.arange(2000, dtype=np.float32).reshape(1000, 2)
    array = pa.array([list(row) if row[0] % 40 == 0 else None for row in values], _FLOATS.arrow)
    asked = []

    def sample(count: int) -> pa.Array:
        asked.append(count)
        return array.slice(0, count)

    found = sample_of(sample, 1000, 30, 10_000, _FLOATS, Metric.L2)
    assert len(found) == 30
    assert asked == [30, 900]


def test_samples_are_never_larger_than_permitted() -> None:
    array = vector_column(np.ones((1000, 2), np.float32))
    found = sample_of(lambda count: array.slice(0, count), 1000, 30, 20, _FLOATS, Metric.L2)
    assert len(found) == 20
