"""Sessions: caches that datasets share, within a limit (S4.11)."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.errors import CorruptFileError, InvalidInputError

ROWS = 60_000
TABLE = pa.table(
    {
        "number": np.arange(ROWS),
        "word": [f"word {i % 50}" for i in range(ROWS)],
        "list": [[i] * (i % 3) for i in range(ROWS)],
        "text": [f"{i} " * 30 for i in range(ROWS)],
    }
)


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("session") / "table.lance")
    pilum.write_dataset(TABLE, uri, max_rows_per_file=20_000)
    return uri


def check(dataset: pilum.LanceDataset, seed: int = 0) -> None:
    rows = np.random.default_rng(seed).integers(0, ROWS, 40)
    for row in rows:
        assert dataset.take([row]).equals(TABLE.take([row]))


def test_datasets_of_a_session_share_what_they_learn(location: str) -> None:
    session = pilum.Session()
    check(pilum.dataset(location, session=session))
    first = session.metadata_cache_stats()
    other = pilum.dataset(location, session=session)
    other.io_stats_incremental()
    check(other)
    second = session.metadata_cache_stats()
    assert other.session().is_same_as(session)
    assert (second.misses, second.size_bytes) == (first.misses, first.size_bytes)
    assert second.hits > first.hits
    assert session.size_bytes() == second.size_bytes > 0
    assert session.index_cache_size_bytes() == 0


def test_a_manifest_is_parsed_once_and_never_outdated(tmp_path: Path) -> None:
    session, uri = pilum.Session(), str(tmp_path / "table.lance")

    def opened() -> pilum.LanceDataset:
        return pilum.dataset(uri, session=session)

    pilum.write_dataset(TABLE, uri)
    first = opened()
    assert opened().snapshot.manifest is first.snapshot.manifest
    assert pilum.dataset(uri, session=pilum.Session()).snapshot.manifest == first.snapshot.manifest
    pilum.write_dataset(TABLE.slice(0, 7), uri, mode="append")
    assert opened().count_rows() == ROWS + 7
    assert first.count_rows() == ROWS
    shutil.rmtree(uri)
    with pytest.raises(FileNotFoundError):
        opened()
    pilum.write_dataset(TABLE.slice(7, ROWS), uri)  # the same version, in the same place
    assert opened().to_table().equals(TABLE.slice(7, ROWS))


def test_a_damaged_manifest_is_not_taken_for_an_earlier_one(tmp_path: Path) -> None:
    uri = str(tmp_path / "table.lance")
    pilum.write_dataset(TABLE, uri)
    pilum.dataset(uri)
    (path,) = (tmp_path / "table.lance/_versions").glob("*.manifest")
    path.write_bytes(path.read_bytes()[:-9] + b"damage...")
    with pytest.raises(CorruptFileError, match="at the end"):
        pilum.dataset(uri)


def test_what_is_counted_is_the_same_each_time(location: str) -> None:
    sizes = set()
    for _ in range(2):
        session = pilum.Session()
        check(pilum.dataset(location, session=session))
        sizes.add(session.size_bytes())
    assert len(sizes) == 1


@pytest.mark.parametrize("limit", [0, 3_000, 60_000, 200_000])
def test_any_limit_holds_and_changes_no_answer(location: str, limit: int) -> None:
    dataset = pilum.dataset(location, metadata_cache_size_bytes=limit)
    check(dataset)
    assert dataset.session().size_bytes() <= limit
    assert dataset.to_table().equals(TABLE)
    assert dataset.session().size_bytes() <= limit


def test_threads_share_a_small_cache(location: str) -> None:
    dataset = pilum.dataset(location, metadata_cache_size_bytes=100_000)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(check, dataset, seed) for seed in range(4)]:
            done.result()
    assert dataset.session().size_bytes() <= 100_000


def test_a_child_process_reads_on(location: str) -> None:
    dataset = pilum.dataset(location)
    check(dataset)
    child = os.fork()
    if child == 0:
        try:
            empty = dataset.session().size_bytes() == 0
            check(dataset, seed=1)
        except BaseException:
            empty = False
        os._exit(0 if empty else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_session_stays_with_its_dataset(tmp_path: Path) -> None:
    uri = tmp_path / "table.lance"
    pilum.write_dataset(TABLE.slice(0, 10), uri)
    session = pilum.Session()
    dataset = pilum.dataset(uri, session=session)
    dataset.insert(TABLE.slice(10, 10))
    assert dataset.session() is session
    dataset.checkout_latest()
    assert dataset.session() is session
    assert dataset.checkout_version(1).session() is session
    assert pilum.dataset(uri).session().is_same_as(pilum.dataset(uri).session())
    assert not pilum.dataset(uri).session().is_same_as(session)


@pytest.mark.parametrize("limit", [-1, 1.5, "1", True])
def test_limits_are_bytes(limit: Any) -> None:
    with pytest.raises(InvalidInputError, match="expected a number of bytes"):
        pilum.Session(metadata_cache_size_bytes=limit)


def test_a_session_or_sizes(location: str) -> None:
    with pytest.raises(InvalidInputError, match="not both"):
        pilum.dataset(location, session=pilum.Session(), index_cache_size_bytes=1)


@pytest.mark.parametrize(
    "backend", ["moka://?capacity=2000", {"kind": "moka", "options": {"capacity": "2000"}}]
)
def test_limits_as_backends(location: str, backend: Any) -> None:
    session = pilum.Session(metadata_cache_backend=backend, index_cache_backend=backend)
    assert session.metadata.limit_bytes == session.indices.limit_bytes == 2000
    assert pilum.dataset(location, session=session).count_rows() > 0


@pytest.mark.parametrize(
    "backend",
    ["moka://", "moka://?capacity=x", "moka://?capacity=1&more=2", "redis://host", {}, 7, "moka"],
)
def test_backends_without_sense(backend: Any) -> None:
    with pytest.raises(InvalidInputError, match="index_cache_backend"):
        pilum.Session(index_cache_backend=backend)
    with pytest.raises(InvalidInputError, match="not both"):
        pilum.Session(5, index_cache_backend="moka://?capacity=1")
