"""Idempotent changes: a change with a job key is applied only once."""

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
    """Apply a change and move the dataset to its version, unless the table contains its job.

    If the table already contains the job, the dataset moves to the version that contains it, but
    never to an older version.

    Args:
        dataset: The dataset to change.
        idempotency_key: Key of the job; None if there is no job.
        change: Function that takes the transaction properties, commits, and returns the new version
            and the result.
        nothing: The result if the table already contains the job.
    """
    properties = properties_of(None, None, idempotency_key)
    snapshot = snapshot_of_job(dataset.snapshot.store, idempotency_key)
    result = nothing
    if snapshot is None:
        snapshot, result = change(properties)
    dataset.advance(snapshot)
    return result
