"""Vector kernels beside their naive twins.

Values are small integers where the order of a selection is compared, so that sums of float32 are
exact and ties are frequent.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from pilum import kernels
from pilum.kernels import reference_vectors as reference

METRICS = ("l2", "dot", "cosine", "hamming")
seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
sizes = st.lists(st.integers(0, 70), max_size=4)


def assert_same(found: reference.Answer, expected: reference.Answer) -> None:
    assert [array.dtype for array in found] == [np.int64, np.uint64, np.float32]
    for ours, naive in zip(found, expected, strict=True):
        assert_array_equal(ours, naive)


def some_rows(random: np.random.Generator, n: int) -> NDArray[np.uint64] | int:
    if random.integers(2):
        return int(random.integers(2**40))
    return random.permutation(n).astype(np.uint64)


def some_allowed(random: np.random.Generator, n: int) -> NDArray[np.bool_] | None:
    share = random.choice([0.0, 0.02, 0.5, 2.0])
    return None if share == 2 else random.random(n) < share


def some_numbers(random: np.random.Generator, queries: int) -> NDArray[np.uint32] | None:
    if random.integers(2):
        return None
    return np.flatnonzero(random.integers(0, 2, queries)).astype(np.uint32)


def wanted(random: np.random.Generator) -> dict[str, Any]:
    limits = [(None, None), (3.0, 20.0), (None, 8.0), (-2.0, None), (None, -np.inf)]
    lower, upper = limits[random.integers(len(limits))]
    return {"k": int(random.choice([1, 5, 40, 1000])), "lower": lower, "upper": upper}


@given(
    seeds,
    sizes,
    st.integers(1, 40),
    st.sampled_from([0, 1, 2, 3, 9]),
    st.sampled_from(["f2", "f4", "f8", "u1", "i1"]),
)
def test_vectors_are_searched(
    random: np.random.Generator, sizes: list[int], dimension: int, queries: int, dtype: str
) -> None:
    def vectors(n: int) -> Any:
        return random.integers(0, 4, (n, dimension)).astype(dtype)

    parts = [
        (vectors(n), some_rows(random, n), some_allowed(random, n), some_numbers(random, queries))
        for n in sizes
    ]
    asked, options = vectors(queries), wanted(random)
    metric = str(random.choice(["l2", "dot", "hamming"][: 2 + (dtype == "u1")]))
    earlier = reference.nearest_flat(parts[:1], asked, metric, 3)
    for start in (None, earlier):
        naive = reference.nearest_flat(parts, asked, metric, earlier=start, **options)
        for threads in (1, 3):
            found = kernels.nearest_flat(
                parts, asked, metric, earlier=start, num_threads=threads, **options
            )
            assert_same(found, naive)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1"])
@pytest.mark.parametrize("metric", ["l2", "dot", "cosine"])
def test_queries_find_the_same_together_as_alone(dtype: str, metric: str) -> None:
    random = np.random.default_rng(2)
    all = random.normal(3, 20, (1500, 20)).astype("i1").astype(dtype)
    if dtype != "i1":
        all[500:] += random.normal(0, 1, (1000, 20)).astype(dtype)
        all[::97] = np.nan
        all[3::101, 5] = np.inf
    queries = np.ascontiguousarray(all[7:1500:90])
    for k, upper in ((1, None), (9, None), (200, 1500.0)):
        parts = [(all[start : start + 500], start, None, None) for start in (0, 500, 1000)]
        found = kernels.nearest_flat(parts, queries, metric, k, upper=upper)
        sieves = [kernels.VectorSieve(part[0], metric) for part in parts]
        sieved = kernels.nearest_flat(parts, queries, metric, k, upper=upper, sieves=sieves)
        for one, other in zip(found, sieved, strict=True):
            assert_array_equal(one, other)
        for number, (start, stop) in enumerate(pairwise(found[0])):
            own = queries[number : number + 1]
            one = kernels.nearest_flat(parts, own, metric, k, upper=upper)
            assert_array_equal(found[1][start:stop], one[1])
            assert_array_equal(found[2][start:stop], one[2])


@pytest.mark.parametrize("metric", ["l2", "dot", "cosine"])
def test_sieves_do_not_change_what_is_found(metric: str) -> None:
    random = np.random.default_rng(7)
    for dimension in (1, 16, 50, 128):
        scales = 10.0 ** random.integers(-3, 4, (1200, 1))
        vectors = (random.normal(2, 1, (1200, dimension)) * scales).astype(np.float32)
        queries = np.ascontiguousarray(vectors[5::300] * np.float32(1.001))
        shares = random.random(1200)
        masks = [None, *(shares < share for share in (0.01, 0.05, 0.2, 0.5, 0.99))]
        for part in [(vectors, 0, allowed, None) for allowed in masks]:
            sieve = kernels.VectorSieve(vectors, metric)
            assert sieve.size_bytes < 1200 * (1.5 * dimension + 72) + 8 * dimension
            found = kernels.nearest_flat([part], queries, metric, 10)
            sieved = kernels.nearest_flat([part], queries, metric, 10, sieves=[sieve])
            for one, other in zip(found, sieved, strict=True):
                assert_array_equal(one, other)


def test_sieves_of_other_vectors_are_refused() -> None:
    vectors = np.ones((4, 3), np.float32)
    of_fewer = kernels.VectorSieve(vectors[:2].copy(), "l2")
    of_shorter = kernels.VectorSieve(np.ones((4, 2), np.float32), "l2")
    of_another = kernels.VectorSieve(vectors, "dot")
    part, query = (vectors, 0, None, None), vectors[:1].copy()
    for bad in ([of_fewer], [of_shorter], [of_another], []):
        with pytest.raises(ValueError, match=r"bounds|sieves"):
            kernels.nearest_flat([part], query, "l2", 1, sieves=bad)
    with pytest.raises(ValueError, match="metric"):
        kernels.VectorSieve(np.ones((4, 3), np.uint8), "hamming")


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "u1", "i1"])
@pytest.mark.parametrize("metric", METRICS)
def test_distances_of_every_type(dtype: str, metric: str) -> None:
    random = np.random.default_rng(1)
    for dimension in (1, 3, 8, 17, 64, 100):
        both = random.normal(0, 20, (12, dimension)).astype("i1").astype(dtype)
        if dtype[0] == "f":
            both += random.normal(0, 1, both.shape).astype(dtype)
        vectors, queries = np.ascontiguousarray(both[:9]), np.ascontiguousarray(both[9:])
        if metric == "hamming" and dtype != "u1":
            with pytest.raises(ValueError, match="uint8"):
                kernels.distances(vectors, queries, metric)
            continue
        found = kernels.distances(vectors, queries, metric)
        naive = reference.distances(vectors, queries, metric)
        assert_allclose(found, naive, rtol=2e-5, atol=2e-3 if metric == "dot" else 1e-5)


def test_special_values() -> None:
    vectors = np.array([[np.nan, 1], [np.inf, 1], [0, 0], [-np.inf, 1], [1, 1]], np.float32)
    query = np.array([[1, 1]], np.float32)
    rows = {
        metric: kernels.nearest_flat([(vectors, 0, None, None)], query, metric, 9)[1].tolist()
        for metric in ("l2", "dot", "cosine")
    }
    assert rows == {"l2": [4, 2, 1, 3], "dot": [1, 4, 2, 3], "cosine": [4]}
    for bad in ([[np.nan, 1]], [[0, 0]]):
        query = np.array(bad, np.float32)
        assert len(kernels.nearest_flat([(vectors, 0, None, None)], query, "cosine", 9)[1]) == 0


@given(seeds, sizes, st.integers(1, 40), st.integers(0, 3), st.sampled_from(["l2", "dot"]))
def test_scalar_codes_are_searched(
    random: np.random.Generator, sizes: list[int], dimension: int, queries: int, metric: str
) -> None:
    # Steps of 1, so that decoded values are integers.
    start, end = -3.0, 252.0
    asked = random.integers(-5, 9, (queries, dimension)).astype(np.float32)
    parts = []
    for n in sizes:
        vectors = random.integers(-5, 5, (n, dimension)).astype(np.float32)
        codes = kernels.encode_scalar_codes(vectors, start, end)
        assert_array_equal(codes, reference.encode_scalar_codes(vectors, start, end))
        numbers = some_numbers(random, queries)
        parts.append((codes, some_rows(random, n), some_allowed(random, n), numbers))
    options = wanted(random)
    found = kernels.nearest_scalar_codes(parts, asked, start, end, metric, **options)
    naive = reference.nearest_scalar_codes(parts, asked, start, end, metric, **options)
    assert_same(found, naive)


@given(seeds, st.sampled_from([16, 64, 100, 128]), st.sampled_from([1.0, 0.05]))
def test_sieves_do_not_change_which_scalar_codes_are_found(
    random: np.random.Generator, dimension: int, spread: float
) -> None:
    centres = random.integers(0, 256, (5, dimension))
    noise = random.normal(0, 255 * spread, (900, dimension))
    codes = np.clip(centres[random.integers(0, 5, 900)] + noise, 0, 255).astype(np.uint8)
    queries = np.ascontiguousarray(codes[::300], np.float32) / np.float32(16)
    parts = []
    for start in (0, 300, 600):
        part = np.ascontiguousarray(codes[start : start + 300])
        parts.append((part, start, some_allowed(random, 300), None))
    sieves = [kernels.VectorSieve(part[0], "l2") for part in parts[:2]]
    for options in ({"k": 10}, {"k": 40, "upper": 4.0 * dimension}):
        naive = reference.nearest_scalar_codes(parts, queries, 0, 255 / 16, "l2", **options)
        found = kernels.nearest_scalar_codes(
            parts, queries, 0, 255 / 16, "l2", sieves=[*sieves, None], **options
        )
        assert_same(found, naive)


def test_sieves_of_other_scalar_codes_are_refused() -> None:
    codes = np.ones((4, 3), np.uint8)
    part, query = (codes, 0, None, None), np.ones((1, 3), np.float32)
    of_fewer = kernels.VectorSieve(codes[:2].copy(), "l2")
    of_shorter = kernels.VectorSieve(np.ones((4, 2), np.uint8), "l2")
    of_another = kernels.VectorSieve(codes, "dot")
    for bad in ([of_fewer], [of_shorter], [of_another], []):
        with pytest.raises(ValueError, match=r"bounds|sieves"):
            kernels.nearest_scalar_codes([part], query, 0, 1, "l2", 1, sieves=bad)
    sieves = [kernels.VectorSieve(codes, "l2")]
    with pytest.raises(ValueError, match="bounds"):
        kernels.nearest_scalar_codes([part], query, 0, 1, "dot", 1, sieves=sieves)


@given(seeds, st.sampled_from([0.0, 1.5]), st.sampled_from([1.5, 9.25]))
def test_scalar_codes_truncate(random: np.random.Generator, start: float, end: float) -> None:
    vectors = random.normal(3, 5, (9, 7)).astype(np.float32)
    codes = kernels.encode_scalar_codes(vectors, start, end)
    assert_array_equal(codes, reference.encode_scalar_codes(vectors, start, end))


def stored(codes: NDArray[np.uint8], bits: int, transposed: bool) -> NDArray[np.uint8]:
    if bits == 4:
        codes = np.bitwise_or(codes[:, ::2], codes[:, 1::2] * np.uint8(16))
    shape = codes.shape
    return np.ascontiguousarray(codes.T).reshape(shape) if transposed else codes


@given(seeds, sizes, st.sampled_from([4, 8]), st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_product_codes_are_searched(
    random: np.random.Generator,
    sizes: list[int],
    bits: int,
    half: int,
    width: int,
    transposed: bool,
) -> None:
    m, queries = 2 * half, int(random.integers(0, 4))
    words = random.integers(-4, 5, (m, 1 << bits, width)).astype(np.float32)
    book, naive = kernels.ProductCodebook(words), reference.ProductCodebook(words)
    asked = random.integers(-4, 5, (queries, m * width)).astype(np.float32)
    parts = []
    for n in sizes:
        codes = stored(random.integers(0, 1 << bits, (n, m), np.uint8), bits, transposed)
        numbers = some_numbers(random, queries)
        centroid = random.integers(-2, 3, m * width).astype(np.float32)
        centroid_or_none = centroid if random.integers(2) else None
        rows, allowed = some_rows(random, n), some_allowed(random, n)
        parts.append(((codes, centroid_or_none), rows, allowed, numbers))
    for metric in ("l2", "dot"):
        options = wanted(random) | {"transposed": transposed}
        expected = naive.nearest(parts, asked, metric, **options)
        assert_same(book.nearest(parts, asked, metric, **options), expected)
        assert_same(book.nearest(parts, asked, metric, num_threads=2, **options), expected)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("metric", ["l2", "dot"])
@pytest.mark.parametrize(("m", "share"), [(16, 1), (90, 1), (16, 0.01), (16, 0.05), (16, 0.3)])
def test_no_near_row_is_given_up_too_early(metric: str, bits: int, m: int, share: float) -> None:
    random = np.random.default_rng(5)
    words = random.normal(size=(m, 1 << bits, 4)).astype(np.float32)
    words[:, :, 0] += 3 * (np.arange(1 << bits) % 16)  # groups as training makes them
    book, naive = kernels.ProductCodebook(words), reference.ProductCodebook(words)
    queries = random.normal(20, 1, size=(2, 4 * m)).astype(np.float32)
    codes = [random.integers(0, 1 << bits, (3000, m), np.uint8) for _ in range(2)]
    codes = [stored(part, bits, True) for part in codes]
    masks = [None if share == 1 else random.random(3000) < share for _ in codes]
    each = enumerate(zip(codes, masks, strict=True))
    parts = [((part, None), 3000 * i, allowed, None) for i, (part, allowed) in each]
    expected = naive.nearest(parts, queries, metric, 20)
    for threads in (1, 2):
        found = book.nearest(parts, queries, metric, 20, num_threads=threads)
        assert_array_equal(found[1], expected[1])
    assert_allclose(found[2], expected[2], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("offset", [0, 1000])
def test_distances_of_product_codes_are_accurate(offset: float, bits: int) -> None:
    random = np.random.default_rng(6)
    words = random.integers(-99, 99, (12, 1 << bits, 8)).astype(np.float32)
    book, naive = kernels.ProductCodebook(words), reference.ProductCodebook(words)
    codes = random.integers(0, 1 << bits, (500, 12), np.uint8)
    centroids = random.integers(-99, 99, (9, 96)).astype(np.float32) + np.float32(offset)
    decoded = words[np.arange(12), codes[:2]].reshape(2, 96)
    noise = random.normal(size=(3, 96)).astype(np.float32)
    queries = centroids[0] + np.stack([decoded[0], decoded[1] + noise[0], *noise[1:]])
    parts = [
        ((stored(codes, bits, True), one), 500 * i, None, None) for i, one in enumerate(centroids)
    ]
    batch = book.nearest(parts, queries, "l2", 20)
    expected = naive.nearest(parts, queries, "l2", 20)
    assert_array_equal(batch[1], expected[1])
    assert_allclose(batch[2], expected[2], rtol=2e-5)
    assert batch[2][0] == 0  # the query is what the code of the first row stores
    for number, query in enumerate(queries):
        own = slice(20 * number, 20 * number + 20)
        _, rows, distances = book.nearest(parts, query[None], "l2", 20)
        assert_array_equal(rows, batch[1][own])
        assert_array_equal(distances, batch[2][own])


@given(seeds, st.sampled_from([4, 8]), st.integers(0, 300), st.integers(1, 5))
def test_vectors_are_encoded(random: np.random.Generator, bits: int, n: int, width: int) -> None:
    words = random.integers(-3, 4, (4, 1 << bits, width)).astype(np.float32)
    book, naive = kernels.ProductCodebook(words), reference.ProductCodebook(words)
    vectors = random.integers(-3, 4, (n, 4 * width)).astype(np.float32)
    assert_array_equal(book.encode(vectors), naive.encode(vectors))


@given(seeds, st.integers(0, 40), st.integers(1, 40))
def test_clusters_are_summed(random: np.random.Generator, n: int, clusters: int) -> None:
    vectors = random.normal(size=(n, 5)).astype(random.choice(["f2", "f4", "f8"]))
    own = random.integers(0, clusters, n).astype(np.uint32)
    found, naive = (some.cluster_sums(vectors, own, clusters) for some in (kernels, reference))
    assert_allclose(found[0], naive[0])
    assert_array_equal(found[1], naive[1])


@given(seeds, st.integers(0, 90), st.integers(1, 20), st.sampled_from([1, 2, 15, 16, 17, 99, 500]))
def test_vectors_are_assigned_to_centroids(
    random: np.random.Generator, n: int, dimension: int, count: int
) -> None:
    vectors = random.integers(-3, 4, (n, dimension)).astype(np.float32)
    centroids = random.integers(-3, 4, (count, dimension)).astype(np.float32)
    for offsets, factor in (((centroids**2).sum(axis=1), 2.0), (np.zeros(count, np.float32), 1.0)):
        found = kernels.nearest_centroids(vectors, centroids, offsets, factor)
        naive = reference.nearest_centroids(vectors, centroids, offsets, factor)
        assert [array.dtype for array in found] == [np.uint32, np.float32]
        for ours, expected in zip(found, naive, strict=True):
            assert_array_equal(ours, expected)


def test_no_centroid_is_nearest_to_nan() -> None:
    vectors = np.array([[np.nan, 1], [np.inf, 1], [1, 1]], np.float32)
    centroids = np.array([[0, 0], [np.nan, 2], [1, 2]], np.float32)
    offsets = (centroids**2).sum(axis=1)
    for some in (kernels, reference):
        numbers, values = some.nearest_centroids(vectors, centroids, offsets, 2.0)
        assert numbers.tolist() == [0, 2, 2]
        assert values.tolist() == [np.inf, -np.inf, -1]


def test_what_does_not_fit_is_refused() -> None:
    four, two = np.zeros((3, 4), np.float32), np.zeros((1, 2), np.float32)
    codes = np.zeros((3, 4), np.uint8)
    book = kernels.ProductCodebook(np.zeros((2, 256, 1), np.float32))
    calls: list[tuple[str, Any]] = [
        ("dimension", lambda: kernels.nearest_flat([(four, 0, None, None)], two, "l2", 1)),
        ("dimension", lambda: kernels.distances(four, two, "l2")),
        ("metric", lambda: kernels.distances(four, four, "l3")),
        ("k: ", lambda: kernels.nearest_flat([(four, 0, None, None)], four, "l2", 0)),
        (
            "query",
            lambda: kernels.nearest_flat(
                [(four, 0, None, np.array([1], np.uint32))], four[:1], "l2", 1
            ),
        ),
        (
            "references",
            lambda: kernels.nearest_flat(
                [(four, np.zeros(2, np.uint64), None, None)], four, "l2", 1
            ),
        ),
        (
            "allowed",
            lambda: kernels.nearest_flat([(four, 0, np.zeros(4, np.bool_), None)], four, "l2", 1),
        ),
        (
            "several",
            lambda: kernels.nearest_flat(
                [(four, 0, None, None), (codes, 0, None, None)], four, "l2", 1
            ),
        ),
        ("contiguous", lambda: kernels.distances(four[:, ::2], two, "l2")),
        ("found int64", lambda: kernels.distances(four.astype(np.int64), four, "l2")),  # type: ignore[arg-type]
        ("codewords", lambda: kernels.ProductCodebook(np.zeros((2, 3, 1), np.float32))),
        ("dimension", lambda: book.nearest([], four, "l2", 1)),
        (
            "l2 or dot",
            lambda: book.nearest([((codes[:, :2].copy(), None), 0, None, None)], two, "cosine", 1),
        ),
        ("cluster", lambda: kernels.cluster_sums(four, np.full(3, 9, np.uint32), 2)),
        (
            "earlier",
            lambda: kernels.nearest_flat(
                [],
                two,
                "l2",
                1,
                earlier=(np.array([0, 1]), np.zeros(0, np.uint64), np.zeros(0, np.float32)),
            ),
        ),
    ]
    for message, call in calls:
        with pytest.raises(ValueError, match=message):
            call()
