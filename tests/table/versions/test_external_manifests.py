"""Commits that a key-value store decides: four steps, and whoever comes next takes what is left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest

import pilum
from pilum.commit import ExternalManifests, ManifestEntries
from pilum.errors import (
    CommitStatusUnknownError,
    CorruptFileError,
    DatasetNotFoundError,
    UnsupportedFeatureError,
)
from pilum.format.schema import Schema
from pilum.storage.durable import LocalSink
from pilum.storage.local import LocalStore
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.overwrite import Overwrite
from pilum.table.commit.publish import commit
from pilum.table.commit.transaction import Transaction
from pilum.table.model.fragment import Fragment
from pilum.table.model.names import NamingScheme
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.commit_handler import TableStore, list_manifests
from pilum.table.versions.history import load_version, migrate_to_v2_names

MakeFragment = Callable[..., Fragment]


class MemoryEntries:
    """The least that a key-value store has to do."""

    def __init__(self) -> None:
        self.paths: dict[tuple[str, int], str] = {}

    def get(self, table: str, version: int) -> str | None:
        return self.paths.get((table, version))

    def get_latest(self, table: str) -> tuple[int, str] | None:
        return max(((v, p) for (t, v), p in self.paths.items() if t == table), default=None)

    def put_if_absent(self, table: str, version: int, path: str, size: int) -> bool:
        return self.paths.setdefault((table, version), path) is path

    def put_if_exists(self, table: str, version: int, path: str, size: int) -> None:
        self.paths[table, version] = path


@pytest.fixture
def entries() -> MemoryEntries:
    return MemoryEntries()


@pytest.fixture
def table(
    empty_store: LocalStore, schema: Schema, make_fragment: MakeFragment, entries: MemoryEntries
) -> TableStore:
    """A table of two versions with 5 and 3 rows."""
    store = TableStore(empty_store, ExternalManifests(entries))
    commit(store, Transaction(0, Overwrite(schema, (make_fragment(5),))))
    commit(store, Transaction(1, Append((make_fragment(3),))))
    return store


def versions(store: TableStore | LocalStore) -> list[str]:
    return sorted(entry.name for entry in store.list("_versions") if "manifest" in entry.name)


def final(version: int) -> str:
    return NamingScheme.V2.manifest_path(version)


@pytest.mark.checklist("S2.10")
def test_a_commit_leaves_a_final_name_in_store_and_entry(
    table: TableStore, entries: MemoryEntries
) -> None:
    assert entries.get(table.uri, 1) == final(1)
    assert entries.get_latest(table.uri) == (2, final(2))
    assert [f"_versions/{name}" for name in versions(table)] == [final(2), final(1)]
    assert [name.version for name in list_manifests(table)] == [1, 2]
    assert Snapshot.latest(table.wrapped).num_rows == 8  # also for those who know no entries


class Dead(BaseException):
    """The writer is gone."""


@dataclass(frozen=True)
class Dying:
    """Entries whose calls stop for good before or after one of them."""

    entries: ManifestEntries
    call: str
    before: bool
    log: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.entries, name)

        def call(*args: Any) -> Any:
            if self.log:
                raise Dead
            if name != self.call:
                return real(*args)
            if not self.before:
                real(*args)
            self.log.append(name)
            raise Dead

        return call


@dataclass(frozen=True, slots=True)
class DyingStore(LocalStore):
    """A store that is gone at the write of a final name, or at the removal of a staged one."""

    at: str = "final"
    log: list[str] = field(default_factory=list)

    def sink(self, path: str) -> LocalSink:
        if self.log or (self.at == "final" and path.endswith(".manifest")):
            self.log.append(path)
            raise Dead
        return LocalStore.sink(self, path)

    def delete(self, path: str) -> None:
        if self.log or (self.at == "delete" and ".manifest-" in path):
            self.log.append(path)
            raise Dead
        LocalStore.delete(self, path)


@pytest.mark.checklist("S2.10")
@pytest.mark.parametrize(
    ("death", "is_decided"),
    [
        ("before put_if_absent", False),
        ("after put_if_absent", True),
        ("final", True),
        ("before put_if_exists", True),
        ("after put_if_exists", True),
        ("delete", True),
    ],
)
@pytest.mark.parametrize("next_one", ["reader", "writer", "reader of the version", "lister"])
def test_who_comes_next_finishes_what_a_dead_writer_began(
    table: TableStore, make_fragment: MakeFragment, death: str, is_decided: bool, next_one: str
) -> None:
    handler = table.handler
    assert isinstance(handler, ExternalManifests)
    when, _, call = death.partition(" ")
    entries = Dying(handler.entries, call, when == "before") if call else handler.entries
    store = table.wrapped if call else DyingStore(table.uri, sync=False, at=death)
    with pytest.raises(Dead):
        commit(
            TableStore(store, ExternalManifests(entries)),
            Transaction(2, Append((make_fragment(4),))),
        )

    rows = 12 if is_decided else 8
    if next_one == "reader":
        assert Snapshot.latest(table).num_rows == rows
    elif next_one == "lister":
        assert [name.version for name in list_manifests(table)] == [1, 2, 3][: 2 + is_decided]
    elif next_one == "reader of the version" and is_decided:
        assert len(load_version(table, 3).fragments) == 3
    else:
        after = commit(table, Transaction(2, Append((make_fragment(1),))))
        assert sum(fragment.physical_rows for fragment in after.fragments) == rows + 1
    assert Snapshot.latest(table).num_rows >= rows
    latest = handler.entries.get_latest(table.uri)
    assert latest is not None
    assert latest[1] == final(latest[0])
    assert Snapshot.latest(table.wrapped).manifest == Snapshot.latest(table).manifest


DYING_WRITER = """
import os, sys
import pyarrow as pa
import pilum
from pilum.commit import ExternalManifests, SqliteEntries
from pilum.storage import local

