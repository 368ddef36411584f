"""Cleanup: what goes, what stays, and what a cleanup leaves that is stopped or meets others."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.dataset.cleanup import CleanupStats
from pilum.errors import CorruptFileError, InvalidInputError, VersionNotFoundError
from pilum.storage.local import LocalStore
from pilum.table.upkeep import cleanup

_EIGHT_DAYS = 8 * 24 * 3600


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of six versions: three overwrites, each with a delete."""
    where = str(tmp_path / "table")
    for number in range(3):
        table = pa.table({"a": pa.array(range(10 * number, 10 * number + 10), pa.int64())})
        options = {"sync": "false"}
        dataset = pilum.write_dataset(table, where, mode="overwrite", storage_options=options)
        dataset.delete(f"a = {10 * number}")
    return where


def files(uri: str) -> set[str]:
    root = Path(uri)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def numbers(uri: str) -> list[int]:
    return [version["version"] for version in pilum.dataset(uri).versions()]


def assert_whole(uri: str) -> None:
    """Every version that is listed can be read."""
    for number in numbers(uri):
        dataset = pilum.dataset(uri, version=number)
        assert dataset.to_table().num_rows == dataset.count_rows()


def make_old(uri: str, *names: str) -> None:
    for name in names:
        stamp = time.time() - _EIGHT_DAYS
        os.utime(Path(uri) / name, (stamp, stamp))


def test_old_versions_go_with_their_files(uri: str) -> None:
    dataset = pilum.dataset(uri)
    removed = dataset.cleanup_old_versions(retain_versions=1)
    assert (removed.old_versions, removed.data_files_removed) == (5, 2)
    assert (removed.deletion_files_removed, removed.transaction_files_removed) == (2, 5)
    assert (removed.index_files_removed, removed.failed_deletes) == (0, 0)
    assert numbers(uri) == [6]
    assert len(files(uri)) == 5  # manifest, hint, transaction, data, deletions
    assert dataset.count_rows() == 9
    with pytest.raises(VersionNotFoundError):
        dataset.checkout_version(5)
    assert dataset.cleanup_old_versions(retain_versions=1) == CleanupStats()


def test_two_weeks_are_the_default(uri: str) -> None:
    assert pilum.dataset(uri).cleanup_old_versions() == CleanupStats()
    assert numbers(uri) == [1, 2, 3, 4, 5, 6]


def test_all_conditions_must_hold(uri: str) -> None:
    dataset = pilum.dataset(uri)
    dataset.cleanup_old_versions(timedelta(0), 5)
    assert numbers(uri) == [2, 3, 4, 5, 6]
    dataset.cleanup_old_versions(timedelta(days=1), 1)
    assert numbers(uri) == [2, 3, 4, 5, 6]
    dataset.cleanup_old_versions(versions=[3, 5, 6, 99])
    assert numbers(uri) == [2, 4, 6]
    assert_whole(uri)


def test_the_pinned_version_and_newer_ones_stay(uri: str) -> None:
    pilum.dataset(uri, version=4).cleanup_old_versions(timedelta(0))
    assert numbers(uri) == [4, 5, 6]


def test_tags_keep_versions(uri: str) -> None:
    dataset = pilum.dataset(uri)
    dataset.tags.create("two", 2)
    before = files(uri)
    with pytest.raises(InvalidInputError, match="'two': 2"):
        dataset.cleanup_old_versions(retain_versions=1)
    assert files(uri) == before
    dataset.cleanup_old_versions(retain_versions=1, error_if_tagged_old_versions=False)
    assert numbers(uri) == [2, 6]
    assert_whole(uri)


def test_nothing_goes_if_something_cannot_be_read(uri: str) -> None:
    manifest = Path(uri) / "_versions" / f"{2**64 - 1 - 3:020}.manifest"
    good = manifest.read_bytes()
    manifest.write_bytes(good[:-30])
    before = files(uri)
    with pytest.raises(CorruptFileError, match="manifest"):
        pilum.dataset(uri).cleanup_old_versions(retain_versions=1)
    manifest.write_bytes(good)
    branches = Path(uri) / "_refs" / "branches"
    branches.mkdir(parents=True)
    for text in ("{", "[]", json.dumps({"parentVersion": "3"})):
        (branches / "x.json").write_text(text)
        with pytest.raises(CorruptFileError, match="branches"):
            pilum.dataset(uri).cleanup_old_versions(retain_versions=1)
    (branches / "x.json").unlink()
    assert files(uri) == before


def test_records_of_branches_count_whatever_their_name(uri: str) -> None:
    dataset = pilum.dataset(uri, version=2)
    dataset.create_branch("kept", 2)
    record = Path(uri) / "_refs" / "branches" / "kept.json"
    record.rename(record.with_name("no%20branch%20has%20this%20name.json"))
    assert dataset.branches.list() == {}
    pilum.dataset(uri).cleanup_old_versions(retain_versions=1, error_if_tagged_old_versions=False)
    assert 2 in numbers(uri)


def test_files_of_writers_at_work_stay(uri: str) -> None:
    strays = ["data/a.lance", "data/.tmpabc", "_transactions/1-x.txn", "_deletions/0-1-2.bin"]
    foreign = ["data/notes.txt", "_deletions/x.csv", "_indices/mine/x.idx", "data/a/b.blob"]
    for name in (*strays, *foreign):
        path = Path(uri) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")
    dataset = pilum.dataset(uri)
    make_old(uri, *strays[:2], *foreign)
    removed = dataset.cleanup_old_versions()
    assert (removed.bytes_removed, removed.data_files_removed) == (10, 1)
    assert files(uri).issuperset({*strays[2:], *foreign})
    removed = dataset.cleanup_old_versions(delete_unverified=True)
    assert (removed.transaction_files_removed, removed.deletion_files_removed) == (1, 1)
    assert files(uri).issuperset(foreign)
    assert files(uri).isdisjoint(strays)
    assert_whole(uri)


