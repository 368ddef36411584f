"""Local files: ranges come back whole or not at all, and only complete files have their name."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pilum
from pilum.errors import CorruptFileError, InvalidInputError, NotFoundError
from pilum.storage import durable, local, mapped
from pilum.storage.base import Entry, Ranges
from pilum.storage.local import LocalSource, LocalStore

CONTENT = np.random.default_rng(7).integers(0, 256, 200_000, dtype=np.uint8)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> LocalSource:
    path = tmp_path_factory.mktemp("source") / "content"
    path.write_bytes(CONTENT.tobytes())
    return LocalSource(str(path))


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path / "table"))


def files(store: LocalStore) -> list[str]:
    return sorted(str(path.relative_to(store.root)) for path in Path(store.root).rglob("*.*"))


ranges_of_file = st.tuples(st.integers(0, len(CONTENT)), st.integers(0, 50_000)).map(
    lambda pair: (pair[0], min(pair[1], len(CONTENT) - pair[0]))
)


@given(ranges=st.lists(ranges_of_file, max_size=80))
def test_every_range_comes_back_as_it_stands_in_the_file(
    source: LocalSource, ranges: list[tuple[int, int]]
) -> None:
    fetched = source.read(Ranges.of(*ranges))
    assert len(fetched) == len(ranges)
    for index, (offset, size) in enumerate(ranges):
        assert np.array_equal(fetched[index], CONTENT[offset : offset + size])


@pytest.mark.parametrize("count", [1, 2, 100])
def test_what_is_aligned_in_the_file_is_aligned_in_memory(source: LocalSource, count: int) -> None:
    ranges = [(64 * 311 * index, 20_000) for index in range(count) if 64 * 311 * index < 180_000]
    fetched = source.read(Ranges.of(*ranges))
    for index in range(len(ranges)):
        assert fetched[index].ctypes.data % 64 == 0


def test_far_ranges_are_not_read_with_what_lies_between(source: LocalSource) -> None:
    assert len(source.read(Ranges.of((0, 10), (150_000, 10))).data) < 1000


def test_near_ranges_are_read_with_what_lies_between(source: LocalSource) -> None:
    assert len(source.read(Ranges.of((0, 10), (8_000, 10))).data) >= 8_000


@pytest.mark.parametrize("around", [0, 1, 50])
@pytest.mark.parametrize(
    "wrong",
    [(-1, 5), (0, -1), (len(CONTENT), 1), (0, len(CONTENT) + 1), (2**62, 2**62), (5, 2**63 - 1)],
)
def test_ranges_outside_of_the_file_are_damage(
    source: LocalSource, wrong: tuple[int, int], around: int
) -> None:
    with pytest.raises(CorruptFileError, match="do not lie within") as caught:
        source.read(Ranges.of(*[(0, 1)] * around, wrong))
    assert source.path in str(caught.value)


@pytest.mark.parametrize("ranges", [[(0, 5000)], [(0, 100_000)], [(0, 10), (90_000, 10)]])
def test_a_file_that_shrinks_while_it_is_open_is_damage(
    tmp_path: Path, ranges: list[tuple[int, int]]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100_000))
    source = LocalSource(str(path))
    os.truncate(path, 1000)
    with pytest.raises(CorruptFileError, match="had 100000 bytes when it was opened"):
        source.read(Ranges.of(*ranges))


def test_a_file_of_another_size_than_recorded_is_damage(store: LocalStore) -> None:
    store.put("data/a", b"12345")
    with pytest.raises(CorruptFileError, match="expected 6 bytes, found 5"):
        store.source("data/a", 6)


def test_a_closed_source_says_so(store: LocalStore) -> None:
    store.put("a", bytes(100_000))
    source = store.source("a")
    source.close()
    source.close()
    for ranges in [Ranges.of((0, 5)), Ranges.of((0, 90_000)), Ranges.of((0, 5), (7, 9))]:
        with pytest.raises(InvalidInputError, match="is closed"):
            source.read(ranges)


def test_threads_share_a_source(source: LocalSource) -> None:
    wrong: list[int] = []

    def read(seed: int) -> None:
        for offset in np.random.default_rng(seed).integers(0, 190_000, 300).tolist():
            ranges = Ranges.of((offset, 999), (190_000 - offset, 5))
            if not np.array_equal(source.read(ranges)[0], CONTENT[offset : offset + 999]):
                wrong.append(offset)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("path", ["none", "a/none", "file/below"])
def test_what_is_not_there_is_not_found(store: LocalStore, path: str) -> None:
    store.put("file", b"")
    for ask in (store.read, store.source):
        with pytest.raises(NotFoundError, match="there is no file"):
            ask(path)
    store.delete(path)
    assert list(store.list(path)) == []


@pytest.mark.parametrize("path", ["../outside", "data/../../outside", ".."])
def test_paths_do_not_leave_the_table(store: LocalStore, path: str) -> None:
    for act in (store.read, store.source, store.sink, store.delete):
        with pytest.raises(InvalidInputError, match="leaves the table"):
            act(path)


def test_a_sink_shows_its_file_only_when_it_is_finished(store: LocalStore) -> None:
    sink = store.sink("data/a.lance")
    sink.write(b"")
    sink.write(np.arange(3, dtype=np.int16))
    sink.write(memoryview(b"xyz"))
    assert sink.position == 9
    with pytest.raises(NotFoundError):
        store.read("data/a.lance")
    sink.finish()
    sink.abort()
    assert store.read("data/a.lance") == b"\0\0\1\0\2\0xyz"
    assert list(store.list("data")) == [Entry("a.lance", 9)]


def test_an_aborted_sink_leaves_nothing(store: LocalStore) -> None:
    sink = store.sink("data/a.lance")
    sink.write(b"abc")
    sink.abort()
    sink.abort()
    with pytest.raises(InvalidInputError, match="finished or aborted"):
        sink.finish()
    assert files(store) == []


def test_put_replaces(store: LocalStore) -> None:
    store.put("a.b", b"old")
    store.put("a.b", b"new")
    assert store.read("a.b") == b"new"
    assert files(store) == ["a.b"]


@pytest.mark.checklist("S2.8")
def test_put_if_absent_never_replaces(store: LocalStore) -> None:
    assert store.put_if_absent("v/1.m", b"first")
    assert not store.put_if_absent("v/1.m", b"second")
    assert store.read("v/1.m") == b"first"
    assert files(store) == ["v/1.m"]


@pytest.mark.checklist("S2.8")
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 131_072, 200_000])
def test_a_file_of_any_size_is_read_to_its_end(store: LocalStore, size: int) -> None:
    content = CONTENT[:size].tobytes()
    store.put("a", content)
    assert store.read("a") == content


def test_of_many_threads_exactly_one_creates_the_file(store: LocalStore) -> None:
    start = threading.Barrier(8)
    won: list[int] = []

    def put(index: int) -> None:
        start.wait()
        if store.put_if_absent("v/1.m", str(index).encode()):
            won.append(index)

    threads = [threading.Thread(target=put, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.read("v/1.m").decode()] == [str(index) for index in won]
    assert files(store) == ["v/1.m"]


def test_a_failed_write_leaves_nothing(store: LocalStore) -> None:
    puts: list[Callable[[str, bytes], object]] = [store.put, store.put_if_absent]
    for put in puts:
        with pytest.raises(TypeError):
            put("a.b", 5)  # type: ignore[arg-type]
    assert files(store) == []


class Effects:
    """The module `os` for the store: notes what becomes durable and what gets a name."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.seen: list[str] = []
        self.paths: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        number = os.open(path, flags, mode)
        self.paths[number] = "file" if "/.tmp" in path else os.path.relpath(path, self.root)
        return number

    def fsync(self, number: int) -> None:
        os.fsync(number)
        self.seen.append(f"durable: {self.paths[number]}")

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)
        self.seen.append("named")

    def link(self, old: str, new: str) -> None:
        os.link(old, new)
        self.seen.append("named")


