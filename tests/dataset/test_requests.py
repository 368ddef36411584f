"""What reading costs: requests and bytes (S1.1, S1.4, S4.11)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.container.open import open_file
from pilum.container.reader import FileReader
from pilum.file import LanceFileWriter
from pilum.storage.base import IOStats
from pilum.storage.local import LocalStore

ROWS = 40_000
TAIL_BYTES = 64 * 1024


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng = np.random.default_rng(3)
    vectors = pa.array(rng.random(ROWS * 64, dtype=np.float32))
    table = pa.table(
        {
            "number": rng.integers(0, 1 << 60, ROWS),
            "vector": pa.FixedSizeListArray.from_arrays(vectors, 64),
            "text": [f"{i} " * 60 for i in range(ROWS)],
            "list": [[i, i + 1] for i in range(ROWS)],
        }
    )
    uri = str(tmp_path_factory.mktemp("requests") / "table.lance")
    pilum.write_dataset(table, uri)
    return uri


@pytest.fixture
def dataset(location: str) -> pilum.LanceDataset:
    """A dataset that knows nothing of its files yet."""
    return pilum.dataset(location, session=pilum.Session())


def cost(dataset: pilum.LanceDataset) -> IOStats:
    return dataset.io_stats_incremental()


@pytest.mark.parametrize("known", [True, False])
def test_opening_a_file_is_one_request(dataset: pilum.LanceDataset, known: bool) -> None:
    store = dataset.snapshot.store
    [fragment] = dataset.snapshot.manifest.fragments
    file = fragment.files[0]
    cost(dataset)
    # Nor does asking a local file for its size count as one.
    open_file(store.source(f"data/{file.path}", file.size_bytes if known else None))
    assert cost(dataset) == IOStats(read_iops=1, read_bytes=TAIL_BYTES)


@pytest.mark.parametrize(
    ("column", "requests", "most_bytes"),
    [
        ("number", 1, 8 * 1024),  # one chunk
        ("vector", 1, 64 * 4),  # its bytes
        ("text", 2, 500),  # two offsets of the index, then its bytes
        ("list", 1, 8 * 1024),
    ],
)
def test_one_value_after_the_first(
    dataset: pilum.LanceDataset, column: str, requests: int, most_bytes: int
) -> None:
    dataset.take([0], columns=[column])
    cost(dataset)
    for row in (1, ROWS // 3, ROWS // 2):
        dataset.take([row], columns=[column])
        found = cost(dataset)
        assert found.read_iops <= requests
        assert found.read_bytes <= most_bytes


def test_neighbours_are_read_together(dataset: pilum.LanceDataset) -> None:
    dataset.take([0], columns=["vector"])
    cost(dataset)
    dataset.take(list(range(100, 200, 2)), columns=["vector"])
    assert cost(dataset).read_iops == 1


def test_a_scan_reads_no_byte_twice(dataset: pilum.LanceDataset) -> None:
    size = sum(file.size_bytes or 0 for file in dataset.snapshot.manifest.fragments[0].files)
    dataset.take([0])
    cost(dataset)
    dataset.to_table()
    assert 0.9 * size < cost(dataset).read_bytes <= size


def test_whole_pages_leave_no_trace_in_the_cache(dataset: pilum.LanceDataset) -> None:
    before = dataset.session().metadata_cache_stats()
    for _ in range(2):
        dataset.to_table(columns=["number"])
    assert dataset.session().metadata_cache_stats().num_entries == before.num_entries + 1
    dataset.take([5], columns=["number"])
    after = dataset.session().metadata_cache_stats()
    assert after.num_entries == before.num_entries + 2
    dataset.to_table(columns=["number"])
    assert dataset.session().metadata_cache_stats().hits > after.hits


def test_one_of_very_many_columns(tmp_path: Path) -> None:
    columns = 1_000
    table = pa.table({f"column {i}": np.arange(i, i + 2_000) for i in range(columns)})
    with LanceFileWriter(tmp_path / "wide.lance") as writer:
        writer.write_batch(table)
    size = (tmp_path / "wide.lance").stat().st_size
    store = LocalStore(str(tmp_path))
    store.io.take()
    reader = open_file(store.source("wide.lance"))
    opened = store.io.take()
    metadata = 100 * columns
    assert opened.read_iops <= 2
    assert opened.read_bytes < TAIL_BYTES + metadata
    assert isinstance(reader, FileReader)
    reader.columns([500])
    assert store.io.take().read_bytes < 1_000  # its descriptor and no other
    pilum.write_dataset(table, tmp_path / "wide")
    dataset = pilum.dataset(tmp_path / "wide", session=pilum.Session())
    cost(dataset)
    assert dataset.to_table(columns=["column 7"])["column 7"].to_pylist() == list(range(7, 2_007))
    read = cost(dataset)
    assert read.read_iops <= 4
    assert read.read_bytes < opened.read_bytes + 16 * 1024 < size / 4


def test_small_files_are_read_once(tmp_path: Path) -> None:
    table = pa.table({"a": range(100), "b": [f"{i}" for i in range(100)]})
    pilum.write_dataset(table, tmp_path / "small", max_rows_per_file=20)
    dataset = pilum.dataset(tmp_path / "small", session=pilum.Session())
    cost(dataset)
    assert dataset.to_table().equals(table)
    assert cost(dataset).read_iops == 5
    dataset.take([3, 50, 99])
    assert cost(dataset) == IOStats()
