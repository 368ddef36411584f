"""Indices of lists of vectors: what either library builds, both search, after every change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import pilum

DIMENSION = 8
QUERY = np.random.default_rng(1).normal(size=(3, DIMENSION)).astype(np.float32)
KINDS = [
    "IVF_FLAT",
    "IVF_PQ",
    "IVF_SQ",
    "IVF_RQ",
    "IVF_HNSW_FLAT",
    "IVF_HNSW_PQ",
    "IVF_HNSW_SQ",
]


def lists(start: int, stop: int) -> list[list[Any] | None]:
    """Returns lists of which some are null or empty, or contain vectors that have no cosine."""
    found: list[list[Any] | None] = []
    for row in range(start, stop):
        random = np.random.default_rng(row)
        vectors = random.normal(size=(row % 4 + (row % 8 < 4), DIMENSION)).astype(np.float32)
        if row % 37 == 5 and len(vectors):
            vectors[0, 3] = np.nan
        if row % 41 == 6 and len(vectors):
            vectors[0] = 0
        found.append(None if row % 50 == 0 else list(vectors))
    return found


def rows(start: int, stop: int) -> pa.Table:
    """Returns rows with ids in a range."""
    vectors = pa.array(lists(start, stop), pa.list_(pa.list_(pa.float32(), DIMENSION)))
    return pa.table({"id": range(start, stop), "v": vectors})


def nearest(ids: list[int], k: int) -> tuple[list[int], list[float]]:
    """Returns the nearest of some rows by the definition of the distance."""
    distances = {}
    for row in ids:
        [own] = lists(row, row + 1)
        unit = [v / np.linalg.norm(v) for v in own or [] if np.isfinite(v).all() and v.any()]
        if unit:
            cosines = (QUERY / np.linalg.norm(QUERY, axis=1, keepdims=True)) @ np.array(unit).T
            distances[row] = float((1 - cosines.max(axis=1)).sum())
    best = sorted(distances, key=lambda row: (distances[row], row))[:k]
    return best, [distances[row] for row in best]


def search(dataset: Any, *, refine: int | None, **scan: Any) -> tuple[list[int], Any]:
    """Returns ids and distances of what an index finds in all of its partitions."""
    wanted = {"column": "v", "q": QUERY, "k": 10, "nprobes": 4, "refine_factor": refine}
    found = dataset.to_table(columns=["id", "_distance"], nearest=wanted, **scan)
    return found["id"].to_pylist(), found["_distance"].to_numpy()


def check(place: str, ids: list[int], **scan: Any) -> None:
    """Asserts that both find the nearest of some rows, if all candidates are compared exactly."""
    best, distances = nearest(ids, 10)
    for library in (pilum, lance):
        found = search(library.dataset(place), refine=60, **scan)
        assert found[0] == best, library.__name__
        np.testing.assert_allclose(found[1], distances, atol=1e-4)


@pytest.mark.parametrize("builder", ["pilum", "pylance"])
@pytest.mark.parametrize("kind", KINDS)
def test_both_search_what_either_built(tmp_path: Path, kind: str, builder: str) -> None:
    place = str(tmp_path / "t")
    library: Any = pilum if builder == "pilum" else lance
    has_ids = (KINDS.index(kind) % 2 == 0) == (builder == "pilum")
    options: dict[str, Any] = {"num_sub_vectors": 2} if "PQ" in kind else {}
    dataset = library.write_dataset(
        rows(0, 240), place, max_rows_per_file=100, enable_stable_row_ids=has_ids
    )
    dataset.create_index("v", kind, metric="cosine", num_partitions=4, **options)
    everything = list(range(240))
    check(place, everything)
    thirds = [row for row in everything if row % 3 == 1]
    check(place, thirds, filter="id % 3 = 1", prefilter=True)
    if "HNSW" not in kind and kind != "IVF_RQ":  # which both estimate a little differently
        own, other = (search(one.dataset(place), refine=None) for one in (pilum, lance))
        assert own[0] == other[0]
        np.testing.assert_allclose(own[1], other[1], atol=1e-4)

    gone = nearest(everything, 4)[0]
    pilum.dataset(place).delete(f"id IN ({', '.join(map(str, gone))})")
    pilum.write_dataset(rows(240, 300), place, mode="append")
    left = [row for row in range(300) if row not in gone]
    check(place, left)
    library.dataset(place).optimize.optimize_indices(num_indices_to_merge=1)
    check(place, left)
    library.dataset(place).optimize.compact_files()
    check(place, left)
    assert pilum.dataset(place).stats.index_stats("v_idx")["num_unindexed_rows"] == 0


def test_only_cosine_has_an_index(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(rows(0, 60), str(tmp_path / "t"))
    for metric in ("l2", "dot"):
        with pytest.raises(pilum.errors.InvalidInputError, match="cosine"):
            dataset.create_index("v", "IVF_FLAT", metric=metric, num_partitions=2)
