"""The device begins with large files early; bytes, and what is durable when, stay the same."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pilum.storage import durable
from pilum.storage.durable import begin_write_back
from pilum.storage.local import LocalStore

MB = 1024 * 1024
CONTENT = np.random.default_rng(3).integers(0, 256, 3 * MB + 12_345, dtype=np.uint8)


class Begun:
    """Notes what is begun, and how large the file was then."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.sizes: list[int] = []

    def __call__(self, descriptor: int, start: int, end: int) -> int:
        self.sizes.append(os.fstat(descriptor).st_size)
        begun = begin_write_back(descriptor, start, end)
        self.ranges.append((start, begun))
        return begun


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Begun:
    found = Begun()
    monkeypatch.setattr(durable, "begin_write_back", found)
    return found


@pytest.mark.parametrize("piece_bytes", [len(CONTENT), 700_001, 50_000])
def test_a_large_file_is_begun_piece_by_piece_while_it_is_written(
    tmp_path: Path, begun: Begun, piece_bytes: int
) -> None:
    sink = LocalStore(str(tmp_path)).sink("a")
    for start in range(0, len(CONTENT), piece_bytes):
        sink.write(CONTENT[start : start + piece_bytes])
    sink.finish()
    assert (tmp_path / "a").read_bytes() == CONTENT.tobytes()
    assert begun.ranges[0][0] == 0
    assert [start for start, _ in begun.ranges[1:]] == [end for _, end in begun.ranges[:-1]]
    assert all(end % mmap.PAGESIZE == 0 for _, end in begun.ranges)
    assert all(end <= size for (_, end), size in zip(begun.ranges, begun.sizes, strict=True))
    assert begun.ranges[-1][1] > 2 * MB
    assert begun.sizes[0] < 2 * MB


def test_small_files_and_those_that_may_be_lost_are_not_begun(tmp_path: Path, begun: Begun) -> None:
    LocalStore(str(tmp_path)).put_if_absent("small", bytes(5000))
    LocalStore(str(tmp_path)).put("note", CONTENT.tobytes())
    LocalStore(str(tmp_path), sync=False).put_if_absent("lost", CONTENT.tobytes())
    assert begun.ranges == []
    assert (tmp_path / "lost").read_bytes() == CONTENT.tobytes()


def test_a_page_of_memory_that_is_not_full_is_left_for_later(tmp_path: Path) -> None:
    with open(tmp_path / "a", "wb", buffering=0) as file:
        file.write(bytes(3 * mmap.PAGESIZE + 1))
        assert begin_write_back(file.fileno(), 0, 3 * mmap.PAGESIZE + 1) == 3 * mmap.PAGESIZE
        assert begin_write_back(file.fileno(), 0, 5) == 0


def test_a_system_that_cannot_begin_early_writes_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "_sync_file_range", None)
    sink = LocalStore(str(tmp_path)).sink("a")
    sink.write(CONTENT)
    sink.finish()
    assert (tmp_path / "a").read_bytes() == CONTENT.tobytes()


INTERRUPTED = """
import os, signal, sys
from contextlib import suppress
from pilum.storage.base import IoCounter
from pilum.storage.durable import LocalSink

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
sink, counter = None, IoCounter()
before = len(os.listdir("/dev/fd"))
for number in range(300):
    with suppress(KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, 0.0001 + number % 50 * 1e-6)
        for _ in range(1000):
            sink = LocalSink(sys.argv[1] + "/a", sync=False, io=counter)
            sink.abort()
    if sink is not None:
        sink.abort()
    sink = None
print(len(os.listdir("/dev/fd")) - before)
"""


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="descriptors are not listed")
def test_an_interrupt_while_a_file_is_opened_leaves_no_descriptor(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", INTERRUPTED, str(tmp_path)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(result.stdout) == 0
