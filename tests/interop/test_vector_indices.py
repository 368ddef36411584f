"""Indices of vectors that one library builds are searched and described alike by the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.dataset import VectorIndexReader as ReferenceReader

import pilum
from pilum.dataset import VectorIndexReader

NUM_ROWS, DIMENSION, PARTITIONS = 600, 16, 5
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "flat": ("IVF_FLAT", {}),
    "pq": ("IVF_PQ", {"num_sub_vectors": 4}),
    "pq4": ("IVF_PQ", {"num_sub_vectors": 8, "num_bits": 4}),
    "sq": ("IVF_SQ", {}),
}
METRICS = ("l2", "cosine", "dot")
QUERIES: list[dict[str, Any]] = [{"k": 10}, {"k": 2 * NUM_ROWS}]
SHARP_QUERIES: list[dict[str, Any]] = [{"k": 25, "nprobes": 2}, {"k": 5, "refine_factor": 3}]
"""Their rows depend on the order of near distances, which float16 blurs."""


def rows(first: int, count: int, dtype: Any) -> pa.Table:
    """Return vectors in clusters; a few are null or not numbers."""
    random = np.random.default_rng(first)
    centers = np.random.default_rng(0).normal(size=(40, DIMENSION))
    noise = random.normal(size=(count, DIMENSION)) / 3
    vectors = (centers[random.integers(0, 40, count)] + noise).astype(dtype)
    vectors[7, 2] = np.nan
    column = [None if number == 9 else one for number, one in enumerate(vectors)]
    type = pa.list_(pa.from_numpy_dtype(dtype), DIMENSION)
    return pa.table({"id": np.arange(first, first + count), "v": pa.array(column, type)})


def build(library: Any, path: Path, kind: str, metric: str, dtype: Any = np.float32) -> str:
    """Build an index with a library."""
    name, given = KINDS[kind]
    library.write_dataset(rows(0, NUM_ROWS, dtype), str(path)).create_index(
        "v", name, metric=metric, num_partitions=PARTITIONS, sample_rate=64, max_iters=10, **given
    )
    return str(path)


def change(library: Any, uri: str, dtype: Any) -> None:
    """Append rows that the index does not cover, and delete rows."""
    library.write_dataset(rows(NUM_ROWS, 80, dtype), uri, mode="append")
    library.dataset(uri).delete("id % 7 = 3")


def compare(uri: str, kind: str, dtype: Any) -> None:
    """Assert that both libraries find the same rows at the same distances."""
    # The reference rounds queries of float16, and their residuals, to float16.
    is_half = dtype == np.float16
    tolerance = 2e-2 if is_half else 1e-4
    queries = QUERIES if is_half else QUERIES + SHARP_QUERIES
    if kind == "pq4":
        # Many distances are equal, and the reference rounds sums: its candidates are others.
        queries = QUERIES[1:]
    datasets = pilum.dataset(uri), lance.dataset(uri)
    vectors = datasets[0].to_table(["v"], filter="id in (0, 301)")["v"].to_pylist()
    for vector in vectors:
        query = np.array(vector, dtype) + dtype(0.0625)
        for keys in queries:
            nearest = {"column": "v", "q": query, **keys}
            columns = ["id", "_distance"]
            found, expected = (one.to_table(columns, nearest=nearest) for one in datasets)
            near, exact = found["_distance"].to_numpy(), expected["_distance"].to_numpy()
            assert len(near) == len(exact)
            np.testing.assert_allclose(near, exact, rtol=tolerance, atol=tolerance)
            gaps = np.diff(exact) > 2 * tolerance * np.maximum(1, np.abs(exact[1:]))
            clear = np.append(True, gaps) & np.append(gaps, len(exact) > NUM_ROWS / 2)
            ids, others = found["id"].to_numpy(), expected["id"].to_numpy()
            assert is_half or clear.any()
            assert (ids[clear] == others[clear]).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("library", [lance, pilum])
def test_both_find_the_same_rows(tmp_path: Path, library: Any, kind: str, dtype: Any) -> None:
    other = pilum if library is lance else lance
    # Numbers of other widths are converted in one place, whatever the metric.
    for metric in METRICS if dtype == np.float32 else METRICS[:1]:
        uri = build(library, tmp_path / metric, kind, metric, dtype)
        compare(uri, kind, dtype)
        change(other, uri, dtype)
        compare(uri, kind, dtype)


def figures(value: Any) -> Iterator[float]:
    """Return all fractions in nested values."""
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for key in sorted(value):
            yield from figures(value[key])
    elif isinstance(value, list):
        for one in value:
            yield from figures(one)


def without_fractions(value: Any) -> Any:
    """Return nested values with 0 for all fractions, and without the forms of locations."""
    if isinstance(value, dict):
        return {key: without_fractions(one) for key, one in value.items() if key != "uri"}
    if isinstance(value, list):
        return [without_fractions(one) for one in value]
    return 0.0 if isinstance(value, float) else value


@pytest.fixture(params=[lance, pilum], ids=["reference", "own"])
def library(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=list(KINDS))
def indexed(request: pytest.FixtureRequest, library: Any, tmp_path: Path) -> str:
    """A table with an index that covers all but the last rows."""
    uri = build(library, tmp_path / "t", request.param, "cosine")
    change(library, uri, np.float32)
    return uri


def test_both_describe_the_same(indexed: str) -> None:
    ours, theirs = pilum.dataset(indexed), lance.dataset(indexed)
    found, expected = ours.stats.index_stats("v_idx"), theirs.stats.index_stats("v_idx")
    assert without_fractions(found) == without_fractions(expected)
    np.testing.assert_allclose([*figures(found)], [*figures(expected)], rtol=1e-5)
    assert found["num_unindexed_fragments"] == 1
    [one], [other] = ours.list_indices(), theirs.list_indices()
    assert {**one, "fragment_ids": [*(one["fragment_ids"] or ())]} == {
        **other,
        "fragment_ids": [*other["fragment_ids"]],
    }
    [mine], [its] = ours.describe_indices(), theirs.describe_indices()
    for name in ("name", "type_url", "index_type", "num_rows_indexed", "fields", "field_names"):
        assert getattr(mine, name) == getattr(its, name), name
    assert mine.details == its.details
    assert mine.total_size_bytes == its.total_size_bytes
    [segment], [segment_of_theirs] = mine.segments, its.segments
    for name in ("uuid", "created_at", "size_bytes", "index_version", "base_id"):
        assert getattr(segment, name) == getattr(segment_of_theirs, name), name
    assert [*(segment.fragment_ids or ())] == [*segment_of_theirs.fragment_ids] == [0]


def by_row(column: pa.ChunkedArray, name: str) -> list[Any]:
    """Return codes row after row; the reference returns those of products as they are stored."""
    codes = np.array(column.to_pylist())
    if name == "__pq_code":
        codes = codes.reshape(codes.shape[1], -1).T
    return list(codes.tolist())


def test_both_read_the_same_partitions(indexed: str, library: Any) -> None:
    own = VectorIndexReader(pilum.dataset(indexed), "v_idx")
    reference = ReferenceReader(lance.dataset(indexed), "v_idx")
    assert own.num_partitions() == reference.num_partitions() == PARTITIONS
    for number in range(PARTITIONS):
        codes = own.read_partition(number, with_vector=True)
        expected = reference.read_partition(number, with_vector=True)
        assert codes.schema.names == expected.schema.names
        assert codes.schema.types == expected.schema.types
        assert codes["_rowid"].equals(expected["_rowid"])
        name = codes.schema.names[1]
        assert codes[name].to_pylist() == by_row(expected[name], name)
    library.dataset(indexed).optimize.optimize_indices(num_indices_to_merge=0)
    ours, theirs = pilum.dataset(indexed), lance.dataset(indexed)
    own, reference = VectorIndexReader(ours, "v_idx"), ReferenceReader(theirs, "v_idx")
    assert len(own.stats["segments"]) == 2
    num_rows = 0
    for number in range(PARTITIONS):
        found = own.read_partition(number)
        assert found.to_pydict() == reference.read_partition(number).to_pydict()
        num_rows += found.num_rows
    assert num_rows > NUM_ROWS
    centroids = theirs.centroids(index_name="v_idx")
    assert ours.centroids(index_name="v_idx").equals(centroids)
    assert ours.centroids(column="v").equals(centroids)
    assert ours.get_ivf_model("v_idx").distance_type == "cosine"


def test_readers_of_what_is_not_there(tmp_path: Path) -> None:
    uri = build(pilum, tmp_path / "t", "flat", "l2")
    dataset = pilum.dataset(uri)
    dataset.create_scalar_index("id", "BTREE")
    dataset = pilum.dataset(uri)
    reader = VectorIndexReader(dataset, "v_idx")
    for number in (-1, PARTITIONS):
        with pytest.raises(IndexError, match=f"Partition id {number} is out of range"):
            reader.read_partition(number)
    with pytest.raises(ValueError, match="Index id_idx is not vector index"):
        VectorIndexReader(dataset, "id_idx")
    with pytest.raises(pilum.errors.IndexNotFoundError, match="x_idx"):
        VectorIndexReader(dataset, "x_idx")
