"""How many tasks a scan gets, without a session."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum.expressions import bind
from pilum.spark.partitions import batch_rows, partition_splits
from pilum.table.read.snapshot import Snapshot

ROWS = 40_000


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """Four fragments of narrow columns and a wide one."""
    texts = [f"{number:0200x}" for number in range(ROWS)]
    table = pa.table({"id": range(ROWS), "text": texts, "few": [True] * ROWS})
    return pilum.write_dataset(table, tmp_path / "t", max_rows_per_file=ROWS // 4).snapshot


def _rows(groups: list[tuple[object, ...]]) -> list[int]:
    return [sum(split.stop - split.start for split in group) for group in groups]  # type: ignore[attr-defined]


def test_small_fragments_share_a_task(snapshot: Snapshot) -> None:
    assert _rows(list(partition_splits(snapshot, ("id", "text")))) == [ROWS]


def test_a_task_has_no_more_rows_than_wanted(snapshot: Snapshot) -> None:
    groups = partition_splits(snapshot, ("id",), max_rows=ROWS * 6 // 10)
    assert _rows(list(groups)) == [ROWS // 2, ROWS // 2]
    groups = partition_splits(snapshot, ("_rowaddr",), max_rows=ROWS // 3)
    assert len(groups) == 4


def test_a_task_has_more_rows_where_a_filter_leaves_few(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilum.spark.partitions._TASK_ROWS", ROWS // 3)
    monkeypatch.setattr("pilum.spark.partitions._TASK_FILTERED_ROWS", ROWS * 6 // 10)
    assert len(partition_splits(snapshot, ("id",))) == 4
    few = bind("id < 3", snapshot.described.arrow)
    assert len(partition_splits(snapshot, ("id",), few)) == 2
    assert len(partition_splits(snapshot, ("id",), few, max_rows=ROWS // 3)) == 4


def test_only_wanted_columns_count(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilum.spark.partitions._TASK_MEMORY_BYTES", ROWS * 8)
    narrow = partition_splits(snapshot, ("id",))
    filtered = partition_splits(snapshot, ("id",), bind("text > ''", snapshot.described.arrow))
    assert len(narrow) <= 2
    assert len(filtered) > 4


def test_bytes_that_are_asked_for_are_those_of_files(snapshot: Snapshot) -> None:
    sizes = [file.size_bytes or 0 for part in snapshot.manifest.fragments for file in part.files]
    assert len(partition_splits(snapshot, ("id",), None, max(sizes))) == 4
    assert len(partition_splits(snapshot, ("id",), None, 2 * max(sizes))) == 2


def test_a_version_without_rows_has_no_tasks(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array([], pa.int64())})
    empty = pilum.write_dataset(table, tmp_path / "t").snapshot
    assert partition_splits(empty, ("id",)) == []


def test_batches_are_bounded_by_what_their_columns_take(tmp_path: Path) -> None:
    noise = random.Random(1)
    table = pa.table({"id": range(200), "noise": [noise.randbytes(20_000) for _ in range(200)]})
    snapshot = pilum.write_dataset(table, tmp_path / "t").snapshot
    ((split,),) = partition_splits(snapshot, ("id", "noise"))
    assert 40 <= batch_rows(snapshot, split, ("id", "noise"), 10_000, 1 << 20) <= 55
    assert batch_rows(snapshot, split, ("id",), 10_000, 1 << 20) == 10_000
    assert batch_rows(snapshot, split, ("noise",), 10_000, 1) == 1
