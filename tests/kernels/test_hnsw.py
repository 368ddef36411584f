"""Graphs of near vectors: building, walking, filters, and rows that are damaged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pilum import kernels
from pilum.errors import CorruptFileError
from pilum.kernels import HnswBuilder, HnswGraph, HnswVectors
from pilum.kernels.reference_hnsw import Levels, levels_of, walk

DIMENSION = 12


def _vectors(count: int, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype(np.float32)


def _stored(kind: str, count: int) -> tuple[HnswVectors, NDArray[Any], Any]:
    """Return vectors for the kernel, decoded ones, and the distance of a query from all."""
    random = np.random.default_rng(2)
    decoded: NDArray[Any]
    is_dot = kind.endswith("dot")
    if kind == "hamming":
        rows = random.integers(0, 256, (count, 9), np.uint8)
        return HnswVectors.bits(rows), rows, lambda q: np.bitwise_count(rows ^ q).sum(axis=1)
    if kind.startswith("floats"):
        decoded = _vectors(count).astype(np.float64)
        made = HnswVectors.floats(decoded.astype(np.float32), is_dot)
    elif kind.startswith("scalar"):
        codes = random.integers(0, 256, (count, DIMENSION), np.uint8)
        made = HnswVectors.scalar_codes(codes, -2.0, 3.0, is_dot)
        decoded = -2.0 + codes * (5.0 / 255)
    else:
        size = 16 if "4" in kind else 256
        codes = random.integers(0, size, (count, 4), np.uint8)
        words = random.normal(size=(4, size, DIMENSION // 4)).astype(np.float32)
        made = HnswVectors.product_codes(codes, words, is_dot)
        decoded = words[np.arange(4), codes].reshape(count, DIMENSION).astype(np.float64)

    def distances(q: NDArray[Any]) -> NDArray[Any]:
        if kind == "scalar":
            codes = np.clip((q.astype(np.float64) + 2.0) * 255 / 5.0, 0, 255).astype(np.uint8)
            q = -2.0 + codes * (5.0 / 255)
        found = 1 - decoded @ q if is_dot else ((decoded - q) ** 2).sum(axis=1)
        return np.asarray(found)

    return made, decoded, distances


def _query(kind: str, seed: int) -> NDArray[Any]:
    random = np.random.default_rng(seed)
    if kind == "hamming":
        return random.integers(0, 256, 9, np.uint8)
    return random.normal(size=DIMENSION).astype(np.float32)


def _built(vectors: HnswVectors, count: int, threads: int = 1, **shape: int) -> Any:
    sizes = {"m": 6, "ef_construction": 20, "max_level": 4, **shape}
    builder = HnswBuilder(count, sizes["m"], sizes["ef_construction"], sizes["max_level"])
    while builder.insert(vectors, 97, threads) < count:
        pass
    return builder.finish(vectors)


def _graph(built: Any, count: int) -> HnswGraph:
    ids, offsets, linked, _, _, entry_point = built
    return HnswGraph(ids, offsets, linked, count, entry_point, False)


def _walked(
    levels: Levels,
    entry_point: int,
    distances: NDArray[Any],
    allowed: NDArray[np.bool_] | None,
) -> list[int]:
    def passes(node: int) -> bool:
        return allowed is None or bool(allowed[node])

    return walk(levels, entry_point, lambda node: float(distances[node]), 25, passes)


KINDS = ["floats", "floats dot", "hamming", "scalar", "scalar dot", "product", "product dot",
         "product 4"]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_walks_as_the_reference_does(kind: str) -> None:
    count = 300
    vectors, _, distances = _stored(kind, count)
    built = _built(vectors, count)
    levels = levels_of(built[0], built[1], built[2], count)
    rows = np.arange(count, dtype=np.uint64) + 1000
    for seed in range(5):
        query = _query(kind, seed)
        expected = distances(query)
        passes = np.random.default_rng(seed).random(count) < 0.5
        for allowed in (None, passes):
            part = (_graph(built, count), vectors, rows, allowed, None, None)
            bounds, found, away = kernels.nearest_hnsw([part], query[np.newaxis], 7, 25)
            nodes = _walked(levels, built[5], expected, allowed)
            assert bounds.tolist() == [0, 7]
            np.testing.assert_allclose(away, expected[found - 1000], rtol=1e-4, atol=1e-5)
            if kind != "hamming":  # which has ties
                assert (found - 1000).tolist() == nodes[:7]
            np.testing.assert_allclose(away, np.sort(expected[nodes])[:7], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_stores_the_distances_of_linked_nodes(kind: str) -> None:
    count = 200
    vectors, decoded, _ = _stored(kind, count)
    ids, offsets, linked, away, bounds, entry_point = _built(vectors, count)
    sources = np.repeat(ids, np.diff(offsets))
    one, other = decoded[sources], decoded[linked]
    if kind == "hamming":
        expected = np.bitwise_count(one ^ other).sum(axis=1)
    elif kind.endswith("dot"):
        expected = 1 - (one * other).sum(axis=1)
    else:
        expected = ((one - other) ** 2).sum(axis=1)
    np.testing.assert_allclose(away, expected, rtol=1e-4, atol=1e-5)
    assert bounds[0] == 0
    assert bounds[1] == count
    assert bounds[-1] == len(ids)
    assert entry_point in ids[bounds[-2] :]


@settings(max_examples=25)
@given(st.integers(1, 120), st.integers(1, 3), st.booleans(), st.integers(4, 8))
def test_every_node_can_be_reached(count: int, threads: int, equal: bool, m: int) -> None:
    rows = np.ones((count, 3), np.float32) if equal else _vectors(count)
    vectors = HnswVectors.floats(rows, False)
    ids, offsets, linked, _, bounds, entry_point = _built(
        vectors, count, threads, m=m, ef_construction=m
    )
    levels = levels_of(ids, offsets, linked, count)
    reached, front = {entry_point}, [entry_point]
    while front:
        new = set(levels[0][front.pop()]) - reached
        reached |= new
        front += new
    assert reached == set(range(count))
    assert [len(level) for level in levels] == np.diff(bounds).tolist()
    assert max(map(len, levels[0].values())) <= 2 * m + 1
    for level in levels[1:]:
        assert max(map(len, level.values())) <= m
        assert all(node in level for links in level.values() for node in links)
    assert all(node not in links for level in levels for node, links in level.items())


@pytest.mark.parametrize("threads", [1, 3])
def test_finds_nearly_all(threads: int) -> None:
    count = 1500
    rows = _vectors(count)
    vectors = HnswVectors.floats(rows, False)
    graph = _graph(_built(vectors, count, threads, m=12, ef_construction=60), count)
    queries = _vectors(20, seed=9)
    part = (graph, vectors, np.arange(count, dtype=np.uint64), None, None, None)
    _, found, _ = kernels.nearest_hnsw([part], queries, 10, 60)
    true = ((rows - queries[:, np.newaxis]) ** 2).sum(axis=2).argsort(axis=1)[:, :10]
    hits = [
        len({*a} & {*b}) for a, b in zip(found.reshape(20, 10).tolist(), true.tolist(), strict=True)
    ]
    assert sum(hits) >= 190


def test_few_allowed_rows_are_all_compared() -> None:
    count = 400
    rows = _vectors(count)
    vectors = HnswVectors.floats(rows, False)
    graph = _graph(_built(vectors, count), count)
    allowed = np.arange(count) % 11 == 0
    query = _vectors(1, seed=4)
    part = (graph, vectors, np.arange(count, dtype=np.uint64), allowed, None, None)
    _, found, away = kernels.nearest_hnsw([part], query, 40, 40)
    expected = ((rows - query) ** 2).sum(axis=1)
    assert found.tolist() == sorted(np.flatnonzero(allowed).tolist(), key=lambda i: expected[i])
    lower, upper = float(away[3]), float(away[9])
    _, between, _ = kernels.nearest_hnsw([part], query, 40, 40, lower=lower, upper=upper)
    assert between.tolist() == found[3:9].tolist()


def test_several_parts_and_queries_make_one_answer() -> None:
    rows = _vectors(160)
    queries = _vectors(3, seed=6)
    parts: list[Any] = []
    for start in (0, 80):
        vectors = HnswVectors.floats(rows[start : start + 80], False)
        references = np.arange(start, start + 80, dtype=np.uint64)
        parts.append((_graph(_built(vectors, 80), 80), vectors, references, None, None, None))
    whole = kernels.nearest_hnsw(parts, queries, 5, 80)
    true = ((rows - queries[:, np.newaxis]) ** 2).sum(axis=2).argsort(axis=1)[:, :5]
    assert whole[1].reshape(3, 5).tolist() == true.tolist()
    first = kernels.nearest_hnsw(parts[:1], queries, 5, 80)
    both = kernels.nearest_hnsw(parts[1:], queries, 5, 80, earlier=first)
    assert [array.tolist() for array in both] == [array.tolist() for array in whole]
    only = [(*parts[0][:4], np.array([2], np.uint32), None)]
    assert kernels.nearest_hnsw(only, queries, 5, 80)[0].tolist() == [0, 0, 0, 5]
    moved = [(*parts[0][:5], np.ones(DIMENSION, np.float32))]
    shifted = kernels.nearest_hnsw(moved, queries + 1, 5, 80)
    assert shifted[1].tolist() == first[1].tolist()


def test_unknown_nodes_are_damage_or_left_out() -> None:
    ids, offsets = np.arange(3, dtype=np.uint32), np.array([0, 2, 3, 4], np.int32)
    linked = np.array([1, 7, 2, 0], np.uint32)
    with pytest.raises(CorruptFileError, match="unknown nodes"):
        HnswGraph(ids, offsets, linked, 3, 0, False)
    graph = HnswGraph(ids, offsets, linked, 3, 0, True)
    rows = np.array([[0.0], [1.0], [2.0]], np.float32)
    part = (graph, HnswVectors.floats(rows, False), ids.astype(np.uint64), None, None, None)
    assert kernels.nearest_hnsw([part], rows[2:], 3, 3)[1].tolist() == [2, 1, 0]


def test_links_of_other_graphs_around_its_own_are_ignored() -> None:
    ids, offsets = np.arange(3, dtype=np.uint32), np.array([2, 4, 5, 6], np.int32)
    linked = np.array([9, 9, 1, 2, 2, 0, 9], np.uint32)
    graph = HnswGraph(ids, offsets, linked, 3, 0, False)
    assert graph.size_bytes == HnswGraph(ids, offsets - 2, linked[2:6], 3, 0, False).size_bytes
    rows = np.array([[0.0], [1.0], [2.0]], np.float32)
    part = (graph, HnswVectors.floats(rows, False), ids.astype(np.uint64), None, None, None)
    assert kernels.nearest_hnsw([part], rows[2:], 3, 3)[1].tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("ids", "offsets", "linked", "entry_point"),
    [
        ([0, 2, 1], [0, 0, 0, 0], [], 0),
        ([0, 1], [0, 0, 0], [], 0),
        ([0, 1, 2], [0, 0, 0], [], 0),
        ([0, 1, 2], [0, 1, 0, 0], [1], 0),
        ([0, 1, 2], [0, 1, 2, 3], [1, 2], 0),
        ([0, 1, 2], [-1, 0, 0, 0], [], 0),
        ([0, 1, 2], [0, 0, 0, 0], [], 3),
        ([0, 1, 2, 5], [0, 0, 0, 0, 0], [], 0),
    ],
)
def test_damaged_rows(
    ids: list[int], offsets: list[int], linked: list[int], entry_point: int
) -> None:
    arrays = np.array(ids, np.uint32), np.array(offsets, np.int32), np.array(linked, np.uint32)
    with pytest.raises(CorruptFileError):
        HnswGraph(*arrays, 3, entry_point, False)


def test_vectors_must_belong_to_the_graph() -> None:
    vectors = HnswVectors.floats(_vectors(30), False)
    graph = _graph(_built(vectors, 30), 30)
    fewer = HnswVectors.floats(_vectors(29), False)
    rows = np.arange(30, dtype=np.uint64)
    with pytest.raises(CorruptFileError, match="nodes of a graph"):
        kernels.nearest_hnsw([(graph, fewer, rows[:29], None, None, None)], _vectors(1), 1, 1)
    with pytest.raises(CorruptFileError, match="query"):
        kernels.nearest_hnsw(
            [(graph, vectors, rows, None, None, None)], np.zeros((1, 3), np.float32), 1, 1
        )


def test_shapes_are_checked() -> None:
    for shape in ((3, 20, 4), (20, 10, 4), (8, 20, 0)):
        with pytest.raises(ValueError, match="or more"):
            HnswBuilder(10, *shape)
    vectors = HnswVectors.floats(_vectors(10), False)
    with pytest.raises(ValueError, match="inserted nodes"):
        HnswBuilder(10, 8, 20, 4).finish(vectors)
