"""Files that are finished in threads."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from guard import GUARD_SECONDS

from pilum.storage import durable
from pilum.storage.base import finish_new
from pilum.storage.local import LocalStore, durable_at_commit, pending_of, without_pending
from pilum.storage.pending import PendingFiles


def test_all_are_visible_after_waiting(tmp_path: Path) -> None:
    store, pending = LocalStore(str(tmp_path)), PendingFiles()
    for number in range(40):
        sink = pending.sink(store.sink(f"data/{number}"))
        sink.write(bytes([number]))
        sink.finish()
        assert sink.position == 1
    pending.wait()
    found = {int(entry.name): store.read(f"data/{entry.name}") for entry in store.list("data")}
    assert found == {number: bytes([number]) for number in range(40)}


def test_a_failure_is_raised_and_leaves_nothing_behind(tmp_path: Path) -> None:
    store, pending = LocalStore(str(tmp_path)), PendingFiles()
    (tmp_path / "taken" / "folder").mkdir(parents=True)
    failing, other = (pending.sink(store.sink(path)) for path in ("taken", "other"))
    for sink in (failing, other):
        sink.write(b"x")
        sink.finish()
    with pytest.raises(OSError, match="taken"):
        pending.wait()
    pending.settle()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "taken"]


def test_an_abort_drops_what_is_not_finished(tmp_path: Path) -> None:
    store, pending = LocalStore(str(tmp_path)), PendingFiles()
    sink = pending.sink(store.sink("x"))
    sink.write(b"x")
    sink.abort()
    pending.settle()
    assert list(tmp_path.iterdir()) == []


class _Slow:
    """A visible sink whose `finish` waits for an event."""

    position = 1

    def __init__(self) -> None:
        self.go, self.is_done = threading.Event(), False

    def write(self, data: Any) -> None:
        raise NotImplementedError

    def expose(self) -> bool:
        return True

    def finish(self) -> None:
        assert self.go.wait(GUARD_SECONDS)
        self.is_done = True

    def abort(self) -> None:
        raise NotImplementedError


def test_a_visible_file_is_waited_for_before_the_commit_and_not_earlier(tmp_path: Path) -> None:
    sink = _Slow()
    with durable_at_commit(LocalStore(str(tmp_path))) as store:
        pending = PendingFiles(later=pending_of(store))
        pending.sink(sink).finish()
        pending.wait()
        assert not sink.is_done
        sink.go.set()
        assert store.put_if_absent("manifest", b"x")
        assert sink.is_done


def test_a_store_is_waited_for_after_its_block(tmp_path: Path) -> None:
    with durable_at_commit(LocalStore(str(tmp_path))) as store:
        assert pending_of(store) is not None
        assert pending_of(without_pending(store)) is None
    sink, pending = _Slow(), PendingFiles(later=pending_of(store))
    sink.go.set()
    pending.sink(sink).finish()
    pending.wait()
    assert sink.is_done


def test_a_folder_is_synced_by_the_sink_if_the_group_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(durable, "_sync_folder", synced.append)
    with durable_at_commit(LocalStore(str(tmp_path))) as store:
        first = store.sink("data/first")
        first.expose()
        assert synced == []
    assert sorted(synced) == [str(tmp_path), str(tmp_path / "data")]
    store.sink("data/second").finish()
    finish_new(store.sink("data/third"))
    assert synced[2:] == [str(tmp_path / "data")] * 2
    first.finish()


def test_folders_that_an_aborted_sink_made_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(durable, "_sync_folder", synced.append)
    LocalStore(str(tmp_path)).sink("data/first").abort()
    assert synced == [str(tmp_path)]


class _Large:
    """A sink that holds bytes until it is finished."""

    def __init__(self, size_bytes: int, done: list[int]) -> None:
        self.position = size_bytes
        self._done = done

    def write(self, data: Any) -> None:
        raise NotImplementedError

    def expose(self) -> bool:
        return False

    def finish(self) -> None:
        self._done.append(self.position)

    def abort(self) -> None:
        raise NotImplementedError


def test_no_more_bytes_are_under_way_than_allowed() -> None:
    done: list[int] = []
    pending = PendingFiles(max_bytes=10)
    for size_bytes in (4, 5, 6):
        pending.sink(_Large(size_bytes, done)).finish()
    assert 4 in done
    assert 5 in done
    pending.sink(_Large(11, done)).finish()
    assert sorted(done) == [4, 5, 6, 11]
