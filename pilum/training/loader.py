"""`Loader`: the batches of one rank, epoch by epoch, and the state from which it continues.

    plan ──▶ rows of several batches ──▶ one read, ahead of use ──▶ batches ──▶ transform

A read covers at most one window, or at least `read_rows` rows, because reading rows in few large
requests is many times faster than one request for each batch. Memory is bounded by `prefetch` + 2
such reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, TypedDict, Unpack

import numpy as np
import pyarrow as pa

from pilum.arguments import require_count, require_known, with_keywords
from pilum.dataset.projection import Columns
from pilum.dataset.scan import Filter
from pilum.errors import InvalidInputError
from pilum.parallel import submit_ahead
from pilum.training.plan import EpochPlan, Shuffle, Uneven
from pilum.training.rows import Table, TableRows, opened

__all__ = [
    "EpochState",
    "Loader",
    "PlanKeywords",
    "batches_of_plan",
    "plan_of",
    "require_rank",
    "restored",
    "state_of",
]


class PlanKeywords(TypedDict, total=False):
    """The keywords that describe the order of an epoch; `Loader` explains them."""

    shuffle: Shuffle
    seed: int
    uneven: Uneven
    block_rows: int
    window_rows: int


PLAN_DEFAULTS: dict[str, Any] = {
    "shuffle": "none",
    "seed": 0,
    "uneven": "keep",
    "block_rows": 1024,
    "window_rows": 65536,
}


class EpochState(TypedDict):
    """The point that a training has reached; plain values, for JSON as well as for pickles.

    Attributes:
        epoch: The number of the epoch.
        batches: Number of batches of this rank that the epoch has used.
        order: What the order depends on. A loader with another order refuses the state.
    """

    epoch: int
    batches: int
    order: dict[str, Any]


def plan_of(
    rows: TableRows,
    batch_size: int,
    keywords: PlanKeywords,
    world_size: int = 1,
    lanes: int = 1,
) -> EpochPlan:
    """Return the plan of epoch 0."""
    require_known("loaders have", keywords, PLAN_DEFAULTS)
    shuffle = keywords.get("shuffle", "none")
    parts = rows.fragment_rows if shuffle in ("fragments", "blocks", "window") else ()
    return EpochPlan(
        len(rows),
        batch_size,
        world_size=world_size,
        lanes=lanes,
        fragment_rows=parts,
        **keywords,
    )


def batches_of_plan(
    rows: TableRows,
    plan: EpochPlan,
    rank: int,
    first: int = 0,
    step: int = 1,
    *,
    read_rows: int = 8192,
    prefetch: int = 1,
) -> Iterator[pa.RecordBatch]:
    """Read every `step`-th batch of a rank, from batch `first` on.

    Args:
        rows: The rows of the table.
        plan: Their order.
        rank: The rank.
        first: The number of the first batch, among those of the rank.
        step: The number of workers that share the batches of the rank.
        read_rows: Number of rows to read in one request, if there are no windows.
        prefetch: Number of requests that run ahead.
    """
    reads = _reads(plan, rank, first, step, max(1, read_rows // plan.batch_size))
    return _ahead((partial(_read, rows, plan, rank, some, step) for some in reads), prefetch)


def _reads(plan: EpochPlan, rank: int, first: int, step: int, most: int) -> Iterator[list[int]]:
    """Yield the numbers of the batches that are read together."""
    numbers = range(first, plan.num_batches_of(rank), step)
    if plan.shuffle == "window":
        for _, window in groupby(numbers, partial(plan.window_of, rank)):
            yield list(window)
        return
    for start in range(0, len(numbers), most):
        yield list(numbers[start : start + most])


def _read(
    rows: TableRows, plan: EpochPlan, rank: int, numbers: list[int], step: int
) -> list[pa.RecordBatch]:
    found = plan.rows(rank, numbers[0], numbers[-1] + 1, step)
    read = rows.take(np.concatenate(found))
    ends = np.cumsum([len(one) for one in found]).tolist()
    return [read.slice(end - len(one), len(one)) for end, one in zip(ends, found, strict=True)]


def _ahead(
    reads: Iterator[Callable[[], list[pa.RecordBatch]]], prefetch: int
) -> Iterator[pa.RecordBatch]:
    """Yield the results of reads in order, while the next ones run."""
    running: deque[Any] = deque()
    try:
        for read in reads:
            running.append(submit_ahead(read) if prefetch else read)
            if len(running) > prefetch:
                yield from _result(running.popleft())
        while running:
            yield from _result(running.popleft())
    finally:
        for future in running:
            future.cancel()


def _result(read: Any) -> list[pa.RecordBatch]:
    found: list[pa.RecordBatch] = read() if callable(read) else read.result()
    return found


class Loader:
    """The batches of one rank of a training, in an order that depends on seed and epoch only.

    An iteration runs to the end of the epoch, and the next iteration is the next epoch. One that
    is abandoned is continued by the next one. `state_dict` says where the loader is; a loader with
    the same arguments that loads the state continues with the next batch, in any process.
    """

    @with_keywords(PlanKeywords, PLAN_DEFAULTS)
    def __init__(
        self,
        dataset: Table,
        batch_size: int,
        *,
        columns: Columns | None = None,
        filter: Filter | None = None,
        with_row_id: bool = False,
        rank: int = 0,
        world_size: int = 1,
        transform: Callable[[pa.RecordBatch], Any] | None = None,
        read_rows: int = 8192,
        prefetch: int = 1,
        dataset_options: dict[str, Any] | None = None,
        **plan: Unpack[PlanKeywords],
    ) -> None:
        """Open a table; nothing but the positions of rows that match a filter is read yet.

        Args:
            dataset: A dataset, or the location of one. The loader keeps to its version.
            batch_size: Number of rows in a batch.
            columns: As in `LanceDataset.scanner`.
            filter: SQL; only rows for which it is true are loaded. Needs 8 bytes for each of them.
            with_row_id: Whether to add the column `_rowid`.
            rank: The number of this process.
            world_size: Number of processes that share the rows.
            transform: Function that turns a `pyarrow.RecordBatch` into what is returned, such as
                `pilum.training.numpy_columns`; None for the batch itself.
            read_rows: Number of rows to read in one request; with "window", a window.
            prefetch: Number of requests that run ahead.
            dataset_options: Keywords of `pilum.dataset`, for a location.
            shuffle: "none" for scan order; "fragments" or "blocks" to shuffle runs of adjacent
                rows; "window" to also shuffle the rows of each `window_rows` rows of these; "full"
                to shuffle all rows, in constant memory.
            seed: A number that selects one of many orders.
            uneven: What to do if rows do not make the same number of full batches for all ranks:
                "keep" makes a smaller batch, and some ranks have one batch more; "drop" leaves
                rows out; "pad" repeats some.
            block_rows: Maximum number of adjacent rows that stay together until they are shuffled
                in a window.
            window_rows: Number of rows of a window, for "window"; they are in memory at once.

        Raises:
            InvalidInputError: If an argument is invalid.
            DatasetNotFoundError: If no table exists there.
        """
        self._rows = TableRows(opened(dataset, dataset_options), columns, filter, with_row_id)
        self._plan = plan_of(self._rows, batch_size, plan, world_size, lanes=world_size)
        self._rank = require_rank(rank, world_size)
        self._transform = transform
        self._read_rows = require_count("read_rows", read_rows, 1)
        self._prefetch = require_count("prefetch", prefetch)
        self._batches = 0

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next iteration runs or continues."""
        return self._plan.epoch

    @property
    def plan(self) -> EpochPlan:
        """The order of the epoch."""
        return self._plan

    def __len__(self) -> int:
        """Return the number of batches of this rank in a whole epoch."""
        return self._plan.num_batches_of(self._rank)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch."""
        self._plan, self._batches = replace(self._plan, epoch=epoch), 0

    def __iter__(self) -> Iterator[Any]:
        batches = batches_of_plan(
            self._rows,
            self._plan,
            self._rank,
            self._batches,
            read_rows=self._read_rows,
            prefetch=self._prefetch,
        )
        for batch in batches:
            made = batch if self._transform is None else self._transform(batch)
            self._batches += 1
            yield made
        self.set_epoch(self.epoch + 1)

    def state_dict(self) -> EpochState:
        """Return where the loader is: after the last batch that was returned."""
        return state_of(self._rows, self._plan, self._batches)

    def load_state_dict(self, state: EpochState) -> None:
        """Continue from a state.

        Raises:
            InvalidInputError: If the state is of another table, order, batch size or number of
                ranks.
        """
        self._plan, self._batches = restored(state, self._rows, self._plan, self._rank)


def require_rank(rank: int, world_size: int) -> int:
    """Return the number of a rank; InvalidInputError is raised if there is no such rank."""
    if require_count("rank", rank) >= require_count("world_size", world_size, 1):
        raise InvalidInputError(f"rank: expected less than world_size {world_size}, found {rank}")
    return int(rank)


_ORDER = (
    *("num_rows", "batch_size", "shuffle", "seed", "world_size", "uneven"),
    *("block_rows", "window_rows"),
)


def state_of(rows: TableRows, plan: EpochPlan, batches: int) -> EpochState:
    """Return the state of a rank that has used some batches of an epoch."""
    order = _order(rows, plan) | {"lanes": plan.lanes}
    return EpochState(epoch=plan.epoch, batches=batches, order=order)


def _order(rows: TableRows, plan: EpochPlan) -> dict[str, Any]:
    """Return what the order of every epoch depends on, apart from the number of lanes."""
    return {"version": rows.table.version} | {name: getattr(plan, name) for name in _ORDER}


def restored(
    state: EpochState, rows: TableRows, plan: EpochPlan, rank: int
) -> tuple[EpochPlan, int]:
    """Return the plan of the epoch of a state, with its lanes, and the number of used batches.

    InvalidInputError is raised if the state does not fit the plan.
    """
    try:
        epoch, batches, order = state["epoch"], state["batches"], dict(state["order"])
        plan = replace(plan, epoch=epoch, lanes=order["lanes"])
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"state: expected a result of state_dict, found {state}") from error
    for name, value in _order(rows, plan).items():
        if order.get(name) != value:
            raise InvalidInputError(
                f"state: its {name} is {order.get(name)!r}, that of the loader is {value!r}; "
                "open that version of the table and pass the same arguments"
            )
    most = plan.num_batches_of(rank)
    if require_count("state: batches", batches) > most:
        raise InvalidInputError(f"state: {batches} batches of an epoch of {most}")
    return plan, int(batches)
