"""The writers: tasks write their batches as fragments, and one commit publishes them all.

    driver   start_job  ──pickled──▶  tasks: write_part ──messages──▶  commit_parts | abort_parts

Behaviour of Spark, and its consequences, in batches:

* One writer object is pickled to all tasks and to the commit: the job's uuid, drawn when it is
  built, is the same everywhere.
* If `commit` raises, Spark calls `abort` with all messages. The commit may have succeeded
  nevertheless, so `abort` looks for the uuid in the table before it deletes files.
* Failed attempts are never reported. Their files are recognized by the uuid in their names.

In streams, where each micro-batch is one commit and is in the table exactly once:

* A writer is built for each micro-batch, and another one, in another process, for its commit. So
  everything that the commit needs is in the messages; the query id is available in tasks only.
* After a crash the interrupted batch runs again: same query, same number, other tasks. The table
  stores the highest number of each query, and a summary of its rows. If it already contains the
  batch, the new files are deleted. If it contains a different batch of that number, the checkpoint
  does not belong to the table any more, and the query fails.

Source: docs/spark.md, "Commits" and "Streams into a table".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import datasource as spark_api
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pilum.distributed import (
    Mode,
    PartMessage,
    WriteJob,
    abort_parts,
    commit_parts,
    start_job,
    write_part,
)
from pilum.distributed.jobs import JobKey, write_options
from pilum.distributed.recent_files import compact_recent
from pilum.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from pilum.spark.batches import collect_from_tasks
from pilum.spark.convert import check_fits, convert_batch
from pilum.spark.job_reports import JobRecorder, log_in_process_of_spark
from pilum.spark.names import find_name, stored_fields
from pilum.spark.opening import pin, to_write
from pilum.spark.options import Options
from pilum.spark.tally import Tally
from pilum.spark.tasks import settle, this_attempt
from pilum.spark.types import compared_schema, to_arrow, to_spark

__all__ = [
    "QUERY_ID",
    "PartCommit",
    "PilumStreamWriter",
    "PilumWriter",
    "job_mode",
    "plan_write",
    "stored_batches",
    "stream_writer",
    "write_frame",
    "write_task",
]

QUERY_ID = "sql.streaming.queryId"
"""The local property in which Spark keeps the id of a query; it survives restarts."""

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:  # PySpark 4.0 passes rows to streaming writers, not Arrow data.
    DataSourceStreamArrowWriter = getattr(spark_api, "DataSourceStreamArrowWriter", object)


@dataclass(frozen=True)
class PartCommit(WriterCommitMessage):
    """A message about what one task wrote, in the form that Spark transports.

    `tally` is a summary of the rows, if the write is numbered.
    """

    part: PartMessage
    tally: Tally


@dataclass(frozen=True)
class StreamPart(PartCommit):
    """A message of a task of a micro-batch, with the query and the job of this run of the batch."""

    query_id: str
    job: WriteJob


class PilumWriter(DataSourceArrowWriter):
    """A writer that appends to, creates or overwrites one table."""

    def __init__(self, schema: StructType, options: Options, overwrite: bool) -> None:
        self.job = plan_write(schema, options, job_mode(options, overwrite))
        self.key = options.job_key
        self._checks = self.key is not None and options.check_replays

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartCommit:
        """Write the rows of one task."""
        return PartCommit(*_written(self.job, iterator, self._checks))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the rows of all tasks as one version."""
        parts = [message for message in messages if isinstance(message, PartCommit)]
        log_in_process_of_spark()
        with JobRecorder("write", self.job.uri):
            _publish(self.job, parts, self.key, self._checks)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the files of a failed job."""
        abort_parts(self.job)


class PilumStreamWriter(DataSourceStreamArrowWriter):
    """A writer that appends micro-batches, or replaces all rows by each of them ("complete")."""

    def __init__(self, schema: StructType, options: Options, overwrite: bool) -> None:
        self.job = plan_write(schema, options, job_mode(options, overwrite))
        self._checks = options.check_replays
        self._compact_every = options.compact_every

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamPart:
        """Write the rows of one task."""
        query_id = _query_id()
        return StreamPart(*_written(self.job, iterator, self._checks), query_id, self.job)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Publish a micro-batch, unless the table already contains it.

        JobMismatchError is raised if the table contains a batch of this number with other rows.
        """
        parts = [message for message in messages if isinstance(message, StreamPart)]
        log_in_process_of_spark()
        if parts:
            job, query_id = parts[0].job, parts[0].query_id
            with JobRecorder("stream", job.uri, query_id=query_id, batch_id=batchId):
                _publish(job, parts, (query_id, batchId), self._checks)
        if self._compact_every and (batchId + 1) % self._compact_every == 0:
            with JobRecorder("compact", self.job.uri):
                compact_recent(self.job.uri, self.job.storage_options)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Delete the files of a micro-batch in which a task failed.

        Only the message of a task names the job of a batch. If Spark has received none, files of
        tasks that it stopped remain until the next cleanup.

        If no task failed, a commit was tried. The commit deletes its files itself if it is certain
        that they are not in the table; otherwise they remain until the next cleanup.
        """
        parts = [message for message in messages if isinstance(message, StreamPart)]
        if parts and None in messages:
            abort_parts(parts[0].job)


def stream_writer(schema: StructType, options: Options, overwrite: bool) -> PilumStreamWriter:
    """Return the writer of a streaming query."""
    if not hasattr(spark_api, "DataSourceStreamArrowWriter"):
        raise UnsupportedFeatureError(
            "writing a stream needs PySpark 4.1 or newer; with 4.0, write in foreachBatch with "
            'the options "txnAppId" and "txnVersion", or with pilum.spark.upsert'
        )
    if options.mode == "create":
        raise InvalidInputError('option "mode": a stream cannot create a table in every batch')
    if options.job_key is not None:
        raise InvalidInputError(
            'the options "txnAppId" and "txnVersion" are for foreachBatch; a stream counts its '
            "batches itself"
        )
    return PilumStreamWriter(schema, options, overwrite)


def _query_id() -> str:
    context = TaskContext.get()
    query_id = context and context.getLocalProperty(QUERY_ID)
    if not query_id:
        raise InvalidInputError("a task of a streaming query does not know its query")
    return query_id


def _written(
    job: WriteJob, batches: Iterator[pa.RecordBatch], checks: bool
) -> tuple[PartMessage, Tally]:
    tally = Tally()
    return write_task(job, tally.watch(batches) if checks else batches), tally


def _publish(job: WriteJob, parts: Sequence[PartCommit], key: JobKey | None, checks: bool) -> None:
    content = Tally.total(one.tally for one in parts).content if checks else None
    commit_parts(job, [one.part for one in parts], idempotency_key=key, content=content)


def job_mode(options: Options, overwrite: bool) -> Mode:
    """Combine the save mode of Spark, which has no "create", with the option "mode"."""
    if overwrite and options.mode in {"create", "append"}:
        raise InvalidInputError(f'mode("overwrite") contradicts the option mode={options.mode!r}')
    if overwrite or options.mode == "overwrite":
        return "overwrite"
    return "create" if options.mode == "create" else "append"


def plan_write(schema: StructType, options: Options, mode: Mode) -> WriteJob:
    """Plan a write job, after checking that Spark's columns fit the table."""
    options = to_write(options)
    if mode == "append" and options.schema_mode is not None:
        schema = _under_stored_names(schema, options)
    job = start_job(
        options.path,
        to_arrow(schema),
        mode,
        write_options(
            max_rows_per_file=options.max_rows_per_file,
            max_bytes_per_file=options.max_bytes_per_file,
            memory_limit=options.memory_limit,
            encoding=options.encoding,
        ),
        version=options.data_storage_version,
        storage_options=options.storage_options,
        schema_mode=options.schema_mode,
        stable_row_ids=options.stable_row_ids,
    )
    if job.mode == "append":
        _check_columns(schema, job.plain_schema, options)
    return job


