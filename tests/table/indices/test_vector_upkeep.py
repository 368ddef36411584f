"""Vector indices answer rightly after every change of their table.

Vectors are compared one by one with numpy, and the reference opens the same tables.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import pilum
from pilum.errors import CorruptFileError
from pilum.indices import IndicesBuilder

DIMENSION, NUM_ROWS, ALL = 8, 400, 64
RANDOM = np.random.default_rng(17)
QUERIES = RANDOM.normal(size=(3, DIMENSION)).astype(np.float32)
PQ = {"num_sub_vectors": 4}
TYPES = {
    "IVF_FLAT": {},
    "IVF_PQ": PQ,
    "IVF_SQ": {},
    "IVF_RQ": {},
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_PQ": PQ,
    "IVF_HNSW_SQ": {},
}
TABLES = [
    ("IVF_FLAT", "2.0", False),
    ("IVF_FLAT", "2.2", True),
    ("IVF_PQ", "2.1", True),
    ("IVF_PQ", "2.2", False),
    ("IVF_SQ", "2.0", True),
    ("IVF_SQ", "2.1", False),
    ("IVF_HNSW_FLAT", "2.1", False),
    ("IVF_HNSW_FLAT", "2.0", True),
    ("IVF_HNSW_PQ", "2.0", False),
    ("IVF_HNSW_PQ", "2.2", True),
    ("IVF_HNSW_SQ", "2.2", False),
    ("IVF_HNSW_SQ", "2.1", True),
]


def batch(ids: Any, vectors: NDArray[np.float32]) -> pa.Table:
    flat = pa.array(vectors.reshape(-1), pa.float32())
    column = pa.FixedSizeListArray.from_arrays(flat, DIMENSION)
    return pa.table({"id": pa.array(ids, pa.int64()), "v": column})


class Life:
    """A table with an index, and the rows that it should have."""

    def __init__(self, uri: str, kind: str, version: str = "2.1", has_ids: bool = False) -> None:
        self.uri, self.kind = uri, kind
        self.live: dict[int, NDArray[np.float32]] = {}
        first = self._new(range(NUM_ROWS))
        self.dataset = pilum.write_dataset(
            first,
            uri,
            max_rows_per_file=NUM_ROWS // 2,
            data_storage_version=version,
            enable_stable_row_ids=has_ids,
        )

    def _new(self, ids: range) -> pa.Table:
        vectors = RANDOM.normal(size=(len(ids), DIMENSION)).astype(np.float32)
        self.live.update(zip(ids, vectors, strict=True))
        return batch(list(ids), vectors)

    def index(self, **more: Any) -> None:
        given: dict[str, Any] = {"num_partitions": 3, "replace": True, **TYPES[self.kind], **more}
        self.dataset.create_index("v", self.kind, **given)

    def append(self, ids: range) -> None:
        self.dataset = pilum.write_dataset(self._new(ids), self.uri, mode="append")

    def delete(self, gone: Callable[[int], bool], condition: str) -> None:
        self.dataset.delete(condition)
        self.live = {number: one for number, one in self.live.items() if not gone(number)}

    def upsert(self, ids: range) -> None:
        merge = self.dataset.merge_insert("id").when_matched_update_all()
        merge.when_not_matched_insert_all().execute(self._new(ids))
        self.dataset = pilum.dataset(self.uri)

    def update(self, number: int, new: int) -> None:
        """Gives a row another id, which moves it."""
        self.dataset.update({"id": str(new)}, f"id = {number}")
        self.live[new] = self.live.pop(number)

    def optimize(self, **more: Any) -> None:
        self.dataset.optimize.optimize_indices(**more)

    @property
    def num_segments(self) -> int:
        return int(self.dataset.stats.index_stats("v_idx")["num_segments"])

    @property
    def num_unindexed(self) -> int:
        return int(self.dataset.stats.index_stats("v_idx")["num_unindexed_rows"])

    def check(self, *, reference: bool = True, dataset: Any = None) -> None:
        """Asserts that searches of the index find the live rows, here and in the reference."""
        dataset = self.dataset if dataset is None else dataset
        other = lance.dataset(self.uri, version=dataset.version) if reference else None
        ids = np.array(list(self.live))
        vectors = np.array(list(self.live.values()))
        is_exact = self.kind == "IVF_FLAT"
        num_found = num_same = 0
        for query in QUERIES:
            exact = ((vectors - query) ** 2).sum(axis=1)
            order = np.argsort(exact, kind="stable")
            for k in (10, len(ids) + 20):
                mine = found(dataset, query, k)
                assert set(mine) <= self.live.keys()
                assert len(set(mine)) == len(mine)
                distances = np.array([((self.live[one] - query) ** 2).sum() for one in mine])
                assert (np.diff(distances) >= -1e-5).all()
                if is_exact:
                    np.testing.assert_allclose(distances, exact[order[:k]], rtol=1e-5)
                elif k > 10:
                    least = 0.97 if "HNSW" in self.kind else 1
                    assert len(mine) >= least * len(ids)
                else:
                    num_found += len(set(mine) & set(ids[order[:k]].tolist()))
                if other is not None and k == 10:
                    theirs = found(other, query, k)
                    num_same += len(set(mine) & set(theirs))
                    if is_exact:
                        assert mine == theirs
        assert is_exact or num_found >= 28
        assert other is None or num_same >= 28


def found(dataset: Any, query: NDArray[np.float32], k: int) -> list[int]:
    nearest = {"column": "v", "q": query, "k": k, "nprobes": ALL, "refine_factor": 20}
    rows = dataset.to_table(columns=["id", "_distance"], nearest=nearest)
    ids: list[int] = rows["id"].to_pylist()
    return ids


@pytest.mark.parametrize(("kind", "version", "has_ids"), TABLES)
def test_changes_of_rows(tmp_path: Path, kind: str, version: str, has_ids: bool) -> None:
    life = Life(str(tmp_path / "t"), kind, version, has_ids)
    life.index()
    life.check()
    life.append(range(400, 450))
    life.check()
    first = life.dataset.version, dict(life.live)
    life.delete(lambda one: one % 7 == 0, "id % 7 = 0")
    life.check()
    life.update(101, 1101)
    life.check()
    life.upsert(range(440, 470))
    life.check()
    life.optimize(num_indices_to_merge=0)
    assert life.num_segments == 2
    life.check()
    life.append(range(470, 480))
    life.optimize()
    assert (life.num_segments, life.num_unindexed) == (2, 0)
    life.check()
    life.optimize(num_indices_to_merge=2)
    assert life.num_segments == 1
    life.check()
    life.dataset.checkout_version(first[0]).restore()
    life.dataset = pilum.dataset(life.uri)
    life.live = first[1]
    life.check()


@pytest.mark.parametrize(
    ("kind", "version", "has_ids", "is_deferred"),
    [
        *((*one, False) for one in TABLES),
        *((*one, True) for one in TABLES if not one[2]),  # stable ids need no remap
    ],
)
def test_compactions(
    tmp_path: Path, kind: str, version: str, has_ids: bool, is_deferred: bool
) -> None:
    life = Life(str(tmp_path / "t"), kind, version, has_ids)
    life.index()
    life.delete(lambda one: one % 5 == 1, "id % 5 = 1")
    life.append(range(400, 420))
    life.dataset.optimize.compact_files(defer_index_remap=is_deferred)
    can_read = not is_deferred or "HNSW" not in kind  # the reference counts the nodes of graphs
    life.check(reference=can_read)
    life.delete(lambda one: one % 5 == 2, "id % 5 = 2")
    life.append(range(420, 440))
    life.check(reference=can_read)
    life.dataset.optimize.compact_files(defer_index_remap=is_deferred)
    life.check(reference=can_read)
    life.optimize(num_indices_to_merge=1)
    assert life.num_unindexed == 0
    life.check()


@pytest.mark.parametrize("kind", TYPES)
def test_models_are_trained_again(tmp_path: Path, kind: str) -> None:
    life = Life(str(tmp_path / "t"), kind)
    life.index(ivf_centroids=np.full((3, DIMENSION), 50, np.float32))
    life.append(range(400, 420))
    life.optimize(num_indices_to_merge=0)
    life.delete(lambda one: one < 30, "id < 30")
    life.optimize(retrain=True)
    [segment] = life.dataset.stats.index_stats("v_idx")["indices"]
    assert np.abs(np.array(segment["centroids"])).max() < 5
    assert sum(one["size"] for one in segment["partitions"]) == 390
    assert (life.num_segments, life.num_unindexed) == (1, 0)
    life.check()


@pytest.mark.parametrize(
    ("kind", "has_ids"),
    [("IVF_FLAT", False), ("IVF_PQ", True), ("IVF_RQ", False), ("IVF_HNSW_SQ", True)],
)
def test_partitions_that_outgrew_their_size_are_split(
    tmp_path: Path, kind: str, has_ids: bool
) -> None:
    life = Life(str(tmp_path / "t"), kind, has_ids=has_ids)
    life.index(num_partitions=None, target_partition_size=100, sample_rate=50)
    life.append(range(400, 450))
    life.optimize()
    assert len(sizes(life)) == 4  # as before
    life.append(range(450, 2000))
    life.delete(lambda one: 390 <= one < 460, "id >= 390 AND id < 460")
    life.optimize()
    assert (life.num_segments, life.num_unindexed) == (1, 0)
    assert sum(sizes(life)) == 1930
    assert 12 <= len(sizes(life)) <= 26
    assert max(sizes(life)) < 4 * 100
    life.check()
    life.append(range(2000, 2020))
    life.optimize()
    life.dataset.optimize.compact_files()
    life.check()


def test_partitions_of_lists_are_split_by_their_vectors(tmp_path: Path) -> None:
    """A row has ten vectors, all of which count for the size of partitions."""

    def rows(count: int) -> pa.Table:
        flat = RANDOM.normal(size=count * 10 * DIMENSION).astype(np.float32)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(flat), DIMENSION)
        offsets = pa.array(range(0, count * 10 + 1, 10), pa.int32())
        return pa.table({"v": pa.ListArray.from_arrays(offsets, vectors)})

    dataset = pilum.write_dataset(rows(30), tmp_path / "t")
    dataset.create_index("v", "IVF_FLAT", metric="cosine", target_partition_size=100)
    dataset = pilum.write_dataset(rows(150), tmp_path / "t", mode="append")
    dataset.optimize.optimize_indices()
    [segment] = dataset.stats.index_stats("v_idx")["indices"]
    lengths = [one["size"] for one in segment["partitions"]]
    assert sum(lengths) == 1800
    assert max(lengths) < 4 * 100


def test_few_rows_keep_their_partitions(tmp_path: Path) -> None:
    life = Life(str(tmp_path / "t"), "IVF_FLAT")
    life.index(num_partitions=12)
    for start in (400, 420, 440):
        life.append(range(start, start + 20))
        life.optimize()
    assert len(sizes(life)) == 12
    assert sum(sizes(life)) == 460


def test_small_partitions_are_dissolved_when_others_are_split(tmp_path: Path) -> None:
    life = Life(str(tmp_path / "t"), "IVF_FLAT")
    centroids = np.zeros((4, DIMENSION), np.float32)
    centroids[1:, 0] = 30, 40, 50  # far from all rows
    life.index(num_partitions=4, ivf_centroids=centroids, target_partition_size=90)
    assert sizes(life) == [400, 0, 0, 0]
    life.append(range(400, 410))
    life.optimize()
    assert 3 <= len(sizes(life)) <= 6
    assert min(sizes(life)) > 0
    life.check()


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ"])
def test_equal_vectors_are_not_split_again_and_again(tmp_path: Path, kind: str) -> None:
    def rows(equal: int, different: int) -> pa.Table:
        vectors = np.ones((equal + different, 16), np.float32)
        vectors[equal:] = RANDOM.normal(0, 9, size=(different, 16))
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 16)
        return pa.table({"v": column})

    dataset = pilum.write_dataset(rows(2000, 400), tmp_path / "t")
    more: Any = {"num_sub_vectors": 4} if kind == "IVF_PQ" else {}
    dataset.create_index("v", kind, num_partitions=4, target_partition_size=100, **more)
    for equal, different in ((20, 4), (20, 4), (0, 4000), (1, 1)):
        dataset = pilum.write_dataset(rows(equal, different), tmp_path / "t", mode="append")
        dataset.optimize.optimize_indices()
        [segment] = dataset.stats.index_stats("v_idx")["indices"]
        lengths = [one["size"] for one in segment["partitions"]]
        assert max(lengths) >= 2000
        assert len(lengths) == 4 or equal < 20
    assert len(lengths) > 4


def sizes(life: Life) -> list[int]:
    """Returns the numbers of rows of the partitions of the first segment."""
    first = life.dataset.stats.index_stats("v_idx")["indices"][0]
    return [one["size"] for one in first["partitions"]]


@pytest.mark.parametrize("kind", TYPES)
def test_a_new_segment_has_its_own_loss(tmp_path: Path, kind: str) -> None:
    life = Life(str(tmp_path / "t"), kind)
    life.index()
    life.append(range(400, 401))
    life.optimize(num_indices_to_merge=0)
    losses = [one["loss"] for one in life.dataset.stats.index_stats("v_idx")["indices"]]
    assert min(losses) < 50 < max(losses)


@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_HNSW_SQ"])
@pytest.mark.parametrize("num_to_merge", [None, 0, 1])
def test_a_definition_is_built(tmp_path: Path, kind: str, num_to_merge: int | None) -> None:
    life = Life(str(tmp_path / "t"), kind)
    life.delete(lambda one: one >= 200, "id >= 200")
    life.index(train=kind == "IVF_PQ")  # too few rows for a codebook
    life.check()
    if kind == "IVF_PQ":
        life.optimize(num_indices_to_merge=num_to_merge)
        assert life.num_unindexed == 200
        life.append(range(400, 600))
    life.optimize(num_indices_to_merge=num_to_merge)
    assert (life.num_segments, life.num_unindexed) == (1, 0)
    life.check()


@pytest.mark.parametrize("kind", TYPES)
def test_branches_replacements_and_drops(tmp_path: Path, kind: str) -> None:
    life = Life(str(tmp_path / "t"), kind)
    life.index()
    main, rows = life.dataset, dict(life.live)
    branch = main.create_branch("other")
    life.dataset = branch
    life.delete(lambda one: one % 3 == 0, "id % 3 = 0")
    life.check(reference=False)
    branch.optimize.compact_files()
    life.check(reference=False)
    branch.optimize.optimize_indices(retrain=True)
    life.check(reference=False)
    life.dataset, life.live = main, rows
    life.check()
    life.index(num_partitions=2)
    life.check()
    life.dataset.drop_index("v_idx")
    life.check()
    life.dataset.create_index("v", "IVF_FLAT", num_partitions=2)
    life.check()


def damaged(content: bytes, way: int) -> bytes:
    """Returns the bytes of a file, cut off or with some that differ."""
    random = np.random.default_rng(way)
    if way % 3 == 0:
        return content[: int(random.integers(len(content)))]
    found = bytearray(content)
    first = max(0, len(found) - 1500) if way % 3 == 1 else 0  # metadata and footer, or anywhere
    for place in random.integers(first, len(found), 3):
        found[place] ^= int(random.integers(1, 256))
    return bytes(found)


@pytest.mark.parametrize("name", ["index.idx", "auxiliary.idx"])
@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_RQ", "IVF_HNSW_SQ"])
def test_damaged_files_never_give_wrong_rows(tmp_path: Path, kind: str, name: str) -> None:
    life = Life(str(tmp_path / "t"), kind)
    life.index()
    life.delete(lambda one: one % 4 == 0, "id % 4 = 0")
    [path] = (tmp_path / "t" / "_indices").glob(f"*/{name}")
    content = path.read_bytes()
    ids, vectors = np.array(list(life.live)), np.array(list(life.live.values()))
    exact = ids[np.argsort(((vectors - QUERIES[0]) ** 2).sum(axis=1), kind="stable")]
    num_warned = num_raised = 0
    for way in range(24):
        path.write_bytes(damaged(content, way))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                answer = found(pilum.dataset(life.uri, session=pilum.Session()), QUERIES[0], 10)
            except CorruptFileError:
                num_raised += 1
                continue
        if caught:
            num_warned += 1
            assert answer == exact[:10].tolist()
        assert set(answer) <= life.live.keys()
        assert len(set(answer)) == len(answer)
    assert num_warned + num_raised >= 8  # at least the files that were cut


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, 3e20])
def test_vectors_that_cannot_be_right_are_noticed(
    tmp_path: Path, metric: str, wrong: float
) -> None:
    if metric == "l2" and wrong == 3e20:
        wrong = -np.inf  # any finite number may be right
    vectors = RANDOM.normal(size=(300, DIMENSION)).astype(np.float32)
    dataset = pilum.write_dataset(batch(range(300), vectors), str(tmp_path / "t"))
    dataset.create_index("v", "IVF_FLAT", metric=metric, num_partitions=2)
    stored = vectors if metric == "l2" else vectors / np.linalg.norm(vectors, axis=1)[:, np.newaxis]
    [path] = (tmp_path / "t" / "_indices").glob("*/auxiliary.idx")
    content = path.read_bytes()
    # Some of the normalized numbers differ in their last bits.
    places = [content.find(np.float32(one).tobytes()) for one in stored[:40].reshape(-1)]
    place = max(places)
    assert place > 0
    damaged = content[:place] + np.float32(wrong).tobytes() + content[place + 4 :]
    path.write_bytes(damaged)
    opened = pilum.dataset(str(tmp_path / "t"), session=pilum.Session())
    nearest = {"column": "v", "q": vectors[0], "k": 5, "nprobes": 2}
    with pytest.raises(CorruptFileError, match=r"not finite|mean length"):
        opened.to_table(columns=["id", "_distance"], nearest=nearest)


def test_rows_that_are_listed_twice_are_noticed(tmp_path: Path) -> None:
    vectors = RANDOM.normal(size=(600, DIMENSION)).astype(np.float32)
    dataset = pilum.write_dataset(batch(range(600), vectors), str(tmp_path / "t"))
    builder = IndicesBuilder(dataset, "v")
    ivf = builder.train_ivf(2, sample_rate=50)
    pq = builder.train_pq(ivf, 2, sample_rate=2)
    for name in ("one", "two"):
        builder.transform_vectors(ivf, pq, str(tmp_path / f"{name}.lance"))
    builder.load_shuffled_vectors(["one.lance", "two.lance"], str(tmp_path), ivf, pq)
    with pytest.raises(CorruptFileError, match="names a row twice"):
        found(dataset, vectors[0], 5)
