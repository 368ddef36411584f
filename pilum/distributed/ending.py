"""The end of a distributed write: one commit publishes the tasks' files, or they are deleted."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pilum.distributed.job import PartMessage, WriteJob
from pilum.distributed.sweeping import leave_tombstone, sweep
from pilum.errors import JobMismatchError
from pilum.storage.base import Store
from pilum.table.commit.jobs import Job, JobKey
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.operations.merge import Merge, appended_to
from pilum.table.commit.operations.overwrite import Overwrite
from pilum.table.commit.transaction import Transaction, find_commit
from pilum.table.model.fragment import Fragment
from pilum.table.read.snapshot import Snapshot
from pilum.table.upkeep.auto_cleanup import commit_and_clean_up
from pilum.table.versions.open import open_table

__all__ = ["abort_parts", "commit_parts"]


def commit_parts(
    job: WriteJob,
    messages: Sequence[PartMessage],
    *,
    idempotency_key: JobKey | None = None,
    content: str | None = None,
) -> int:
    """Commit what the tasks wrote, atomically and idempotently.

    If a task had more than one attempt, the files of its other attempts are deleted first. Attempts
    that are still running then, or that lost to a first attempt, leave files for the next cleanup.

    Args:
        job: The job that the messages belong to.
        messages: One message per task.
        idempotency_key: As in `pilum.write_dataset`, for jobs that may be restarted from the
            beginning, such as `(query_id, batch_id)` of a stream. If the table already contains the
            job, the files of this job are deleted.
        content: If the key is a pair: a summary of what the tasks wrote, "rows:digest". The table
            stores it. The same number with another content, or a lower number, is an error.

    Returns:
        The version that contains the rows. An append without rows creates no version.

    Raises:
        CommitConflictError: If a concurrent commit conflicts with the job.
        DatasetAlreadyExistsError: If the job should create the table, but another writer created
            it.
        JobMismatchError: If the table has the same key with another content. The files of this job
            are deleted.
        CommitContentionError: If every attempt lost to a concurrent commit.
    """
    store = open_table(job.uri, job.storage_options)
    if (landed := find_commit(store, job.uuid, job.read_version)) is not None:
        return landed
    fragments = tuple(
        Fragment.from_json(json.loads(text))
        for message in sorted(messages, key=lambda message: message.partition)
        for text in message.fragments
    )
    key = None if idempotency_key is None else Job(idempotency_key, content)
    if job.mode == "append" and not fragments:
        if key is not None and content is not None:
            key.held_by(Snapshot.latest(store).manifest.config)
        return job.read_version
    if any(message.attempt for message in messages):
        # Not after the commit: a failure there would be reported for rows that are in the table.
        known = {file.path for one in fragments for file in one.files}
        sweep(store, job.uuid, known.__contains__)
    operation = _operation(store, job, fragments)
    properties = {} if key is None else key.properties()
    try:
        manifest = commit_and_clean_up(
            store, Transaction(job.read_version, operation, job.uuid, properties)
        )
    except JobMismatchError:
        sweep(store, job.uuid)
        raise
    if job.uuid not in manifest.transaction_file:
        sweep(store, job.uuid)
    return manifest.version


def _operation(store: Store, job: WriteJob, fragments: tuple[Fragment, ...]) -> Operation:
    if job.mode != "append":
        return Overwrite(
            job.schema,
            fragments,
            empty_format=str(job.options.version),
            stable_row_ids=job.stable_row_ids,
            if_created=job.if_created,
        )
    if job.read_schema is None:
        return Append(fragments, job.schema)
    return Merge(
        job.schema,
        appended_to(Snapshot.at(store, job.read_version).manifest, fragments),
        preserves_nullability=True,
        appended=fragments,
        read_schema=job.read_schema,
    )


def abort_parts(job: WriteJob) -> int:
    """Delete the files of a job, unless its commit succeeded.

    This includes files of unreported attempts, because all names start with the uuid of the job.
    Tasks that are still running delete their own files: an empty file serves as a tombstone for
    them, until a cleanup removes it.

    Args:
        job: The job to abort; no commit of it may be in progress.

    Returns:
        The number of files deleted.

    Raises:
        CorruptFileError: If a version since the start of the job cannot be read. Nothing is deleted
            then.
    """
    store = open_table(job.uri, job.storage_options)
    if find_commit(store, job.uuid, job.read_version) is not None:
        return 0
    leave_tombstone(store, job.uuid)
    return sweep(store, job.uuid)
