"""Commits: each one whole or not at all, none lost, none twice."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from guard import GUARD_SECONDS

import pilum
from pilum.errors import (
    CommitConflictError,
    CommitContentionError,
    CommitError,
    DatasetNotFoundError,
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    UnsupportedVersionError,
)
from pilum.format.pb import transaction_pb2
from pilum.format.schema import Schema
from pilum.storage import durable, local
from pilum.storage.local import LocalStore
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.overwrite import Overwrite
from pilum.table.commit.publish import commit
from pilum.table.commit.transaction import Transaction, find_commit, load_transaction
from pilum.table.model.fragment import Fragment
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest import Manifest
from pilum.table.model.manifest_file import encode_manifest_file
from pilum.table.model.names import NamingScheme
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.commit_handler import list_manifests

MakeFragment = Callable[..., Fragment]
Message = transaction_pb2.Transaction
BAD_TEXT = Message(
    uuid="x", overwrite=Message.Overwrite(schema_metadata={"k": b"\xff"})
).SerializeToString()


def files(store: LocalStore) -> set[str]:
    root = Path(store.root)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def add_foreign(store: LocalStore, message: Message, **changes: Any) -> None:
    """Lets another writer commit the next version."""
    latest = Snapshot.latest(store).manifest
    manifest = replace(latest, version=latest.version + 1, transaction_file="", **changes)
    path = NamingScheme.V2.manifest_path(manifest.version)
    assert store.put_if_absent(path, encode_manifest_file(manifest, message.SerializeToString()))


def test_the_first_commit_makes_version_1(
    empty_store: LocalStore, schema: Schema, make_fragment: MakeFragment
) -> None:
    transaction = Transaction(0, Overwrite(schema, (make_fragment(5), make_fragment(2))))
    manifest = commit(empty_store, transaction)
    assert (manifest.version, [fragment.id for fragment in manifest.fragments]) == (1, [0, 1])
    assert manifest.max_fragment_id == 1
    assert Snapshot.latest(empty_store).manifest == manifest
    assert files(empty_store) == {
        "_versions/18446744073709551614.manifest",
        "_versions/latest_version_hint.json",
        f"_transactions/0-{transaction.uuid}.txn",
    }
    assert empty_store.read("_versions/latest_version_hint.json") == b'{"version":1}'
    assert empty_store.read(f"_transactions/{transaction.file_name}") == transaction.to_bytes()


def test_an_empty_table_has_given_no_fragment_id(empty_store: LocalStore, schema: Schema) -> None:
    manifest = commit(empty_store, Transaction(0, Overwrite(schema, ())))
    assert manifest.max_fragment_id is None
    assert Snapshot.latest(empty_store).num_rows == 0


@pytest.mark.checklist("S2.6")
def test_append_continues_the_fragment_ids(store: LocalStore, make_fragment: MakeFragment) -> None:
    before = Snapshot.latest(store).manifest
    new = (make_fragment(1), make_fragment(2, number=7), make_fragment(3))
    manifest = commit(store, Transaction(2, Append(new)))
    assert [fragment.id for fragment in manifest.fragments] == [0, 1, 2, 3, 7]
    assert manifest.fragments[:2] == before.fragments.all()
    assert manifest.max_fragment_id == 7


def test_append_does_not_take_an_id_twice(store: LocalStore, make_fragment: MakeFragment) -> None:
    with pytest.raises(InvalidInputError, match="ids that are taken"):
        commit(store, Transaction(2, Append((make_fragment(number=1),))))


@pytest.mark.checklist("S2.6")
def test_overwrite_keeps_what_is_not_content(
    store: LocalStore, schema: Schema, make_fragment: MakeFragment
) -> None:
    first = commit(store, Transaction(2, Overwrite(schema, (), {"key": "1", "other": "2"})))
    assert (first.fragments, first.writer_flags) == (Fragments(), 8)
    second = commit(store, Transaction(3, Overwrite(schema, (make_fragment(),), {"key": "3"})))
    assert second.config == {"key": "3", "other": "2"}
    assert [fragment.id for fragment in second.fragments] == [2]


@pytest.mark.checklist("S3.1")
def test_a_table_keeps_its_naming_scheme(
    empty_store: LocalStore, schema: Schema, make_fragment: MakeFragment
) -> None:
    old = Manifest(schema, Fragments(), version=1, data_format="2.1")
    empty_store.put("_versions/1.manifest", encode_manifest_file(old, b""))
    commit(empty_store, Transaction(1, Append((make_fragment(),))))
    assert "_versions/2.manifest" in files(empty_store)


@pytest.mark.checklist("S2.8")
def test_concurrent_appends_follow_each_other(
    store: LocalStore, make_fragment: MakeFragment
) -> None:
    for _ in range(2):
        manifest = commit(store, Transaction(2, Append((make_fragment(4),))))
    assert manifest.version == 4
    assert [fragment.id for fragment in manifest.fragments] == [0, 1, 2, 3]


@pytest.mark.checklist("S2.8")
def test_of_two_overwrites_the_later_has_to_look_again(store: LocalStore, schema: Schema) -> None:
    commit(store, Transaction(2, Overwrite(schema, ())))
    before = files(store)
    with pytest.raises(CommitConflictError, match="overwrite of version 3") as caught:
        commit(store, Transaction(2, Overwrite(schema, ())))
    assert caught.value.retryable
    assert files(store) == before


def test_a_conflict_is_caught_as_what_the_reference_raises_and_travels_between_processes(
    store: LocalStore, schema: Schema
) -> None:
    commit(store, Transaction(2, Overwrite(schema, ())))
    for kind in (OSError, RuntimeError, CommitError):
        with pytest.raises(kind) as caught:
            commit(store, Transaction(2, Overwrite(schema, ())))
    again = pickle.loads(pickle.dumps(caught.value))
    assert vars(again) == vars(caught.value)
    assert str(again) == str(caught.value)


def test_append_to_rows_that_were_replaced_is_final(
    store: LocalStore, schema: Schema, make_fragment: MakeFragment
) -> None:
    commit(store, Transaction(2, Overwrite(schema, ())))
    with pytest.raises(CommitConflictError) as caught:
        commit(store, Transaction(2, Append((make_fragment(),))))
    assert not caught.value.retryable


def test_two_creators_do_not_both_win(empty_store: LocalStore, schema: Schema) -> None:
    commit(empty_store, Transaction(0, Overwrite(schema, ())))
    with pytest.raises(CommitConflictError):
        commit(empty_store, Transaction(0, Overwrite(schema, ())))


def test_the_operations_of_others_are_looked_at(
    store: LocalStore, make_fragment: MakeFragment
) -> None:
    add_foreign(store, Message(uuid="x", delete=Message.Delete(predicate="a = 1")))
    assert commit(store, Transaction(2, Append((make_fragment(),)))).version == 4
    add_foreign(store, Message(uuid="y", restore=Message.Restore(version=1)))
    with pytest.raises(CommitConflictError, match="restore of version 5"):
        commit(store, Transaction(4, Append((make_fragment(),))))


@pytest.mark.parametrize("message", [b"\xff" * 9, b"\x12\x01x", b"\x12\x01x\xa2\x07\x00", BAD_TEXT])
@pytest.mark.checklist("S2.9")
def test_an_unknown_operation_in_between_is_a_conflict(
    store: LocalStore, make_fragment: MakeFragment, message: bytes
) -> None:
    latest = Snapshot.latest(store).manifest
    manifest = encode_manifest_file(replace(latest, version=3, transaction_file=""), message)
    store.put(NamingScheme.V2.manifest_path(3), manifest)
    with pytest.raises(CommitConflictError, match="cannot find out what version 3 changed"):
        commit(store, Transaction(2, Append((make_fragment(),))))
    assert commit(store, Transaction(3, Append((make_fragment(),)))).version == 4


@pytest.mark.checklist("S2.9")
def test_a_version_that_is_gone_is_a_conflict(
    store: LocalStore, make_fragment: MakeFragment
) -> None:
    for version in (2, 3):
        commit(store, Transaction(version, Append((make_fragment(),))))
    store.delete(NamingScheme.V2.manifest_path(3))
    with pytest.raises(CommitConflictError, match="version 3 is gone"):
        commit(store, Transaction(2, Append((make_fragment(),))))


def test_the_same_transaction_is_committed_once(
    store: LocalStore, schema: Schema, make_fragment: MakeFragment
) -> None:
    for operation in (Append((make_fragment(),)), Overwrite(schema, ())):
        transaction = Transaction(len(list_manifests(store)), operation)
        first = commit(store, transaction)
        assert commit(store, transaction) == first
        assert Snapshot.latest(store).manifest == first
        assert f"_transactions/{transaction.file_name}" in files(store)


def test_a_commit_is_found_by_its_uuid(store: LocalStore, make_fragment: MakeFragment) -> None:
    transaction = Transaction(2, Append((make_fragment(),)), properties={"job": "7"})
    assert find_commit(store, transaction.uuid, 0) is None
    commit(store, transaction)
    assert find_commit(store, transaction.uuid, 0) == 3
    assert find_commit(store, transaction.uuid, 2) == 3
    assert find_commit(store, transaction.uuid, 3) is None
    found = load_transaction(store, 3, NamingScheme.V2.manifest_path(3))
    assert (found.uuid, found.properties) == (transaction.uuid, {"job": "7"})


def test_a_transaction_that_is_too_long_for_the_manifest_is_a_file(
    store: LocalStore, make_fragment: MakeFragment
) -> None:
    properties = {"note": "x" * (21 << 20)}
    commit(store, Transaction(2, Append((make_fragment(),)), properties=properties))
    path = NamingScheme.V2.manifest_path(3)
    assert len(store.read(path)) < 2000
    assert load_transaction(store, 3, path).properties == properties
    assert commit(store, Transaction(2, Append((make_fragment(),)))).version == 4


@pytest.mark.parametrize(
    ("fragment", "error", "text"),
    [
        ({"fields": (0, 9)}, SchemaMismatchError, "field ids"),
        ({"fields": (1,)}, SchemaMismatchError, "'a', which must not be null"),
        ({"rows": 0}, InvalidInputError, "without rows"),
        ({"minor": 3}, UnsupportedVersionError, "version 2.3 cannot be added"),
    ],
)
def test_fragments_that_do_not_fit_change_nothing(
    store: LocalStore,
    make_fragment: MakeFragment,
    fragment: dict[str, Any],
    error: type[Exception],
    text: str,
) -> None:
    before = files(store)
    with pytest.raises(error, match=text):
        commit(store, Transaction(2, Append((make_fragment(**fragment),))))
    assert files(store) == before


def test_append_needs_a_table(empty_store: LocalStore, make_fragment: MakeFragment) -> None:
    with pytest.raises(DatasetNotFoundError):
        commit(empty_store, Transaction(0, Append((make_fragment(),))))
    assert files(empty_store) == set()


def test_a_version_that_never_was_cannot_be_continued(
    store: LocalStore, make_fragment: MakeFragment
) -> None:
    with pytest.raises(InvalidInputError, match="has no version 9"):
        commit(store, Transaction(9, Append((make_fragment(),))))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"reader_flags": 1024, "writer_flags": 1024}, "tagged fragment reuse index"),
        ({"writer_flags": 1 << 20}, "unknown feature 1048576"),
    ],
)
def test_what_would_be_lost_is_refused(
    store: LocalStore, make_fragment: MakeFragment, changes: dict[str, int], text: str
) -> None:
    add_foreign(store, Message(uuid="x", delete=Message.Delete()), **changes)
    with pytest.raises(UnsupportedFeatureError, match=text):
        commit(store, Transaction(2, Append((make_fragment(),))))


@dataclass(frozen=True, slots=True)
class Taken(LocalStore):
    """A store on which every version is taken by somebody else first."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return False


