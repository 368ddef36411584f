"""Points in time, k-means, and the check of an index."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError
from pilum.index.vector.vectors import vector_column
from pilum.util import KMeans, sanitize_ts, td_to_micros, validate_vector_index

POINTS = np.array([[0, 0], [0, 1], [10, 10], [10, 11], [0, 10], [1, 10]], np.float32)


def test_points_in_time() -> None:
    when = datetime(2024, 1, 2, 3, 4, 5)
    assert sanitize_ts("2024-01-02 03:04:05") == sanitize_ts(when) == when
    assert td_to_micros(timedelta(seconds=1, microseconds=5)) == 1_000_005
    with pytest.raises(InvalidInputError):
        sanitize_ts("yesterday")


@pytest.mark.parametrize(
    "form", [np.asarray, vector_column, pa.FixedShapeTensorArray.from_numpy_ndarray]
)
@pytest.mark.parametrize("metric", ["l2", "euclidean"])
def test_near_points_share_a_cluster(form: Any, metric: str) -> None:
    model = KMeans(3, metric)
    assert model.centroids is None
    model.fit(form(POINTS))
    found = model.predict(form(POINTS)).to_pylist()
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert found[4] == found[5]
    assert len(set(found)) == 3
    again = KMeans(3, metric, centroids=model.centroids)
    assert again.predict(form(POINTS)).to_pylist() == found


def test_cosine_compares_directions() -> None:
    model = KMeans(2, "cosine")
    rows = np.array([[1, 0], [9, 0.1], [0, 1], [0.1, 7]], np.float32)
    model.fit(rows)
    found = model.predict(rows * 3).to_pylist()
    assert found[0] == found[1] != found[2] == found[3]


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="too few"):
        KMeans(7).fit(POINTS)
    with pytest.raises(InvalidInputError, match="call fit"):
        KMeans(2).predict(POINTS)
    with pytest.raises(InvalidInputError, match="metric"):
        KMeans(2, "hamming")
    with pytest.raises(InvalidInputError, match="shape"):
        KMeans(2).fit(POINTS[0])


def test_a_table_finds_its_own_vectors(tmp_path: Path) -> None:
    dataset = pilum.write_dataset({"v": vector_column(POINTS)}, tmp_path / "t")
    validate_vector_index(dataset, "v")
    validate_vector_index(dataset, "v", sample_size=2)
    with pytest.raises(InvalidInputError, match="found 6 of 6"):
        validate_vector_index(dataset, "v", pass_threshold=1.5)
