"""One dataset object that several threads use: it never moves back, and no commit is lost.

The changes of the other thread are made where a change calls back, so that the order is certain.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from guard import GUARD_SECONDS

import pilum
from pilum.errors import CommitConflictError
from pilum.table.changes.schema_changes import without
from pilum.table.read.session import Session
from pilum.table.read.snapshot import Snapshot

OPTIONS = {"sync": "false"}


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array(ids, pa.int64())})


def _table(path: Path, **keywords: Any) -> pilum.LanceDataset:
    pilum.write_dataset(_rows(*range(8)), path, storage_options=OPTIONS)
    return pilum.dataset(path, storage_options=OPTIONS, **keywords)


def _in_thread(task: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as threads:
        threads.submit(task).result()


def test_a_delete_during_the_computation_of_a_column_is_kept(tmp_path: Path) -> None:
    dataset = _table(tmp_path)

    def compute(batch: pa.RecordBatch) -> pa.RecordBatch:
        _in_thread(lambda: dataset.delete("id = 3"))
        return pa.record_batch({"twice": batch["id"]})

    with pytest.raises(CommitConflictError):
        dataset.add_columns(compute, read_columns=["id"])
    assert pilum.dataset(tmp_path).to_table()["id"].to_pylist() == [0, 1, 2, 4, 5, 6, 7]


def test_a_column_that_is_added_while_another_is_dropped_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = _table(tmp_path)

    def while_another_adds(*arguments: Any) -> Any:
        _in_thread(lambda: dataset.add_columns({"twice": "id * 2"}))
        return without(*arguments)

    monkeypatch.setattr(import_module("pilum.dataset.columns"), "without", while_another_adds)
    with pytest.raises(CommitConflictError):
        dataset.drop_columns(["n"])
    assert pilum.dataset(tmp_path).schema.names == ["id", "n", "twice"]


@pytest.mark.parametrize(
    "change",
    [
        lambda dataset: dataset.update_config({"key": "value"}),
        lambda dataset: dataset.create_scalar_index("id", "BTREE"),
        lambda dataset: dataset.delete("id = 3"),
    ],
    ids=["config", "index", "delete"],
)
def test_a_dataset_stays_at_a_later_commit_of_another_thread(
    tmp_path: Path, change: Callable[[pilum.LanceDataset], object]
) -> None:
    later = [_rows(8)]

    @contextmanager
    def lock(version: int) -> Iterator[None]:
        del version
        yield
        if later:
            rows = later.pop()
            _in_thread(lambda: dataset.insert(rows))

    dataset: pilum.LanceDataset = _table(tmp_path, commit_lock=lock)
    change(dataset)
    assert dataset.version == 3
    assert 8 in dataset.to_table()["id"].to_pylist()


def test_a_look_for_the_latest_version_does_not_move_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = _table(tmp_path)
    latest = Snapshot.latest

    def before_an_insert(*arguments: Any) -> Snapshot:
        found = latest(*arguments)
        monkeypatch.undo()
        _in_thread(lambda: dataset.insert(_rows(8)))
        return found

    monkeypatch.setattr(Snapshot, "latest", before_an_insert)
    dataset.checkout_latest()
    assert dataset.count_rows() == 9


def test_a_table_that_was_created_again_is_checked_out(tmp_path: Path) -> None:
    dataset = _table(tmp_path)
    dataset.insert(_rows(8))
    pilum.LanceDataset.drop(str(tmp_path))
    _table(tmp_path)
    dataset.checkout_latest()
    assert dataset.version == 1
    assert dataset.count_rows() == 8


@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable ids"])
def test_threads_that_write_with_one_dataset_see_their_own_rows(
    tmp_path: Path, stable_row_ids: bool
) -> None:
    """Each thread has keys of its own: rows that it wrote are found by its next merge."""
    num_threads, num_rounds = 6, 12
    empty = _rows().slice(0, 0)
    options: Any = {"storage_options": OPTIONS, "enable_stable_row_ids": stable_row_ids}
    dataset = pilum.write_dataset(empty, tmp_path, **options)
    start = threading.Barrier(num_threads, timeout=GUARD_SECONDS)

    def write(thread: int) -> None:
        keys = range(thread * 1000, thread * 1000 + num_rounds)
        start.wait()
        for number in range(1, num_rounds):
            if number % 3 == 0:
                dataset.update_config({f"thread {thread}": str(number)})
            merge = dataset.merge_insert("id").when_matched_update_all()
            merge = merge.when_not_matched_insert_all().conflict_retries(1000)
            result = merge.execute(_rows(*keys[:number]))
            assert result["num_inserted_rows"] == 1
            assert result["num_updated_rows"] == number - 1
            assert dataset.count_rows(f"id >= {keys[0]} and id < {keys[0] + 1000}") == number

    with ThreadPoolExecutor(num_threads) as threads:
        for done in [threads.submit(write, thread) for thread in range(num_threads)]:
            done.result()
    expected = [t * 1000 + n for t in range(num_threads) for n in range(num_rounds - 1)]
    assert sorted(pilum.dataset(tmp_path).to_table()["id"].to_pylist()) == expected


def test_threads_that_open_small_files_together_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thread opens each file for itself, as it happens if they are quick enough."""
    pilum.write_dataset(_rows(*range(8)), tmp_path, max_rows_per_file=2, storage_options=OPTIONS)
    meet, open_file = threading.Barrier(2, timeout=GUARD_SECONDS), Session.open_file

    def together(session: Session, *arguments: Any) -> Any:
        del session
        meet.wait()
        return open_file(Session(), *arguments)

    monkeypatch.setattr(Session, "open_file", together)
    dataset = pilum.dataset(tmp_path, session=Session())
    with ThreadPoolExecutor(2) as threads:
        tables = list(threads.map(lambda _: dataset.to_table(), range(2)))
    assert tables[0] == tables[1] == _rows(*range(8))
