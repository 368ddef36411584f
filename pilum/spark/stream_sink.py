"""Streams into a table: each micro-batch is one commit, and is in the table once.

    driver   PilumStreamWriter(job)  ──pickled──▶  tasks: write_part ──▶ StreamPart(query, job)
    driver   PilumStreamWriter       ◀── messages, batch number ── Spark
             commit with the key (query, batch number)

What Spark does, and what follows from it:

* A writer is built for each micro-batch, and another one, in another process, for its commit. So
  whatever the commit needs travels in the messages; only tasks know the query.
* After a crash the batch that was under way runs again: same query, same number, other tasks. The
  table remembers the highest number of each query, and a summary of its rows. If it has the batch,
  the new files go. If it has another batch of that number, the checkpoint does not belong to the
  table any more, and the query fails.
* If a commit raises, Spark calls `abort` with all messages, although the commit may be in.

Source: docs/spark.md, "Streams into a table".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource as spark_api
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from pilum.distributed import PartMessage, WriteJob, abort_parts, commit_parts
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.spark.options import Options
from pilum.spark.sink import job_mode, plan_write, write_task
from pilum.spark.tally import Tally

__all__ = ["QUERY_ID", "PilumStreamWriter", "stream_writer"]

QUERY_ID = "sql.streaming.queryId"
"""The local property in which Spark keeps the id of a query; it survives restarts."""

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:  # PySpark 4.0 hands rows to streaming writers, not Arrow.
    DataSourceStreamArrowWriter = getattr(spark_api, "DataSourceStreamArrowWriter", object)


@dataclass(frozen=True)
class StreamPart(WriterCommitMessage):
    """The message of one task.

    Attributes:
        query_id: The streaming query.
        job: What the driver fixed for this run of the micro-batch.
        part: What the task wrote.
        tally: A summary of the rows.
    """

    query_id: str
    job: WriteJob
    part: PartMessage
    tally: Tally


class PilumStreamWriter(DataSourceStreamArrowWriter):
    """Appends micro-batches to a table, or replaces its rows by each ("complete")."""

    def __init__(self, schema: StructType, options: Options, overwrite: bool) -> None:
        self.job = plan_write(schema, options, job_mode(options, overwrite))
        self._checks = options.check_replays

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamPart:
        """Writes the rows of one task."""
        tally = Tally()
        batches = tally.watch(iterator) if self._checks else iterator
        return StreamPart(_query_id(), self.job, write_task(self.job, batches), tally)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Publishes a micro-batch, unless the table has it.

        Raises:
            JobMismatchError: If the table has one of this number with other rows.
        """
        parts = [message for message in messages if isinstance(message, StreamPart)]
        if parts:
            key = (parts[0].query_id, batchId)
            content = Tally.total(one.tally for one in parts).content if self._checks else None
            commit_parts(
                parts[0].job, [one.part for one in parts], idempotency_key=key, content=content
            )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Deletes the files of a micro-batch of which a task failed.

        If none did, a commit was tried. It removes its files itself where it is certain that they
        are not in the table; where it is not, they stay, for the next cleanup.
        """
        parts = [message for message in messages if isinstance(message, StreamPart)]
        if parts and None in messages:
            abort_parts(parts[0].job)


def stream_writer(schema: StructType, options: Options, overwrite: bool) -> PilumStreamWriter:
    """The writer of a streaming query.

    Raises:
        UnsupportedFeatureError: If this PySpark has no Arrow writers for streams.
        InvalidInputError: If options make no sense for a stream.
    """
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
