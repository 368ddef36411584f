"""Segments of vector indices: those of the reference, our own, and damaged ones."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from pilum.errors import (
    CorruptFileError,
    NotFoundError,
    UnsupportedFormatError,
    UnsupportedTypeError,
)
from pilum.format.version import FileVersion
from pilum.index.answers import RowSet
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.vector import flat, segment
from pilum.index.vector.flat import FlatQuantizer
from pilum.index.vector.metrics import Metric
from pilum.index.vector.opening import open_vector_index
from pilum.index.vector.quantizer import NearestQuery
from pilum.index.vector.segment import VectorIndex
from pilum.index.vector.segment_files import SegmentWriter
from pilum.index.vector.vectors import normalized, vector_column
from pilum.storage.open import open_store

ROWS, DIMENSION, PARTITIONS = 1500, 16, 30


def vectors(dtype: Any = np.float32, rows: int = ROWS) -> Any:
    """Return vectors in clusters."""
    random = np.random.default_rng(7)
    if dtype == np.uint8:
        return random.integers(0, 256, (rows, DIMENSION), np.uint8)
    centers = random.normal(size=(40, DIMENSION))
    noise = random.normal(size=(rows, DIMENSION)) / 3
    return (centers[random.integers(0, 40, rows)] + noise).astype(dtype)


def table(data: Any) -> pa.Table:
    """Return a table of vectors with an id."""
    return pa.table({"id": np.arange(len(data)), "v": vector_column(data)})


def build(path: Path, kind: str, metric: str, dtype: Any = np.float32, **given: Any) -> Any:
    """Build an index with the reference."""
    dataset = lance.write_dataset(table(vectors(dtype)), str(path))
    given = {"num_partitions": PARTITIONS, "sample_rate": 16, "max_iters": 5} | given
    return dataset.create_index("v", kind, metric=metric, **given)


def folder_of(path: Path) -> Path:
    """Return the folder of the only segment."""
    [folder] = (path / "_indices").iterdir()
    return folder


def open_folder(folder: Path) -> VectorIndex:
    """Open a segment."""
    return open_vector_index(IndexFolder(open_store(str(folder.parent)), folder.name))


def ask(index: VectorIndex, vector: Any, k: int, **given: Any) -> NearestQuery:
    """Return a query."""
    return NearestQuery(vector, k, k, index.model.metric, **given)


KINDS: list[tuple[str, str, Any, dict[str, Any]]] = [
    *(("IVF_FLAT", m, t, {}) for m in ("l2", "cosine", "dot") for t in (np.float32,)),
    ("IVF_FLAT", "l2", np.float16, {}),
    ("IVF_FLAT", "cosine", np.float64, {}),
    ("IVF_FLAT", "hamming", np.uint8, {}),
    *(("IVF_SQ", m, np.float32, {}) for m in ("l2", "cosine", "dot")),
    ("IVF_SQ", "l2", np.float64, {}),
    *(("IVF_PQ", m, np.float32, {"num_sub_vectors": 4}) for m in ("l2", "cosine", "dot")),
    *(
        ("IVF_PQ", m, np.float32, {"num_sub_vectors": 8, "num_bits": 4})
        for m in ("l2", "cosine", "dot")
    ),
    ("IVF_PQ", "l2", np.float32, {"num_sub_vectors": 4, "skip_transpose": True}),
    ("IVF_PQ", "l2", np.float64, {"num_sub_vectors": 4}),
    *(
        ("IVF_PQ", m, np.float32, {"num_sub_vectors": 4, "index_file_version": "Legacy"})
        for m in ("l2", "cosine", "dot")
    ),
]


QUERIES: list[tuple[int, dict[str, Any]]] = [
    (10, {}),
    (1, {"nprobes": 1}),
    (25, {"nprobes": 4}),
    (10, {"minimum_nprobes": 9, "maximum_nprobes": 11}),
    (5, {"search_effort": 0.2}),
    (400, {}),
    (150, {"nprobes": 2}),
]


@pytest.mark.parametrize(("kind", "metric", "dtype", "given"), KINDS)
def test_segments_of_the_reference_give_its_answers(
    tmp_path: Path, kind: str, metric: str, dtype: Any, given: dict[str, Any]
) -> None:
    dataset = build(tmp_path / "t", kind, metric, dtype, **given)
    index = open_folder(folder_of(tmp_path / "t"))
    assert index.num_rows == ROWS
    data, compared = vectors(dtype), 0
    for number, (k, keys) in enumerate(QUERIES):
        query = data[number * 31] if dtype == np.uint8 else data[number * 31] + dtype(0.125)
        expected = dataset.to_table(
            columns=["id"], nearest={"column": "v", "q": query, "k": k, **keys}, with_row_id=True
        )
        own = dict(keys)
        fixed = own.pop("nprobes", None)
        if fixed is not None:
            own |= {"minimum_nprobes": fixed, "maximum_nprobes": fixed, "is_fixed": True}
        found = index.nearest(ask(index, query, k, **own))
        if metric == "hamming" and has_tie(index, query, found.num_probed):
            continue  # which of two equally distant partitions comes first is open
        compared += 1
        distances = expected["_distance"].to_numpy()
        assert len(found.references) == len(distances)
        np.testing.assert_allclose(found.distances, distances, rtol=1e-4, atol=1e-4)
        ids = expected["_rowid"].to_numpy()
        gaps = np.abs(np.diff(distances)) > 1e-4
        clear = np.concatenate(([True], gaps)) & np.concatenate((gaps, [True]))
        clear[-1] = False
        assert (found.references[clear] == ids[clear]).all()
    assert compared >= 1


def has_tie(index: VectorIndex, query: Any, count: int) -> bool:
    """Return whether the last partition that was searched is as far as the next one."""
    distances = np.sort(index.model.distances(index.model.queries(query[None]))[0])
    return count < len(distances) and bool(distances[count - 1] == distances[count])


@pytest.mark.parametrize("metric", ["l2", "dot"])
def test_distances_of_product_codes_are_those_of_the_reference(tmp_path: Path, metric: str) -> None:
    dataset = build(tmp_path / "t", "IVF_PQ", metric, num_sub_vectors=4)
    index = open_folder(folder_of(tmp_path / "t"))
    query = vectors()[3]
    expected = dataset.to_table(columns=["id"], nearest={"column": "v", "q": query, "k": 50})
    found = index.nearest(ask(index, query, 50))
    # Squared distances are made of products here, and of differences there.
    np.testing.assert_allclose(found.distances, expected["_distance"].to_numpy(), rtol=1e-5)


def test_a_range_includes_its_lower_and_excludes_its_upper_end(tmp_path: Path) -> None:
    build(tmp_path / "t", "IVF_FLAT", "l2")
    index = open_folder(folder_of(tmp_path / "t"))
    query = vectors()[5]
    all = index.nearest(ask(index, query, ROWS))
    lower, upper = float(all.distances[10]), float(all.distances[40])
    found = index.nearest(ask(index, query, ROWS, lower=lower, upper=upper))
    keep = (all.distances >= all.distances[10]) & (all.distances < all.distances[40])
    assert found.references.tolist() == all.references[keep].tolist()


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ"])
def test_only_allowed_rows_are_found_and_further_partitions_are_searched(
    tmp_path: Path, kind: str
) -> None:
    build(tmp_path / "t", kind, "l2", **({"num_sub_vectors": 4} if kind == "IVF_PQ" else {}))
    index = open_folder(folder_of(tmp_path / "t"))
    query = vectors()[5]
    all = index.nearest(ask(index, query, ROWS))
    assert len(all.references) == ROWS
    allowed = np.arange(3, ROWS, 50, dtype=np.uint64)
    for rows in (RowSet(allowed), ~RowSet(np.setdiff1d(all.references, allowed))):
        found = index.nearest(ask(index, query, 40), rows)
        keep = np.isin(all.references, allowed)
        assert found.references.tolist() == all.references[keep].tolist()
        assert found.distances.tolist() == all.distances[keep].tolist()
        one = ask(index, query, 40, minimum_nprobes=2, maximum_nprobes=2, is_fixed=True)
        assert index.nearest(one, rows).num_probed == 2
    assert len(index.nearest(ask(index, query, 5), RowSet()).references) == 0


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_SQ"])
@pytest.mark.parametrize("has_filter", [False, True])
def test_a_batch_gives_what_its_queries_give(
    tmp_path: Path, kind: str, has_filter: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "num_threads", lambda: 3)
    build(tmp_path / "t", kind, "cosine", **({"num_sub_vectors": 4} if kind == "IVF_PQ" else {}))
    index = open_folder(folder_of(tmp_path / "t"))
    queries = vectors()[:20] + np.float32(0.1)
    queries[7] = 0
    queries[8] = np.nan
    allowed = RowSet(np.arange(0, ROWS, 9, dtype=np.uint64)) if has_filter else None
    for k, queries_of_task in ((3, 100), (3, 4), (60, 7)):
        monkeypatch.setattr(segment, "_QUERIES_OF_TASK", queries_of_task)
        template = ask(index, queries[0], k)
        together = index.nearest_batch(queries, template, allowed)
        for query, found in zip(queries, together, strict=True):
            alone = index.nearest(ask(index, query, k), allowed)
            assert found.references.tolist() == alone.references.tolist()
            assert found.distances.tolist() == alone.distances.tolist()
    assert len(together[7].references) == len(together[8].references) == 0
    nothing = index.nearest_batch(queries[7:9], template, allowed)
    assert [len(one.references) for one in nothing] == [0, 0]


@pytest.mark.parametrize(("kind", "metric"), [("IVF_FLAT", "cosine"), ("IVF_SQ", "l2")])
def test_repeated_searches_keep_sieves_and_find_the_same(
    tmp_path: Path, kind: str, metric: str
) -> None:
    random = np.random.default_rng(5)
    data = np.tile(vectors(), 4) + random.normal(size=(ROWS, 64)).astype(np.float32) / 9
    dataset = lance.write_dataset(table(data), str(tmp_path / "t"))
    dataset = dataset.create_index(
        "v", kind, metric=metric, num_partitions=3, sample_rate=64, max_iters=5
    )
    index = open_folder(folder_of(tmp_path / "t"))
    queries = np.ascontiguousarray(data[:6] + np.float32(0.05))
    before = [index.nearest(ask(index, query, 30, minimum_nprobes=3)) for query in queries[:3]]
    size = index.size_bytes
    for _ in range(2):
        after = [index.nearest(ask(index, query, 30, minimum_nprobes=3)) for query in queries]
    assert index.size_bytes > size + ROWS * 32
    for one, other in zip(before, after, strict=False):
        assert one.references.tolist() == other.references.tolist()
        assert one.distances.tolist() == other.distances.tolist()
    for query, found in zip(queries, after, strict=True):
        expected = dataset.to_table(
            ["_rowid", "_distance"], nearest={"column": "v", "q": query, "k": 30, "nprobes": 3}
        )
        assert set(found.references.tolist()) == set(expected["_rowid"].to_pylist())


@pytest.mark.parametrize(("kind", "metric"), [("IVF_FLAT", "dot"), ("IVF_SQ", "cosine")])
def test_repeated_batches_keep_sieves_and_find_the_same(
    tmp_path: Path, kind: str, metric: str
) -> None:
    data = np.tile(vectors(), 4) + np.arange(ROWS, dtype=np.float32)[:, None] / (9 * ROWS)
    dataset = lance.write_dataset(table(data), str(tmp_path / "t"))
    dataset.create_index("v", kind, metric=metric, num_partitions=3, sample_rate=64, max_iters=5)
    index = open_folder(folder_of(tmp_path / "t"))
    queries = np.ascontiguousarray(data[:20] + np.float32(0.05))
    template = ask(index, queries[0], 9, minimum_nprobes=3)
    found = [index.nearest_batch(queries, template)]
    size = index.size_bytes  # a single small batch is not worth sieves
    found += [index.nearest_batch(queries, template) for _ in range(5)]
    assert index.size_bytes > size + ROWS * 32
    for one in found[1:]:
        for own, first in zip(one, found[0], strict=True):
            assert own.references.tolist() == first.references.tolist()
            assert own.distances.tolist() == first.distances.tolist()


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_a_single_partition_gives_the_answers_of_the_reference(tmp_path: Path, metric: str) -> None:
    dataset = build(tmp_path / "t", "IVF_FLAT", metric, num_partitions=1)
    index = open_folder(folder_of(tmp_path / "t"))
    query = vectors()[3] + np.float32(0.25)
    for first in (query[0], np.float32(np.nan)):
        query[0] = first
        expected = dataset.to_table(
            ["_rowid", "_distance"], nearest={"column": "v", "q": query, "k": 9}
        )
        found = index.nearest(ask(index, query, 9))
        assert found.references.tolist() == expected["_rowid"].to_pylist()


def test_statistics_are_those_of_the_reference(tmp_path: Path) -> None:
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("IVF_FLAT", {}),
        ("IVF_SQ", {}),
        ("IVF_PQ", {"num_sub_vectors": 2}),
        ("IVF_PQ", {"num_sub_vectors": 2, "num_bits": 4}),
        ("IVF_PQ", {"num_sub_vectors": 2, "index_file_version": "Legacy"}),
    ]
    for kind, given in kinds:
        path = tmp_path / "_".join([kind, *given])
        dataset = build(path, kind, "cosine", num_partitions=3, **given)
        [expected] = dataset.stats.index_stats("v_idx")["indices"]
        found = open_folder(folder_of(path)).statistics()
        for one in (expected, found):
            one.pop("uri")
            one["centroids"] = np.round(one["centroids"], 5).tolist()
        assert found == expected


def test_our_files_are_read_by_ourselves_and_keep_empty_partitions(tmp_path: Path) -> None:
    data = vectors(rows=200)
    path = tmp_path / "t"
    build(path, "IVF_FLAT", "l2")
    model = open_folder(folder_of(path)).model
    partitions, _ = model.assign(data)
    partitions[partitions == 3] = 4
    quantizer = FlatQuantizer(data.dtype, DIMENSION, Metric.L2)
    writer = IndexFolderWriter(open_store(str(tmp_path)), "own", FileVersion.V2_1)
    with SegmentWriter(writer, "IVF_FLAT", model, quantizer) as segment:
        for number in range(PARTITIONS):
            rows = np.flatnonzero(partitions == number)
            segment.write(rows.astype(np.uint64), {"flat": data[rows]})
    assert set(writer.sizes) == {"index.idx", "auxiliary.idx"}
    index = open_vector_index(writer.written())
    query = data[3]
    found = index.nearest(ask(index, query, 200))
    exact = ((data - query) ** 2).sum(axis=1)
    assert found.references.tolist() == np.argsort(exact, kind="stable").tolist()
    assert index.partitions.lengths.tolist() == np.bincount(partitions, minlength=30).tolist()
    assert len(index.read(3)[0]) == 0


@pytest.mark.parametrize("num_bits", [8, 4])
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_codes_are_those_of_the_reference(tmp_path: Path, metric: str, num_bits: int) -> None:
    build(tmp_path / "t", "IVF_PQ", metric, num_sub_vectors=4, num_bits=num_bits)
    index = open_folder(folder_of(tmp_path / "t"))
    data, model = vectors(), index.model
    if metric == "cosine":
        data = normalized(data)
    for number in range(4):
        rows, columns = index.read(number)
        partitions = np.full(len(rows), number, np.uint32)
        assert (model.assign(data[rows])[0] == number).all()
        made = index.quantizer.encode(data[rows], partitions, model.centroids)["__pq_code"]
        assert (made == columns["__pq_code"]).mean() > 0.999
        near = index.quantizer.decoded(columns, partitions, model.centroids)
        assert ((near - data[rows]) ** 2).sum() < ((data[rows] - data.mean(axis=0)) ** 2).sum()


DAMAGED = (CorruptFileError, UnsupportedFormatError, UnsupportedTypeError, NotFoundError)


@pytest.mark.seeds(3)
@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("IVF_FLAT", {}),
        ("IVF_SQ", {}),
        ("IVF_PQ", {"num_sub_vectors": 4, "num_bits": 4}),
        ("IVF_PQ", {"num_sub_vectors": 4, "sample_rate": 8, "index_file_version": "Legacy"}),
    ],
)
def test_damaged_files_give_answers_or_clear_errors(
    tmp_path: Path, kind: str, given: dict[str, Any], seed: int
) -> None:
    build(tmp_path / "t", kind, "l2", num_partitions=4, **given)
    folder = folder_of(tmp_path / "t")
    random = np.random.default_rng(seed)
    query = vectors()[0]
    for file in sorted(folder.iterdir()):
        whole = file.read_bytes()
        for _ in range(60):
            data = bytearray(whole)
            near_end = random.random() < 0.7
            place = int(random.integers(max(len(data) - 3000, 0) if near_end else 0, len(data)))
            if random.random() < 0.15:
                data = data[:place]
            else:
                data[place] = int(random.integers(0, 256))
            copy = tmp_path / "copy"
            shutil.copytree(folder, copy)
            (copy / file.name).write_bytes(bytes(data))
            try:
                index = open_folder(copy)
                found = index.nearest(ask(index, query, 20))
                assert len(found.references) <= 20
            except DAMAGED:
                pass
            shutil.rmtree(copy)


def test_lengths_of_many_vectors_are_summed_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum of millions of squares as floats of 32 bits would be wrong by some thousandths."""
    monkeypatch.setattr(flat, "_TOLERANCE", 1e-4)
    quantizer = FlatQuantizer(np.dtype(np.float32), 768, Metric.COSINE)
    rows: Any = np.full((4096, 768), 768**-0.5, np.float32)
    assert quantizer.flaw({flat.COLUMN: rows}) is None
    assert quantizer.flaw({flat.COLUMN: rows * np.float32(1.001)}) is not None
