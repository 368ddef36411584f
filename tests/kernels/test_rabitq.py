"""RaBitQ codes, against the naive twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pilum import kernels
from pilum.errors import CorruptFileError
from pilum.kernels import reference_rabitq as naive

Floats = NDArray[np.float32]

DIMENSIONS = st.sampled_from([8, 16, 24, 64, 72, 136])


def _normal(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _signs(seed: int, dimension: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, dimension // 2, np.uint8)


@given(DIMENSIONS, st.integers(0, 9))
def test_vectors_are_rotated_as_by_the_twin(dimension: int, seed: int) -> None:
    vectors, signs = _normal(seed, 3, dimension), _signs(seed, dimension)
    found = kernels.rotate_vectors(vectors, signs)
    expected = [naive.rotate(vector.tolist(), signs.tobytes()) for vector in vectors]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose((found**2).sum(axis=1), (vectors**2).sum(axis=1), rtol=1e-5)


@given(st.integers(1, 5), st.sampled_from([0, 1, 2, 31, 32, 33, 65, 96]))
def test_sign_codes_are_packed_as_by_the_twin(width: int, num_rows: int) -> None:
    rows = np.random.default_rng(width).integers(0, 256, (num_rows, width), np.uint8)
    packed = kernels.pack_sign_codes(rows)
    assert packed.tobytes() == naive.pack_signs([row.tobytes() for row in rows])
    assert packed.shape == rows.shape
    np.testing.assert_array_equal(kernels.unpack_sign_codes(packed), rows)


@given(DIMENSIONS, st.integers(1, 9), st.booleans())
def test_codes_and_factors_are_those_of_the_twin(dimension: int, bits: int, is_dot: bool) -> None:
    y, z = _normal(bits, 5, dimension), _normal(7, 2, dimension)
    partitions = np.array([0, 1, 1, 0, 1], np.uint32)
    codes = kernels.RabitqCodes(dimension, bits, is_dot)
    (signs, (add, scale), error), (further, all_factors) = codes.encode(y, z, partitions)
    np.testing.assert_array_equal(naive.sign_bits(signs), y >= 0)
    own = z[partitions].astype(np.float64)
    halves = np.where(y >= 0, 0.5, -0.5)
    expected = naive.factors(y.astype(np.float64), own, halves, is_dot=is_dot)
    for one, other in zip((add, scale, error), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-3)
    w = codes.decode(signs, further if bits > 1 else None)
    if bits == 1:
        assert further.shape == (0, 0)
        np.testing.assert_array_equal(w, halves)
        return
    expected = naive.factors(y.astype(np.float64), own, w.astype(np.float64), is_dot=is_dot)
    for one, other in zip(all_factors, expected, strict=False):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-3)
    whole = (w + (2 ** (bits - 1) - 0.5)).astype(np.int64)
    np.testing.assert_array_equal(whole >> (bits - 1), y >= 0)
    components = whole & ((1 << (bits - 1)) - 1)
    for row, stored in zip(components.tolist(), further, strict=True):
        assert stored.tobytes() == naive.pack_further(row, bits - 1)


@pytest.mark.parametrize("bits", [2, 3, 5, 8])
def test_scales_are_nearly_the_best(bits: int) -> None:
    y = np.concatenate([_normal(1, 6, 64), np.abs(_normal(2, 2, 64)) ** 3])
    codes = kernels.RabitqCodes(64, bits, False)
    (signs, _, _), (further, _) = codes.encode(
        y, np.zeros((1, 64), np.float32), np.zeros(8, np.uint32)
    )
    w = codes.decode(signs, further).astype(np.float64)
    cosines = (w * y).sum(axis=1) / np.linalg.norm(w, axis=1) / np.linalg.norm(y, axis=1)
    for cosine, row in zip(cosines, y, strict=True):
        assert 1 - cosine <= 1.2 * (1 - naive.best_cosine(row.tolist(), bits - 1)) + 1e-6


class Stored:
    """Partitions of random rows, as stored."""

    def __init__(self, dimension: int, bits: int, is_dot: bool, sizes: list[int]) -> None:
        self.codes = kernels.RabitqCodes(dimension, bits, is_dot)
        self.is_dot, self.bits = is_dot, bits
        self.z = _normal(3, len(sizes), dimension)
        self.parts: list[tuple[Any, ...]] = []
        self.plain: list[tuple[Any, ...]] = []
        first = 0
        for number, size in enumerate(sizes):
            y = _normal(number + 20, size, dimension)
            signs, further = self.codes.encode(y, self.z, np.full(size, number, np.uint32))
            rows = np.arange(first, first + size, dtype=np.uint64)[::-1].copy()
            columns = further[0], signs[2], *further[1]
            self.plain.append((signs[0], *signs[1], further, rows))
            packed = kernels.pack_sign_codes(signs[0])
            extra = columns if bits > 1 else None
            self.parts.append(
                ((packed, *signs[1]), extra, rows, None, None, np.ascontiguousarray(self.z[number]))
            )
            first += size

    def distances(self, query: Floats, by_signs: bool) -> dict[int, float]:
        """Return the distance of each row."""
        found: dict[int, float] = {}
        for number, (signs, add, scale, further, rows) in enumerate(self.plain):
            w = naive.sign_bits(signs) - 0.5
            if not by_signs and self.bits > 1:
                w, (add, scale) = self.codes.decode(signs, further[0]), further[1]
            values = naive.estimates(
                query.astype(np.float64),
                self.z[number],
                w.astype(np.float64),
                add,
                scale,
                is_dot=self.is_dot,
            )
            found.update(zip(rows.tolist(), values.tolist(), strict=True))
        return found


@given(
    st.sampled_from([8, 64, 136]),
    st.integers(1, 9),
    st.booleans(),
    st.booleans(),
    st.lists(st.sampled_from([0, 1, 31, 32, 40, 70]), min_size=1, max_size=3),
)
def test_all_rows_have_the_distances_of_the_twin(
    dimension: int, bits: int, is_dot: bool, by_signs: bool, sizes: list[int]
) -> None:
    stored, query = Stored(dimension, bits, is_dot, sizes), _normal(9, 2, dimension)
    bounds, rows, distances = stored.codes.nearest(stored.parts, query, 1000, by_signs=by_signs)
    assert bounds.tolist() == [0, sum(sizes), 2 * sum(sizes)]
    for number in range(2):
        own = slice(bounds[number], bounds[number + 1])
        expected = stored.distances(query[number], by_signs)
        assert sorted(rows[own].tolist()) == sorted(expected)
        assert (np.diff(distances[own]) >= 0).all()
        np.testing.assert_allclose(
            distances[own], [expected[row] for row in rows[own].tolist()], rtol=1e-3, atol=5e-3
        )


@given(st.sampled_from([16, 64]), st.sampled_from([1, 5]), st.booleans(), st.integers(1, 20))
def test_the_first_rows_are_the_nearest(dimension: int, bits: int, is_dot: bool, k: int) -> None:
    stored, query = Stored(dimension, bits, is_dot, [70, 40]), _normal(9, 1, dimension)
    _, all_rows, all_distances = stored.codes.nearest(stored.parts, query, 1000, by_signs=True)
    _, rows, distances = stored.codes.nearest(stored.parts, query, k, by_signs=True)
    np.testing.assert_array_equal(rows, all_rows[:k])
    np.testing.assert_array_equal(distances, all_distances[:k])
    earlier = stored.codes.nearest(stored.parts[:1], query, k, by_signs=True)
    found = stored.codes.nearest(stored.parts[1:], query, k, by_signs=True, earlier=earlier)
    np.testing.assert_array_equal(found[1], all_rows[:k])


@pytest.mark.parametrize("is_dot", [False, True])
@pytest.mark.parametrize("bits", [2, 5, 9])
def test_few_rows_are_lost_to_errors_by_signs(bits: int, is_dot: bool) -> None:
    stored, queries = Stored(64, bits, is_dot, [300, 300]), _normal(9, 20, 64)
    bounds, all_rows, _ = stored.codes.nearest(stored.parts, queries, 1000)
    expected = {
        (i, row) for i in range(20) for row in all_rows[bounds[i] : bounds[i] + 10].tolist()
    }
    rows = stored.codes.nearest(stored.parts, queries, 10)[1]
    found = set(zip((np.arange(200) // 10).tolist(), rows.tolist(), strict=True))
    assert len(found & expected) >= 198


@pytest.mark.parametrize("step", [3, 50])
def test_rows_are_restricted(step: int) -> None:
    stored, query = Stored(64, 5, False, [70, 40]), _normal(9, 2, 64)
    bounds, rows, distances = stored.codes.nearest(stored.parts, query, 1000)
    allowed = [np.arange(len(part[2])) % step == 0 for part in stored.parts]
    parts = [
        (*part[:3], own, None, part[5]) for part, own in zip(stored.parts, allowed, strict=True)
    ]
    _, some, _ = stored.codes.nearest(parts, query[:1], 1000)
    kept = np.concatenate([part[2][own] for part, own in zip(stored.parts, allowed, strict=True)])
    np.testing.assert_array_equal(some, [row for row in rows[: bounds[1]] if row in kept])
    lower, upper = float(distances[5]), float(distances[30])
    _, some, _ = stored.codes.nearest(stored.parts, query[:1], 1000, lower=lower, upper=upper)
    np.testing.assert_array_equal(some, rows[5:30])
    only = np.array([1], np.uint32)
    parts = [(*part[:4], only, part[5]) for part in stored.parts]
    own_bounds, some, _ = stored.codes.nearest(parts, query, 3)
    assert own_bounds.tolist() == [0, 0, 3]
    np.testing.assert_array_equal(some, rows[bounds[1] : bounds[1] + 3])


def test_plain_rows_are_searched_as_packed_ones() -> None:
    stored, query = Stored(64, 4, True, [70]), _normal(9, 1, 64)
    part = stored.parts[0]
    plain = [((stored.plain[0][0], *part[0][1:]), *part[1:])]
    expected = stored.codes.nearest(stored.parts, query, 9)
    found = stored.codes.nearest(plain, query, 9, packed=False)
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(found[2], expected[2])


def test_older_factors_belong_to_residuals() -> None:
    stored, query = Stored(64, 1, False, [40]), _normal(9, 1, 64)
    (packed, add, scale), _, rows, _, _, z = stored.parts[0]
    bits = naive.sign_bits(stored.plain[0][0]).astype(np.float64)
    h = (query[0] - z).astype(np.float64)
    part = ((packed, add, scale), None, rows, None, None, z)
    _, found, distances = stored.codes.nearest([part], query, 40, by_residuals=True)
    expected = (2 * bits @ h - h.sum()) / 8 * scale + add + (h**2).sum()
    order = np.argsort(found)
    np.testing.assert_allclose(distances[order], expected[::-1], rtol=1e-4, atol=1e-3)


def test_nan_is_never_returned() -> None:
    stored, query = Stored(64, 5, False, [40]), _normal(9, 1, 64)
    _, further, *rest = stored.parts[0]
    signs = (stored.parts[0][0][0], np.full(40, np.nan, np.float32), stored.parts[0][0][2])
    assert len(stored.codes.nearest([(signs, further, *rest)], query, 5)[1]) == 0
    query[0, 3] = np.nan
    assert len(stored.codes.nearest(stored.parts, query, 5)[1]) == 0


def test_columns_that_do_not_fit_are_damage() -> None:
    stored, query = Stored(64, 5, False, [40]), _normal(9, 1, 64)
    signs, further, rows, _, _, z = stored.parts[0]
    wrong: list[tuple[Any, ...]] = [
        ((signs[0][1:], *signs[1:]), further, rows, None, None, z),
        ((signs[0], signs[1][1:], signs[2]), further, rows, None, None, z),
        (signs, (further[0][1:], *further[1:]), rows, None, None, z),
        (signs, (further[0], further[1][1:], *further[2:]), rows, None, None, z),
        (signs, further, rows[1:], None, None, z),
        (signs, further, rows, np.ones(39, np.bool_), None, z),
        (signs, further, rows, None, np.array([1], np.uint32), z),
        (signs, further, rows, None, None, z[1:]),
        (signs, None, rows, None, None, z),
    ]
    for part in wrong:
        with pytest.raises(CorruptFileError):
            stored.codes.nearest([part], query, 5)
    with pytest.raises(CorruptFileError):
        stored.codes.decode(signs[0], further[0][1:])
    with pytest.raises(ValueError, match="bytes of signs"):
        kernels.rotate_vectors(query, np.zeros(3, np.uint8))
