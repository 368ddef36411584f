"""The other halves of calls that some systems lack, in place of those of this one."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.storage import durable, local, system
from pilum.storage.open import open_store

ROWS = pa.table({"i": range(30_000), "s": [f"text {n}" for n in range(30_000)]})
LINUX_ONLY = ("pread", "preadv", "posix_fadvise", "O_DIRECTORY", "O_CLOEXEC", "sched_getaffinity")


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that has what Windows has of these calls."""
    for name in LINUX_ONLY:
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.setattr(local, "NO_WAIT", 0)
    monkeypatch.setattr(local, "can_map", lambda _: False)
    monkeypatch.setattr(local, "OPEN_FLAGS", 0)
    monkeypatch.setattr(durable, "OPEN_FLAGS", 0)
    monkeypatch.setattr(durable, "CAN_RENAME_OPEN_FILES", False)


@pytest.mark.usefixtures("elsewhere")
def test_a_table_is_written_changed_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed = []

    def replace(old: str, new: str) -> None:
        is_open = any(
            os.path.samefile(old, f"/proc/self/fd/{one}")
            for one in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{one}")
        )
        renamed.append(is_open)
        os.rename(old, new)

    monkeypatch.setattr(os, "replace", replace)
    dataset = pilum.write_dataset(ROWS, tmp_path / "t", max_rows_per_file=10_000)
    dataset.delete("i % 3 = 0")
    dataset.optimize.compact_files()
    again = pilum.dataset(tmp_path / "t", session=pilum.Session())
    assert again.to_table().equals(ROWS.filter(pa.compute.not_equal(mod(ROWS["i"]), 0)))
    assert again.take([5, 1, 19_999])["i"].to_pylist() == [8, 2, 29_999]
    assert set(renamed) == {False}


def mod(numbers: pa.ChunkedArray) -> pa.Array:
    return pa.array(numbers.to_numpy() % 3)


@pytest.mark.usefixtures("elsewhere")
def test_threads_that_share_a_descriptor_do_not_mix_up_positions(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"".join(n.to_bytes(4, "little") for n in range(4096)))
    descriptor, wrong = os.open(file, os.O_RDONLY), []

    def read(first: int) -> None:
        for number in range(first, 4096, 8):
            view = bytearray(4)
            count = system.read_into(descriptor, [memoryview(view)], 4 * number)
            if (count, bytes(view)) != (4, number.to_bytes(4, "little")):
                wrong.append(number)

    threads = [threading.Thread(target=read, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert system.read_at(descriptor, 8, 4 * 4095) == (4095).to_bytes(4, "little")
    os.close(descriptor)
    assert not wrong


def test_macos_waits_for_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(durable, "_FULL_SYNC", 51)
    import fcntl

    monkeypatch.setattr(fcntl, "fcntl", lambda *args: asked.append(args[1]))
    pilum.write_dataset(ROWS.slice(0, 3), tmp_path / "t")
    assert set(asked) == {51}


def test_a_lock_of_windows_is_held_and_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[int, int]] = []
    fake: Any = ModuleType("msvcrt")
    fake.LK_LOCK, fake.LK_UNLCK = 1, 0
    fake.locking = lambda _, mode, size: calls.append((mode, size))
    monkeypatch.setitem(__import__("sys").modules, "msvcrt", fake)
    monkeypatch.setattr(system, "find_spec", lambda _: None)
    with pytest.raises(KeyError), system.exclusively(tmp_path / "lock"):
        raise KeyError
    assert calls == [(1, 1), (0, 1)]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (r"C:\data\t.lance", "C:/data/t.lance"),
        ("/C:/data/t.lance", "C:/data/t.lance"),
        (r"\\server\share\t", "//server/share/t"),
    ],
)
def test_paths_of_windows(path: str, expected: str) -> None:
    assert system.slashed(path, "\\") == expected
    assert system.slashed(path, "/") == path


def test_a_backslash_is_part_of_a_name_here(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a\\b")
    assert store.uri.endswith("a\\b")
