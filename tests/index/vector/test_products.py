"""Matrix products in tiles equal those of numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.index.vector.products import product


@given(st.integers(0, 70), st.integers(1, 40), st.integers(1, 70), st.integers(0, 99))
def test_small_products(num_rows: int, dimension: int, count: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.integers(-9, 9, (num_rows, dimension)).astype(np.float32)
    factors = generator.integers(-9, 9, (dimension, count)).astype(np.float32)
    assert np.array_equal(product(rows, factors), rows @ factors)


@pytest.mark.parametrize("shape", [(1500, 4, 300), (300, 128, 257), (65, 768, 33), (3, 40_000, 20)])
def test_products_of_several_tiles(shape: tuple[int, int, int]) -> None:
    num_rows, dimension, count = shape
    generator = np.random.default_rng(1)
    rows = generator.integers(-9, 9, (num_rows, dimension)).astype(np.float64)
    factors = generator.integers(-9, 9, (count, dimension)).astype(np.float64).T
    out = np.full((num_rows, count), np.nan)
    assert product(rows, factors, out) is out
    assert np.array_equal(out, rows @ factors)