def write_task(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> PartMessage:
    """Write the rows of one Spark task; call it within the task."""
    attempt = this_attempt()
    settle()
    rows = stored_batches(job, batches)
    return write_part(job, rows, partition=attempt.task, attempt=attempt.number)


def stored_batches(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows of Spark in the types of the table."""
    schema = job.plain_schema
    return (convert_batch(batch, _given_columns(batch, schema)) for batch in batches)


def write_frame(frame: DataFrame, job: WriteJob, key: JobKey | None = None) -> int:
    """Write the rows of a frame in tasks of their own, with one commit, and return the version.

    If anything fails, the files of the job are deleted.
    """

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"message": [write_task(job, batches).to_json()]})

    try:
        rows = collect_from_tasks(frame, task, "message string")
    except BaseException:
        abort_parts(job)
        raise
    messages = [PartMessage.from_json(row.message) for row in rows]
    return commit_parts(job, messages, idempotency_key=key)


def _given_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.Schema:
    known = dict.fromkeys(schema.names)
    given = {find_name(name, known) for name in batch.schema.names}
    return pa.schema([field for field in schema if field.name in given])


def _under_stored_names(schema: StructType, options: Options) -> StructType:
    """Rename columns that differ from the table's only in case: they are not new columns."""
    try:
        table = to_spark(pin(options)[1].plain_schema)
    except DatasetNotFoundError:
        return schema
    return stored_fields(schema, table, case_sensitive=options.case_sensitive)


def _check_columns(schema: StructType, table: pa.Schema, options: Options) -> None:
    known = to_spark(table)
    given = stored_fields(schema, known, case_sensitive=options.case_sensitive)
    wanted = compared_schema(known)
    for field in compared_schema(given):
        if field.name not in wanted.names:
            raise SchemaMismatchError(
                f"{options.path}: the table has no column {field.name!r}; it has {wanted.names}"
            )
        check_fits(field.type, wanted.field(field.name).type, field.name)
    for field in table:
        if not field.nullable and field.name not in given.names:
            raise SchemaMismatchError(
                f"{options.path}: column {field.name!r} is declared not null and missing in the "
                "data"
            )
