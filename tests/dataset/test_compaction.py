"""Compaction: in one call or in steps, beside others, and what it leaves when it fails."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.errors import (
    CommitConflictError,
    CorruptFileError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from pilum.optimize import Compaction, CompactionPlan, CompactionTask, RewriteResult
from pilum.table.upkeep import compaction


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of four fragments with 10 rows each."""
    where = str(tmp_path / "table")
    for first in range(0, 40, 10):
        table = pa.table({"a": pa.array(range(first, first + 10), pa.int64())})
        pilum.write_dataset(table, where, mode="append")
    return where


def files(uri: str, folder: str = "data") -> set[str]:
    return {path.name for path in (Path(uri) / folder).iterdir()}


def values(uri: str) -> list[int]:
    found: list[int] = pilum.dataset(uri).to_table()["a"].to_pylist()
    return found


def test_deleted_rows_and_dropped_columns_go(uri: str) -> None:
    dataset = pilum.dataset(uri)
    dataset.add_columns({"b": "a * 2", "c": "a * 3"})
    dataset.drop_columns(["b"])
    dataset.delete("a >= 10 AND a < 20 OR a = 35")
    metrics = dataset.optimize.compact_files()
    assert (metrics.fragments_removed, metrics.fragments_added) == (3, 1)
    (fragment,) = dataset.get_fragments()
    assert fragment.metadata.deletion_file is None
    assert [file.fields for file in fragment.metadata.files] == [[0, 2]]
    kept = [n for n in range(40) if not 10 <= n < 20 and n != 35]
    assert dataset.to_table() == pa.table({"a": kept, "c": [3 * n for n in kept]})
    assert pilum.dataset(uri, version=4).count_rows() == 40


def test_a_table_without_rows_is_left_with_none(uri: str) -> None:
    dataset = pilum.dataset(uri)
    dataset.delete("true")
    assert dataset.optimize.compact_files().fragments_removed == 0


def test_steps_in_other_processes(uri: str) -> None:
    dataset = pilum.dataset(uri)
    plan = Compaction.plan(dataset, {"target_rows_per_fragment": 20})
    assert [len(task.fragments) for task in plan.tasks] == [2, 2]
    assert CompactionPlan.from_json(plan.json()) == plan == pickle.loads(pickle.dumps(plan))
    results = []
    for task in plan.tasks:
        assert CompactionTask.from_json(task.json()) == task
        result = pickle.loads(pickle.dumps(task)).execute(pilum.dataset(uri))
        assert pickle.loads(pickle.dumps(result)) == result
        results.append(RewriteResult.from_json(result.json()))
    assert results[0].metrics.files_added == 1
    assert [fragment.id for fragment in results[0].original_fragments] == [0, 1]
    pilum.write_dataset(pa.table({"a": [40]}), uri, mode="append")
    metrics = Compaction.commit(dataset, results[1:])
    assert metrics.fragments_removed == 2
    assert [fragment.fragment_id for fragment in dataset.get_fragments()] == [0, 1, 4, 5]
    assert sorted(values(uri)) == [*range(41)]
    # The other result can still be committed; the same one cannot come twice.
    with pytest.raises(CommitConflictError):
        Compaction.commit(dataset, results[1:])
    Compaction.commit(dataset, results[:1])
    assert sorted(values(uri)) == [*range(41)]


def test_a_wide_fragment_is_finished_for_good(tmp_path: Path) -> None:
    uri = str(tmp_path / "wide")
    random = np.random.default_rng(1)
    for _ in range(6):
        column = pa.array([random.bytes(1 << 16) for _ in range(16)])
        pilum.write_dataset(pa.table({"b": column}), uri, mode="append")
    dataset = pilum.dataset(uri)
    options: dict[str, Any] = {"target_bytes_per_fragment": 3 << 20, "batch_size": 4}
    dataset.optimize.compact_files(**options)
    counts = [fragment.count_rows() for fragment in dataset.get_fragments()]
    assert sum(counts) == 96
    assert len(counts) <= 3
    assert Compaction.plan(dataset, options).num_tasks() == 0
    # By rows alone all of it would be written again and again.
    assert Compaction.plan(dataset, {}).num_tasks() == 1


def test_others_change_other_fragments_meanwhile(uri: str) -> None:
    dataset = pilum.dataset(uri)
    results = [
        task.execute(dataset)
        for task in Compaction.plan(dataset, {"excluded_fragment_ids": [2, 3]}).tasks
    ]
    pilum.dataset(uri).delete("a = 25")
    Compaction.commit(dataset, results)
    assert sorted(values(uri)) == [n for n in range(40) if n != 25]


