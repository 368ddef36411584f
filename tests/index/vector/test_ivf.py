"""Distances to centroids are the same whether a kernel or a matrix product computes them."""

from __future__ import annotations

import numpy as np
import pytest

from pilum.index.vector.ivf import _FEW_PRODUCTS, IvfModel
from pilum.index.vector.metrics import Metric

_SHAPE = 600, 64


@pytest.mark.parametrize("num_queries", [1, 128])
@pytest.mark.parametrize("metric", [Metric.L2, Metric.COSINE, Metric.DOT])
def test_distances_of_few_and_of_many_queries(metric: Metric, num_queries: int) -> None:
    random = np.random.default_rng(3)
    centroids = random.standard_normal(_SHAPE, np.float32)
    model = IvfModel(centroids, metric)
    queries = model.queries(random.standard_normal((num_queries, _SHAPE[1]), np.float32))
    is_product = centroids.size * num_queries > _FEW_PRODUCTS
    assert is_product == (num_queries > 1)
    wide = queries.astype(np.float64)
    if metric is Metric.DOT:
        expected = 1 - wide @ centroids.T.astype(np.float64)
    else:
        expected = ((wide[:, None] - centroids[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(model.distances(queries), expected, rtol=1e-4, atol=1e-4)
