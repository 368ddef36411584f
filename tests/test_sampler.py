"""Samplers share the rows of a table out, without a row lost or doubled."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum as lance
from pilum.errors import InvalidInputError
from pilum.sampler import (
    FragmentSampler,
    FullScanSampler,
    Sampler,
    ShardedBatchIterator,
    ShardedBatchSampler,
    ShardedFixedBatchSampler,
    ShardedFragmentSampler,
    maybe_sample,
    reservoir_sampling,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    rows = {"id": list(range(1000)), "kind": [number % 5 for number in range(1000)]}
    path = tmp_path_factory.mktemp("sampler") / "t"
    made = lance.write_dataset(pa.table(rows), path, max_rows_per_file=130)
    made.delete("id % 7 = 3")
    return made


def ids(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [number for batch in batches for number in batch["id"].to_pylist()]


def expected(table: lance.LanceDataset, filter: str | None = None) -> list[int]:
    found: list[int] = table.to_table(["id"], filter)["id"].to_pylist()
    return found


@pytest.mark.parametrize("filter", [None, "kind = 2"])
@pytest.mark.parametrize("kind", [ShardedFragmentSampler, ShardedBatchSampler])
@pytest.mark.parametrize("world_size", [1, 3, 12])
@pytest.mark.parametrize("randomize", [False, True])
def test_the_shards_are_the_table(
    table: lance.LanceDataset, kind: Any, world_size: int, filter: str | None, randomize: bool
) -> None:
    found: list[int] = []
    for rank in range(world_size):
        sampler = kind(rank, world_size, randomize=randomize, seed=4)
        batches = list(sampler(table, batch_size=50, columns=["id"], filter=filter))
        assert all(batch.num_rows <= 50 for batch in batches)
        found += ids(iter(batches))
    assert Counter(found) == Counter(expected(table, filter))
    assert randomize or world_size > 1 or found == expected(table, filter)


@pytest.mark.parametrize("kind", [ShardedFragmentSampler, ShardedBatchSampler])
def test_epochs_have_orders_of_their_own(table: lance.LanceDataset, kind: Any) -> None:
    sampler = kind(0, 1, randomize=True)
    first = ids(sampler(table, batch_size=50))
    assert ids(sampler(table, batch_size=50)) == first
    sampler.set_epoch(1)
    second = ids(sampler(table, batch_size=50))
    assert second != first
    assert sorted(second) == sorted(first)


def test_a_full_scan_and_a_sampler_of_ones_own(table: lance.LanceDataset) -> None:
    assert ids(FullScanSampler()(table, batch_size=64)) == expected(table)

    class Last(FragmentSampler):
        def iter_fragments(
            self, ds: lance.LanceDataset, *args: Any, **kwargs: Any
        ) -> Iterator[lance.LanceFragment]:
            yield ds.get_fragments()[-1]

    [batch] = Last()(table, batch_size=1000, columns=["kind"], with_row_id=True)
    assert batch.schema.names == ["kind", "_rowid"]
    with pytest.raises(TypeError, match="abstract"):
        Sampler()  # type: ignore[abstract]


def test_row_ids_of_batches(table: lance.LanceDataset) -> None:
    [batch] = ShardedBatchSampler(0, 1)(table, batch_size=1000, with_row_id=True)
    assert table.take_rows(batch["_rowid"], ["id"])["id"].equals(pa.chunked_array([batch["id"]]))


@pytest.mark.parametrize("randomize", [False, True])
@pytest.mark.parametrize(("total", "world_size"), [(1000, 4), (10, 3), (3, 7), (0, 2)])
def test_fixed_batches_are_runs_of_row_numbers(
    total: int, world_size: int, randomize: bool
) -> None:
    found: list[int] = []
    for rank in range(world_size):
        sampler = ShardedFixedBatchSampler(rank, world_size, randomize, 1, 4, total)
        batches = list(sampler)
        assert len(batches) == len(sampler)
        assert all(len(batch) <= 4 for batch in batches)
        found += [row for batch in batches for row in batch]
    assert sorted(found) == list(range(total))


def test_fixed_batches_are_shuffled_by_epoch() -> None:
    sampler = ShardedFixedBatchSampler(0, 1, True, 0, 10, 500)
    first = list(sampler)
    sampler.set_epoch(1)
    second = list(sampler)
    assert first != second
    assert sorted(first) == sorted(second) == [list(range(n, n + 10)) for n in range(0, 500, 10)]


@pytest.mark.parametrize("filter", [None, "kind = 2", "id < 0"])
@pytest.mark.parametrize("n", [0, 1, 7, 100, 5000])
@pytest.mark.parametrize("max_takes", [3, 2048])
def test_samples_have_n_different_rows(
    table: lance.LanceDataset, n: int, max_takes: int, filter: str | None
) -> None:
    batches = list(maybe_sample(table, n, "id", 16, max_takes, filter))
    found = ids(iter(batches))
    known = expected(table, filter)
    assert len(found) == min(n, len(known))
    assert len(set(found)) == len(found)
    assert set(found) <= set(known)
    assert all(batch.num_rows <= 16 for batch in batches)


def test_samples_come_from_everywhere_and_differ(table: lance.LanceDataset) -> None:
    random.seed(1)
    draws = [ids(maybe_sample(table.uri, 200, ["id"])) for _ in range(2)]
    assert draws[0] != draws[1]
    assert abs(np.mean(draws[0]) - 500) < 100


def test_a_reservoir_keeps_k_items() -> None:
    assert sorted(reservoir_sampling(range(5), 10)) == list(range(5))
    random.seed(1)
    kept = np.array([reservoir_sampling(range(20), 5) for _ in range(2000)])
    assert (np.diff(np.sort(kept)) > 0).all()
    assert (np.abs(np.bincount(kept.ravel(), minlength=20) - 500) < 120).all()


@pytest.mark.parametrize("granularity", ["fragment", "batch"])
def test_the_older_iterator(table: lance.LanceDataset, granularity: Any) -> None:
    found: list[int] = []
    for rank in range(2):
        batches = ShardedBatchIterator(
            table, rank, 2, columns=["id"], batch_size=100, granularity=granularity
        )
        found += ids(iter(batches))
        assert len(ids(iter(batches))) > 0
    assert sorted(found) == expected(table)


def test_wrong_arguments_are_refused(table: lance.LanceDataset, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="rank: expected less than world_size 2, found 2"):
        ShardedFragmentSampler(2, 2)
    with pytest.raises(InvalidInputError, match="batch_size: expected at least 1, found 0"):
        ShardedFixedBatchSampler(0, 1, total_num_rows=10)
    with pytest.raises(InvalidInputError, match="granularity: expected 'fragment' or 'batch'"):
        ShardedBatchIterator(table, 0, 1, granularity="row")  # type: ignore[arg-type]
