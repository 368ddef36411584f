"""Locks of users, and commits whose outcome is unknown."""

from __future__ import annotations

import errno
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import pytest

import pilum
from pilum.errors import (
    CommitConflictError,
    CommitError,
    CommitStatusUnknownError,
)
from pilum.format.schema import Schema
from pilum.fragment import write_fragments
from pilum.storage.base import MemorySource
from pilum.storage.local import LocalSource, LocalStore
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.delete import Delete
from pilum.table.commit.operations.overwrite import Overwrite
from pilum.table.commit.publish import commit
from pilum.table.commit.transaction import Transaction
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.commit_handler import LockedPut, TableStore, list_manifests

MakeFragment = Callable[..., Fragment]


@dataclass(frozen=True, slots=True)
class NoConditions(LocalStore):
    """A store that cannot create conditionally: its answer is always yes."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        raise AssertionError("a lock is there for that")


@pytest.mark.checklist("S2.8")
def test_a_lock_keeps_writers_apart(store: LocalStore, make_fragment: MakeFragment) -> None:
    lock, seen = Lock(), []

    @contextmanager
    def commit_lock(version: int) -> Iterator[None]:
        with lock:
            seen.append(version)
            yield

    table = TableStore(NoConditions(store.root, sync=False), LockedPut(commit_lock))
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(
                lambda _: commit(table, Transaction(2, Append((make_fragment(1),)))), range(12)
            )
        )
    assert [name.version for name in list_manifests(store)] == list(range(1, 15))
    assert Snapshot.latest(store).num_rows == 20
    assert set(seen) == set(range(3, 15))


def test_the_dataset_takes_the_lock_for_all_that_it_commits(tmp_path: Path) -> None:
    log: list[str] = []

    @contextmanager
    def commit_lock(version: int) -> Iterator[None]:
        log.append(f"enter {version}")
        yield
        log.append(f"leave {version}")

    data = pilum.write_dataset({"a": [1]}, tmp_path / "t", commit_lock=commit_lock)
    data.insert({"a": [2]})
    data.delete("a = 1")
    data.checkout_version(1).restore()
    data.checkout_latest()
    pilum.write_dataset({"a": [3]}, data, mode="append")
    operation = pilum.LanceOperation.Append(write_fragments({"a": [4]}, data))
    pilum.LanceDataset.commit(data, operation, read_version=5)
    pilum.dataset(tmp_path / "t", commit_lock=commit_lock).update_metadata({"a": "b"})
    assert log == [f"{step} {version}" for version in range(1, 8) for step in ("enter", "leave")]


class LockError(Exception):
    """The service of locks is not there."""


def test_without_a_lock_nothing_is_committed(
    store: LocalStore, make_fragment: MakeFragment
) -> None:
    def no_lock(version: int) -> Lock:
        raise LockError("no quorum")

    before = set(Path(store.root).rglob("*"))
    table = TableStore(store, LockedPut(no_lock))
    with pytest.raises(CommitError, match="no quorum"):
        commit(table, Transaction(2, Append((make_fragment(1),))))
    assert set(Path(store.root).rglob("*")) == before


def test_a_lock_that_knows_of_another_commit_makes_the_writer_look_again(
    store: LocalStore, make_fragment: MakeFragment
) -> None:
    asked = []

    @contextmanager
    def commit_lock(version: int) -> Iterator[None]:
        asked.append(version)
        if len(asked) == 1:
            commit(store, Transaction(2, Append((make_fragment(1),))))
            raise CommitConflictError("version 3 is taken")
        yield

    table = TableStore(store, LockedPut(commit_lock))
    assert commit(table, Transaction(2, Append((make_fragment(2),)))).version == 4
    assert asked == [3, 4]


@pytest.mark.parametrize("swallows", [False, True])
def test_a_lock_is_told_that_the_version_was_taken(
    store: LocalStore, make_fragment: MakeFragment, swallows: bool
) -> None:
    told = []

    @contextmanager
    def commit_lock(version: int) -> Iterator[None]:
        if version == 3:
            commit(store, Transaction(2, Append((make_fragment(1),))))
        try:
            yield
        except CommitConflictError as error:
            told.append(str(error))
            if not swallows:
                raise

    table = TableStore(store, LockedPut(commit_lock))
    assert commit(table, Transaction(2, Append((make_fragment(2),)))).version == 4
    assert len(told) == 1
    assert Snapshot.latest(store).num_rows == 11


@pytest.mark.parametrize("error", [LockError("lost"), CommitConflictError("lost"), OSError("lost")])
def test_a_lock_that_fails_when_it_is_left_is_reported_and_does_not_undo_the_commit(
    store: LocalStore, make_fragment: MakeFragment, error: Exception
) -> None:
    @contextmanager
    def commit_lock(version: int) -> Iterator[None]:
        yield
        raise error

    table = TableStore(store, LockedPut(commit_lock))
    with pytest.raises(CommitStatusUnknownError, match=r"version 3 was written.*lost") as caught:
        commit(table, Transaction(2, Append((make_fragment(1),))))
    assert caught.value.version == 3
    assert Snapshot.latest(store).manifest.version == 3


def test_a_conflict_of_a_lock_without_such_a_version_is_the_error(
    store: LocalStore, make_fragment: MakeFragment
) -> None:
    asked = []

    def commit_lock(version: int) -> Lock:
        asked.append(version)
        raise CommitConflictError("held by another")

    with pytest.raises(CommitConflictError, match="held by another"):
        commit(
            TableStore(store, LockedPut(commit_lock)), Transaction(2, Append((make_fragment(1),)))
        )
    assert asked == [3]
    assert Snapshot.latest(store).manifest.version == 2


@dataclass(frozen=True, slots=True)
class NoAnswers(LocalStore):
    """A store whose conditional put arrives or not, without an answer, and that is then gone."""

    arrives: bool = True
    hides: bool = False

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if self.arrives:
            LocalStore.put_if_absent(self, path, data)
        raise TimeoutError("no answer")

    def source(self, path: str, size: int | None = None) -> LocalSource | MemorySource:
        self.look(path)
        return LocalStore.source(self, path, size)

    def read(self, path: str) -> bytes:
        self.look(path)
        return LocalStore.read(self, path)

    def look(self, path: str) -> None:
        if self.hides and path.endswith("612.manifest"):
            raise ConnectionError("gone")


@pytest.mark.parametrize(("arrives", "hides"), [(True, True), (False, True), (False, False)])
def test_an_unknown_outcome_is_told_and_nothing_deleted(
    store: LocalStore, make_fragment: MakeFragment, arrives: bool, hides: bool
) -> None:
    shaky = NoAnswers(store.root, sync=False, arrives=arrives, hides=hides)
    transaction = Transaction(2, Append((make_fragment(4),)))
    with pytest.raises(CommitStatusUnknownError, match="not known whether version 3") as caught:
        commit(shaky, transaction)
    assert isinstance(caught.value, OSError)
    assert not isinstance(caught.value, CommitError)
    assert pickle.loads(pickle.dumps(caught.value)).transaction_uuid == transaction.uuid
    assert store.read(f"_transactions/{transaction.file_name}") == transaction.to_bytes()
    assert commit(store, transaction).version == 3  # the same transaction is safe to repeat
    assert Snapshot.latest(store).num_rows == 12


@dataclass(frozen=True, slots=True)
class FullDisk(LocalStore):
    """A store without room for manifests; `late` after they have their names."""

    late: bool = False

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if self.late:
            LocalStore.put_if_absent(self, path, data)
        raise OSError(errno.ENOSPC, "no space left on device", path)


def test_a_full_disk_is_no_unknown_outcome(store: LocalStore, make_fragment: MakeFragment) -> None:
    before = set(Path(store.root).rglob("*"))
    transaction = Transaction(2, Append((make_fragment(4),)))
    with pytest.raises(CommitError, match=r"version 3 could not be written: .*no space left"):
        commit(FullDisk(store.root, sync=False), transaction)
    assert set(Path(store.root).rglob("*")) == before
    assert commit(FullDisk(store.root, sync=False, late=True), transaction).version == 3


def test_no_answer_and_another_version_there_means_that_it_lost(
    store: LocalStore, make_fragment: MakeFragment
) -> None:
    class Overtaken(NoAnswers):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            if len(list_manifests(store)) == 2:
                commit(store, Transaction(2, Append((make_fragment(1),))))
                raise TimeoutError("no answer")
            return LocalStore.put_if_absent(self, path, data)

    transaction = Transaction(2, Append((make_fragment(4),)))
    assert commit(Overtaken(store.root, sync=False), transaction).version == 4


def test_a_conflict_names_what_clashed(
    store: LocalStore, schema: Schema, make_fragment: MakeFragment
) -> None:
    removed = (FragmentId(1),)
    commit(store, Transaction(2, Delete((), removed, "a = 1")))
    with pytest.raises(CommitConflictError) as caught:
        commit(store, Transaction(2, Delete((), removed, "a = 2")))
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.operation, error.read_version) == ("delete", 2)
    assert (error.other_operation, error.version) == ("delete", 3)
    assert (error.fragment_ids, error.retryable) == ((1,), True)
    for word in ("delete for version 2", "delete of version 3", "fragment", "do it again"):
        assert word in str(error)
    commit(store, Transaction(3, Overwrite(schema, ())))
    with pytest.raises(CommitConflictError) as caught:
        commit(store, Transaction(3, Append((make_fragment(),))))
    assert (caught.value.fragment_ids, caught.value.retryable) == ((), False)
    assert "append for version 3" in str(caught.value)