def test_what_is_finished_is_durable_with_all_new_folders_above_it(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects = Effects(store.root)
    monkeypatch.setattr(durable, "os", effects)
    sink = store.sink("data/a.lance")
    sink.finish()
    expected = {"named", "durable: file", "durable: .", "durable: ..", "durable: data"}
    assert set(effects.seen) == expected
    assert effects.seen.index("named") < effects.seen.index("durable: data")


@pytest.mark.checklist("S2.8")
def test_a_commit_is_durable_before_it_is_visible(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects = Effects(store.root)
    monkeypatch.setattr(durable, "os", effects)
    assert store.put_if_absent("v/1.m", b"first")
    *before, named, after = effects.seen
    assert set(before) == {"durable: file", "durable: .", "durable: .."}
    assert (named, after) == ("named", "durable: v")


def test_what_replaces_a_file_is_durable_before_it_does(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a.b", b"old")
    effects = Effects(store.root)
    monkeypatch.setattr(durable, "os", effects)
    sink = store.sink("a.b")
    sink.write(b"new")
    sink.finish()
    assert effects.seen == ["durable: file", "named", "durable: ."]


def test_a_store_travels_to_other_processes(store: LocalStore) -> None:
    assert pickle.loads(pickle.dumps(store)) == store


class TestMaps:
    """Large ranges that become a result as they are stored are mapped, not copied."""

    SIZE = 5 * 2**20

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """Returns a file that the page cache holds."""
        path = tmp_path / "large"
        path.write_bytes(np.arange(self.SIZE // 8).tobytes())
        return path

    @pytest.fixture
    def maps(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
        """Returns the ranges that are mapped from now on, on whatever file system the test runs."""
        made: list[tuple[int, int]] = []

        def mapped_bytes(descriptor: int, offset: int, size: int) -> Any:
            made.append((offset, size))
            return mapped.map_bytes(descriptor, offset, size)

        monkeypatch.setattr(local, "map_bytes", mapped_bytes)
        monkeypatch.setattr(local, "can_map", lambda *file: True)
        monkeypatch.setattr(local, "is_cached", lambda *place: True)
        return made

    def read(self, path: Path, *ranges: tuple[int, int], is_result: bool = True) -> Any:
        wanted = Ranges.of(*ranges)
        source = LocalSource(str(path))
        return source.read(Ranges(wanted.offsets, wanted.sizes, is_result))

    @pytest.mark.parametrize("offset", [0, 64, 4096, 70_000])
    def test_the_bytes_are_those_of_the_file(
        self, path: Path, maps: list[tuple[int, int]], offset: int
    ) -> None:
        size = 3 * 2**20
        fetched = self.read(path, (offset, size))
        assert maps == [(offset, size)]
        assert fetched[0].tobytes() == path.read_bytes()[offset : offset + size]
        assert fetched[0].ctypes.data % 64 == offset % 64
        path.unlink()  # a map keeps the file
        assert int(fetched[0].view(np.int64)[-1]) == (offset + size) // 8 - 1

    def test_other_ranges_are_copied(self, path: Path, maps: list[tuple[int, int]]) -> None:
        self.read(path, (0, self.SIZE), is_result=False)
        self.read(path, (0, 2**20))
        self.read(path, (0, 2**21), (2**21, 2**21))
        source = LocalSource(str(path), maps=False)
        wanted = Ranges.of((0, self.SIZE))
        source.read(Ranges(wanted.offsets, wanted.sizes, is_result=True))
        assert not maps

    def test_a_file_that_has_shrunk_is_not_mapped(
        self, path: Path, maps: list[tuple[int, int]]
    ) -> None:
        source = LocalSource(str(path))
        os.truncate(path, self.SIZE - 1)
        with pytest.raises(CorruptFileError, match=f"now ends at {self.SIZE - 1}"):
            source.read(Ranges(np.array([0]), np.array([self.SIZE]), is_result=True))
        assert not maps

    def test_a_system_without_maps_copies(
        self, path: Path, maps: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*place: int) -> Any:
            raise OSError("no address space")

        monkeypatch.setattr(local, "map_bytes", refuse)
        assert self.read(path, (0, self.SIZE))[0].tobytes() == path.read_bytes()
        assert not maps

    @pytest.mark.parametrize("probe", ["can_map", "is_cached"])
    def test_what_may_block_is_copied(
        self, path: Path, maps: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, probe: str
    ) -> None:
        monkeypatch.setattr(local, probe, lambda *place: False)
        assert self.read(path, (0, self.SIZE))[0].tobytes() == path.read_bytes()
        assert not maps

    def test_probes(self, path: Path) -> None:
        with open(path, "rb") as file:
            assert not mapped.is_cached(file.fileno(), self.SIZE - 10, 100)  # beyond the end
            kind = mapped._statfs_type(file.fileno())
            assert kind != 0
            expected = bool(mapped.NO_WAIT) and kind in mapped._LOCAL
            assert mapped.can_map(file.fileno()) is expected
        assert mapped._statfs_type(-1) == 0

    @pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no files in memory")
    def test_a_file_in_memory_is_cached(self) -> None:
        descriptor = os.memfd_create("rows")
        try:
            os.write(descriptor, bytes(self.SIZE))
            assert mapped.can_map(descriptor)
            assert mapped.is_cached(descriptor, 0, self.SIZE)
            assert not mapped.is_cached(descriptor, 1, self.SIZE)  # beyond the end
        finally:
            os.close(descriptor)

    def test_a_device_that_cannot_be_asked_is_not_cached(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*place: Any) -> int:
            raise OSError("Operation not supported")

        monkeypatch.setattr(os, "preadv", refuse)
        monkeypatch.setattr(mapped, "_statfs_type", lambda descriptor: mapped._EXT)
        with open(path, "rb") as file:
            assert not mapped.is_cached(file.fileno(), 0, self.SIZE)

    def test_a_map_keeps_no_descriptor(self, path: Path, maps: list[tuple[int, int]]) -> None:
        source = LocalSource(str(path))
        wanted = [
            Ranges(np.array([start]), np.array([self.SIZE - start]), is_result=True)
            for start in range(5)
        ]
        before = os.listdir("/dev/fd")
        held = [source.read(ranges) for ranges in wanted]
        assert len(os.listdir("/dev/fd")) == len(before)
        assert len(maps) == len(held)

    def test_a_map_is_read_only(self, path: Path) -> None:
        with open(path, "rb") as file:
            view = mapped.map_bytes(file.fileno(), 8, self.SIZE - 8)
        assert not view.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.flags.writeable = True

    def test_a_map_that_the_system_refuses_raises(self) -> None:
        with pytest.raises(OSError, match="Bad file descriptor"):
            mapped.map_bytes(-1, 0, 10)

    def test_vectors_are_mapped(self, tmp_path: Path, maps: list[tuple[int, int]]) -> None:
        values = pa.array(np.random.default_rng(1).random(600_000, np.float32))
        table = pa.table({"v": pa.FixedSizeListArray.from_arrays(values, 64)})
        options = {"mmap": "false"}
        dataset = pilum.write_dataset(table, tmp_path / "t")
        without = pilum.dataset(tmp_path / "t", storage_options=options)
        assert without.to_table().equals(table)
        assert not maps
        assert dataset.to_table().equals(table)
        assert len(maps) == 1
        assert without.to_table().equals(table)  # does not share the open file
        assert len(maps) == 1
        assert pa.concat_tables([dataset.take([7, 9]), dataset.take([8])]).num_rows == 3
        assert len(maps) == 1


def test_cold_places_are_announced_together(
    source: LocalSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced: list[tuple[int, int]] = []

    def advise(descriptor: int, offset: int, size: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_WILLNEED
        announced.append((offset, size))

    monkeypatch.setattr(os, "posix_fadvise", advise)
    ranges = [(0, 100), (60_000, 200), (150_000, 300)]
    own = LocalSource(source.path)
    found = own.read(Ranges.of(*ranges))
    read = os.preadv

    def cold(descriptor: int, views: Any, offset: int, flags: int = 0) -> int:
        if flags:
            raise BlockingIOError
        return read(descriptor, views, offset)

    monkeypatch.setattr(os, "preadv", cold)
    monkeypatch.setattr(local, "NO_WAIT", 8)
    announced.clear()
    again = own.read(Ranges.of(*ranges))
    assert announced == ranges
    assert [one.tobytes() for one in again] == [one.tobytes() for one in found]
    announced.clear()
    own.read(Ranges.of((0, 100_000)))
    assert not announced


def test_a_folder_with_a_name_that_is_too_long_has_no_files(tmp_path: Path) -> None:
    assert list(LocalStore(str(tmp_path)).list("x" * 5000)) == []
