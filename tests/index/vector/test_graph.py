"""Graphs of partitions: both libraries answer alike with those of either, and damaged ones."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.errors import (
    CorruptFileError,
    InvalidInputError,
    NotFoundError,
    UnsupportedFormatError,
    UnsupportedTypeError,
)
from pilum.index.files import IndexFolder
from pilum.index.vector.graph import read_graph
from pilum.index.vector.opening import open_vector_index
from pilum.index.vector.quantizer import NearestQuery
from pilum.index.vector.vectors import vector_column
from pilum.storage.open import open_store

ROWS, DIMENSION = 900, 16
SHAPE = {"num_partitions": 3, "m": 6, "ef_construction": 30, "max_iters": 5}

KINDS: list[tuple[str, str, Any, dict[str, Any]]] = [
    *(("IVF_HNSW_FLAT", metric, np.float32, {}) for metric in ("l2", "cosine", "dot")),
    ("IVF_HNSW_FLAT", "l2", np.float16, {}),
    ("IVF_HNSW_FLAT", "cosine", np.float64, {}),
    ("IVF_HNSW_FLAT", "hamming", np.uint8, {}),
    *(("IVF_HNSW_SQ", metric, np.float32, {}) for metric in ("l2", "cosine", "dot")),
    *(
        ("IVF_HNSW_PQ", metric, np.float32, {"num_sub_vectors": 4, "sample_rate": 3})
        for metric in ("l2", "cosine", "dot")
    ),
    ("IVF_HNSW_PQ", "l2", np.float32, {"num_sub_vectors": 8, "num_bits": 4, "sample_rate": 16}),
]


def vectors(dtype: Any) -> Any:
    """Return random vectors."""
    random = np.random.default_rng(5)
    if dtype == np.uint8:
        return random.integers(0, 256, (ROWS, DIMENSION), np.uint8)
    return random.normal(size=(ROWS, DIMENSION)).astype(dtype)


def build(library: Any, path: Path, kind: str, metric: str, dtype: Any, **given: Any) -> None:
    """Write a table and build an index with one of the libraries."""
    table = pa.table({"id": np.arange(ROWS), "v": vector_column(vectors(dtype))})
    lance.write_dataset(table, str(path))
    library.dataset(str(path)).create_index("v", kind, metric=metric, **SHAPE, **given)


@pytest.mark.parametrize("library", [lance, pilum])
@pytest.mark.parametrize(("kind", "metric", "dtype", "given"), KINDS)
def test_both_libraries_give_the_same_answers(
    tmp_path: Path, library: Any, kind: str, metric: str, dtype: Any, given: dict[str, Any]
) -> None:
    path = tmp_path / "t"
    build(library, path, kind, metric, dtype, **given)
    theirs, ours = lance.dataset(str(path)), pilum.dataset(str(path))
    data = vectors(dtype)
    scans: list[dict[str, Any]] = [{}, {"filter": "id % 2 = 0", "prefilter": True}]
    for number in range(8):
        query = data[number * 7] if dtype == np.uint8 else data[number * 7] + dtype(0.25)
        for k, ef, nprobes in ((5, 7, 1), (10, 12, 2), (10, 60, 3)):
            near = {"column": "v", "q": query, "k": k, "nprobes": nprobes, "ef": ef}
            for scan in scans:
                found, expected = (
                    one.to_table(columns=["id", "_distance"], nearest=near, **scan)
                    for one in (ours, theirs)
                )
                if metric == "hamming" and found != expected:
                    continue  # ties make walks differ
                np.testing.assert_allclose(
                    found["_distance"], expected["_distance"], rtol=1e-4, atol=1e-4
                )
                if kind != "IVF_HNSW_PQ":  # codes that are equal make ties
                    assert found["id"].to_pylist() == expected["id"].to_pylist()


def test_a_merge_builds_the_graphs_again(tmp_path: Path) -> None:
    path = tmp_path / "t"
    build(pilum, path, "IVF_HNSW_SQ", "l2", np.float32)
    extra = pa.table({"id": np.arange(50) + ROWS, "v": vector_column(vectors(np.float32)[:50])})
    ours = pilum.write_dataset(extra, str(path), mode="append")
    ours.delete("id < 20")
    ours.optimize.optimize_indices(num_indices_to_merge=1)
    ours = pilum.dataset(str(path))
    near = {"column": "v", "q": vectors(np.float32)[3], "k": 30, "nprobes": 3, "ef": 200}
    found = ours.to_table(columns=["id", "_distance"], nearest=near)
    expected = lance.dataset(str(path)).to_table(columns=["id", "_distance"], nearest=near)
    assert found["id"].to_pylist() == expected["id"].to_pylist()
    assert found["id"][0].as_py() == ROWS + 3


def test_ef_is_at_least_k(tmp_path: Path) -> None:
    build(pilum, tmp_path / "t", "IVF_HNSW_FLAT", "l2", np.float32)
    near = {"column": "v", "q": vectors(np.float32)[0], "k": 10, "ef": 9}
    with pytest.raises(InvalidInputError, match="ef must be greater than or equal to k"):
        pilum.dataset(str(tmp_path / "t")).to_table(nearest=near)


def test_statistics_are_those_of_the_reference(tmp_path: Path) -> None:
    build(lance, tmp_path / "t", "IVF_HNSW_SQ", "l2", np.float32)
    path = str(tmp_path / "t")
    [expected] = lance.dataset(path).stats.index_stats("v_idx")["indices"]
    [found] = pilum.dataset(path).stats.index_stats("v_idx")["indices"]
    assert found["sub_index"] == expected["sub_index"]


OLD = '{"entry_point":0,"params":{},"level_offsets":[0,3,4]}'
"""As release 0.20 wrote it: node 0 is on level 1, too, but does not count there."""


def test_old_graphs_are_read() -> None:
    ids = pa.array([0, 1, 2, 0, 2], pa.uint32())
    linked = pa.array([[1, 9], [0, 2], [1], [2], [0]], pa.list_(pa.uint32()))
    graph = read_graph(ids, linked, OLD, 3, "f")
    assert (graph.num_nodes, graph.num_levels) == (3, 2)
    with pytest.raises(CorruptFileError, match="unknown nodes"):
        read_graph(ids, linked, OLD.replace("3,4", "3,5"), 3, "f")


@pytest.mark.parametrize(
    ("ids", "linked", "about"),
    [
        (pa.array([0, 1, None], pa.uint32()), [[1], [0], [1]], OLD),
        (pa.array([0, 1, 2], pa.uint64()), [[1], [0], [1]], OLD),
        (pa.array([0, 1, 2], pa.uint32()), [[1], None, [1]], OLD),
        (pa.array([0, 1, 2], pa.uint32()), [[1], [None], [1]], OLD),
        (pa.array([0, 1, 2], pa.uint32()), [[1], [0], [1]], ""),
        (pa.array([0, 1, 2], pa.uint32()), [[1], [0], [1]], OLD.replace("0", "3", 1)),
        (pa.array([0, 1, 2], pa.uint32()), [[1], [0], [1]], OLD.replace("4]", '"4"]')),
    ],
)
def test_damaged_rows(ids: Any, linked: Any, about: str) -> None:
    with pytest.raises(CorruptFileError):
        read_graph(ids, pa.array(linked, pa.list_(pa.uint32())), about, 3, "f")


DAMAGED = (CorruptFileError, UnsupportedFormatError, UnsupportedTypeError, NotFoundError)


@pytest.mark.seeds(2)
def test_damaged_files_give_answers_or_clear_errors(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "t"
    build(lance, path, "IVF_HNSW_SQ", "l2", np.float32)
    [folder] = (path / "_indices").iterdir()
    random = np.random.default_rng(seed)
    query = vectors(np.float32)[0]
    whole = (folder / "index.idx").read_bytes()
    for number in range(60):
        data = bytearray(whole)
        data[int(random.integers(0, len(data)))] = int(random.integers(0, 256))
        copy = tmp_path / f"copy{number}"
        shutil.copytree(folder, copy)
        (copy / "index.idx").write_bytes(bytes(data))
        try:
            index = open_vector_index(IndexFolder(open_store(str(tmp_path)), copy.name))
            found = index.nearest(NearestQuery(query, 20, 20, index.model.metric))
            assert len(found.references) <= 20
        except DAMAGED:
            pass
