"""The tasks and the end of a distributed write: data files, then one commit or their deletion.

tasks     write_part ──▶ data files named by job, task and attempt, in no version yet
driver    commit_parts: one commit publishes them   |   abort_parts: they are deleted
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import pyarrow as pa

from pilum.distributed.jobs import Attempt, PartMessage, WriteJob
from pilum.distributed.sweeping import leave_tombstone, sweep, was_given_up
from pilum.errors import CommitError, JobMismatchError
from pilum.format.blobs import has_blobs
from pilum.format.schema import Schema
from pilum.storage.base import Store
from pilum.table.commit.jobs import Job, JobKey
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.operations.merge import Merge, appended_to
from pilum.table.commit.operations.overwrite import Overwrite
from pilum.table.commit.publish import commit
from pilum.table.commit.transaction import Transaction, find_commit
from pilum.table.model.fragment import Fragment
from pilum.table.read.snapshot import Snapshot
from pilum.table.upkeep.auto_cleanup import clean_up_if_due
from pilum.table.versions.commit_handler import open_table
from pilum.table.write.align import align
from pilum.table.write.blob_inputs import with_blobs_v2
from pilum.table.write.sidecars import discard_file
from pilum.table.write.write import write_fragments
from pilum.tracing import JOB_EVENTS, emit

__all__ = [
    "abort_parts",
    "commit_parts",
    "write_part",
    "written_fragments",
]


def write_part(
    job: WriteJob, batches: Iterable[pa.RecordBatch], *, partition: int, attempt: int = 0
) -> PartMessage:
    """Write the rows of one task as data files; the table does not change.

    Args:
        job: The job that the driver started.
        batches: Record batches of one schema. Columns are matched by name, as in
            `pilum.write_dataset`, and nullable ones may be missing.
        partition: Number of the task.
        attempt: Number of the attempt; each attempt needs its own number.

    Returns:
        The message for `commit_parts`. If this call fails, the files of the attempt are deleted.

    Raises:
        SchemaMismatchError: If the columns do not fit those of the job.
        CommitError: If the job was aborted concurrently.
    """
    prefix = Attempt(partition, attempt).prefix(job.uuid)
    options = replace(job.options, file_name_prefix=prefix)
    store = open_table(job.uri, job.storage_options)
    schema, aligned = _aligned(job, iter(batches))
    fragments = write_fragments(store, schema, aligned, options.for_stream(len(schema.fields)))
    if was_given_up(store, job.uuid):
        for file in (file for fragment in fragments for file in fragment.files):
            discard_file(store, file.path_in_table)
        raise CommitError(
            f"{job.uri}: the job {job.uuid} was given up while its task {partition} was still "
            "writing; what that wrote is deleted"
        )
    num_rows = sum(fragment.physical_rows for fragment in fragments)
    texts = tuple(json.dumps(fragment.to_json()) for fragment in fragments)
    return PartMessage(partition, attempt, num_rows, texts)


def _aligned(
    job: WriteJob, batches: Iterator[pa.RecordBatch]
) -> tuple[Schema, Iterator[pa.RecordBatch]]:
    """Return the schema of the files of a task, and its batches cast to it."""
    first = next(batches, None)
    if first is None:
        return job.schema, batches
    incoming, batches = first.schema, chain([first], batches)
    if job.options.version.has_blobs_v2 and any(map(has_blobs, job.schema.fields)):
        reader = with_blobs_v2(pa.RecordBatchReader.from_batches(incoming, batches))
        incoming, batches = reader.schema, iter(reader)
    alignment = align(incoming, job.schema)
    return alignment.schema, map(alignment.batch, batches)


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
    fragments = written_fragments(*sorted(messages, key=lambda message: message.partition))
    key = None if idempotency_key is None else Job(idempotency_key, content)
    if job.mode == "append" and not fragments:
        if key is not None and content is not None:
            key.held_by(Snapshot.latest(store).manifest.config)
        return job.read_version
    if num_retries := sum(message.attempt for message in messages):
        emit(JOB_EVENTS, event="retried", attempts=num_retries)
        # Not after the commit: a failure there would be reported for rows that are in the table.
        known = {file.path for one in fragments for file in one.files}
        sweep(store, job.uuid, known.__contains__)
    operation = _operation(store, job, fragments)
    properties = {} if key is None else key.properties()
    try:
        manifest = commit(store, Transaction(job.read_version, operation, job.uuid, properties))
    except JobMismatchError:
        sweep(store, job.uuid)
        raise
    clean_up_if_due(store, manifest)
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


def written_fragments(*messages: PartMessage) -> tuple[Fragment, ...]:
    """Return the fragments that tasks wrote."""
    texts = (text for message in messages for text in message.fragments)
    return tuple(Fragment.from_json(json.loads(text)) for text in texts)
