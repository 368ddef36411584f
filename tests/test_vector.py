"""Pairs of vectors that are nearly equal, and partitions of indices: as pylance reports them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.errors import IndexNotFoundError, InvalidInputError, UnsupportedTypeError
from pilum.vector import (
    find_duplicate_pairs,
    find_duplicate_pairs_in_partition,
    get_ivf_partition_info,
    hamming_clustering_for_ivf_partition,
    hamming_clustering_for_range,
    hamming_clustering_for_sample,
)

COUNT, DIMENSION = 360, 8


def dataset_of(path: Path, metric: str, **options: Any) -> pilum.LanceDataset:
    """Returns vectors of which every third is nearly that of the row before it."""
    random = np.random.default_rng(3)
    vectors: Any = random.normal(size=(COUNT, DIMENSION)).astype(np.float32)
    vectors[1::3] = vectors[::3] + random.normal(size=(COUNT // 3, DIMENSION)) * 0.01
    if metric == "hamming":
        vectors = random.integers(0, 256, (COUNT, DIMENSION)).astype(np.uint8)
        vectors[1::3] = vectors[::3] ^ np.uint8(1)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), DIMENSION)
    table = pa.table({"id": range(COUNT), "v": column})
    return pilum.write_dataset(table, path, max_rows_per_file=200, **options)


def pairs(reader: pa.RecordBatchReader) -> dict[tuple[int, int], float]:
    """Returns the distances of pairs."""
    rows = reader.read_all().to_pydict()
    names = zip(rows["row_id_a"], rows["row_id_b"], strict=True)
    keys = [(min(one), max(one)) for one in names]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, rows["distance"], strict=True))


@pytest.mark.parametrize(
    ("kind", "metric", "most", "has_ids"),
    [
        ("IVF_FLAT", "l2", 0.1, False),
        ("IVF_FLAT", "cosine", 0.01, True),
        ("IVF_FLAT", "dot", -4.0, False),
        ("IVF_FLAT", "hamming", 8.0, False),
        ("IVF_SQ", "l2", 0.1, True),
        ("IVF_PQ", "l2", 0.05, False),
    ],
)
def test_both_find_the_same_pairs(
    tmp_path: Path, kind: str, metric: str, most: float, has_ids: bool
) -> None:
    dataset = dataset_of(tmp_path / "t", metric, enable_stable_row_ids=has_ids)
    options: dict[str, Any] = {"num_sub_vectors": 4} if kind == "IVF_PQ" else {}
    dataset.create_index("v", kind, metric=metric, num_partitions=3, **options)
    dataset.delete("id < 30")
    own = pairs(find_duplicate_pairs(dataset, "v", most, memory_limit=20_000))
    peer: Any = lance.dataset(tmp_path / "t")
    # The module `lance.vector` needs tqdm; its function does no more than this.
    theirs = pairs(peer._ds.find_duplicate_pairs("v", most))
    near = {key for key, one in {**own, **theirs}.items() if abs(one - most) < 1e-4}
    assert own.keys() - near == theirs.keys() - near
    assert len(own) > 20
    for key in own.keys() & theirs.keys():
        assert own[key] == pytest.approx(theirs[key], abs=1e-4)
    if metric == "hamming":  # pylance has them for no others
        sizes = peer._ds.get_ivf_partition_info("v_idx", None)
        assert get_ivf_partition_info(dataset, "v_idx") == sizes


def test_memory_is_bounded_where_all_rows_are_equal(tmp_path: Path) -> None:
    """Exact distances are computed of so many pairs as fit, however many candidates there are."""
    column = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(COUNT * 8, np.float32)), 8)
    dataset = pilum.write_dataset(pa.table({"v": column}), tmp_path / "t")
    dataset.create_index("v", "IVF_FLAT", num_partitions=1)
    sizes = [one.num_rows for one in find_duplicate_pairs(dataset, "v", 0.1, memory_limit=100_000)]
    assert sum(sizes) == COUNT * (COUNT - 1) // 2
    assert max(sizes) * 8 * 2 * 8 <= 100_000  # two vectors of eight doubles


def test_lists_of_vectors_are_refused(tmp_path: Path) -> None:
    items = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(512, dtype=np.float32)), 8)
    lists = pa.ListArray.from_arrays(pa.array(range(0, 65, 2), pa.int32()), items)
    dataset = pilum.write_dataset(pa.table({"v": lists}), tmp_path / "t")
    dataset.create_index("v", "IVF_FLAT", metric="cosine", num_partitions=1)
    with pytest.raises(UnsupportedTypeError, match="one vector each"):
        find_duplicate_pairs(dataset, "v", 0.1)


def test_an_index_must_cover_all_rows(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path / "t", "l2")
    with pytest.raises(IndexNotFoundError, match="no index"):
        find_duplicate_pairs(dataset, "v", 0.1)
    dataset.create_index("v", "IVF_FLAT", num_partitions=2)
    with pytest.raises(InvalidInputError, match="finite"):
        find_duplicate_pairs(dataset, "v", float("nan"))
    with pytest.raises(InvalidInputError, match="no segments"):
        get_ivf_partition_info(dataset, "v_idx", index_segments=["x"])
    dataset.create_scalar_index("id", "BTREE")
    with pytest.raises(InvalidInputError, match="not one of vectors"):
        get_ivf_partition_info(dataset, "id_idx")
    more = pilum.write_dataset(dataset.head(5), tmp_path / "t", mode="append")
    with pytest.raises(InvalidInputError, match="does not cover"):
        find_duplicate_pairs(more, "v", 0.1)


def test_pairs_of_single_partitions_are_those_of_the_table(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path / "t", "l2")
    dataset.create_index("v", "IVF_FLAT", num_partitions=3)
    whole = pairs(find_duplicate_pairs(dataset, "v", 0.1))
    more = pilum.write_dataset(dataset.head(5), tmp_path / "t", mode="append")
    uuid = more.describe_indices()[0].segments[0].uuid
    parts = [pairs(find_duplicate_pairs_in_partition(more, "v", uuid, n, 0.1)) for n in range(3)]
    assert {key: one for part in parts for key, one in part.items()} == whole
    assert sum(map(len, parts)) == len(whole) > 20
    peer: Any = lance.dataset(tmp_path / "t")
    theirs = peer._ds.find_duplicate_pairs_in_partition("v", str(uuid), 1, 0.1)
    assert pairs(theirs).keys() == parts[1].keys()
    with pytest.raises(InvalidInputError, match="has 3 partitions, not number 3"):
        find_duplicate_pairs_in_partition(more, "v", uuid, 3, 0.1)
    with pytest.raises(InvalidInputError, match="has the segments"):
        find_duplicate_pairs_in_partition(more, "v", "x", 0, 0.1)


def hashes_of(path: Path, **options: Any) -> pilum.LanceDataset:
    """Returns hashes of 64 bits, in chains whose neighbours differ in one bit or two."""
    random = np.random.default_rng(9)
    hashes = random.integers(0, 256, (COUNT, DIMENSION)).astype(np.uint8)
    for row in range(COUNT - COUNT // 3, COUNT):
        hashes[row] = hashes[random.integers(0, row)]
        hashes[row, random.integers(0, DIMENSION)] ^= np.uint8(random.choice([1, 2, 3, 129]))
    hashes = random.permutation(hashes)
    column = pa.FixedSizeListArray.from_arrays(pa.array(hashes.reshape(-1)), DIMENSION)
    table = pa.table({"id": range(COUNT), "v": column})
    return pilum.write_dataset(table, path, max_rows_per_file=200, **options)


@pytest.mark.parametrize("has_ids", [False, True])
@pytest.mark.parametrize("most", [0, 1, 2, 24])
def test_both_find_the_same_clusters(tmp_path: Path, has_ids: bool, most: int) -> None:
    dataset = hashes_of(tmp_path / "t", enable_stable_row_ids=has_ids)
    dataset.create_index("v", "IVF_FLAT", metric="hamming", num_partitions=2)
    # `lance.vector` needs tqdm; its functions do no more than this.
    theirs: Any = lance.dataset(tmp_path / "t")._ds
    for number in range(2):
        part = hamming_clustering_for_ivf_partition(dataset, "v_idx", number, most).read_all()
        peer = theirs.hamming_clustering_for_ivf_partition("v_idx", number, most, None)
        assert part == peer.read_all()
    dataset.delete("id % 10 = 7")
    theirs = lance.dataset(tmp_path / "t")._ds
    found = hamming_clustering_for_sample(dataset, "v", hamming_threshold=most).read_all()
    assert found == theirs.hamming_clustering_for_sample("v", None, most).read_all()
    found = hamming_clustering_for_range(dataset, "v", 0, 20, 150, most).read_all()
    assert found == theirs.hamming_clustering_for_range("v", 0, 20, 150, most).read_all()
    found = hamming_clustering_for_range(dataset, "v", 1, 30, 999, most).read_all()
    assert found == theirs.hamming_clustering_for_range("v", 1, 30, 999, most).read_all()
    # Here the reference returns deleted rows, too.
    live = set(dataset.to_table(columns=[], with_row_id=True)["_rowid"].to_pylist())
    for number in range(2):
        part = hamming_clustering_for_ivf_partition(dataset, "v_idx", number, most).read_all()
        rows = (
            part["representative"].to_pylist()
            + part["duplicates"].combine_chunks().flatten().to_pylist()
        )
        assert set(rows) <= live


def test_a_sample_has_the_clusters_of_its_rows(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(
        pa.table({"v": pa.array([[7] * 4] * 50 + [None] * 5, pa.list_(pa.uint8(), 4))}),
        tmp_path / "t",
    )
    (one,) = hamming_clustering_for_sample(dataset, "v", 55, 0).read_all().to_pylist()
    assert one == {"representative": 0, "duplicates": list(range(1, 50))}
    (one,) = hamming_clustering_for_sample(dataset, "v", 20, 0).read_all().to_pylist()
    assert 14 <= len(one["duplicates"]) <= 19
    assert hamming_clustering_for_sample(dataset, "v", 0).read_all().num_rows == 0


def test_clusters_are_of_hashes(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path / "t", "l2")
    with pytest.raises(UnsupportedTypeError, match="hashes are fixed-size lists of uint8"):
        hamming_clustering_for_sample(dataset, "v")
    with pytest.raises(InvalidInputError, match="hamming_threshold"):
        hamming_clustering_for_sample(dataset, "v", hamming_threshold=-1)
    dataset.create_index("v", "IVF_FLAT", num_partitions=2)
    with pytest.raises(InvalidInputError, match="not an IVF_FLAT index for hamming"):
        hamming_clustering_for_ivf_partition(dataset, "v_idx", 0, 3)
    dataset = hashes_of(tmp_path / "u")
    with pytest.raises(InvalidInputError, match="has 200 rows, not 200"):
        hamming_clustering_for_range(dataset, "v", 0, 200, 1)
    with pytest.raises(InvalidInputError, match="no fragment 7"):
        hamming_clustering_for_range(dataset, "v", 7, 0, 1)
    dataset.create_index("v", "IVF_FLAT", metric="hamming", num_partitions=2)
    with pytest.raises(InvalidInputError, match="has 2 partitions, not 2"):
        hamming_clustering_for_ivf_partition(dataset, "v_idx", 2, 3)
    with pytest.raises(InvalidInputError, match="no segments"):
        hamming_clustering_for_ivf_partition(dataset, "v_idx", 0, 3, index_segments=["x"])
    with pytest.raises(IndexNotFoundError, match="no index 'w'"):
        hamming_clustering_for_ivf_partition(dataset, "w", 0, 3)
