"""Jobs that are committed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.commit import AppCommit, JobKey
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.format.schema import Schema
from pilum.fragment import write_fragments
from pilum.storage.base import MemorySource
from pilum.storage.local import LocalSource, LocalStore
from pilum.table.commit.jobs import JOB_PROPERTY, Job, last_commit
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.overwrite import Overwrite
from pilum.table.commit.publish import commit
from pilum.table.commit.transaction import Transaction
from pilum.table.model.fragment import Fragment
from pilum.table.model.names import NamingScheme
from pilum.table.read.snapshot import Snapshot

MakeFragment = Callable[..., Fragment]


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize("key", ["nightly 2026-11-20", ("orders", 7)])
def test_a_repeated_write_changes_nothing(tmp_path: Path, key: JobKey) -> None:
    root = tmp_path / "t"
    first = pilum.write_dataset({"a": [1]}, root, idempotency_key=key)
    before = files(root)
    for mode in ("create", "append", "overwrite"):
        again = pilum.write_dataset({"a": [2, 3]}, root, mode=mode, idempotency_key=key)
        assert (again.version, again.count_rows()) == (1, 1)
    first.insert({"a": [9]}, idempotency_key=key)
    operation = pilum.LanceOperation.Append([])
    assert pilum.LanceDataset.commit(root, operation, 1, idempotency_key=key).version == 1
    assert (files(root), first.version) == (before, 1)
    first.insert({"a": [9]}, idempotency_key="another")
    assert (first.version, first.count_rows()) == (2, 2)
    assert pilum.write_dataset({"a": [2]}, root, mode="append", idempotency_key=key).version == 1


def test_changes_of_rows_are_made_once(tmp_path: Path) -> None:
    data = pilum.write_dataset({"a": [1, 2, 3]}, tmp_path / "t")

    def merge() -> Any:
        builder = data.merge_insert("a").when_not_matched_insert_all()
        return builder.idempotency_key("merge").execute({"a": [7, 8]})

    changes: list[Callable[[], Any]] = [
        lambda: data.delete("a = 1", idempotency_key="delete"),
        lambda: data.update({"a": "a + 10"}, idempotency_key=("updates", 1)),
        merge,
    ]
    for number, change in enumerate(changes):
        assert sum(change().values()) == (1, 2, 2)[number]
        rows, version = data.to_table(), data.version
        for again in changes[: number + 1]:
            assert not any(again().values())
        assert (data.to_table(), data.version) == (rows, version)
    assert sorted(data.to_table()["a"].to_pylist()) == [7, 8, 12, 13]


def test_a_repeated_job_of_another_writer_is_found_after_a_lost_race(
    tmp_path: Path, store: LocalStore, make_fragment: MakeFragment
) -> None:
    def append(rows: int) -> int:
        properties = {JOB_PROPERTY: Job("job").property()}
        transaction = Transaction(2, Append((make_fragment(rows),)), properties=properties)
        return commit(store, transaction).version

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(append, range(1, 9))) == {3}
    assert len(Snapshot.latest(store).manifest.fragments) == 3
    assert len([name for name in files(Path(store.root)) if name.endswith(".txn")]) == 3


def test_files_of_a_job_that_came_second_are_gone(tmp_path: Path) -> None:
    root = tmp_path / "t"
    pilum.write_dataset({"a": [1]}, root)

    def batches() -> Iterator[pa.RecordBatch]:
        pilum.write_dataset({"a": [7]}, root, mode="append", idempotency_key="job")
        yield pa.record_batch({"a": [8]})

    second = pilum.write_dataset(
        batches(),
        root,
        schema=pa.schema({"a": pa.int64()}),
        mode="append",
        idempotency_key="job",
    )
    assert (second.version, second.to_table()["a"].to_pylist()) == (2, [1, 7])
    assert len(list((root / "data").iterdir())) == 2
    assert len(list((root / "_transactions").iterdir())) == 2


def test_an_application_counts_its_commits(tmp_path: Path) -> None:
    data = pilum.write_dataset({"a": [1]}, tmp_path / "t")
    assert data.last_commit("orders") is None
    for batch in (0, 1, 1, 5, 3, 5):
        data.insert({"a": [batch]}, idempotency_key=("orders", batch))
    data.insert({"a": [9]}, idempotency_key=("other", 2))
    assert data.to_table()["a"].to_pylist() == [1, 0, 1, 5, 9]
    assert data.last_commit("orders") == AppCommit(app_version=5, version=4)
    assert data.last_commit("other") == AppCommit(app_version=2, version=5)
    data.delete("a = 5")
    assert data.last_commit("orders") == AppCommit(5, 4)  # deleted rows were in all the same


def test_a_job_that_gets_in_between_two_looks_is_seen(
    store: LocalStore, make_fragment: MakeFragment
) -> None:
    properties = {JOB_PROPERTY: Job("job").property()}
    first, second = (
        Transaction(2, Append((make_fragment(rows),)), properties=properties) for rows in (1, 2)
    )

    @dataclass(frozen=True, slots=True)
    class Overtaken(LocalStore):
        """A store in which the first one commits before or after any look of the second."""

        looks: list[str] = field(default_factory=list)
        at: int = 0

        def look(self) -> None:
            self.looks.append("")
            if len(self.looks) == self.at:
                commit(store, first)

        def names(self, folder: str) -> Iterator[str]:
            self.look()
            yield from LocalStore.names(self, folder)

        def source(self, path: str, size: int | None = None) -> LocalSource | MemorySource:
            self.look()
            return LocalStore.source(self, path, size)

        def read(self, path: str) -> bytes:
            self.look()
            return LocalStore.read(self, path)

    for at in range(1, 6):
        if at > 1:
            store.delete(NamingScheme.V2.manifest_path(3))
        assert commit(Overtaken(store.root, sync=False, at=at), second).version == 3
        assert len(Snapshot.latest(store).manifest.fragments) == 3
        second = replace(second, uuid=f"another-{at}")
        first = replace(first, uuid=f"one-{at}")


def test_zombies_and_their_successors_write_each_batch_once(tmp_path: Path) -> None:
    root = tmp_path / "t"
    options = {"sync": "false"}
    pilum.write_dataset({"a": pa.array([], pa.int64())}, root, storage_options=options)

    def stream(first: int) -> None:
        for batch in range(first, 8):
            pilum.write_dataset(
                {"a": [batch]},
                root,
                mode="append",
                storage_options=options,
                idempotency_key=("stream", batch),
            )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(stream, [0, 0, 0, 0]))
    data = pilum.dataset(root)
    assert data.to_table()["a"].to_pylist() == list(range(8))
    assert data.last_commit("stream") == AppCommit(7, 9)
    assert len(list((root / "data").iterdir())) == 8


def test_what_was_taken_in_outlives_the_version_and_goes_with_restore(tmp_path: Path) -> None:
    root = tmp_path / "t"
    data = pilum.write_dataset({"a": [1]}, root)
    data.insert({"a": [2]}, idempotency_key=("orders", 1))
    data.insert({"a": [3]}, idempotency_key="nightly")
    data.insert({"a": [4]})
    for version in (2, 3):
        (root / NamingScheme.V2.manifest_path(version)).unlink()
    for key in (("orders", 1), "nightly"):
        assert (
            pilum.write_dataset({"a": [9]}, root, mode="append", idempotency_key=key).version == 4
        )
    data.checkout_version(1).restore()
    data.checkout_latest()
    assert data.last_commit("orders") is None
    data.insert({"a": [2]}, idempotency_key=("orders", 1))
    assert data.to_table()["a"].to_pylist() == [1, 2]


def test_the_last_hundred_texts_are_remembered(store: LocalStore, schema: Schema) -> None:
    for number in range(102):
        properties = {JOB_PROPERTY: Job(f"job {number}").property()}
        commit(store, Transaction(number + 2, Overwrite(schema, ()), properties=properties))
    config = Snapshot.latest(store).manifest.config
    held = [Job(f"job {number}").held_by(config) for number in range(102)]
    assert held == [None, None, *range(5, 105)]
    assert len(config["pilum.jobs"]) < 5000


@pytest.mark.reference
def test_the_reference_keeps_what_was_taken_in(tmp_path: Path) -> None:
    import lance

    path = str(tmp_path / "t")
    pilum.write_dataset({"a": [1, 2]}, path, idempotency_key=("orders", 1))
    theirs = lance.write_dataset(pa.table({"a": [3]}), path, mode="append")
    theirs.delete("a = 1")
    theirs.add_columns({"b": "a + 1"})
    lance.write_dataset(pa.table({"a": [3]}), path, mode="overwrite")
    ours = pilum.dataset(path)
    assert ours.last_commit("orders") == AppCommit(1, 1)
    ours.insert({"a": [9]}, idempotency_key=("orders", 1))
    assert ours.count_rows() == 1


@pytest.mark.parametrize(
    "key", ["", ("a",), ("a", "b"), ("", 1), ("a", -1), ("a", True), ("a", 1.0), 7, b"x", ["a", 1]]
)
def test_what_is_no_key_is_refused(tmp_path: Path, key: Any) -> None:
    with pytest.raises(InvalidInputError, match="idempotency_key"):
        pilum.write_dataset({"a": [1]}, tmp_path / "t", idempotency_key=key)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("text", ["{", "[1]", "7", "null", "[" * 9999, '[["a"]]', '{"a":1}'])
def test_a_damaged_memory_is_told(tmp_path: Path, text: str) -> None:
    for key, job in (("pilum.jobs", "x"), ("pilum.app.x", ("x", 1))):
        with pytest.raises(CorruptFileError, match=key):
            Job(job).held_by({key: text})
    with pytest.raises(CorruptFileError, match=r"pilum\.app\.x"):
        last_commit({"pilum.app.x": text}, "x")


def test_fragments_of_a_repeated_commit_stay(tmp_path: Path) -> None:
    root = tmp_path / "t"
    pilum.write_dataset({"a": [1]}, root)
    fragments = write_fragments({"a": [2]}, root)
    for _ in range(2):
        operation = pilum.LanceOperation.Append(fragments)
        found = pilum.LanceDataset.commit(root, operation, 1, idempotency_key="job")
        assert (found.version, found.count_rows()) == (2, 2)
