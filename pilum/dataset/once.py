"""Changes that are made once, however often they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from pilum.dataset.base import DatasetBase
from pilum.dataset.transactions import properties_of, snapshot_of_job
from pilum.table.commit.jobs import JobKey
from pilum.table.read.snapshot import Snapshot

__all__ = ["once"]

T = TypeVar("T")


def once(
    dataset: DatasetBase,
    idempotency_key: JobKey | None,
    change: Callable[[Mapping[str, str]], tuple[Snapshot, T]],
    nothing: T,
) -> T:
    """Make a change of the table and moves the dataset to it, unless the table has its job.

    Then the dataset moves to the version that took the job in, but never back.

    Args:
        dataset: Of the table.
        idempotency_key: Names the job, if it is one.
        change: Commits, given the properties of the transaction; gives its version and result.
        nothing: The result of a job that the table has.
    """
    properties = properties_of(None, None, idempotency_key)
    snapshot = snapshot_of_job(dataset.snapshot.store, idempotency_key)
    result = nothing
    if snapshot is None:
        snapshot, result = change(properties)
    dataset.advance(snapshot)
    return result