def test_who_always_loses_is_told_so(store: LocalStore, make_fragment: MakeFragment) -> None:
    before = files(store)
    with pytest.raises(CommitContentionError, match="after 3 attempts"):
        commit(Taken(store.root), Transaction(2, Append((make_fragment(),))), attempts=3)
    assert files(store) == before


@dataclass(frozen=True, slots=True)
class LostAnswer(LocalStore):
    """A store whose conditional put arrives, but not its answer."""

    error: bool = False

    def put_if_absent(self, path: str, data: bytes) -> bool:
        LocalStore.put_if_absent(self, path, data)
        if self.error:
            raise OSError("connection reset")
        return False


@pytest.mark.parametrize("error", [False, True])
@pytest.mark.checklist("S2.8")
def test_a_lost_answer_is_not_a_lost_commit(
    store: LocalStore, make_fragment: MakeFragment, error: bool
) -> None:
    shaky = LostAnswer(store.root, sync=False, error=error)
    assert commit(shaky, Transaction(2, Append((make_fragment(),)))).version == 3
    assert len(list_manifests(store)) == 3


class PowerCut(BaseException):
    """The end of the process."""


class CountingEffects:
    """The module `os` for the store: from effect number `last` on, nothing happens any more."""

    EFFECTS = ("write", "fsync", "rename", "link", "unlink", "mkdir")

    def __init__(self, last: int) -> None:
        self.left = last

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name == "open":
            return lambda path, flags, mode=0o777: (
                self.effect(real, path, flags, mode) if flags & os.O_CREAT else real(path, flags)
            )
        return (lambda *args: self.effect(real, *args)) if name in self.EFFECTS else real

    def effect(self, real: Callable[..., Any], *args: Any) -> Any:
        if self.left == 0:
            if real is os.write:
                real(args[0], args[1][: len(args[1]) // 2])
            self.left = -1
        if self.left < 0:
            raise PowerCut
        self.left -= 1
        return real(*args)


def crashes(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> Iterator[bool]:
    """Runs `act` again and again, killed at the 1st, 2nd, … effect, until it survives."""
    for last in range(100):
        with monkeypatch.context() as patched:
            effects = CountingEffects(last)
            patched.setattr(local, "os", effects)
            patched.setattr(durable, "os", effects)
            try:
                act()
            except PowerCut:
                survived = False
            else:
                survived = True
        yield survived
        if survived:
            return


def test_a_process_that_dies_leaves_the_last_commit(
    store: LocalStore, make_fragment: MakeFragment, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable = LocalStore(store.root)
    transaction = Transaction(2, Append((make_fragment(4),)))
    seen = []
    for survived in crashes(monkeypatch, lambda: commit(durable, transaction)):
        snapshot = Snapshot.latest(store)
        expected = {2: 8, 3: 12}[snapshot.manifest.version]
        assert snapshot.num_rows == expected
        landed = find_commit(store, transaction.uuid, 2)
        assert landed == (3 if snapshot.manifest.version == 3 else None)
        seen.append(snapshot.manifest.version)
        if not survived:
            store.delete(NamingScheme.V2.manifest_path(3))
    assert len(seen) > 8
    assert seen == sorted(seen)
    assert {2, 3} == set(seen)
    assert commit(store, Transaction(3, Append((make_fragment(1),)))).version == 4


def test_a_process_that_dies_creating_a_table_leaves_none_or_all(
    empty_store: LocalStore,
    schema: Schema,
    make_fragment: MakeFragment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    durable = LocalStore(empty_store.root)
    transaction = Transaction(0, Overwrite(schema, (make_fragment(4),)))
    for survived in crashes(monkeypatch, lambda: commit(durable, transaction)):
        if list_manifests(empty_store):
            assert Snapshot.latest(empty_store).num_rows == 4
            empty_store.delete(NamingScheme.V2.manifest_path(1))
        else:
            assert not survived
            with pytest.raises(DatasetNotFoundError):
                Snapshot.latest(empty_store)


WRITER = """
import sys
from dataclasses import replace
from pilum.storage.local import LocalStore
from pilum.table.commit.publish import commit
from pilum.table.commit.operations.append import Append
from pilum.table.read.snapshot import Snapshot
from pilum.table.commit.transaction import Transaction

store = LocalStore(sys.argv[1], sync=False)
for number in range(int(sys.argv[2])):
    manifest = Snapshot.latest(store).manifest
    fragment = replace(manifest.fragments[0], id=0, physical_rows=int(sys.argv[3]) + number)
    commit(store, Transaction(manifest.version, Append((fragment,))), attempts=10_000)
"""


def start_writer(store: LocalStore, count: int, first: int) -> subprocess.Popen[bytes]:
    path = str(Path(pilum.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, store.root, str(count), str(first)],
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.checklist("S2.8")
def test_two_processes_lose_nothing(store: LocalStore) -> None:
    writers = [start_writer(store, 50, first) for first in (1000, 2000)]
    assert [writer.wait(GUARD_SECONDS) for writer in writers] == [0, 0]
    manifest = Snapshot.latest(store).manifest
    assert manifest.version == 102
    assert [fragment.id for fragment in manifest.fragments] == list(range(102))
    assert sorted(fragment.physical_rows for fragment in manifest.fragments) == sorted(
        [5, 3, *range(1000, 1050), *range(2000, 2050)]
    )
    assert len({path for path in files(store) if path.endswith(".txn")}) == 102
    assert not [path for path in files(store) if ".tmp" in path]


def test_a_killed_process_leaves_a_table_that_goes_on(
    store: LocalStore, make_fragment: MakeFragment
) -> None:
    writer = start_writer(store, 100_000, 1000)
    while len(list_manifests(store)) < 5:
        assert writer.poll() is None
    writer.kill()
    writer.wait()
    manifest = Snapshot.latest(store).manifest
    assert len(manifest.fragments) == manifest.version
    after = commit(store, Transaction(manifest.version, Append((make_fragment(),))))
    assert after.version == manifest.version + 1
