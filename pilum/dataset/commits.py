"""Commits of changes: once per job, again after conflicts, without files left after a failure.

commit_once ── the table contains the job? ──▶ nothing to do
     │
Retries.run ── another commit changed the same rows? ──▶ change the newest version instead
     │
publish ────── certainly not committed? ──▶ delete the new files
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

from pilum.arguments import require_count
from pilum.dataset.base import DatasetBase
from pilum.errors import CommitConflictError, CommitContentionError, InvalidInputError
from pilum.storage.base import Store
from pilum.storage.local import durable_at_commit, without_pending
from pilum.table.commit.jobs import JOB_PROPERTY, Job, JobKey, find_job
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.transaction import Transaction
from pilum.table.model.names import NamingScheme
from pilum.table.read.snapshot import Snapshot
from pilum.table.upkeep.auto_cleanup import commit_and_clean_up
from pilum.table.versions.commit_handler import latest_manifest

__all__ = [
    "Retries",
    "commit_change",
    "commit_once",
    "commit_operation",
    "properties_of",
    "publish",
    "snapshot_of_job",
]

T = TypeVar("T")

_COMMIT_MESSAGE = "__lance_commit_message"
_MAX_PAUSE = 8
"""Maximum length of a pause, as a multiple of the time of an attempt."""


def properties_of(
    commit_message: str | None,
    transaction_properties: Mapping[str, str] | None,
    idempotency_key: JobKey | None = None,
) -> dict[str, str]:
    """Return the properties of a transaction, including the message and the key of its job."""
    found = dict(transaction_properties or {})
    if idempotency_key is not None:
        found[JOB_PROPERTY] = Job(idempotency_key).property()
    if commit_message is not None:
        found[_COMMIT_MESSAGE] = commit_message
    if not all(isinstance(text, str) for pair in found.items() for text in pair):
        raise InvalidInputError(f"transaction properties and message must be texts, found {found}")
    return found


def commit_once(
    dataset: DatasetBase,
    idempotency_key: JobKey | None,
    change: Callable[[Mapping[str, str]], tuple[Snapshot, T]],
    nothing: T,
) -> T:
    """Apply a change and move the dataset to its version, unless the table contains its job.

    `change` takes the transaction properties, commits, and returns the new version and the result.
    If the table contains the job, the result is `nothing`, and the dataset moves to the version
    with the job, but never to an older version.
    """
    properties = properties_of(None, None, idempotency_key)
    snapshot = snapshot_of_job(dataset.snapshot.store, idempotency_key)
    result = nothing
    if snapshot is None:
        snapshot, result = change(properties)
    dataset.advance(snapshot)
    return result


def commit_operation(
    dataset: DatasetBase,
    operation: Operation,
    properties: Mapping[str, str] | None = None,
    store: Store | None = None,
) -> None:
    """Commit an operation on the pinned version of a dataset and move the dataset to the result.

    `store` is the one that new files were written to, if they are not durable yet.
    """
    snapshot = dataset.snapshot
    read = snapshot.manifest
    transaction = Transaction(read.version, operation, properties=properties or {}, read=read)
    dataset._move_to(publish(store or snapshot.store, transaction))


def commit_change(
    snapshot: Snapshot,
    change: Callable[[Snapshot], tuple[Operation, T]],
    properties: Mapping[str, str],
) -> tuple[Snapshot, T]:
    """Commit a change, which writes files and returns an operation and a result."""
    with durable_at_commit(snapshot.store) as store:
        operation, result = change(replace(snapshot, store=store))
        transaction = Transaction(snapshot.manifest.version, operation, properties=properties)
        return publish(store, transaction), result


def publish(
    store: Store, transaction: Transaction, scheme: NamingScheme = NamingScheme.V2
) -> Snapshot:
    """Commit a transaction, and delete the new files if the commit certainly failed."""
    manifest = commit_and_clean_up(store, transaction, scheme=scheme, owns_files=True)
    return Snapshot(without_pending(store), manifest)


def snapshot_of_job(store: Store, idempotency_key: JobKey | None) -> Snapshot | None:
    """Return the version that contains a job, or None; call this before doing the work."""
    if idempotency_key is None:
        return None
    manifest = find_job(store, Job(idempotency_key), latest_manifest(store))
    return None if manifest is None else Snapshot(store, manifest)


@dataclass(frozen=True)
class Retries:
    """The limits of retries: their number, and the time after which none begins."""

    conflict_retries: int = 10
    retry_timeout: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        require_count("conflict_retries", self.conflict_retries)
        if not isinstance(self.retry_timeout, timedelta):
            raise InvalidInputError(
                f"retry_timeout: expected a timedelta, found {self.retry_timeout!r}"
            )

    def run(self, snapshot: Snapshot, change: Callable[[Snapshot], T]) -> T:
        """Run a change on a version, and again on the newest one after a conflict.

        CommitConflictError is raised if a retry cannot resolve it, CommitContentionError if every
        attempt conflicted with a concurrent commit.
        """
        end = time.monotonic() + self.retry_timeout.total_seconds()
        for attempt in range(self.conflict_retries + 1):
            began = time.monotonic()
            try:
                return change(snapshot)
            except CommitConflictError as error:
                if not error.retryable:
                    raise
                if attempt == self.conflict_retries or time.monotonic() >= end:
                    raise CommitContentionError(
                        f"{snapshot.store.uri}: concurrent commits changed the same rows, "
                        f"{attempt + 1} times; try again later\n  {error}"
                    ) from error
            _pause(time.monotonic() - began, attempt, end)
            newest = Snapshot.latest(snapshot.store)
            snapshot = replace(newest, session=snapshot.session)
        raise AssertionError  # the last attempt returns or raises


def _pause(work_seconds: float, attempt: int, end: float) -> None:
    """Sleep in proportion to the work, longer each time, so that writers spread out."""
    longest = work_seconds * min(2**attempt, _MAX_PAUSE)
    time.sleep(max(0.0, min(random.uniform(0, longest), end - time.monotonic())))
