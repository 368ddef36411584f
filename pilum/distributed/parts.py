"""The part of one task: data files with unique names that belong to no version yet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

import pyarrow as pa

from pilum.distributed.job import PartMessage, WriteJob
from pilum.distributed.sweeping import was_given_up
from pilum.errors import CommitError
from pilum.format.blobs import has_blobs
from pilum.format.schema import Schema
from pilum.table.versions.open import open_table
from pilum.table.write.align import align
from pilum.table.write.blob_inputs import with_blobs_v2
from pilum.table.write.sidecars import delete_data_file
from pilum.table.write.write import write_fragments

__all__ = ["write_part"]


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
    options = replace(job.options, file_name_prefix=f"{job.uuid}-{partition:05d}-{attempt}")
    store = open_table(job.uri, job.storage_options)
    schema, aligned = _aligned(job, iter(batches))
    fragments = write_fragments(store, schema, aligned, options)
    if was_given_up(store, job.uuid):
        for file in (file for fragment in fragments for file in fragment.files):
            delete_data_file(store, file.path)
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
