"""Building indices of vectors: pylance answers with them, and finds what brute force finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import lance.indices
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import pilum
from pilum.errors import (
    IndexAlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    UnsupportedFeatureError,
    UnsupportedTypeError,
)
from pilum.index.vector.vectors import vector_column
from pilum.indices import IndexFileVersion, IndexSegment, SupportedDistributedIndices

_KINDS: list[tuple[str, dict[str, Any]]] = [
    ("IVF_FLAT", {}),
    ("IVF_PQ", {"num_sub_vectors": 8}),
    ("IVF_PQ", {"num_sub_vectors": 8, "num_bits": 4}),
    ("IVF_SQ", {}),
]


def _vectors(num_rows: int = 1200, dimension: int = 16, dtype: Any = np.float32) -> NDArray[Any]:
    generator = np.random.default_rng(1)
    middles = generator.normal(size=(30, dimension)) * 3
    chosen = generator.integers(0, 30, num_rows)
    return (middles[chosen] + generator.normal(size=(num_rows, dimension))).astype(dtype)


def _table(path: Path, vectors: Any, **options: Any) -> pilum.LanceDataset:
    column = vectors if isinstance(vectors, pa.Array) else vector_column(vectors)
    data = pa.table({"id": np.arange(len(column)), "v": column})
    return pilum.write_dataset(data, path, max_rows_per_file=500, **options)


def _distances(vectors: NDArray[Any], query: NDArray[Any], metric: str) -> NDArray[np.float64]:
    rows, one = vectors.astype(np.float64), query.astype(np.float64)
    if metric == "l2":
        return np.asarray(((rows - one) ** 2).sum(axis=1))
    if metric == "dot":
        return np.asarray(1 - rows @ one)
    return np.asarray(1 - rows @ one / np.linalg.norm(rows, axis=1) / np.linalg.norm(one))


def _asked(path: Path, query: Any, k: int = 10, **nearest: Any) -> pa.Table:
    """Return what pylance finds by the index."""
    scanner = lance.dataset(path).scanner(
        columns=["id", "_distance"], nearest={"column": "v", "q": query, "k": k, **nearest}
    )
    assert "ANN" in scanner.explain_plan()
    return scanner.to_table()


def _sizes(path: Path) -> list[int]:
    [segment] = lance.dataset(path).stats.index_stats("v_idx")["indices"]
    return [one["size"] for one in segment["partitions"]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_flat_indices_find_what_brute_force_finds(tmp_path: Path, metric: str, dtype: Any) -> None:
    vectors = _vectors(dtype=dtype)
    dataset = _table(tmp_path / "t", vectors)
    dataset.delete("id < 100")
    assert dataset.create_index("v", "IVF_FLAT", metric=metric, num_partitions=6) is dataset
    assert sum(_sizes(tmp_path / "t")) == 1100
    for query in vectors[:5]:
        found = _asked(tmp_path / "t", query, nprobes=6)
        exact = _distances(vectors, query, metric)[100:]
        assert found["id"].to_pylist() == (np.argsort(exact, kind="stable")[:10] + 100).tolist()
        tolerance = 2e-2 if dtype == np.float16 else 1e-3
        np.testing.assert_allclose(found["_distance"], np.sort(exact)[:10], atol=tolerance)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize(("kind", "keywords"), _KINDS)
def test_recall_is_that_of_the_reference(
    tmp_path: Path, kind: str, keywords: dict[str, Any], metric: str
) -> None:
    vectors = _vectors()
    keywords = {"metric": metric, "num_partitions": 4, **keywords}
    _table(tmp_path / "ours", vectors).create_index("v", kind, **keywords)
    _table(tmp_path / "theirs", vectors)
    lance.dataset(tmp_path / "theirs").create_index("v", kind, **keywords)
    ours = theirs = 0
    for query in vectors[:20]:
        exact = set(np.argsort(_distances(vectors, query, metric), kind="stable")[:10].tolist())
        found = _asked(tmp_path / "ours", query, nprobes=2)["id"].to_pylist()
        ours += len(exact.intersection(found))
        found = _asked(tmp_path / "theirs", query, nprobes=2)["id"].to_pylist()
        theirs += len(exact.intersection(found))
    assert ours >= theirs - 40  # of 200; builds of the reference differ from each other


@pytest.mark.parametrize(("kind", "keywords"), _KINDS)
def test_a_small_limit_of_memory_finds_the_same(
    tmp_path: Path, kind: str, keywords: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = _vectors()
    keywords = {"ivf_centroids": vectors[:5], **keywords}
    _table(tmp_path / "memory", vectors).create_index("v", kind, **keywords)
    monkeypatch.setattr("pilum.index.vector.building._SHARE_OF_ROWS", 2**40)
    _table(tmp_path / "disk", vectors).create_index("v", kind, **keywords)
    for query in vectors[:3]:
        found = [_asked(tmp_path / name, query, nprobes=5) for name in ("memory", "disk")]
        assert found[0].equals(found[1])


@pytest.mark.parametrize(("kind", "options"), _KINDS)
def test_threads_that_share_a_query_find_the_same(
    tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    vectors = _vectors()
    dataset = _table(tmp_path / "t", vectors)
    dataset.create_index("v", kind, num_partitions=8, **options)
    scans: list[dict[str, Any]] = [{}, {"filter": "id % 3 = 0", "prefilter": True}]
    for more in scans:
        for query in vectors[:20]:
            nearest = {"column": "v", "q": query, "k": 9, "nprobes": 6}
            expected = dataset.to_table(nearest={**nearest, "query_parallelism": 1}, **more)
            for parallelism in (0, 3, -1):
                asked = {**nearest, "query_parallelism": parallelism}
                assert dataset.to_table(nearest=asked, **more).equals(expected)


def test_rows_that_no_index_contains_are_left_out(tmp_path: Path) -> None:
    vectors = _vectors(600)
    vectors[0], vectors[1, 3], vectors[2] = 0, np.nan, np.inf
    array = vector_column(vectors).to_pylist()
    array[3] = None
    column = pa.array(array, pa.list_(pa.float32(), 16))
    dataset = _table(tmp_path / "t", column)
    dataset.create_index("v", "IVF_FLAT", num_partitions=3)
    assert sum(_sizes(tmp_path / "t")) == 597
    dataset.create_index("v", "IVF_FLAT", metric="cosine", num_partitions=3, replace=True)
    assert sum(_sizes(tmp_path / "t")) == 596


def test_bits_are_compared_by_hamming(tmp_path: Path) -> None:
    vectors = np.random.default_rng(2).integers(0, 256, (700, 8)).astype(np.uint8)
    _table(tmp_path / "t", vectors).create_index(
        "v", "IVF_FLAT", metric="hamming", num_partitions=5
    )
    differing = np.unpackbits(vectors ^ vectors[7], axis=1).sum(axis=1)
    found = _asked(tmp_path / "t", vectors[7], nprobes=5)
    assert found["_distance"].to_pylist() == np.sort(differing)[:10].tolist()
    assert found["_distance"].to_pylist() == differing[found["id"].to_numpy()].tolist()


def test_each_vector_of_a_list_is_indexed(tmp_path: Path) -> None:
    vectors = _vectors(900)
    lists = pa.ListArray.from_arrays(np.arange(0, 901, 3, dtype=np.int32), vector_column(vectors))
    dataset = _table(tmp_path / "t", lists)
    dataset.create_index("v", "IVF_FLAT", metric="cosine", num_partitions=3)
    assert sum(_sizes(tmp_path / "t")) == 900
    assert _asked(tmp_path / "t", vectors[31], k=1, nprobes=3)["id"].to_pylist() == [10]


def test_stable_row_ids(tmp_path: Path) -> None:
    vectors = _vectors(800)
    dataset = _table(tmp_path / "t", vectors, enable_stable_row_ids=True)
    dataset.create_index("v", "IVF_SQ", num_partitions=2)
    dataset.delete("id % 2 = 0")
    dataset.optimize.compact_files()
    found = _asked(tmp_path / "t", vectors[101], k=1, nprobes=2)
    assert found["id"].to_pylist() == [101]


def test_given_centroids_are_stored_as_they_are(tmp_path: Path) -> None:
    vectors = _vectors(600)
    far = np.full((1, 16), 1e6, np.float32)
    centroids = np.concatenate([vectors[:4], far])
    np.save(tmp_path / "centroids.npy", centroids)
    forms: list[dict[str, Any]] = [
        {"ivf_centroids": centroids},
        {"ivf_centroids": vector_column(centroids)},
        {"ivf_centroids_file": str(tmp_path / "centroids.npy")},
    ]
    dataset = _table(tmp_path / "t", vectors)
    expected = _distances_to(vectors, centroids).argmin(axis=1)
    for form in forms:
        dataset.create_index("v", "IVF_FLAT", metric="l2", replace=True, **form)
        [segment] = lance.dataset(tmp_path / "t").stats.index_stats("v_idx")["indices"]
        assert np.array_equal(segment["centroids"], centroids)
        assert _sizes(tmp_path / "t") == np.bincount(expected, minlength=5).tolist()
        loss = _distances_to(vectors, centroids).min(axis=1).sum()
        assert segment["loss"] == pytest.approx(loss, rel=1e-4)


def _distances_to(vectors: NDArray[Any], centroids: NDArray[Any]) -> NDArray[np.float64]:
    return np.stack([_distances(vectors, one, "l2") for one in centroids], axis=1)


def test_given_partitions_are_used(tmp_path: Path) -> None:
    vectors = _vectors(600)
    dataset = _table(tmp_path / "t", vectors)
    ids = dataset.to_table(columns=["id"], with_row_id=True)["_rowid"].to_numpy()[::-1][:500]
    partitions = np.arange(500) % 3
    assigned = pa.table({"row_id": ids, "partition": pa.array(partitions, pa.uint32())})
    pilum.write_dataset(assigned, tmp_path / "assigned")
    given: dict[str, Any] = {"precomputed_partition_dataset": str(tmp_path / "assigned")}
    dataset.create_index("v", "IVF_FLAT", ivf_centroids=vectors[:3], **given)
    assert _sizes(tmp_path / "t") == [167, 167, 166]
    with pytest.raises(InvalidInputError, match="partition 2 of 2"):
        dataset.create_index("v", "IVF_FLAT", replace=True, ivf_centroids=vectors[:2], **given)
    with pytest.raises(InvalidInputError, match="ivf_centroids must be provided"):
        dataset.create_index("v", "IVF_FLAT", replace=True, **given)


@pytest.mark.parametrize(
    ("kind", "keywords"),
    [
        ("IVF_FLAT", {"train": False}),
        ("IVF_HNSW_SQ", {"train": False, "m": 8, "ef_construction": 20}),
        ("IVF_PQ", {"num_sub_vectors": 4}),
    ],
)
def test_too_few_rows_commit_a_definition(
    tmp_path: Path, kind: str, keywords: dict[str, Any]
) -> None:
    vectors = _vectors(200)
    dataset = _table(tmp_path / "t", vectors)
    dataset.create_index("v", kind, metric="cosine", **keywords)
    assert not list((tmp_path / "t").glob("_indices/*"))
    [index] = dataset.describe_indices()
    [other] = lance.dataset(tmp_path / "t").describe_indices()
    assert index.index_type == other.index_type == kind
    assert index.details == other.details
    assert [list(one.fragment_ids or ()) for one in index.segments] == [[]]
    found = lance.dataset(tmp_path / "t").to_table(
        nearest={"column": "v", "q": vectors[9], "k": 1}, columns=["id"]
    )
    assert found["id"].to_pylist() == [9]


def test_optimization_builds_a_definition(tmp_path: Path) -> None:
    vectors = _vectors(600)
    dataset = _table(tmp_path / "t", vectors[:100])
    dataset.create_index("v", "IVF_PQ", num_sub_vectors=4)
    more = pa.table({"id": np.arange(100, 600), "v": vector_column(vectors[100:])})
    dataset = pilum.write_dataset(more, tmp_path / "t", mode="append")
    dataset.optimize.optimize_indices()
    assert sum(_sizes(tmp_path / "t")) == 600
    assert _asked(tmp_path / "t", vectors[300], k=5, refine_factor=10)["id"][0].as_py() == 300


@pytest.mark.parametrize(("kind", "keywords"), _KINDS)
@pytest.mark.parametrize("num_to_merge", [0, 1])
def test_new_rows_are_added_by_the_same_models(
    tmp_path: Path, kind: str, keywords: dict[str, Any], num_to_merge: int
) -> None:
    vectors = _vectors(900)
    dataset = _table(tmp_path / "t", vectors[:600])
    dataset.create_index("v", kind, num_partitions=3, **keywords)
    more = pa.table({"id": np.arange(600, 900), "v": vector_column(vectors[600:])})
    dataset = pilum.write_dataset(more, tmp_path / "t", mode="append")
    dataset.delete("id < 50")
    dataset.optimize.optimize_indices(num_indices_to_merge=num_to_merge)
    segments = lance.dataset(tmp_path / "t").stats.index_stats("v_idx")["indices"]
    assert len(segments) == 2 - num_to_merge
    assert all(one["centroids"] == segments[0]["centroids"] for one in segments)
    for number in (60, 700):
        found = _asked(tmp_path / "t", vectors[number], k=1, nprobes=3, refine_factor=10)
        assert found["id"].to_pylist() == [number]


@pytest.mark.parametrize(("kind", "keywords"), _KINDS)
def test_shards_are_built_separately_and_merged(
    tmp_path: Path, kind: str, keywords: dict[str, Any]
) -> None:
    vectors = _vectors(900)
    dataset = _table(tmp_path / "t", vectors)
    models: dict[str, Any] = {"ivf_centroids": vectors[:4]}
    if kind == "IVF_PQ":
        words = 2 ** keywords.get("num_bits", 8)
        count = keywords["num_sub_vectors"]
        generator = np.random.default_rng(3)
        models["pq_codebook"] = generator.normal(size=(count, words, 16 // count))
    shards = [
        dataset.create_index_uncommitted("v", kind, fragment_ids=[number], **keywords, **models)
        for number in (0, 1)
    ]
    dataset.commit_existing_index_segments("v_idx", "v", shards)
    apart = _asked(tmp_path / "t", vectors[5], nprobes=4)
    merged = dataset.merge_existing_index_segments(shards)
    dataset.commit_existing_index_segments("v_idx", "v", [merged])
    assert sum(_sizes(tmp_path / "t")) == 900
    together = _asked(tmp_path / "t", vectors[5], nprobes=4)
    common = set(together["id"].to_pylist()).intersection(apart["id"].to_pylist())
    assert len(common) >= (9 if kind == "IVF_SQ" else 10)  # its bounds are widened
    tolerance = 0.05 if kind == "IVF_SQ" else 1e-5
    np.testing.assert_allclose(together["_distance"], apart["_distance"], rtol=tolerance)


def test_shards_of_different_models_are_not_merged(tmp_path: Path) -> None:
    vectors = _vectors(900)
    dataset = _table(tmp_path / "t", vectors)
    shards = [
        dataset.create_index_uncommitted(
            "v", "IVF_FLAT", fragment_ids=[number], ivf_centroids=vectors[number : number + 3]
        )
        for number in (0, 1)
    ]
    with pytest.raises(InvalidInputError, match="different centroids cannot be merged"):
        dataset.merge_existing_index_segments(shards)


def test_a_failed_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    dataset = _table(tmp_path / "t", _vectors(600))
    for name in ("encode", "arranged"):
        monkeypatch.setattr(f"pilum.index.vector.flat.FlatQuantizer.{name}", fail)
        with pytest.raises(KeyboardInterrupt):
            dataset.create_index("v", "IVF_FLAT")
        monkeypatch.undo()
        assert not [one for one in (tmp_path / "t").glob("_indices/**/*") if one.is_file()]
    assert not dataset.list_indices()


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize(("kind", "keywords"), _KINDS)
def test_both_libraries_find_the_same(
    tmp_path: Path, kind: str, keywords: dict[str, Any], metric: str
) -> None:
    vectors = _vectors(900)
    dataset = _table(tmp_path / "t", vectors)
    dataset.create_index("v", kind, metric=metric, num_partitions=5, **keywords)
    for query in vectors[:3]:
        for more in ({"nprobes": 2}, {}, {"nprobes": 3, "refine_factor": 2}):
            theirs = _asked(tmp_path / "t", query, k=7, **more)
            ours = dataset.to_table(
                columns=["id", "_distance"], nearest={"column": "v", "q": query, "k": 7, **more}
            )
            assert ours["id"].to_pylist() == theirs["id"].to_pylist()
            np.testing.assert_allclose(ours["_distance"], theirs["_distance"], atol=1e-3, rtol=1e-5)


def test_errors(tmp_path: Path) -> None:
    dataset = _table(tmp_path / "t", _vectors(600))
    dataset.create_index("v", "ivf_flat", num_partitions=2)
    with pytest.raises(IndexAlreadyExistsError, match="use replace=True"):
        dataset.create_index("v", "IVF_FLAT")
    with pytest.raises(UnsupportedTypeError, match="column 'id' has type int64"):
        dataset.create_index("id", "IVF_FLAT")
    with pytest.raises(UnsupportedFeatureError, match="IVF_HNSW_SQ"):
        dataset.create_index("v", "IVF_HNSW_ZZ")
    with pytest.raises(InvalidInputError, match="create_index_uncommitted"):
        dataset.create_index("v", "IVF_FLAT", fragment_ids=[0])
    with pytest.raises(InvalidInputError, match="cannot be provided at the same time"):
        dataset.create_index(
            "v", "IVF_FLAT", replace=True, ivf_centroids=_vectors(3), ivf_centroids_file="a.npy"
        )
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    file = str(tmp_path / "bad.npy")
    with pytest.raises(InvalidInputError, match=r"not a \.npy file"):
        dataset.create_index("v", "IVF_FLAT", replace=True, ivf_centroids_file=file)
    with pytest.raises(InvalidInputError, match="accelerator='gpu': expected 'cuda'"):
        dataset.create_index("v", "IVF_PQ", replace=True, num_sub_vectors=4, accelerator="gpu")
    with pytest.warns(DeprecationWarning, match="index_cache_size"):
        dataset.create_index("v", "IVF_FLAT", replace=True, index_cache_size=5)


def test_progress_is_reported(tmp_path: Path) -> None:
    events: list[pilum.IndexProgress] = []
    dataset = _table(tmp_path / "t", _vectors(600))
    dataset.create_index("v", "IVF_FLAT", progress_callback=events.append)
    assert (events[0].event, events[-1].event) == ("start", "complete")
    assert events[-1].completed == 600


def test_progress_of_graphs_is_reported_and_can_stop_a_build(tmp_path: Path) -> None:
    events: list[pilum.IndexProgress] = []
    dataset = _table(tmp_path / "t", _vectors(600))
    dataset.create_index(
        "v", "IVF_HNSW_FLAT", num_partitions=2, m=4, progress_callback=events.append
    )
    stages = ["load_data", "build_graphs"]
    assert list(dict.fromkeys(one.stage for one in events)) == stages
    for stage in stages:
        own = [one for one in events if one.stage == stage]
        assert (own[0].event, own[-1].event) == ("start", "complete")
        assert own[-1].completed == own[-1].total == 600
        done = [one.completed or 0 for one in own]
        assert done == sorted(done)

    def stop(progress: pilum.IndexProgress) -> None:
        if progress.stage == "build_graphs":
            raise KeyboardInterrupt

    before = dataset.version
    with pytest.raises(KeyboardInterrupt):
        dataset.create_index("v", "IVF_HNSW_FLAT", replace=True, m=4, progress_callback=stop)
    assert pilum.dataset(tmp_path / "t").version == before
    assert len(list((tmp_path / "t" / "_indices").glob("*/*"))) == 2


def test_arguments_may_be_passed_by_position(tmp_path: Path) -> None:
    vectors = _vectors(600)
    dataset = _table(tmp_path / "t", vectors)
    create: Any = dataset.create_index
    create("v", "IVF_FLAT", "mine", "cosine", False, 3, vectors[:3])
    [index] = dataset.list_indices()
    assert index["name"] == "mine"
    assert dataset.stats.index_stats("mine")["indices"][0]["num_partitions"] == 3
    with pytest.raises(TypeError, match="num_partitions"):
        create("v", "IVF_FLAT", "mine", "l2", True, 3, num_partitions=3)


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_PQ"])
def test_folders_of_segments_are_committed(tmp_path: Path, kind: str) -> None:
    vectors = _vectors(900)
    dataset = _table(tmp_path / "t", vectors)
    keywords: dict[str, Any] = {"num_sub_vectors": 4} if "PQ" in kind else {}
    shape: dict[str, Any] = (
        {"m": 6, "ef_construction": 40, "max_level": 3} if "HNSW" in kind else {}
    )
    built = [
        dataset.create_index_uncommitted(
            "v", kind, fragment_ids=[number], ivf_centroids=vectors[:2], **keywords, **shape
        )
        for number in (0, 1)
    ]
    folders = [IndexSegment(one.uuid, one.fragment_ids, one.index_version) for one in built]
    dataset.commit_existing_index_segments("of_folders", "v", folders)
    [about] = dataset.describe_indices()
    assert about.index_type == kind
    assert about.details.get("hnsw") == (
        {"max_connections": 6, "construction_ef": 40, "max_level": 3} if shape else None
    )
    found = _asked(tmp_path / "t", vectors[5], nprobes=2, refine_factor=5)
    assert found["id"][0].as_py() == 5
    [peer] = lance.dataset(tmp_path / "t").describe_indices()
    assert peer.index_type == kind
    missing = IndexSegment("11111111-1111-1111-1111-111111111111", [0], 1)
    with pytest.raises(NotFoundError, match="no files"):
        dataset.commit_existing_index_segments("of_folders", "v", [missing])


def test_names_of_layouts_and_types(tmp_path: Path) -> None:
    dataset = _table(tmp_path / "t", _vectors(300))
    kind, layout = SupportedDistributedIndices.IVF_FLAT, IndexFileVersion.V3
    dataset.create_index("v", kind, index_file_version=layout, num_partitions=2)
    assert dataset.describe_indices()[0].index_type == "IVF_FLAT"
    for own, theirs in (
        (IndexFileVersion, lance.indices.IndexFileVersion),
        (SupportedDistributedIndices, lance.indices.SupportedDistributedIndices),
    ):
        assert {one.name: one.value for one in own} == {one.name: one.value for one in theirs}
