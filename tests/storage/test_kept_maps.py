"""Files that are read at many scattered places are mapped, and the map is kept for a while."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.kernels import bytes_within
from pilum.storage import kept_maps, local
from pilum.storage.base import Fetched, Ranges
from pilum.storage.kept_maps import KeptMaps
from pilum.storage.local import LocalSource

SIZE = 3 * 2**20 + 5
CONTENT = np.random.default_rng(3).integers(0, 256, SIZE, dtype=np.uint8)


@pytest.fixture(autouse=True)
def maps(monkeypatch: pytest.MonkeyPatch) -> KeptMaps:
    """Map whatever file system the tests run on, after the first read."""
    own = KeptMaps(2 * SIZE)
    monkeypatch.setattr(kept_maps, "can_map", lambda *file: True)
    monkeypatch.setattr(local, "are_cached", lambda *places: True)
    monkeypatch.setattr(local, "PLACES_BEFORE_MAP", 1)
    monkeypatch.setattr(local, "kept_maps", own)
    return own


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "content"
    path.write_bytes(CONTENT.tobytes())
    return path


def places(count: int = 100, seed: int = 0) -> Ranges:
    offsets = np.random.default_rng(seed).integers(0, SIZE - 8, count)
    return Ranges(offsets, np.full(count, 8))


def is_mapped(fetched: Fetched) -> bool:
    """Return whether the bytes are those of the whole file."""
    return len(fetched.data) == SIZE


def check(fetched: Fetched, ranges: Ranges) -> None:
    for found, offset, size in zip(fetched, ranges.offsets, ranges.sizes, strict=True):
        assert found.tobytes() == CONTENT[offset : offset + size].tobytes()


@pytest.mark.seeds(20)
def test_every_place_comes_back(path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    offsets = random.integers(0, SIZE + 1, random.integers(32, 99))
    sizes = np.minimum(random.integers(0, 300, len(offsets)), SIZE - offsets)
    source = LocalSource(str(path))
    for _ in range(2):
        fetched = source.read(Ranges(offsets, sizes))
        assert is_mapped(fetched)
        check(fetched, Ranges(offsets, sizes))


def test_a_file_is_mapped_after_some_reads_and_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "PLACES_BEFORE_MAP", 250)
    source = LocalSource(str(path))
    found = [source.read(places(seed=seed)) for seed in range(4)]
    assert [is_mapped(one) for one in found] == [False, False, True, True]
    assert found[2].data is found[3].data


def test_few_places_are_copied(path: Path) -> None:
    source = LocalSource(str(path))
    assert is_mapped(source.read(places()))
    assert not is_mapped(source.read(places(31)))
    assert not is_mapped(LocalSource(str(path), maps=False).read(places()))


def test_long_places_are_read_in_a_map_that_there_is(path: Path) -> None:
    source = LocalSource(str(path))
    long = [
        Ranges.of(*[(5, 70_000)] * 40),
        Ranges.of((7, 2**21)),
        Ranges.of((0, 2**20), (9, 2**20)),
    ]
    assert not any(is_mapped(source.read(ranges)) for ranges in long)
    assert is_mapped(source.read(places()))
    for ranges in long:
        fetched = source.read(ranges)
        assert is_mapped(fetched)
        check(fetched, ranges)
    assert not is_mapped(source.read(Ranges.of((7, 2**18 - 1))))
    assert len(source.read(Ranges.of())) == 0


@pytest.mark.parametrize(
    "ranges", [Ranges.of((7, 2**18)), Ranges.of((0, 2**17), (2**20, 2**17), (2**21, 10))]
)
def test_long_places_that_are_read_again_are_a_reason_for_a_map(path: Path, ranges: Ranges) -> None:
    source = LocalSource(str(path))
    assert not is_mapped(source.read(ranges))
    assert not is_mapped(source.read(Ranges.of((9, 2**18))))
    for other in (ranges, Ranges.of((2**20, 2**19))):
        fetched = source.read(other)
        assert is_mapped(fetched)
        check(fetched, other)
    source.unmap()
    assert not is_mapped(source.read(ranges))
    assert is_mapped(source.read(ranges))


def test_short_places_that_are_read_again_are_copied(path: Path) -> None:
    source = LocalSource(str(path))
    short = [Ranges.of((7, 2**18 - 1)), Ranges.of((7, 2**16), (2**20, 2**16))]
    assert not any(is_mapped(source.read(ranges)) for ranges in 2 * short)


def test_the_number_of_remembered_places_is_limited(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "MOST_REMEMBERED", 1)
    source = LocalSource(str(path))
    known, other = Ranges.of((0, 2**18)), Ranges.of((1, 2**18))
    assert [is_mapped(source.read(one)) for one in (known, other, other)] == [False] * 3
    assert is_mapped(source.read(known))


@pytest.mark.parametrize("probe", [(kept_maps, "can_map"), (local, "are_cached")])
def test_what_may_block_is_copied(
    path: Path, monkeypatch: pytest.MonkeyPatch, probe: tuple[object, str]
) -> None:
    monkeypatch.setattr(*probe, lambda *place: False)
    source = LocalSource(str(path))
    fetched = source.read(places())
    assert not is_mapped(fetched)
    check(fetched, places())


def test_a_limited_address_space_is_left_to_memory(path: Path) -> None:
    read = (
        "import resource, sys; import numpy as np; from pilum.storage import local; "
        "from pilum.storage.base import Ranges; local.PLACES_BEFORE_MAP = 1; "
        "_, most = resource.getrlimit(resource.RLIMIT_AS); "
        "resource.setrlimit(resource.RLIMIT_AS, (2**45, most)); "
        "source = local.LocalSource(sys.argv[1]); "
        "found = source.read(Ranges(np.arange(50) * 1000, np.full(50, 8))); "
        "print(len(found.data) < source.size)"
    )
    command = [sys.executable, "-c", read, str(path)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "True"


def test_a_worker_of_spark_keeps_no_maps(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.worker", ModuleType("pyspark.worker"))
    source = LocalSource(str(path))
    found = [source.read(ranges) for ranges in [places(), Ranges.of((7, 2**18))] * 2]
    assert not any(map(is_mapped, found))


def test_a_system_without_maps_copies(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*place: int) -> object:
        raise OSError("no address space")

    monkeypatch.setattr(kept_maps, "map_bytes", refuse)
    fetched = LocalSource(str(path)).read(places())
    check(fetched, places())


@pytest.mark.parametrize(
    "outside", [(SIZE, 1), (-1, 1), (0, -1), (2**62, 2**62), (2**63 - 1, 2**63 - 1), (1, SIZE)]
)
def test_places_outside_of_the_file_are_damage(path: Path, outside: tuple[int, int]) -> None:
    source = LocalSource(str(path))
    ranges = Ranges.of(*[(0, 1)] * 50, outside)
    assert bytes_within(ranges.offsets, ranges.sizes, SIZE) is None
    with pytest.raises(CorruptFileError, match="do not lie within the file"):
        source.read(ranges)


def test_a_file_that_shrinks_while_it_is_mapped_is_damage(path: Path) -> None:
    source = LocalSource(str(path))
    source.read(places())
    os.truncate(path, SIZE - 1)
    with pytest.raises(CorruptFileError, match=f"now ends at {SIZE - 1}"):
        source.read(places())


def test_a_closed_file_is_not_read_from_its_map(path: Path) -> None:
    source = LocalSource(str(path))
    fetched = source.read(places())
    source.close()
    with pytest.raises(InvalidInputError, match="is closed"):
        source.read(places())
    check(fetched, places())  # results keep their map


def test_a_replaced_file_is_not_read_from_its_map(path: Path) -> None:
    source = LocalSource(str(path))
    source.read(places())
    source.release()
    other = path.with_name("other")
    other.write_bytes(bytes(SIZE))
    other.replace(path)
    with pytest.raises(CorruptFileError, match="replaced"):
        source.read(places())


def test_the_oldest_map_ends_first(tmp_path: Path, maps: KeptMaps) -> None:
    sources = []
    for number in range(3):
        path = tmp_path / str(number)
        path.write_bytes(CONTENT.tobytes())
        sources.append(LocalSource(str(path)))
    first = [source.read(places()) for source in sources]
    second = [source.read(places()) for source in sources[1:]]
    assert [one.data is two.data for one, two in zip(first[1:], second, strict=True)] == [True] * 2
    again = sources[0].read(places())
    assert is_mapped(again)
    assert again.data is not first[0].data
    check(first[0], places())


def test_a_file_that_is_larger_than_all_maps_may_be_is_copied(path: Path, maps: KeptMaps) -> None:
    maps.max_bytes = SIZE - 1
    assert not is_mapped(LocalSource(str(path)).read(places()))


def test_rows_are_those_of_other_reads(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    numbers = rng.integers(0, 2**40, 400_000)
    table = pa.table({"n": numbers, "s": [f"row {n % 1000}" for n in numbers.tolist()]})
    pilum.write_dataset(table, tmp_path / "t", max_rows_per_file=150_000)
    mapped = pilum.dataset(tmp_path / "t")
    copied = pilum.dataset(tmp_path / "t", storage_options={"mmap": "false"})
    for count in (100, 1000, 3000):
        rows = rng.integers(0, len(numbers), count).tolist()
        assert mapped.take(rows).equals(table.take(rows))
        assert copied.take(rows).equals(table.take(rows))
