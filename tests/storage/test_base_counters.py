"""Requests and bytes are counted; open files are bounded."""

from __future__ import annotations

import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from guard import GUARD_SECONDS

from pilum.errors import CorruptFileError, InvalidInputError, NotFoundError
from pilum.storage.base import IoCounter, IOStats, Ranges
from pilum.storage.local import MAX_OPEN, LocalSource, LocalStore


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path), sync=False)


def test_reads_and_writes_are_counted(store: LocalStore) -> None:
    store.put("a", b"x" * 100_000)
    assert store.io.take() == IOStats(write_iops=1, written_bytes=100_000)
    source = store.source("a")
    assert store.io.snapshot() == IOStats()  # asking for a size moves no bytes
    source.read(Ranges.of((0, 10)))
    source.read(Ranges.of((0, 10), (20, 10), (90_000, 10)))  # the first two are neighbours
    assert store.io.take() == IOStats(read_iops=3, read_bytes=10 + 30 + 10)
    store.read("a")
    assert store.io.snapshot() == IOStats(read_iops=1, read_bytes=100_000)
    assert store.io.snapshot() == store.io.take() != store.io.take() == IOStats()


def test_stores_of_one_folder_count_together(store: LocalStore) -> None:
    other = pickle.loads(pickle.dumps(store))
    assert other.io is store.io is LocalStore(store.root).io
    assert LocalStore(store.root + "/below").io is not store.io


def test_stores_that_are_opened_by_several_threads_count_together(tmp_path: Path) -> None:
    start = threading.Barrier(8, timeout=GUARD_SECONDS)

    def opened(_: int) -> IoCounter:
        start.wait()
        return LocalStore(str(tmp_path / "table")).io

    with ThreadPoolExecutor(8) as threads:
        first, *others = threads.map(opened, range(8))
    assert all(counter is first for counter in others)


def test_a_child_process_counts_from_zero() -> None:
    counter = IoCounter()
    counter.count_read(5)
    with counter._lock:  # as if another thread were at work
        child = os.fork()
        if child == 0:
            counter.count_read(7)
            os._exit(0 if counter.snapshot() == IOStats(1, 7) else 1)
    assert os.waitpid(child, 0)[1] == 0


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_any_number_of_sources_opens_a_bounded_number_of_files(store: LocalStore) -> None:
    sources = []
    before = open_files()
    for number in range(MAX_OPEN + 50):
        store.put(f"{number}", b"%d" % number)
        sources.append(store.source(f"{number}"))
    assert open_files() <= before + MAX_OPEN
    for number, source in enumerate(sources):
        assert source.read(Ranges.of((0, source.size)))[0].tobytes() == b"%d" % number
    assert open_files() <= before + MAX_OPEN


def released(store: LocalStore) -> LocalSource:
    store.put("a", b"old")
    source = store.source("a")
    assert isinstance(source, LocalSource)
    source.release()
    return source


def test_a_file_that_was_replaced_is_not_taken_for_the_one_that_was_opened(
    store: LocalStore,
) -> None:
    source = released(store)
    store.put("a", b"new")
    with pytest.raises(CorruptFileError, match="has been replaced"):
        source.read(Ranges.of((0, 3)))


def test_a_file_that_was_deleted(store: LocalStore) -> None:
    source = released(store)
    store.delete("a")
    with pytest.raises(NotFoundError):
        source.read(Ranges.of((0, 3)))


def test_a_closed_source_stays_closed(store: LocalStore) -> None:
    source = released(store)
    assert source.read(Ranges.of((0, 3)))[0].tobytes() == b"old"
    source.close()
    with pytest.raises(InvalidInputError, match="is closed"):
        source.read(Ranges.of((0, 3)))