path, database, step = sys.argv[1], sys.argv[2], int(sys.argv[3])
entries = SqliteEntries(database)


class Steps:
    '''Ends the process after a step of the commit.'''

    def get(self, *args):
        return entries.get(*args)

    def get_latest(self, *args):
        return entries.get_latest(*args)

    def put_if_absent(self, *args):
        if step == 1:
            os._exit(1)
        entries.put_if_absent(*args)
        if step == 2:
            os._exit(1)
        return True

    def put_if_exists(self, *args):
        if step == 3:
            os._exit(1)
        entries.put_if_exists(*args)
        if step == 4:
            os._exit(1)


handler = ExternalManifests(Steps())
pilum.write_dataset(pa.table({"a": [4, 5]}), path, mode="append", commit_handler=handler)
"""


@pytest.mark.checklist("S2.10")
@pytest.mark.parametrize("step", [2, 3])
def test_a_process_that_ends_after_a_step_is_survived(tmp_path: Path, step: int) -> None:
    path, database = str(tmp_path / "t"), tmp_path / "entries.db"
    options = {"manifest_store": f"sqlite://{database}"}
    pilum.write_dataset({"a": [1, 2, 3]}, path, storage_options=options)
    root = str(Path(pilum.__file__).parents[1])
    code = [sys.executable, "-c", DYING_WRITER, path, str(database), str(step)]
    assert subprocess.run(code, env={**os.environ, "PYTHONPATH": root}).returncode == 1
    found = pilum.dataset(path, storage_options=options)
    assert found.to_table()["a"].to_pylist() == ([1, 2, 3] if step == 1 else [1, 2, 3, 4, 5])
    found.insert({"a": [6]})
    assert found.count_rows() == (4 if step == 1 else 6)
    assert found.version == (2 if step == 1 else 3)


@pytest.mark.checklist("S2.10")
def test_of_two_writers_one_gets_the_version(
    table: TableStore, make_fragment: MakeFragment
) -> None:
    def append() -> None:
        commit(table, Transaction(2, Append((make_fragment(1),))))

    threads = [Thread(target=append) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Snapshot.latest(table).manifest.version == 10
    assert Snapshot.latest(table).num_rows == 16
    assert not [name for name in versions(table) if "manifest-" in name]


@dataclass(frozen=True)
class Shaky:
    """Entries that lose the answers to what was done."""

    entries: ManifestEntries
    gone: bool = False

    def get(self, table: str, version: int) -> str | None:
        if self.gone:
            raise OSError("no route to host")
        return self.entries.get(table, version)

    def get_latest(self, table: str) -> tuple[int, str] | None:
        return self.entries.get_latest(table)

    def put_if_absent(self, table: str, version: int, path: str, size: int) -> bool:
        self.entries.put_if_absent(table, version, path, size)
        raise RuntimeError("connection reset")

    def put_if_exists(self, table: str, version: int, path: str, size: int) -> None:
        self.entries.put_if_exists(table, version, path, size)


@pytest.mark.checklist("S2.10")
def test_a_lost_answer_of_the_entries_is_not_a_lost_commit(
    table: TableStore, make_fragment: MakeFragment
) -> None:
    handler = table.handler
    assert isinstance(handler, ExternalManifests)
    shaky = TableStore(table.wrapped, ExternalManifests(Shaky(handler.entries)))
    assert commit(shaky, Transaction(2, Append((make_fragment(4),)))).version == 3
    assert Snapshot.latest(table).num_rows == 12
    gone = TableStore(table.wrapped, ExternalManifests(Shaky(handler.entries, gone=True)))
    transaction = Transaction(3, Append((make_fragment(7),)))
    with pytest.raises(CommitStatusUnknownError, match="version 4") as caught:
        commit(gone, transaction)
    assert (caught.value.version, caught.value.transaction_uuid) == (4, transaction.uuid)
    assert Snapshot.latest(table).num_rows == 19  # it was in, and nothing had been deleted
    assert commit(table, transaction).version == 4
    assert Snapshot.latest(table).num_rows == 19


def test_older_names_stay_where_entries_have_them(
    empty_store: LocalStore,
    schema: Schema,
    make_fragment: MakeFragment,
    entries: MemoryEntries,
) -> None:
    table = TableStore(empty_store, ExternalManifests(entries))
    transaction = Transaction(0, Overwrite(schema, (make_fragment(5),)))
    commit(table, transaction, scheme=NamingScheme.V1)
    with pytest.raises(UnsupportedFeatureError, match="older names"):
        migrate_to_v2_names(table)
    assert commit(table, Transaction(1, Append((make_fragment(1),)))).version == 2
    assert entries.get_latest(table.uri) == (2, NamingScheme.V1.manifest_path(2))
    assert Snapshot.latest(table).num_rows == 6


@pytest.mark.parametrize("check", ["cleanup", "verify"])
def test_upkeep_sees_a_version_that_is_decided_but_not_finished(
    tmp_path: Path, entries: MemoryEntries, check: str
) -> None:
    handler, path = ExternalManifests(entries), tmp_path / "t"
    before = pilum.write_dataset({"a": [1, 2]}, path, commit_handler=handler)
    (tmp_path / "t" / f"{final(1)}-{uuid4()}").write_bytes(b"of a writer that lost")
    dying = ExternalManifests(Dying(entries, "put_if_absent", before=False))
    with pytest.raises(Dead):
        pilum.write_dataset({"a": [3]}, path, mode="append", commit_handler=dying)
    if check == "verify":
        report = before.verify()
        assert not report.missing
        assert not report.damaged
        assert [".manifest-" in fault.path for fault in report.orphaned] == [True]
    else:
        before.cleanup_old_versions(timedelta(days=1), delete_unverified=True)
        assert len(versions(LocalStore(str(path)))) == 2
    assert pilum.dataset(path).to_table()["a"].to_pylist() == [1, 2, 3]


def test_a_table_without_entries_is_that_of_the_store(
    store: LocalStore, entries: MemoryEntries, make_fragment: MakeFragment
) -> None:
    table = TableStore(store, ExternalManifests(entries))
    assert Snapshot.latest(table).num_rows == 8
    assert commit(table, Transaction(2, Append((make_fragment(1),)))).version == 3
    assert load_version(table, 1).version == 1
    assert entries.get_latest(table.uri) == (3, final(3))
    with pytest.raises(DatasetNotFoundError):
        Snapshot.latest(TableStore(LocalStore(f"{store.root}/none"), ExternalManifests(entries)))


def test_a_version_that_was_written_past_the_entries_is_not_overwritten(
    table: TableStore, entries: MemoryEntries, make_fragment: MakeFragment
) -> None:
    assert commit(table.wrapped, Transaction(2, Append((make_fragment(4),)))).version == 3
    assert commit(table, Transaction(2, Append((make_fragment(1),)))).version == 4
    assert entries.get(table.uri, 3) == final(3)
    assert Snapshot.latest(table).num_rows == 13


@dataclass(frozen=True, slots=True)
class ReadOnly(LocalStore):
    """A store that the reader may not write to."""

    def sink(self, path: str) -> LocalSink:
        raise PermissionError(13, "read-only", path)


def test_a_reader_that_may_not_write_reads_what_is_decided(
    table: TableStore, entries: MemoryEntries, make_fragment: MakeFragment
) -> None:
    commit(table, Transaction(2, Append((make_fragment(4),))))
    staged = f"{final(3)}-6f1b5a0e-9d0c-4c8e-9f2e-0123456789ab"
    os.rename(f"{table.uri}/{final(3)}", f"{table.uri}/{staged}")
    entries.put_if_exists(table.uri, 3, staged, 1)
    reader = TableStore(ReadOnly(table.uri), ExternalManifests(entries))
    assert Snapshot.latest(reader).num_rows == 12
    assert load_version(reader, 3).version == 3
    assert [name.version for name in list_manifests(reader)] == [1, 2, 3]
    assert entries.get(table.uri, 3) == staged


@pytest.mark.parametrize(
    "path",
    [
        "_versions/../../x.manifest",
        "data/18446744073709551612.manifest",
        final(7),
        f"{final(3)}-6f1b5a0e-9d0c-4c8e-9f2e-0123456789ab",
        "",
    ],
)
def test_entries_that_make_no_sense_are_damage(
    table: TableStore, entries: MemoryEntries, path: str
) -> None:
    entries.put_if_absent(table.uri, 3, path, 0)
    with pytest.raises(CorruptFileError, match="version 3"):
        Snapshot.latest(table)