def test_what_others_changed_meanwhile_is_given_up(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = pilum.dataset(uri)
    commit: Any = compaction.__dict__["commit"]

    def late(*arguments: Any, **more: Any) -> Any:
        monkeypatch.setattr(compaction, "commit", commit)
        pilum.dataset(uri).delete("a = 25")
        return commit(*arguments, **more)

    monkeypatch.setattr(compaction, "commit", late)
    metrics = dataset.optimize.compact_files(target_rows_per_fragment=20)
    assert metrics.fragments_removed == 2
    assert sorted(values(uri)) == [n for n in range(40) if n != 25]
    referenced = {
        file.path for fragment in dataset.get_fragments() for file in fragment.metadata.files
    }
    assert referenced < files(uri)
    assert len(files(uri)) == 4 + 1


def test_a_conflict_over_everything_leaves_nothing(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = pilum.dataset(uri)
    before = files(uri)
    commit: Any = compaction.__dict__["commit"]

    def late(*arguments: Any, **more: Any) -> Any:
        monkeypatch.setattr(compaction, "commit", commit)
        pilum.dataset(uri).delete("a = 25")
        return commit(*arguments, **more)

    monkeypatch.setattr(compaction, "commit", late)
    with pytest.raises(CommitConflictError, match="the delete of version 5") as caught:
        dataset.optimize.compact_files()
    assert caught.value.retryable
    assert files(uri) == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_compaction_leaves_nothing(
    uri: str, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    before = files(uri), values(uri), pilum.dataset(uri).version
    live_rows: Any = compaction.__dict__["live_rows"]

    def failing(*arguments: Any, **keywords: Any) -> Iterator[pa.RecordBatch]:
        for batch in live_rows(*arguments, **keywords):
            yield batch.slice(0, 5)
            if arguments[1][0].id == 2:
                raise error
            yield batch.slice(5)

    monkeypatch.setattr(compaction, "live_rows", failing)
    with pytest.raises(error):
        pilum.dataset(uri).optimize.compact_files(target_rows_per_fragment=20)
    assert (files(uri), values(uri), pilum.dataset(uri).version) == before


def test_a_damaged_file_is_told_and_nothing_changes(uri: str) -> None:
    dataset = pilum.dataset(uri)
    name = dataset.get_fragments()[1].metadata.files[0].path
    path = Path(uri) / "data" / name
    path.write_bytes(path.read_bytes()[:-7] + b"garbage")
    before = files(uri)
    with pytest.raises(CorruptFileError, match=name):
        dataset.optimize.compact_files()
    assert files(uri) == before


def test_moves_of_rows_with_stable_ids_are_not_recorded(tmp_path: Path) -> None:
    uri = str(tmp_path / "stable")
    for _ in range(2):
        rows = pa.table({"a": [1, 2]})
        dataset = pilum.write_dataset(rows, uri, mode="append", enable_stable_row_ids=True)
    with pytest.raises(UnsupportedFeatureError, match="rows with stable ids"):
        dataset.optimize.compact_files(defer_index_remap=True)
    ids = dataset.to_table(columns=["_rowid"])
    assert dataset.optimize.compact_files().fragments_added == 1
    assert dataset.to_table(columns=["_rowid"]) == ids


def test_settings_of_the_table_are_defaults(uri: str) -> None:
    dataset = pilum.dataset(uri)
    dataset.update_config({"lance.compaction.target_rows_per_fragment": "20"})
    assert Compaction.plan(dataset, {}).num_tasks() == 2
    assert Compaction.plan(dataset, {"target_rows_per_fragment": 100}).num_tasks() == 1
    dataset.update_config({"lance.compaction.materialize_deletions": "maybe"})
    with pytest.raises(InvalidInputError, match="materialize_deletions"):
        Compaction.plan(dataset, {})


@pytest.mark.parametrize(
    "options",
    [
        {"target_rows_per_fragment": 0},
        {"target_bytes_per_fragment": -1},
        {"materialize_deletions": 1},
        {"materialize_deletions_threshold": float("nan")},
        {"excluded_fragment_ids": "all"},
        {"data_storage_version": "0.1"},
        {"data_storage_version": "9.9"},
        {"compaction_mode": "quick"},
        {"num_threads": 0},
        {"unknown": 1},
    ],
)
def test_misuse_is_refused(uri: str, options: dict[str, Any]) -> None:
    dataset = pilum.dataset(uri)
    with pytest.raises((InvalidInputError, UnsupportedFeatureError)):
        Compaction.plan(dataset, options)
    with pytest.raises(UnsupportedFeatureError, match="binary_copy"):
        dataset.optimize.compact_files(compaction_mode="force_binary_copy")
    for text in ("{", "3", '{"tasks": 3}', '{"tasks": 3, "read_version": 1, "options": {}}'):
        with pytest.raises(InvalidInputError):
            CompactionPlan.from_json(text)
    with pytest.raises(InvalidInputError):
        RewriteResult.from_json('{"read_version": 1, "original_fragments": 1, "new_fragments": 1}')
    not_results: Any = [1]
    with pytest.raises(InvalidInputError):
        Compaction.commit(dataset, not_results)
    assert dataset.version == pilum.dataset(uri).version == 4


def test_small_batches_whose_dictionaries_do_not_go_together_stay_apart(tmp_path: Path) -> None:
    where = str(tmp_path / "table")
    narrow = pa.dictionary(pa.int8(), pa.string())
    for first in range(0, 300, 100):
        words = pa.array([f"word {n}" for n in range(first, first + 100)])
        codes = pa.array(range(100), pa.int8())
        column = pa.DictionaryArray.from_arrays(codes, words).cast(narrow)
        pilum.write_dataset(pa.table({"d": column}), where, mode="append")
    dataset = pilum.dataset(where)
    dataset.optimize.compact_files()
    assert len(dataset.get_fragments()) == 1
    found = [
        value for batch in dataset.to_batches(batch_size=100) for value in batch["d"].to_pylist()
    ]
    assert found == [f"word {n}" for n in range(300)]


def test_compacting_leaves_no_old_file_in_the_session(uri: str) -> None:
    dataset = pilum.dataset(uri, session=pilum.Session())
    before = dataset.session().metadata_cache_stats().num_entries
    dataset.optimize.compact_files()
    assert dataset.session().metadata_cache_stats().num_entries == before
