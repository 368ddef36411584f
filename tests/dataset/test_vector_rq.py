"""IVF_RQ: indices of both libraries, before and after changes, against exact distances of numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

NUM_ROWS, K = 900, 10


def vectors_of(dimension: int) -> Any:
    random = np.random.default_rng(4)
    centres = random.normal(size=(20, dimension))
    own = random.integers(0, 20, NUM_ROWS)
    noise = 0.3 * random.normal(size=(NUM_ROWS, dimension))
    return (centres[own] + noise).astype(np.float32)


def table_of(vectors: Any, first: int = 0) -> pa.Table:
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    return pa.table({"id": range(first, first + len(vectors)), "v": column})


def distances_of(vectors: Any, query: Any, metric: str) -> Any:
    if metric == "l2":
        return ((vectors - query) ** 2).sum(axis=1)
    dots = vectors @ query
    if metric == "dot":
        return -dots
    return -dots / np.linalg.norm(vectors, axis=1)


def recall(library: Any, uri: str, live: dict[int, Any], metric: str) -> float:
    """The share of the nearest live rows that a library finds by the index."""
    ids, rows = np.array(list(live)), np.stack(list(live.values()))
    dataset, shares = library.dataset(uri), []
    for query in rows[:20] + np.float32(0.05):
        near = ids[np.argsort(distances_of(rows, query, metric))[:K]]
        nearest = {"column": "v", "q": query, "k": K, "nprobes": 4}
        found = dataset.to_table(columns=["id", "_distance"], nearest=nearest)
        assert set(found["id"].to_pylist()) <= live.keys()
        shares.append(len(np.intersect1d(found["id"].to_numpy(), near)) / K)
    return float(np.mean(shares))


@pytest.mark.parametrize(
    ("metric", "bits", "dimension"),
    [
        ("l2", 1, 16),
        ("l2", 5, 24),
        ("cosine", 5, 16),
        ("dot", 8, 24),
        ("cosine", 1, 24),
        ("dot", 1, 16),
    ],
)
@pytest.mark.parametrize("maker", [pilum, lance], ids=["pilum", "pylance"])
def test_both_libraries_find_the_same_share_of_the_nearest_rows(
    tmp_path: Path, maker: Any, metric: str, bits: int, dimension: int
) -> None:
    uri = str(tmp_path / "t.lance")
    vectors = vectors_of(dimension)
    maker.write_dataset(table_of(vectors), uri, max_rows_per_file=300)
    given = {"num_partitions": 4, "num_bits": bits, "metric": metric}
    maker.dataset(uri).create_index("v", "IVF_RQ", **given)
    live = dict(enumerate(vectors))
    least = 0.15 if bits == 1 else 0.75

    def check() -> None:
        ours, theirs = (recall(library, uri, live, metric) for library in (pilum, lance))
        assert abs(ours - theirs) < 0.1
        assert min(ours, theirs) > least

    check()
    pilum.dataset(uri).delete("id % 7 = 3")
    pilum.dataset(uri).optimize.compact_files()
    live = {number: vector for number, vector in live.items() if number % 7 != 3}
    check()
    more = vectors[:100] + np.float32(0.2)
    pilum.dataset(uri).insert(table_of(more, NUM_ROWS))
    pilum.dataset(uri).optimize.optimize_indices(num_indices_to_merge=1)
    assert pilum.dataset(uri).stats.index_stats("v_idx")["num_unindexed_rows"] == 0
    live |= {NUM_ROWS + number: vector for number, vector in enumerate(more)}
    check()


@pytest.mark.parametrize(
    ("metric", "size"),
    [("l2", 1e17), ("l2", 3e18), ("dot", 3e18), ("cosine", 1e-25), ("cosine", 1e30)],
)
def test_long_and_short_vectors_are_found(tmp_path: Path, metric: str, size: float) -> None:
    """As long as distances are numbers of float32."""
    uri, vectors = str(tmp_path / "t.lance"), vectors_of(16)
    pilum.write_dataset(table_of(vectors * np.float32(size)), uri)
    pilum.dataset(uri).create_index("v", "IVF_RQ", num_partitions=4, metric=metric)
    shares = []
    for query in vectors[:20] + np.float32(0.05):
        near = np.argsort(distances_of(vectors, query, metric))[:K]
        nearest = {"column": "v", "q": query * np.float32(size), "k": K, "nprobes": 4}
        found = pilum.dataset(uri).to_table(nearest=nearest)
        assert np.isfinite(found["_distance"].to_numpy()).all()
        shares.append(len(np.intersect1d(found["id"].to_numpy(), near)) / K)
    assert np.mean(shares) > 0.75


@pytest.mark.parametrize("metric", ["l2", "dot"])
def test_vectors_whose_squares_overflow_are_refused(tmp_path: Path, metric: str) -> None:
    dataset = pilum.write_dataset(table_of(vectors_of(16) * np.float32(1e20)), tmp_path / "t.lance")
    with pytest.raises(InvalidInputError, match="column 'v': vectors are so long that"):
        dataset.create_index("v", "IVF_RQ", num_partitions=4, metric=metric)
    assert not dataset.list_indices()


def test_segments_of_different_rotations_are_not_merged(tmp_path: Path) -> None:
    vectors = vectors_of(16)
    dataset = pilum.write_dataset(
        table_of(vectors), str(tmp_path / "t.lance"), max_rows_per_file=300
    )
    parts = [
        dataset.create_index_uncommitted(
            "v", "IVF_RQ", fragment_ids=[number], ivf_centroids=vectors[:4]
        )
        for number in (0, 1)
    ]
    with pytest.raises(InvalidInputError, match="different rotations"):
        dataset.merge_existing_index_segments(parts)
