"""Samplers: which rows of a table one process of a training reads, batch by batch.

    FullScanSampler            all rows, in scan order
    ShardedFragmentSampler     every n-th fragment
    ShardedBatchSampler        every n-th batch, in scan order or in random order
    ShardedFixedBatchSampler   numbers of rows instead of rows, for loaders that read by number

They are what `pilum.torch.data.LanceDataset` takes as `sampler`. A `pilum.training.Loader` can do
more: it shuffles all rows and continues in the middle of an epoch.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa

from pilum.arguments import MOST_UNSIGNED, require_count
from pilum.dataset.fragment import LanceFragment
from pilum.dataset.lance_dataset import LanceDataset
from pilum.dataset.projection import Columns
from pilum.dataset.scan import Filter
from pilum.errors import InvalidInputError
from pilum.training.loader import batches_of_plan, require_rank
from pilum.training.permutation import Permutation, key_of
from pilum.training.plan import EpochPlan
from pilum.training.rows import Table, TableRows, opened

__all__ = [
    "FragmentSampler",
    "FullScanSampler",
    "Sampler",
    "ShardedBatchIterator",
    "ShardedBatchSampler",
    "ShardedFixedBatchSampler",
    "ShardedFragmentSampler",
    "maybe_sample",
    "reservoir_sampling",
    "sampled",
]

_BATCH_ROWS = 128


class Sampler(ABC):
    """A function from a dataset to the batches that one process reads."""

    @abstractmethod
    def __call__(
        self,
        ds: LanceDataset,
        *args: Any,
        batch_size: int = _BATCH_ROWS,
        columns: Columns | None = None,
        filter: Filter | None = None,
        batch_readahead: int = 16,
        with_row_id: bool = False,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Return the batches of this process.

        Args:
            ds: The dataset.
            *args: Arguments of a sampler of one's own.
            batch_size: Maximum number of rows in a batch.
            columns: As in `LanceDataset.scanner`.
            filter: As in `LanceDataset.scanner`.
            batch_readahead: A hint without effect.
            with_row_id: Whether to add the column `_rowid`.
            **kwargs: Arguments of a sampler of one's own.
        """


