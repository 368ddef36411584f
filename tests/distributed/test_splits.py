from __future__ import annotations

import pyarrow as pa
import pytest
from distributed.helpers import SCHEMA, latest, read, write
from hypothesis import given
from hypothesis import strategies as some

from pilum.distributed import (
    Split,
    group_splits,
    plan_splits,
    read_split,
)
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
