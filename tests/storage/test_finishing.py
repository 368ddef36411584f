"""Sinks that are finished in threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pilum.storage.finishing import Finishing
from pilum.storage.local import LocalStore


def test_all_are_visible_after_waiting(tmp_path: Path) -> None:
    store, finishing = LocalStore(str(tmp_path)), Finishing()
    for number in range(40):
        sink = finishing.sink(store.sink(f"data/{number}"))
        sink.write(bytes([number]))
        sink.finish()
        assert sink.position == 1
    finishing.wait()
    found = {int(entry.name): store.read(f"data/{entry.name}") for entry in store.list("data")}
    assert found == {number: bytes([number]) for number in range(40)}


def test_a_failure_is_raised_and_leaves_nothing_behind(tmp_path: Path) -> None:
    store, finishing = LocalStore(str(tmp_path)), Finishing()
    (tmp_path / "taken" / "folder").mkdir(parents=True)
    failing, other = (finishing.sink(store.sink(path)) for path in ("taken", "other"))
    for sink in (failing, other):
        sink.write(b"x")
        sink.finish()
    with pytest.raises(OSError, match="taken"):
        finishing.wait()
    finishing.settle()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "taken"]


def test_an_abort_drops_what_is_not_finished(tmp_path: Path) -> None:
    store, finishing = LocalStore(str(tmp_path)), Finishing()
    sink = finishing.sink(store.sink("x"))
    sink.write(b"x")
    sink.abort()
    finishing.settle()
    assert list(tmp_path.iterdir()) == []


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
    finishing = Finishing(max_bytes=10)
    for size_bytes in (4, 5, 6):
        finishing.sink(_Large(size_bytes, done)).finish()
    assert 4 in done
    assert 5 in done
    finishing.sink(_Large(11, done)).finish()
    assert sorted(done) == [4, 5, 6, 11]
