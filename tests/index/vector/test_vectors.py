"""Columns of vectors as matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.errors import InvalidInputError, UnsupportedTypeError
from pilum.index.vector.metrics import Metric
from pilum.index.vector.vectors import (
    VectorType,
    matrix,
    normalized,
    require_query,
    unnested,
    usable,
    vector_column,
)

FLOATS = VectorType(np.dtype(np.float32), 3)


def test_the_types_that_are_columns_of_vectors() -> None:
    assert VectorType.of("v", pa.list_(pa.float16(), 4)) == VectorType(np.dtype(np.float16), 4)
    assert VectorType.of("v", pa.fixed_shape_tensor(pa.float32(), [3])) == FLOATS
    nested = pa.list_(pa.list_(pa.float64(), 5))
    assert VectorType.of("v", nested) == VectorType(np.dtype(np.float64), 5, is_multi=True)
    assert VectorType.of("v", pa.list_(pa.uint8(), 2)).is_binary
    assert FLOATS.arrow == pa.list_(pa.float32(), 3)


@pytest.mark.parametrize(
    "type", [pa.int32(), pa.list_(pa.float32()), pa.list_(pa.int32(), 4), pa.list_(pa.float32(), 0)]
)
def test_other_types_are_refused_by_name(type: pa.DataType) -> None:
    with pytest.raises(UnsupportedTypeError, match="column 'v' has type"):
        VectorType.of("v", type)


@given(st.lists(st.none() | st.lists(st.none() | st.integers(-9, 9), min_size=2, max_size=2)))
def test_rows_with_a_null_are_not_valid(rows: list[Any]) -> None:
    array = pa.array(rows, pa.list_(pa.float32(), 2))
    for part, kept in ((array, rows), (array.slice(1), rows[1:]), (array[:-1], rows[:-1])):
        found, valid = matrix(part)
        expected = [row is not None and None not in row for row in kept]
        assert (valid is None and all(expected)) or valid.tolist() == expected  # type: ignore[union-attr]
        assert found.shape == (len(kept), 2)
        assert all(found[i].tolist() == kept[i] for i, is_valid in enumerate(expected) if is_valid)


def test_a_matrix_shares_the_memory_of_the_array() -> None:
    array = vector_column(np.arange(12, dtype=np.float32).reshape(4, 3))
    found, valid = matrix(array.slice(1))
    assert valid is None
    assert found.ctypes.data == array.values.buffers()[1].address + 12
    assert matrix(pa.chunked_array([array, array]))[0].shape == (8, 3)


def test_lists_of_vectors_are_unnested_with_their_rows() -> None:
    array = pa.array([[[1, 2], [3, 4]], None, [], [[5, 6]]], pa.list_(pa.list_(pa.float32(), 2)))
    vectors, rows = unnested(array)
    assert matrix(vectors)[0].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert rows.tolist() == [0, 0, 3]
    vectors, rows = unnested(array.slice(1))
    assert (matrix(vectors)[0].tolist(), rows.tolist()) == ([[5, 6]], [2])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_vectors_without_a_place_in_an_index(dtype: Any) -> None:
    large = np.finfo(dtype).max
    rows = [[1, 2], [np.nan, 0], [0, np.inf], [-np.inf, np.inf], [0, 0], [large, large]]
    vectors = np.array(rows, dtype)
    expected = [True, False, False, False, True, True]
    found = usable(vectors, None, Metric.L2)
    assert found is not None
    assert found.tolist() == expected
    expected[4] = False
    found = usable(vectors, np.array([False] + [True] * 5), Metric.COSINE)
    assert found is not None
    assert found.tolist() == [False, *expected[1:]]
    assert usable(vectors[:1], None, Metric.COSINE) is None
    assert usable(vectors[:0], None, Metric.COSINE) is None


def test_vectors_of_length_1() -> None:
    vectors = np.array([[3, 4], [0, 0.5]], np.float16)
    assert normalized(vectors).dtype == np.float16
    assert np.allclose(normalized(vectors), np.array([[0.6, 0.8], [0, 1]]), atol=1e-3)
    assert np.isnan(normalized(np.zeros(2, np.float32))).all()
    for scale in (1e-40, 1e-30, 1e-10, 1e19, 1e38):
        long = np.array([[3, 1], [0, -2]], np.float32) * np.float32(scale)
        expected = np.array([[0.9486833, 0.3162278], [0, -1]])
        np.testing.assert_allclose(normalized(long), expected, rtol=1e-4)
        np.testing.assert_allclose(normalized(long[0]), expected[0], rtol=1e-4)


@pytest.mark.parametrize(
    "query",
    [
        [1, 2, 3],
        (1.0, 2.0, 3.0),
        np.array([1, 2, 3], np.float64),
        pa.array([1, 2, 3]),
        pa.chunked_array([pa.array([1.0, 2, 3], pa.float32())]),
        pa.scalar([1.0, 2, 3], pa.list_(pa.float32(), 3)),
    ],
)
def test_queries_are_cast_to_the_type_of_the_column(query: Any) -> None:
    found = require_query(query, FLOATS, "v")
    assert found.dtype == np.float32
    assert found.tolist() == [1, 2, 3]


def test_several_queries() -> None:
    assert require_query([[1, 2, 3], [4, 5, 6]], FLOATS, "v").shape == (2, 3)
    assert require_query(vector_column(np.ones((2, 3))), FLOATS, "v").shape == (2, 3)
    assert require_query(pa.array([[1, 2, 3], [4, 5, 6]]), FLOATS, "v").shape == (2, 3)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ([1, 2], "Query vector size 2 does not match index column size 3"),
        ([1] * 6, "Query vector size 6"),
        ([], "expected numbers"),
        ("abc", "expected numbers"),
        (["a", "b", "c"], "expected numbers"),
        ([[[1, 2, 3]]], "expected numbers of shape"),
        ([[1, 2, 3], [1]], "query for column 'v'"),
        (None, "query for column 'v'"),
    ],
)
def test_other_queries_are_refused(query: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        require_query(query, FLOATS, "v")
