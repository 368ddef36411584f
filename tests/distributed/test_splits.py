"""Ranges of rows, and how many tasks a scan gets."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from distributed.helpers import SCHEMA, latest, read, write
from hypothesis import given
from hypothesis import strategies as some

import pilum
from pilum.distributed import (
    Split,
    TableVersion,
    group_splits,
    plan_splits,
    read_split,
)
from pilum.distributed.splits import batch_rows, first_splits, partition_splits
from pilum.errors import (
    InvalidInputError,
)
from pilum.expressions import bind


def test_splits_cover_every_row_once_and_in_order(uri: str) -> None:
    write(uri, "create", range(10_000), range(10_000, 12_000))
    splits = plan_splits(latest(uri), 1)
    assert [(split.fragment_id, split.start, split.stop) for split in splits] == [
        (0, 0, 4096),
        (0, 4096, 8192),
        (0, 8192, 10_000),
        (1, 0, 2000),
    ]
    assert read(uri, 1) == list(range(12_000))
    assert len(plan_splits(latest(uri), 1 << 30)) == 2


def test_a_split_is_read_with_columns_and_filter(uri: str) -> None:
    write(uri, "create", range(10_000))
    condition = bind("id % 1000 = 1 AND text <> 't1'", SCHEMA)
    assert read(uri, 1, filter=condition) == list(range(1001, 10_000, 1000))
    (split,) = plan_splits(latest(uri))
    batches = list(read_split(split, columns=("text", "_rowid"), batch_size=4000))
    assert [batch.num_rows for batch in batches] == [4000, 4000, 2000]
    assert batches[0].schema.names == ["text", "_rowid"]


def test_a_split_stays_with_its_version(uri: str) -> None:
    write(uri, "create", range(5))
    (split,) = plan_splits(latest(uri))
    write(uri, "overwrite", range(9))
    assert pa.Table.from_batches(read_split(split)).num_rows == 5


@given(some.lists(some.integers(0, 50)), some.integers(1, 100))
def test_groups_keep_the_order_and_are_no_larger_than_asked_for(
    sizes: list[int], target: int
) -> None:
    splits = [Split("u", 1, number, 0, 1, size) for number, size in enumerate(sizes)]
    groups = group_splits(splits, target)
    assert [split for group in groups for split in group] == splits
    assert all(
        len(group) == 1 or sum(split.size_bytes for split in group) <= target for group in groups
    )


def test_a_senseless_target_is_refused(uri: str) -> None:
    write(uri, "create", range(1))
    with pytest.raises(InvalidInputError, match="target_bytes"):
        plan_splits(latest(uri), 0)


ROWS = 40_000


@pytest.fixture
def version(tmp_path: Path) -> TableVersion:
    """Four fragments of narrow columns and a wide one."""
    texts = [f"{number:0200x}" for number in range(ROWS)]
    table = pa.table({"id": range(ROWS), "text": texts, "few": [True] * ROWS})
    uri = str(tmp_path / "t")
    pilum.write_dataset(table, uri, max_rows_per_file=ROWS // 4)
    return TableVersion.latest(uri)


def _rows(groups: list[tuple[object, ...]]) -> list[int]:
    return [sum(split.stop - split.start for split in group) for group in groups]  # type: ignore[attr-defined]


def test_small_fragments_share_a_task(version: TableVersion) -> None:
    assert _rows(list(partition_splits(version, ("id", "text")))) == [ROWS]


def test_the_first_splits_have_the_rows_that_are_enough(version: TableVersion) -> None:
    pilum.dataset(version.uri).delete(f"id < {ROWS // 4 - 10}")
    latest_version = TableVersion.latest(version.uri)
    groups = partition_splits(latest_version, ("id",), max_rows=ROWS // 4)
    enough = [first_splits(latest_version, groups, count) for count in (1, 10, 11, ROWS)]
    assert [len(found) for found in enough] == [1, 1, 2, 4]
    assert all(found == groups[: len(found)] for found in enough)
    together = partition_splits(latest_version, ("id",))
    ((first,),) = first_splits(latest_version, together, 10)
    assert (first.start, first.stop) == (0, ROWS // 4)


def test_a_task_has_no_more_rows_than_wanted(version: TableVersion) -> None:
    groups = partition_splits(version, ("id",), max_rows=ROWS * 6 // 10)
    assert _rows(list(groups)) == [ROWS // 2, ROWS // 2]
    groups = partition_splits(version, ("_rowaddr",), max_rows=ROWS // 3)
    assert len(groups) == 4


def test_a_task_has_more_rows_where_a_filter_leaves_few(
    version: TableVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilum.distributed.splits._TASK_ROWS", ROWS // 3)
    monkeypatch.setattr("pilum.distributed.splits._TASK_FILTERED_ROWS", ROWS * 6 // 10)
    assert len(partition_splits(version, ("id",))) == 4
    few = version.condition("id < 3")
    assert len(partition_splits(version, ("id",), few)) == 2
    assert len(partition_splits(version, ("id",), few, max_rows=ROWS // 3)) == 4


def test_only_wanted_columns_count(version: TableVersion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilum.distributed.splits._TASK_MEMORY_BYTES", ROWS * 8)
    narrow = partition_splits(version, ("id",))
    filtered = partition_splits(version, ("id",), version.condition("text > ''"))
    assert len(narrow) <= 2
    assert len(filtered) > 4


def test_bytes_that_are_asked_for_are_those_of_files(version: TableVersion) -> None:
    sizes = [
        file.size_bytes or 0 for part in version.snapshot.manifest.fragments for file in part.files
    ]
    assert len(partition_splits(version, ("id",), None, max(sizes))) == 4
    assert len(partition_splits(version, ("id",), None, 2 * max(sizes))) == 2


def test_a_version_without_rows_has_no_tasks(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array([], pa.int64())})
    pilum.write_dataset(table, tmp_path / "t")
    empty = TableVersion.latest(str(tmp_path / "t"))
    assert partition_splits(empty, ("id",)) == []


def test_batches_are_bounded_by_what_their_columns_take(tmp_path: Path) -> None:
    noise = random.Random(1)
    table = pa.table({"id": range(200), "noise": [noise.randbytes(20_000) for _ in range(200)]})
    pilum.write_dataset(table, tmp_path / "t")
    version = TableVersion.latest(str(tmp_path / "t"))
    ((split,),) = partition_splits(version, ("id", "noise"))
    assert 40 <= batch_rows(version, split, ("id", "noise"), 10_000, 1 << 20) <= 55
    assert batch_rows(version, split, ("id",), 10_000, 1 << 20) == 10_000
    assert batch_rows(version, split, ("noise",), 10_000, 1) == 1
