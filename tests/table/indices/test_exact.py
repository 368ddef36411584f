"""Exact search of Arrow columns, against distances that numpy computes in float64."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from pilum.index.vector.metrics import Metric
from pilum.index.vector.vectors import vector_column
from pilum.kernels import reference_vectors as reference
from pilum.table.indices.exact import ExactQuery

seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def column(vectors: NDArray[Any], is_null: NDArray[np.bool_]) -> pa.Array:
    """Return vectors as a column in which some rows are null."""
    items = vector_column(vectors).values
    return pa.FixedSizeListArray.from_arrays(items, vectors.shape[1], mask=pa.array(is_null))


def naive(
    vectors: NDArray[Any], ids: NDArray[np.uint64], query: NDArray[Any], asked: ExactQuery
) -> list[tuple[float, int]]:
    """Return distances and ids in their order."""
    found = reference.distances(vectors, query[None], asked.metric.value)[0]
    lower = -np.inf if asked.lower is None else asked.lower
    pairs = sorted(zip(found.tolist(), ids.tolist(), strict=True))
    kept = [pair for pair in pairs if lower <= pair[0] and (asked.upper or np.inf) > pair[0]]
    return kept[: asked.k]


@given(
    seeds,
    st.lists(st.integers(0, 12), max_size=4),
    st.sampled_from(["f2", "f4", "f8", "i1", "u1"]),
    st.integers(1, 3),
)
def test_the_nearest_of_all_chunks_and_of_earlier_rows(
    random: np.random.Generator, sizes: list[int], dtype: str, num_queries: int
) -> None:
    metrics = [Metric.L2, Metric.DOT] if dtype != "u1" else [Metric.HAMMING]
    vectors = random.integers(0, 3, (sum(sizes), 5)).astype(dtype)  # with many ties
    is_null = random.random(len(vectors)) < 0.2
    ids = random.permutation(len(vectors)).astype(np.uint64)
    whole = column(vectors, is_null)
    bounds = np.cumsum([0, *sizes]).tolist()
    chunks = [whole.slice(a, b - a) for a, b in pairwise(bounds)]
    asked = ExactQuery(
        random.integers(0, 3, (num_queries, 5)).astype(dtype),
        metrics[random.integers(len(metrics))],
        int(random.integers(1, 20)),
        lower=1.0 if random.integers(2) else None,
        upper=5.0 if random.integers(2) else None,
    )
    chunked = pa.chunked_array(chunks, whole.type)
    half = len(chunks) // 2
    earlier = asked.search(pa.chunked_array(chunks[:half], whole.type), ids[: bounds[half]])
    rest = asked.search(pa.chunked_array(chunks[half:], whole.type), ids[bounds[half] :], earlier)
    for number, found in enumerate(asked.nearest(chunked, ids)):
        expected = naive(vectors[~is_null], ids[~is_null], asked.queries[number], asked)
        assert [*zip(found.distances.tolist(), found.ids.tolist(), strict=True)] == expected
        own = slice(*rest[0][number : number + 2].tolist())
        assert_array_equal(rest[1][own], found.ids)
        assert_array_equal(rest[2][own], found.distances)


def test_lists_of_vectors_count_with_their_nearest_vectors() -> None:
    random = np.random.default_rng(3)
    lists = [random.normal(size=(n, 4)).astype("f4") for n in (2, 0, 3, 1, 4)]
    flat = vector_column(np.concatenate(lists))
    array = pa.ListArray.from_arrays([0, 2, 2, 5, 6, 10], flat)
    queries = random.normal(size=(2, 3, 4)).astype("f4")
    asked = ExactQuery(queries, Metric.COSINE, 3)
    ids = np.arange(10, 15, dtype=np.uint64)
    first = asked.search(pa.chunked_array([array[:2]]), ids[:2])
    bounds, found, distances = asked.search(pa.chunked_array([array[2:]]), ids[2:], first)
    for number, query in enumerate(queries):
        each = {
            10 + row: sum(reference.distances(own, query, "cosine").min(axis=1))
            for row, own in enumerate(lists)
            if len(own)
        }
        nearest = sorted(each, key=lambda row: float(each[row]))[:3]
        own = slice(*bounds[number : number + 2].tolist())
        assert found[own].tolist() == nearest
        assert_allclose(distances[own], [each[row] for row in nearest], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_vectors_at_odd_places_in_memory(dtype: str) -> None:
    vectors = np.arange(12, dtype=dtype).reshape(4, 3)
    buffer = pa.py_buffer(b"x" + vectors.tobytes()).slice(1)
    items = pa.Array.from_buffers(pa.from_numpy_dtype(vectors.dtype), 12, [None, buffer])
    column = pa.chunked_array([pa.FixedSizeListArray.from_arrays(items, 3)])
    for metric in (Metric.L2, Metric.DOT, Metric.COSINE):
        [found] = ExactQuery(vectors[2:3], metric, 1).nearest(column, np.arange(4, dtype="u8"))
        expected = reference.distances(vectors, vectors[2:3], metric.value)[0]
        assert found.ids.tolist() == [expected.argmin()]