class FragmentSampler(Sampler):
    """A sampler that reads whole fragments; subclasses choose them in `iter_fragments`."""

    def __call__(  # type: ignore[override]  # the name that callers use
        self,
        dataset: LanceDataset,
        *args: Any,
        batch_size: int = _BATCH_ROWS,
        columns: Columns | None = None,
        filter: Filter | None = None,
        batch_readahead: int = 16,
        with_row_id: bool = False,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Read the chosen fragments, in their order. The arguments are those of `Sampler`."""
        del batch_readahead
        for fragment in self.iter_fragments(dataset, *args, **kwargs):
            yield from dataset.to_batches(
                columns,
                filter,
                batch_size=batch_size,
                with_row_id=with_row_id,
                fragments=[fragment],
            )

    @abstractmethod
    def iter_fragments(
        self, ds: LanceDataset, *args: Any, **kwargs: Any
    ) -> Iterator[LanceFragment]:
        """Return the fragments to read."""


class FullScanSampler(FragmentSampler):
    """A sampler that reads all rows in scan order."""

    def iter_fragments(  # type: ignore[override]  # the name that callers use
        self, dataset: LanceDataset, *args: Any, **kwargs: Any
    ) -> Iterator[LanceFragment]:
        """Return all fragments."""
        return iter(dataset.get_fragments())


@dataclass
class _Shard:
    """The part of one rank, in an order that depends on seed and epoch."""

    rank: int
    world_size: int
    randomize: bool = False
    seed: int = 0
    epoch: int = 0

    def __post_init__(self) -> None:
        require_rank(self.rank, self.world_size)
        require_count("seed", self.seed, most=MOST_UNSIGNED)

    def plan(self, num_rows: int, batch_size: int) -> EpochPlan:
        """Return the order of rows, in which a batch has adjacent rows."""
        return EpochPlan(
            num_rows,
            batch_size,
            "blocks" if self.randomize else "none",
            self.seed,
            self.epoch,
            self.world_size,
            block_rows=batch_size,
        )


class _Sharded:
    """The constructor and the epoch of sharded samplers."""

    def __init__(self, rank: int, world_size: int, randomize: bool = False, seed: int = 0) -> None:
        """Create a sampler.

        Args:
            rank: The number of this process.
            world_size: Number of processes that share the rows.
            randomize: Whether to shuffle.
            seed: A number that selects one of many orders; the same for all processes.

        Raises:
            InvalidInputError: If there is no such rank.
        """
        super().__init__()
        self._shard = _Shard(rank, world_size, randomize, seed)

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch."""
        self._shard = replace(self._shard, epoch=require_count("epoch", epoch))

    @classmethod
    def from_torch(cls, randomize: bool = False, seed: int = 0) -> Self:
        """Create the sampler of this process of `torch.distributed`."""
        return cls(*_torch_rank(), randomize=randomize, seed=seed)


def _torch_rank() -> tuple[int, int]:
    """Return rank and world size; PyTorch raises an error if there is no process group."""
    import torch.distributed as group

    return group.get_rank(), group.get_world_size()


class ShardedFragmentSampler(_Sharded, FragmentSampler):
    """A sampler that reads every `world_size`-th fragment.

    This reads least, but ranks get different numbers of rows.
    """

    def iter_fragments(  # type: ignore[override]  # the name that callers use
        self, dataset: LanceDataset, *args: Any, **kwargs: Any
    ) -> Iterator[LanceFragment]:
        """Return the fragments of this rank."""
        fragments = dataset.get_fragments()
        shard = self._shard
        order = np.arange(len(fragments))
        if shard.randomize and fragments:
            order = Permutation(len(fragments), key_of(shard.seed, shard.epoch)).at(order)
        for place in order[shard.rank :: shard.world_size].tolist():
            yield fragments[place]


class ShardedBatchSampler(_Sharded, Sampler):
    """A sampler that reads every `world_size`-th batch of adjacent rows.

    With a filter these are the rows that match it; 8 bytes for each of them are kept in memory.
    """

    def __call__(  # type: ignore[override]  # the name that callers use
        self,
        dataset: LanceDataset,
        *args: Any,
        batch_size: int = _BATCH_ROWS,
        columns: Columns | None = None,
        filter: Filter | None = None,
        batch_readahead: int = 16,
        with_row_id: bool | None = None,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Read the batches of this rank. The arguments are those of `Sampler`."""
        del args, kwargs, batch_readahead
        rows = TableRows(opened(dataset), columns, filter, bool(with_row_id))
        return batches_of_plan(rows, self._shard.plan(len(rows), batch_size), self._shard.rank)


class ShardedBatchIterator:
    """The batches of one rank, under the name that older programs use. Can be iterated again."""

    def __init__(
        self,
        data: Table,
        rank: int,
        world_size: int,
        *,
        columns: Columns | None = None,
        batch_size: int = 10240,
        granularity: Literal["fragment", "batch"] = "fragment",
        batch_readahead: int = 8,
        with_row_id: bool = False,
    ) -> None:
        """Open a table.

        Args:
            data: A dataset, or the location of one.
            rank: The number of this process.
            world_size: Number of processes that share the rows.
            columns: As in `LanceDataset.scanner`.
            batch_size: Maximum number of rows in a batch.
            granularity: Whether ranks take turns by fragments or by batches.
            batch_readahead: A hint without effect.
            with_row_id: Whether to add the column `_rowid`.

        Raises:
            InvalidInputError: If an argument is invalid.
        """
        del batch_readahead
        if granularity not in _SAMPLERS:
            raise InvalidInputError(
                f"granularity: expected 'fragment' or 'batch', found {granularity!r}"
            )
        self._dataset = opened(data)
        self._sampler = _SAMPLERS[granularity](rank, world_size)
        self._columns = columns
        self._batch_size = require_count("batch_size", batch_size, 1)
        self._with_row_id = with_row_id

    @classmethod
    def from_torch(cls, data: Table, **keywords: Any) -> Self:
        """Create the iterator of this process of `torch.distributed`."""
        return cls(data, *_torch_rank(), **keywords)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._sampler(
            self._dataset,
            columns=self._columns,
            batch_size=self._batch_size,
            with_row_id=self._with_row_id,
        )


_SAMPLERS: Mapping[str, Callable[[int, int], Sampler]] = {
    "fragment": ShardedFragmentSampler,
    "batch": ShardedBatchSampler,
}


class ShardedFixedBatchSampler(ShardedBatchSampler):
    """A sampler of lists of row numbers, one for each batch, for loaders that read by number.

    The rows are cut into one run for each rank; a batch has adjacent rows of a run.
    """

    def __init__(
        self,
        rank: int,
        world_size: int,
        randomize: bool = False,
        seed: int = 0,
        batch_size: int = 0,
        total_num_rows: int = 0,
    ) -> None:
        """Create a sampler.

        Args:
            rank: The number of this process.
            world_size: Number of processes that share the rows.
            randomize: Whether to shuffle the batches of the rank.
            seed: A number that selects one of many orders.
            batch_size: Number of rows in a batch.
            total_num_rows: Number of rows of the table.

        Raises:
            InvalidInputError: If there is no such rank, or there are rows and `batch_size` is 0.
        """
        super().__init__(rank, world_size, randomize, seed)
        total = require_count("total_num_rows", total_num_rows)
        each = -(-total // world_size)
        self._rows = range(min(rank * each, total), min((rank + 1) * each, total))
        self._batch_size = require_count("batch_size", batch_size, 1 if total else 0)

    @classmethod
    def from_torch(  # type: ignore[override]
        cls, batch_size: int, total_num_rows: int, randomize: bool = False, seed: int = 0
    ) -> Self:
        """Create the sampler of this process of `torch.distributed`."""
        return cls(*_torch_rank(), randomize, seed, batch_size, total_num_rows)

    def __len__(self) -> int:
        """Return the number of batches of this rank."""
        return -(-len(self._rows) // self._batch_size) if self._rows else 0

    def __iter__(self) -> Iterator[list[int]]:
        if not self._rows:
            return
        alone = replace(self._shard, rank=0, world_size=1)
        plan = alone.plan(len(self._rows), self._batch_size)
        for number in range(plan.num_batches):
            [rows] = plan.rows(0, number, number + 1)
            yield (rows + self._rows.start).tolist()


def maybe_sample(
    dataset: Table,
    n: int,
    columns: Columns | str,
    batch_size: int = 10240,
    max_takes: int = 2048,
    filt: Filter | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read rows at random, each at most once; all rows in scan order if there are no more.

    Args:
        dataset: A dataset, or the location of one.
        n: Number of rows.
        columns: As in `LanceDataset.scanner`, or the name of one column.
        batch_size: Maximum number of rows in a batch.
        max_takes: Number of runs of adjacent rows to read, at most; more take longer and are
            nearer to an independent choice of each row.
        filt: Only rows that match are chosen; 8 bytes for each of them are kept in memory.

    Returns:
        The batches, with `n` rows in all.

    Raises:
        InvalidInputError: If an argument is invalid.
    """
    table = opened(dataset)
    names = [columns] if isinstance(columns, str) else columns
    if require_count("n", n) >= table.count_rows():
        return table.to_batches(names, filt, batch_size=batch_size)
    rows = TableRows(table, names, filt)
    return sampled(rows, n, batch_size, max_takes, random.getrandbits(63))


def sampled(
    rows: TableRows,
    num_rows: int,
    batch_size: int,
    max_takes: int,
    seed: int,
    shard: tuple[int, int] = (0, 1),
) -> Iterator[pa.RecordBatch]:
    """Read rows at random, each at most once, or those of one of several processes.

    Args:
        rows: The rows of the table.
        num_rows: Number of rows of all processes together.
        batch_size: Maximum number of rows in a batch.
        max_takes: Maximum number of runs of adjacent rows.
        seed: A number that selects one of many choices; the same for all processes.
        shard: The number of this process, and the number of processes.
    """
    wanted = min(num_rows, len(rows))
    run = -(-wanted // require_count("max_takes", max_takes, 1))
    plan = EpochPlan(len(rows), batch_size, "blocks", seed, block_rows=max(run, 1))
    rank, world_size = shard
    for number in range(rank, -(-wanted // plan.batch_size), world_size):
        [chosen] = plan.rows(0, number, number + 1)
        yield rows.take(chosen[: wanted - number * plan.batch_size])


def reservoir_sampling(stream: Iterable[Any], k: int) -> list[Any]:
    """Choose items of a stream at random, each as likely as any other.

    Args:
        stream: The items.
        k: Number of items to choose; all of them if there are fewer.

    Raises:
        InvalidInputError: If `k` is negative.
    """
    most = require_count("k", k)
    kept: list[Any] = []
    for number, item in enumerate(stream):
        if number < most:
            kept.append(item)
        elif (place := random.randrange(number + 1)) < most:
            kept[place] = item
    return kept
