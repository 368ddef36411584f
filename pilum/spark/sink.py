"""The batch writer: tasks write their batches as fragments, and one commit publishes them all.

    driver   start_job  ──pickled──▶  tasks: write_part ──messages──▶  commit_parts | abort_parts

Behaviour of Spark, and its consequences:

* One writer object is pickled to all tasks and to the commit: the job's uuid, drawn when it is
  built, is the same everywhere.
* If `commit` raises, Spark calls `abort` with all messages. The commit may have succeeded
  nevertheless, so `abort` looks for the uuid in the table before it deletes files.
* Failed attempts are never reported. Their files are recognized by the uuid in their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pilum.container.options import FileOptions
from pilum.distributed import (
    Mode,
    PartMessage,
    WriteJob,
    abort_parts,
    commit_parts,
    start_job,
    write_part,
)
from pilum.errors import DatasetNotFoundError, InvalidInputError, SchemaMismatchError
from pilum.format.version import FileVersion
from pilum.spark.convert import check_fits, convert_batch
from pilum.spark.names import find_name, stored_fields
from pilum.spark.opening import open_snapshot, to_write
from pilum.spark.options import Options
from pilum.spark.tally import Tally
from pilum.spark.types import compared_schema, to_arrow, to_spark
from pilum.spark.workers import settle
from pilum.table.write.forms import plain_schema
from pilum.table.write.write import WriteOptions

__all__ = ["PilumWriter", "job_mode", "plan_write", "write_task"]

# The writer holds its rows, their pages and the data that Spark sends: at most a quarter each.
_BUFFERED_SHARE = 4


@dataclass(frozen=True)
class PartCommit(WriterCommitMessage):
    """The commit message of one task, in the form that Spark transports.

    Attributes:
        part: What the task wrote.
        tally: A summary of the rows, if the write is numbered.
    """

    part: PartMessage
    tally: Tally


class PilumWriter(DataSourceArrowWriter):
    """A writer that appends to, creates or overwrites one table."""

    def __init__(self, schema: StructType, options: Options, overwrite: bool) -> None:
        self.job = plan_write(schema, options, job_mode(options, overwrite))
        self.key = options.job_key
        self._checks = self.key is not None and options.check_replays

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartCommit:
        """Write the rows of one task."""
        tally = Tally()
        batches = tally.watch(iterator) if self._checks else iterator
        return PartCommit(write_task(self.job, batches), tally)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the rows of all tasks as one version."""
        found = [m for m in messages if isinstance(m, PartCommit)]
        content = Tally.total(m.tally for m in found).content if self._checks else None
        parts = [m.part for m in found]
        commit_parts(self.job, parts, idempotency_key=self.key, content=content)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the files of a failed job."""
        abort_parts(self.job)


def job_mode(options: Options, overwrite: bool) -> Mode:
    """Combine the save mode of Spark, which has no "create", with the option "mode".

    Raises:
        InvalidInputError: If they contradict each other.
    """
    if overwrite and options.mode in {"create", "append"}:
        raise InvalidInputError(f'mode("overwrite") contradicts the option mode={options.mode!r}')
    if overwrite or options.mode == "overwrite":
        return "overwrite"
    return "create" if options.mode == "create" else "append"


def plan_write(schema: StructType, options: Options, mode: Mode) -> WriteJob:
    """Plan a write job, after checking that Spark's columns fit the table.

    Raises:
        SchemaMismatchError: If the columns do not fit.
        UnsupportedTypeError: If a type cannot be stored.
        InvalidInputError: If the options name a version.
        BranchNotFoundError: If there is no such branch.
    """
    options = to_write(options)
    asked = options.data_storage_version
    version = None if asked is None else FileVersion.parse(asked)
    if mode == "append" and options.schema_mode is not None:
        schema = _under_stored_names(schema, options)
    job = start_job(
        options.path,
        to_arrow(schema),
        mode,
        _write_options(options),
        version=version,
        storage_options=options.storage_options,
        schema_mode=options.schema_mode,
        stable_row_ids=options.stable_row_ids,
    )
    if job.mode == "append":
        _check_columns(schema, plain_schema(job.schema), options)
    return job


def write_task(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> PartMessage:
    """Write the rows of one Spark task; call it within the task."""
    context = TaskContext.get()
    if context is None:
        raise InvalidInputError("write_task: not within a task of Spark")
    settle()
    schema = plain_schema(job.schema)
    return write_part(
        job,
        (convert_batch(batch, _given_columns(batch, schema)) for batch in batches),
        partition=context.partitionId(),
        attempt=context.attemptNumber(),
    )


def _given_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.Schema:
    known = dict.fromkeys(schema.names)
    given = {find_name(name, known) for name in batch.schema.names}
    return pa.schema([field for field in schema if field.name in given])


def _write_options(options: Options) -> WriteOptions:
    buffered = options.memory_limit and max(1, options.memory_limit // _BUFFERED_SHARE)
    chosen = WriteOptions(layout=FileOptions(buffered, None, encoding=options.encoding))
    if buffered is not None:
        chosen = replace(chosen, unfinished_bytes=buffered)
    if options.max_rows_per_file is not None:
        chosen = replace(chosen, max_rows_per_file=options.max_rows_per_file)
    if options.max_bytes_per_file is not None:
        chosen = replace(chosen, max_bytes_per_file=options.max_bytes_per_file)
    return chosen


def _under_stored_names(schema: StructType, options: Options) -> StructType:
    """Rename columns that differ from the table's only in case: they are not new columns."""
    try:
        table = to_spark(plain_schema(open_snapshot(options).schema))
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