def test_blobs_beside_data_files_go_with_them(tmp_path: Path) -> None:
    uri = str(tmp_path / "blobs")
    for number in range(2):
        table = pa.table({"b": pilum.blob_array([bytes([number]) * 100_000])})
        pilum.write_dataset(table, uri, mode="overwrite")
    before = files(uri)
    removed = pilum.dataset(uri).cleanup_old_versions(retain_versions=1)
    assert removed.data_files_removed == 2
    assert len([name for name in before if name.endswith(".blob")]) == 2
    assert len([name for name in files(uri) if name.endswith(".blob")]) == 1
    (read,) = pilum.dataset(uri).read_blobs("b", indices=[0])
    assert read[1] == b"\1" * 100_000


class _Stopped(BaseException):
    """Whoever was at work is gone."""


@pytest.mark.parametrize("deletes", range(0, 14, 2))
def test_a_stopped_cleanup_leaves_whole_versions(
    uri: str, deletes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it stops, every version that is left is whole."""
    delete = LocalStore.delete
    left = deletes

    def stopping(store: LocalStore, path: str) -> None:
        nonlocal left
        if not left:
            raise _Stopped
        left -= 1
        delete(store, path)

    monkeypatch.setattr(LocalStore, "delete", stopping)
    with pytest.raises(_Stopped):
        pilum.dataset(uri).cleanup_old_versions(retain_versions=1, delete_concurrency=1)
    monkeypatch.undo()
    assert_whole(uri)
    # The next one goes on; what nothing refers to any more goes by its age.
    make_old(uri, *files(uri))
    pilum.dataset(uri).cleanup_old_versions(retain_versions=1)
    assert numbers(uri) == [6]
    assert len(files(uri)) == 5


def late(monkeypatch: pytest.MonkeyPatch, action: Callable[[], Any]) -> None:
    """Lets something happen right after the plan was made."""
    run = cleanup.run_cleanup

    def behind(*arguments: Any, **more: Any) -> Any:
        action()
        return run(*arguments, **more)

    monkeypatch.setattr(cleanup, "run_cleanup", behind)


def test_a_version_that_is_restored_meanwhile_keeps_its_files(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late(monkeypatch, pilum.dataset(uri, version=2).restore)
    pilum.dataset(uri).cleanup_old_versions(retain_versions=1)
    assert numbers(uri) == [6, 7]
    assert_whole(uri)
    assert pilum.dataset(uri).to_table()["a"].to_pylist() == [*range(1, 10)]


def test_two_cleanups_at_once(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = pilum.dataset(uri)
    done: list[int] = []

    def clean() -> None:
        if not done:
            done.append(1)
            other.cleanup_old_versions(retain_versions=3)

    late(monkeypatch, clean)
    pilum.dataset(uri).cleanup_old_versions(retain_versions=1)
    assert numbers(uri) == [6]
    assert_whole(uri)


def test_what_the_store_does_not_remove_is_counted(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = LocalStore.delete

    def failing(store: LocalStore, path: str) -> None:
        if path.endswith((".txn", f"{2**64 - 1 - 2:020}.manifest")):
            raise PermissionError(path)
        delete(store, path)

    monkeypatch.setattr(LocalStore, "delete", failing)
    removed = pilum.dataset(uri).cleanup_old_versions(retain_versions=1)
    assert removed.old_versions == 4
    assert removed.failed_deletes == 5  # a manifest, and the transactions of the other four
    assert numbers(uri) == [2, 6]
    assert_whole(uri)


def test_the_rate_is_limited(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that never advances each file waits a tenth of a second longer than another."""
    before, slept = files(uri), list[float]()
    clock = SimpleNamespace(monotonic=lambda: 100.0, sleep=slept.append)
    monkeypatch.setattr(cleanup, "time", clock)
    pilum.dataset(uri).cleanup_old_versions(retain_versions=5, delete_rate_limit=10)
    gone = before - files(uri)
    assert len(gone) > 1
    assert sorted(slept) == pytest.approx([number / 10 for number in range(len(gone))])


def test_what_would_go_is_told(uri: str) -> None:
    before = files(uri)
    dataset = pilum.dataset(uri)
    told = dataset.cleanup_old_versions(retain_versions=1, dry_run=True)
    assert files(uri) == before
    assert told.read_version == 6
    assert {file.path for file in told.candidate_files} <= before
    assert "data/" in str(told)
    assert "5 versions" in str(told)
    part = dataset.explain_cleanup_old_versions(None, 1, include_files=True, max_files=2)
    assert (len(part.candidate_files), part.candidate_files_truncated) == (2, True)
    assert dataset.explain_cleanup_old_versions(None, 1).stats == told.stats
    assert dataset.cleanup_old_versions(retain_versions=1) == told.stats


@pytest.mark.parametrize(
    "arguments",
    [
        {"older_than": 3},
        {"retain_versions": 0},
        {"versions": "all"},
        {"versions": [-1]},
        {"delete_rate_limit": 0},
        {"delete_concurrency": 0},
    ],
)
def test_misuse_is_refused(uri: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(arguments))):
        pilum.dataset(uri).cleanup_old_versions(**arguments)
    assert len(numbers(uri)) == 6
