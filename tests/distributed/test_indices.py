"""Indices built by tasks: what is trained, kept, committed and deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from distributed.helpers import Pickling, R, T

import pilum
from pilum.distributed import Attempt
from pilum.distributed.indices import IndexConfig, create_index, optimize_indices
from pilum.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    IndexAlreadyExistsError,
    IndexNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
)


class Interrupted(Pickling):
    """Runs some tasks, then does something else, once: fail, or let another writer commit."""

    def __init__(self, num_done: int, other: Callable[[], object]) -> None:
        self.num_done = num_done
        self.other: Callable[[], object] | None = other

    def run(self, items: Sequence[T], work: Callable[[T, Attempt], R]) -> list[R]:
        done = super().run(items[: self.num_done], work)
        if self.other is not None:
            other, self.other = self.other, None
            other()
        return done + super().run(items[self.num_done :], work)


def fail() -> None:
    raise RuntimeError("no machine")


@pytest.fixture
def table(uri: str) -> str:
    """Twenty rows in four fragments; one row is deleted."""
    rows = pa.table(
        {
            "id": range(20),
            "n": [None if number % 7 == 3 else number % 5 for number in range(20)],
            "text": [f"word{number % 4} all" for number in range(20)],
        }
    )
    pilum.write_dataset(rows, uri, max_rows_per_file=5)
    pilum.dataset(uri).delete("id = 6")
    return uri


def folders(uri: str) -> set[str]:
    """The folders of segments that have files."""
    return {path.parent.name for path in Path(uri, "_indices").glob("*/*")}


def segments(uri: str) -> dict[str, list[int]]:
    """The fragments of each committed segment."""
    listed = pilum.dataset(uri).list_indices()
    return {one["uuid"]: sorted(one["fragment_ids"] or ()) for one in listed}


def ids(dataset: Any, **query: Any) -> list[int]:
    return sorted(dataset.to_table(columns=["id"], **query)["id"].to_pylist())


def beside(uri: str, change: Callable[[Any], object]) -> Pickling:
    """An engine beside which another writer changes the table, when all tasks are done."""
    return Interrupted(99, lambda: change(pilum.dataset(uri)))


@pytest.mark.reference
@pytest.mark.parametrize("merges", [False, True])
@pytest.mark.parametrize("kind", ["BTREE", "bitmap", "ZONEMAP", "BLOOMFILTER"])
def test_segments_of_tasks_are_one_index(table: str, kind: str, merges: bool) -> None:
    import lance

    engine = Pickling()
    version = create_index(
        engine, table, "n", kind, {}, merges=merges, fragments_per_task=3, name="by_n"
    )
    assert version == 3
    assert engine.num_tasks == 3  # the first one twice
    assert sorted(segments(table).values()) == ([[0, 1, 2, 3]] if merges else [[0, 1, 2], [3]])
    assert folders(table) == set(segments(table))
    for condition in ("n = 2", "n > 2", "n IS NULL", "n IN (0, 4)"):
        brute = ids(pilum.dataset(table, 2), filter=condition)
        assert brute
        assert ids(pilum.dataset(table), filter=condition) == brute
        assert ids(lance.dataset(table), filter=condition) == brute


@pytest.mark.reference
@pytest.mark.parametrize("merges", [False, True])
def test_texts_are_indexed(table: str, merges: bool) -> None:
    import lance

    config = IndexConfig("INVERTED", {"stem": False})
    given = {"with_position": True}
    create_index(Pickling(), table, "text", config, given, merges=merges, fragments_per_task=2)
    found, theirs = (
        one.to_table(columns=["id", "_score"], full_text_query="word2").sort_by("id").to_pydict()
        for one in (pilum.dataset(table), lance.dataset(table))
    )
    assert found["id"] == [2, 10, 14, 18]
    assert found == theirs


def test_rows_determine_the_groups_unless_their_number_is_given(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_index(Pickling(), table, "id", "BTREE", {})
    assert list(segments(table).values()) == [[0, 1, 2, 3]]
    monkeypatch.setattr("pilum.distributed.indices._TASK_ROWS", 9)
    create_index(Pickling(), table, "id", "BTREE", {})  # 5, 4, 5 and 5 rows
    assert sorted(segments(table).values()) == [[0, 1], [2, 3]]


def test_a_table_without_rows_gets_an_empty_index(uri: str) -> None:
    pilum.write_dataset(pa.table({"id": pa.array([], pa.int64())}), uri)
    create_index(Pickling(), uri, "id", "BTREE", {}, job="empty")
    assert list(segments(uri).values()) == [[]]
    pilum.dataset(uri).insert(pa.table({"id": [1, 2]}))
    assert ids(pilum.dataset(uri), filter="id = 2") == [2]


def test_errors_are_found_before_any_task(table: str) -> None:
    engine = Pickling()
    pilum.dataset(table).create_scalar_index("n", "BTREE")
    with pytest.raises(ColumnNotFoundError):
        create_index(engine, table, "none", "BTREE", {}, job="j")
    with pytest.raises(UnsupportedFeatureError, match="no type of index"):
        create_index(engine, table, "id", "TREE", {}, job="j")
    with pytest.raises(InvalidInputError):
        create_index(engine, table, "id", "BTREE", {"colour": "red"}, job="j")
    with pytest.raises(InvalidInputError, match="fragments_per_task"):
        create_index(engine, table, "id", "BTREE", {}, fragments_per_task=0)
    with pytest.raises(InvalidInputError, match="job: required with journal"):
        create_index(engine, table, "id", "BTREE", {}, journal=table)
    with pytest.raises(IndexAlreadyExistsError):
        create_index(engine, table, "n", "BTREE", {}, replaces=False)
    assert engine.num_tasks == 0
    assert not Path(table, "_jobs").exists()


def test_a_job_without_a_name_leaves_nothing_when_it_fails(table: str) -> None:
    with pytest.raises(RuntimeError, match="no machine"):
        create_index(Interrupted(2, fail), table, "id", "BTREE", {}, fragments_per_task=1)
    assert not folders(table)
    assert pilum.dataset(table).version == 2


@pytest.mark.reference
@pytest.mark.parametrize("merges", [False, True])
def test_a_named_job_continues_with_the_segments_that_still_fit(table: str, merges: bool) -> None:
    """Meanwhile a row is deleted, and rows are added."""
    import lance

    def build(engine: Pickling) -> int:
        return create_index(
            engine, table, "n", "BTREE", {}, job="by-n", merges=merges, fragments_per_task=1
        )

    with pytest.raises(RuntimeError, match="no machine"):
        build(Interrupted(3, fail))
    trained = folders(table)
    assert len(trained) == 4  # one of them by an attempt that did not count
    assert not segments(table)
    with pytest.raises(InvalidInputError, match="was begun with"):
        create_index(Pickling(), table, "id", "BTREE", {}, job="by-n")
    dataset = pilum.dataset(table)
    dataset.delete("id = 11")  # in fragment 2, which stays
    dataset.insert(pa.table({"id": [20, 21], "n": [2, None], "text": ["", ""]}))
    fragments = [one.fragment_id for one in dataset.get_fragments()]
    assert fragments == [0, 1, 2, 3, 4]

    engine = Pickling()
    version = build(engine)
    assert engine.num_tasks == 3  # fragments 3, twice, and 4
    assert sorted(segments(table).values()) == (
        [[0, 1, 2, 3, 4]] if merges else [[number] for number in range(5)]
    )
    assert len(trained & set(segments(table))) == (0 if merges else 3)
    assert build(engine) == version == pilum.dataset(table).version
    assert engine.num_tasks == 3
    assert not list(Path(table, "_jobs").glob("*/*"))
    for condition in ("n = 2", "n IS NULL"):
        assert ids(pilum.dataset(table), filter=condition) == ids(
            pilum.dataset(table), filter=condition, use_scalar_index=False
        )
        assert ids(pilum.dataset(table), filter=condition) == ids(
            lance.dataset(table), filter=condition
        )
    pilum.dataset(table).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert folders(table) == set(segments(table))


@pytest.mark.parametrize(
    ("damage", "num_tasks"), [("none", 0), ("notes", 5), ("files", 5), ("versions", 5)]
)
def test_segments_that_cannot_be_trusted_are_trained_again(
    table: str, damage: str, num_tasks: int
) -> None:
    with pytest.raises(RuntimeError, match="no machine"):
        create_index(Interrupted(4, fail), table, "id", "BTREE", {}, job="j", fragments_per_task=1)
    notes = sorted(Path(table, "_jobs", "j").glob("segment-*"))
    assert len(notes) == 5
    if damage == "notes":
        for note, text in zip(notes, ("{", "7", '"AAAA"', '"."', "null"), strict=True):
            note.write_text(text)
    elif damage == "files":
        for folder in Path(table, "_indices").iterdir():
            next(folder.iterdir()).write_bytes(b"")
    elif damage == "versions":
        pilum.dataset(table).delete("id = 0")
        pilum.dataset(table).cleanup_old_versions(timedelta(0))
    engine = Pickling()
    create_index(engine, table, "id", "BTREE", {}, job="j", fragments_per_task=1)
    assert engine.num_tasks == num_tasks
    assert sorted(segments(table).values()) == [[0], [1], [2], [3]]
    assert ids(pilum.dataset(table), filter="id >= 18") == [18, 19]


@pytest.mark.parametrize("merges", [False, True])
def test_fragments_that_are_compacted_meanwhile_are_indexed_in_another_round(
    table: str, merges: bool
) -> None:
    engine = beside(table, lambda one: one.optimize.compact_files())
    create_index(engine, table, "id", "BTREE", {}, merges=merges, fragments_per_task=1)
    (fragment,) = pilum.dataset(table).get_fragments()
    assert list(segments(table).values()) == [[fragment.fragment_id]]
    assert folders(table) == set(segments(table))
    assert ids(pilum.dataset(table), filter="id < 9") == [0, 1, 2, 3, 4, 5, 7, 8]


def test_rows_that_are_added_meanwhile_conflict_with_nothing(table: str) -> None:
    more = pa.table({"id": [20], "n": [0], "text": [""]})
    engine = beside(table, lambda one: one.insert(more))
    create_index(engine, table, "id", "BTREE", {})
    assert list(segments(table).values()) == [[0, 1, 2, 3]]
    assert ids(pilum.dataset(table), filter="id >= 19") == [19, 20]


def test_values_that_change_meanwhile_are_not_covered(table: str) -> None:
    engine = beside(table, lambda one: one.update({"n": "100"}, where="id = 0"))
    create_index(engine, table, "n", "BTREE", {}, fragments_per_task=2)
    assert ids(pilum.dataset(table), filter="n = 100") == [0]


def test_a_name_that_is_taken_meanwhile_is_respected(table: str) -> None:
    engine = beside(table, lambda one: one.create_scalar_index("n", "BTREE", "x"))
    with pytest.raises(IndexAlreadyExistsError):
        create_index(engine, table, "id", "BTREE", {}, name="x", replaces=False)
    (only,) = pilum.dataset(table).list_indices()
    assert only["fields"] == ["n"]
    assert folders(table) == set(segments(table))


@pytest.mark.reference
def test_indices_are_optimized_in_one_task_each(table: str) -> None:
    import lance

    dataset = pilum.dataset(table)
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("n", "BITMAP")
    engine = Pickling()
    assert optimize_indices(engine, table) == dataset.version == 4
    assert engine.num_tasks == 0
    dataset.insert(pa.table({"id": [20, 21], "n": [2, None], "text": ["", ""]}))
    assert optimize_indices(engine, table, num_to_merge=0) == 6
    assert engine.num_tasks == 3  # the first one twice
    assert sorted(segments(table).values()) == [[0, 1, 2, 3], [0, 1, 2, 3], [4], [4]]
    assert len(folders(table)) == 4
    assert optimize_indices(engine, table, ["n_idx"], 2) == 7
    assert sorted(segments(table).values()) == [[0, 1, 2, 3], [0, 1, 2, 3, 4], [4]]
    assert optimize_indices(engine, table, ["id_idx"], retrain=True) == 8
    assert sorted(segments(table).values()) == [[0, 1, 2, 3, 4]] * 2
    for condition in ("id >= 18", "n = 2", "n IS NULL"):
        brute = ids(pilum.dataset(table), filter=condition, use_scalar_index=False)
        assert brute
        assert ids(pilum.dataset(table), filter=condition) == brute
        assert ids(lance.dataset(table), filter=condition) == brute


def test_an_optimization_that_fails_leaves_nothing(table: str) -> None:
    create_index(Pickling(), table, "id", "BTREE", {})
    create_index(Pickling(), table, "n", "BTREE", {})
    before = segments(table)
    with pytest.raises(RuntimeError, match="no machine"):
        optimize_indices(Interrupted(1, fail), table, retrain=True)
    engine = beside(table, lambda one: one.create_scalar_index("n", "BTREE"))
    with pytest.raises(CommitConflictError):
        optimize_indices(engine, table, retrain=True)
    assert len(before.keys() & segments(table)) == 1
    assert folders(table) == before.keys() | segments(table)
    with pytest.raises(IndexNotFoundError):
        optimize_indices(Pickling(), table, ["none"])
    with pytest.raises(InvalidInputError, match="index_names"):
        optimize_indices(Pickling(), table, "id_idx")


def vector_rows(num_rows: int) -> pa.Table:
    vectors = np.random.default_rng(5).normal(size=(num_rows, 8)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8)
    return pa.table({"id": range(num_rows), "v": column})


@pytest.mark.parametrize("merge", [False, True])
def test_segments_of_a_vector_index_share_their_models(uri: str, merge: bool) -> None:
    rows = vector_rows(800)
    pilum.write_dataset(rows, uri, max_rows_per_file=200)
    given = {"num_partitions": 4, "num_sub_vectors": 4, "num_bits": 4, "sample_rate": 16}
    create_index(Pickling(), uri, "v", "IVF_PQ", given, fragments_per_task=1, merges=merge)
    dataset = pilum.dataset(uri)
    stats = dataset.stats.index_stats("v_idx")
    assert stats["num_segments"] == (1 if merge else 4)
    centroids = [one["centroids"] for one in stats["indices"]]
    assert all(one == centroids[0] for one in centroids)
    found = dataset.to_table(
        columns=["id", "_distance"],
        nearest={"column": "v", "q": rows["v"][321].as_py(), "k": 3, "refine_factor": 50},
    )
    assert found["id"][0].as_py() == 321


def test_a_resumed_job_keeps_the_models_of_its_first_run(uri: str) -> None:
    pilum.write_dataset(vector_rows(400), uri, max_rows_per_file=100)
    given = {"num_partitions": 4}
    with pytest.raises(RuntimeError, match="no machine"):
        create_index(
            Interrupted(2, fail), uri, "v", "IVF_FLAT", given, fragments_per_task=1, job="near"
        )
    pilum.dataset(uri).insert(vector_rows(100))
    create_index(Pickling(), uri, "v", "IVF_FLAT", given, fragments_per_task=1, job="near")
    stats = pilum.dataset(uri).stats.index_stats("v_idx")
    centroids = [one["centroids"] for one in stats["indices"]]
    assert len(centroids) == 5
    assert all(one == centroids[0] for one in centroids)
