"""Datasets and loaders for PyTorch.

    LanceDataset       batches of tensors; shuffles, shares out to ranks and workers, continues
    LanceDataLoader    a DataLoader of them with a state, from which training continues
    SafeLanceDataset   rows by number, as dicts of Python values

    Loader of rank 0 ── worker 0: batches 0, 2, 4, …      ranks from torch.distributed,
                     └─ worker 1: batches 1, 3, 5, …      workers from the DataLoader

The order of batches is that of `pilum.training.EpochPlan`. Every process computes it by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack

import pyarrow as pa
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from pilum.arguments import positions, require_count, require_known, with_keywords
from pilum.dataset.lance_dataset import LanceDataset as TableDataset
from pilum.dataset.projection import Columns
from pilum.dataset.scan import Filter
from pilum.errors import InvalidInputError
from pilum.format.blobs import has_blobs
from pilum.hf import HuggingFaceConverter
from pilum.sampler import (
    FullScanSampler,
    Sampler,
    ShardedBatchSampler,
    ShardedFragmentSampler,
    sampled,
)
from pilum.table.read.windows import of_rows
from pilum.torch.dist import (
    get_dist_rank,
    get_dist_world_size,
    get_mp_rank,
    get_mp_world_size,
    has_group,
)
from pilum.torch.tensors import ToTensorFn, to_tensors
from pilum.training.cached import CachedDataset
from pilum.training.loader import (
    PLAN_DEFAULTS,
    EpochState,
    PlanKeywords,
    batches_of_plan,
    plan_of,
    require_rank,
    restored,
    state_of,
)
from pilum.training.permutation import key_of
from pilum.training.plan import EpochPlan
from pilum.training.rows import Table, TableRows, opened

__all__ = ["LanceDataLoader", "LanceDataset", "SafeLanceDataset", "get_safe_loader"]

_MAX_TAKES = 2048
_UNSET = -1


class LanceDataset(IterableDataset):
    """Batches of the rows of a table, as tensors.

    Give it to a `torch.utils.data.DataLoader` with `batch_size=None`, as it makes the batches
    itself. With any of the arguments `shuffle`, `seed`, `uneven`, `block_rows` and `window_rows`,
    the order is planned: ranks and workers take turns by batches, in an order that depends on seed
    and epoch only, and an epoch can be continued. Otherwise they take turns by fragments.

    Pickled as location and version. Processes may be forked or spawned; tables in object stores
    need "spawn".
    """

    @with_keywords(PlanKeywords, PLAN_DEFAULTS)
    def __init__(
        self,
        dataset: Table,
        batch_size: int,
        *args: Any,
        dataset_options: Mapping[str, Any] | None = None,
        columns: Columns | None = None,
        filter: Filter | None = None,
        samples: int | None = 0,
        cache: str | bool | None = None,
        with_row_id: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        shard_granularity: Literal["fragment", "batch"] | None = None,
        batch_readahead: int = 16,
        to_tensor_fn: ToTensorFn | None = to_tensors,
        sampler: Sampler | None = None,
        auto_detect_rank: bool = True,
        read_rows: int = 8192,
        prefetch: int = 1,
        **plan: Unpack[PlanKeywords],
    ) -> None:
        """Open a table.

        Args:
            dataset: A dataset, or the location of one. The version of this moment is read.
            batch_size: Number of rows in a batch.
            *args: Is ignored.
            dataset_options: Keywords of `pilum.dataset`, for a location.
            columns: As in `LanceDataset.scanner` of `pilum`.
            filter: SQL; only rows for which it is true are read.
            samples: Number of rows to read at random in each epoch, all ranks together; 0 or None
                for all rows.
            cache: Whether to keep batches in a local file on their first way through, or the folder
                for it; per worker, so that it needs persistent workers.
            with_row_id: Whether to add the column `_rowid`.
            rank: The number of this process; None to ask `torch.distributed` and the `DataLoader`.
            world_size: Number of processes that share the rows; None to ask as well.
            shard_granularity: Whether ranks take turns by fragments or by batches of adjacent rows,
                if the order is not planned.
            batch_readahead: A hint without effect.
            to_tensor_fn: Function that turns a batch into what is returned; None for the batch.
            sampler: A sampler that reads the rows of this process.
            auto_detect_rank: Whether to ask `torch.distributed` and the `DataLoader`.
            read_rows: Number of rows to read in one request, in a planned order.
            prefetch: Number of requests that run ahead, in a planned order.
            shuffle: As in `pilum.training.Loader`; the same holds for the next arguments.
            seed: A number that selects one of many orders.
            uneven: What to do if rows do not make the same number of full batches for all ranks.
            block_rows: Maximum number of adjacent rows that stay together in "blocks" and "window".
            window_rows: Number of rows of a window.

        Raises:
            InvalidInputError: If an argument is invalid, or arguments contradict each other.
        """
        super().__init__()
        del args, batch_readahead
        require_known("datasets have", plan, PLAN_DEFAULTS)
        self.dataset = opened(dataset, dataset_options)
        self.columns = columns
        self.batch_size = require_count("batch_size", batch_size, 1)
        self.filter = filter
        self.samples = samples
        self.cache = cache
        self.with_row_id = with_row_id
        self.rank, self.world_size = rank, world_size
        self.shard_granularity = shard_granularity
        self.sampler = sampler
        self._to_tensor_fn = to_tensor_fn
        self._auto_detect_rank = auto_detect_rank
        self._read_rows, self._prefetch = read_rows, prefetch
        self._plan_keywords = plan
        self._blobs = _blob_columns(self.dataset, columns)
        self._converter = _converter(self.dataset)
        self._cached: dict[tuple[int, int], CachedDataset] = {}
        self._lanes: int | None = None
        self._continued: tuple[EpochPlan, int] | None = None
        self._group: tuple[int, int] | None = None
        self._used = 0
        # Shared with workers, so that those that persist see the next epoch.
        self._position = torch.tensor([_UNSET, 0]).share_memory_()
        self._require_consistent()

    def _require_consistent(self) -> None:
        if (self.rank is None) != (self.world_size is None):
            raise InvalidInputError("pass both rank and world_size, or neither")
        if self.rank is not None and self.world_size is not None:
            require_rank(self.rank, self.world_size)
        if self.shard_granularity not in (None, "fragment", "batch"):
            raise InvalidInputError(
                "shard_granularity: expected 'fragment' or 'batch', found "
                f"{self.shard_granularity!r}"
            )
        given = {
            "sampler": self.sampler is not None,
            "samples": bool(self.samples),
            "shard_granularity": self.shard_granularity is not None,
            "cache": bool(self.cache),
        }
        for name, is_given in given.items():
            if is_given and self.is_planned:
                raise InvalidInputError(
                    f"{name} cannot be combined with {', '.join(self._plan_keywords)}"
                )
        if self.is_planned:
            self._rows = TableRows(self.dataset, self._read_columns, self.filter, self._reads_ids)
            plan_of(self._rows, self.batch_size, self._plan_keywords)

    def __getstate__(self) -> dict[str, Any]:
        # Workers that are spawned have no process group.
        group = self._rank_and_world_size() if get_worker_info() is None else self._group
        return {**vars(self), "_cached": {}, "_group": group}

    def __repr__(self) -> str:
        return f"LanceTorchDataset({self.dataset.uri}, size={self.samples})"

    @property
    def is_planned(self) -> bool:
        """Whether the order is planned, so that it can be shuffled and continued."""
        return bool(self._plan_keywords)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the read columns."""
        return self.dataset.scanner(self.columns).projected_schema

    def __len__(self) -> int:
        """Return the number of batches of this rank, if the order is planned."""
        if not self.is_planned:
            raise TypeError("only a planned order has a length: pass shuffle, such as 'none'")
        return self._plan(1).num_batches_of(self._rank_and_world_size()[0])

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch; call this in the main process before each epoch."""
        self._go_to(require_count("epoch", epoch), 0)

    def _go_to(self, epoch: int, batches: int) -> None:
        self._position[0], self._position[1] = epoch, batches
        self._used = batches

    @property
    def epoch(self) -> int:
        """The number of the epoch."""
        return max(0, int(self._position[0]))

    def state_dict(self, batches: int | None = None) -> EpochState:
        """Return where a planned epoch is.

        `LanceDataLoader` and the stateful loader of torchdata call this.

        Args:
            batches: Number of batches of this rank that were used; None for those that this copy of
                the dataset has returned, which is right without workers only.
        """
        self._require_planned()
        used = self._used if batches is None else batches
        return state_of(self._rows, self._plan(get_mp_world_size()), used)

    def load_state_dict(self, state: EpochState) -> None:
        """Continue from a state, with any number of workers.

        Each iteration begins there, until the next `set_epoch`.

        Raises:
            InvalidInputError: If the state is of another table, order, batch size or number of
                ranks.
        """
        self._require_planned()
        rank, _ = self._rank_and_world_size()
        plan, batches = restored(state, self._rows, self._plan(1), rank)
        self._lanes = plan.lanes
        if get_worker_info() is None:
            self._go_to(plan.epoch, batches)
        else:  # torchdata: the state of this worker only
            self._continued = plan, batches

    def _require_planned(self) -> None:
        if not self.is_planned:
            raise InvalidInputError(
                "only a planned order has a state: pass shuffle, such as 'none'"
            )

    def plan_lanes(self, num_workers: int) -> None:
        """Prepare a planned order for a number of workers per rank, before any state is taken."""
        if self._lanes is None:
            self._lanes = max(1, num_workers) * self._rank_and_world_size()[1]

    def _plan(self, num_workers: int) -> EpochPlan:
        _, world_size = self._rank_and_world_size()
        lanes = self._lanes or world_size * num_workers
        plan = plan_of(self._rows, self.batch_size, self._plan_keywords, world_size, lanes)
        return replace(plan, epoch=self.epoch)

    def _rank_and_world_size(self) -> tuple[int, int]:
        """Return the rank of this process and its workers, and the number of ranks."""
        if self.rank is not None and self.world_size is not None:
            return self.rank, self.world_size
        if not self._auto_detect_rank:
            return 0, 1
        if self._group is None or has_group():
            return get_dist_rank(), get_dist_world_size()
        return self._group

    def __iter__(self) -> Iterator[Any]:
        for batch in self._planned() if self.is_planned else self._streamed():
            yield self._given(batch)

    def _planned(self) -> Iterator[pa.RecordBatch]:
        worker, workers = get_mp_rank(), get_mp_world_size()
        rank, _ = self._rank_and_world_size()
        plan, first = self._plan(workers), int(self._position[1]) + worker
        if self._continued is not None:
            (plan, first), self._continued = self._continued, None
        self._used = first
        for batch in batches_of_plan(
            self._rows,
            plan,
            rank,
            first,
            workers,
            read_rows=self._read_rows,
            prefetch=self._prefetch,
        ):
            self._used += workers
            yield batch

    def _streamed(self) -> Iterator[pa.RecordBatch]:
        if not self.cache:
            return self._unplanned()
        reader = self._reader()  # a forked worker inherits the batches of the main process
        if reader not in self._cached:
            self._cached[reader] = CachedDataset(self._unplanned(), self.cache)
        return iter(self._cached[reader])

    def _unplanned(self) -> Iterator[pa.RecordBatch]:
        if self.samples:
            rows = TableRows(self.dataset, self._read_columns, self.filter, self._reads_ids)
            seed = key_of(self.epoch)
            return sampled(rows, self.samples, self.batch_size, _MAX_TAKES, seed, self._reader())
        sampler = self._default_sampler() if self.sampler is None else self.sampler
        if self._position[0] != _UNSET and hasattr(sampler, "set_epoch"):
            sampler.set_epoch(self.epoch)
        batches = sampler(
            self.dataset,
            columns=self._read_columns,
            filter=self.filter,
            batch_size=self.batch_size,
            with_row_id=self._reads_ids,
        )
        return of_rows(iter(batches), self.batch_size)

    def _reader(self) -> tuple[int, int]:
        """Return the number of this process among the workers of all ranks, and their number."""
        rank, world_size = self._rank_and_world_size()
        if not self._auto_detect_rank:
            return rank, world_size
        workers = get_mp_world_size()
        return rank * workers + get_mp_rank(), world_size * workers

    def _default_sampler(self) -> Sampler:
        rank, world_size = self._reader()
        if self.shard_granularity == "batch":
            return ShardedBatchSampler(rank, world_size)
        if self.shard_granularity is None and world_size == 1:
            return FullScanSampler()
        return ShardedFragmentSampler(rank, world_size)

    @property
    def _reads_ids(self) -> bool:
        return self.with_row_id or bool(self._blobs)

    @property
    def _read_columns(self) -> Columns | None:
        if not self._blobs:
            return self.columns
        names = self.dataset.schema.names if self.columns is None else list(self.columns)
        return [name for name in names if name not in self._blobs]

    def _given(self, batch: pa.RecordBatch) -> Any:
        if not self._blobs:
            form = self._to_tensor_fn
            return batch if form is None else form(batch, hf_converter=self._converter)
        columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name in self._blobs:
            columns[name] = self.dataset.take_blobs(name, ids=columns["_rowid"])
        if self._to_tensor_fn is None:
            return columns
        return self._to_tensor_fn(columns, hf_converter=self._converter, use_blob_api=True)


def _blob_columns(table: TableDataset, columns: Columns | None) -> list[str]:
    if isinstance(columns, Mapping):
        return []
    names = table.schema.names if columns is None else columns
    fields = table.snapshot.schema.fields
    return [one.name for one in fields if one.name in names and has_blobs(one)]


def _converter(table: TableDataset) -> HuggingFaceConverter | None:
    found = (table.schema.metadata or {}).get(b"huggingface")
    return None if found is None else HuggingFaceConverter(json.loads(found))


class LanceDataLoader:
    """A `DataLoader` of a `LanceDataset` with a planned order, with a state.

    An iteration runs to the end of the epoch, and the next iteration is the next epoch. One that is
    abandoned is continued by the next one. The state counts the batches that were returned, not
    those that workers have read ahead.
    """

    def __init__(self, dataset: LanceDataset, num_workers: int = 0, **kwargs: Any) -> None:
        """Create a loader.

        Args:
            dataset: The dataset.
            num_workers: Number of worker processes.
            **kwargs: Other arguments of `torch.utils.data.DataLoader`, except those of batches.

        Raises:
            InvalidInputError: If the order of the dataset is not planned.
        """
        dataset._require_planned()
        dataset.plan_lanes(num_workers)
        self._dataset = dataset
        self._loader = DataLoader(dataset, batch_size=None, num_workers=num_workers, **kwargs)
        self._batches = 0

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next iteration runs or continues."""
        return self._dataset.epoch

    def __len__(self) -> int:
        """Return the number of batches of this rank in a whole epoch."""
        return len(self._dataset)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch."""
        self._dataset.set_epoch(epoch)
        self._batches = 0

    def __iter__(self) -> Iterator[Any]:
        self._dataset._go_to(self.epoch, self._batches)
        for batch in self._loader:
            self._batches += 1
            yield batch
        self.set_epoch(self.epoch + 1)

    def state_dict(self) -> EpochState:
        """Return where the loader is: after the last batch that was returned."""
        return self._dataset.state_dict(self._batches)

    def load_state_dict(self, state: EpochState) -> None:
        """Continue from a state, with any number of workers.

        Raises:
            InvalidInputError: If the state is of another table, order, batch size or number of
                ranks.
        """
        self._dataset.load_state_dict(state)
        self._batches = state["batches"]


class SafeLanceDataset(Dataset):
    """Rows of a table by number, as dicts of Python values, for loaders with workers.

    The table is opened again in each process that reads it. `pilum.training.RowSource` does the
    same, and returns arrays.
    """

    def __init__(
        self, uri: Table, *, dataset_options: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Open a table.

        Args:
            uri: The location of the table, or a dataset.
            dataset_options: Keywords of `pilum.dataset`, for a location.
            **kwargs: Arguments of other base classes.
        """
        super().__init__(**kwargs)
        self._table = opened(uri, dataset_options)
        self.uri = self._table.uri
        self.dataset_options = dict(dataset_options or {})

    def __len__(self) -> int:
        return self._table.count_rows()

    def __getitem__(self, idx: int) -> dict[str, Any]:
        if not 0 <= idx < len(self):
            raise IndexError(f"row {idx} of {len(self)} rows")
        return self.__getitems__([idx])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Return several rows, with one read for all of them."""
        found: list[dict[str, Any]] = self._table.take(positions(indices, len(self))).to_pylist()
        return found


def get_safe_loader(
    dataset: Any, batch_size: int | None = 32, num_workers: int = 4, **kwargs: Any
) -> Any:
    """Create a `DataLoader` whose workers are spawned and persist.

    Args:
        dataset: The dataset.
        batch_size: Number of rows in a batch; None for datasets that make batches themselves.
        num_workers: Number of worker processes.
        **kwargs: Other arguments of `torch.utils.data.DataLoader`, which take precedence.
    """
    defaults = {"persistent_workers": True, "multiprocessing_context": "spawn"}
    given = (defaults if num_workers else {}) | kwargs
    return DataLoader(dataset, batch_size=batch_size, num_workers=num_workers, **given)
