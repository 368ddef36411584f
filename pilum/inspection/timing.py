"""Time reads of a table on this machine: of the whole, of random rows, and with a filter."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from pilum.dataset.lance_dataset import LanceDataset
from pilum.errors import InvalidInputError

__all__ = ["Timing", "time_reads"]

_SEED = 0


@dataclass(frozen=True, slots=True)
class Timing:
    """The durations of one way to read.

    Attributes:
        what: The way, in words.
        rows: Number of rows that it returns, or tests for a filter.
        size_bytes: Bytes of these rows in memory; None for a filter.
        median_seconds: Median of all runs after the first.
        best_seconds: The shortest run.
        first_seconds: The first run, whose caches are cold for this process.
        bytes_read: Bytes that the first run read.
        requests: Requests of the first run.
    """

    what: str
    rows: int
    size_bytes: int | None
    median_seconds: float
    best_seconds: float
    first_seconds: float
    bytes_read: int
    requests: int


def time_reads(
    dataset: LanceDataset,
    columns: list[str] | None = None,
    filter: str | None = None,
    *,
    num_rows: int = 1000,
    runs: int = 5,
) -> Iterator[Timing]:
    """Time a scan, random rows and a filter, each several times.

    Args:
        dataset: The table.
        columns: Columns to read; all if None.
        filter: The condition to count; by default that the first column of numbers or texts
            has the value of the row in the middle.
        num_rows: Number of random rows.
        runs: Number of runs of each.

    Raises:
        InvalidInputError: If the table is empty, or there are fewer than 2 runs.
    """
    total = dataset.count_rows()
    if not total:
        raise InvalidInputError(f"{dataset.uri}: there are no rows to read")
    if runs < 2:
        raise InvalidInputError(f"runs: expected at least 2, found {runs}")
    condition = filter or _condition(dataset, total // 2)
    chosen = np.random.default_rng(_SEED).integers(0, total, num_rows)
    yield _timed(dataset, f"scan of {total:,} rows", runs, partial(_scan, dataset, columns))
    what = f"{num_rows:,} random rows"
    yield _timed(dataset, what, runs, partial(_take, dataset, columns, np.sort(chosen)))
    yield _timed(dataset, f"count where {condition}", runs, partial(_count, dataset, condition))


def _condition(dataset: LanceDataset, row: int) -> str:
    """Return a condition that a row meets."""
    for field in dataset.schema:
        if pa.types.is_integer(field.type) or pa.types.is_string(field.type):
            value = dataset.take([row], columns=[field.name]).column(0)[0].as_py()
            if value is not None:
                text = (
                    str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
                )
                return f"`{field.name}` = {text}"
    return f"`{dataset.schema.names[0]}` IS NOT NULL"


def _scan(dataset: LanceDataset, columns: list[str] | None) -> tuple[int, int | None]:
    rows = size = 0
    for batch in dataset.to_batches(columns=columns):
        rows, size = rows + batch.num_rows, size + batch.nbytes
    return rows, size


def _take(
    dataset: LanceDataset,
    columns: list[str] | None,
    rows: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> tuple[int, int | None]:
    found = dataset.take(rows, columns=columns)
    return found.num_rows, found.nbytes


def _count(dataset: LanceDataset, condition: str) -> tuple[int, int | None]:
    dataset.count_rows(condition)
    return dataset.count_rows(), None


def _timed(
    dataset: LanceDataset, what: str, runs: int, read: Callable[[], tuple[int, int | None]]
) -> Timing:
    dataset.io_stats_incremental()
    seconds = []
    for run in range(runs):
        begun = time.perf_counter()
        rows, size_bytes = read()
        seconds.append(time.perf_counter() - begun)
        if run == 0:
            counted = dataset.io_stats_incremental()
    later = seconds[1:]
    return Timing(
        what,
        rows,
        size_bytes,
        statistics.median(later),
        min(later),
        seconds[0],
        counted.read_bytes,
        counted.read_iops,
    )
