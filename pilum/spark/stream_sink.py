"""Streaming writes: each micro-batch is one commit and is in the table exactly once.

    driver   PilumStreamWriter(job)  ──pickled──▶  tasks: write_part ──▶ StreamPart(query, job)
    driver   PilumStreamWriter       ◀── messages, batch number ── Spark
             commit with the key (query, batch number)

Behaviour of Spark, and its consequences:

* A writer is built for each micro-batch, and another one, in another process, for its commit. So
  everything that the commit needs is in the messages; the query id is available in tasks only.
* After a crash the interrupted batch runs again: same query, same number, other tasks. The table
  stores the highest number of each query, and a summary of its rows. If it already contains the
  batch, the new files are deleted. If it contains a different batch of that number, the checkpoint
  does not belong to the table any more, and the query fails.
* If a commit raises, Spark calls `abort` with all messages, although the commit may have succeeded.

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
else:  # PySpark 4.0 passes rows to streaming writers, not Arrow data.
    DataSourceStreamArrowWriter = getattr(spark_api, "DataSourceStreamArrowWriter", object)


@dataclass(frozen=True)
class StreamPart(WriterCommitMessage):
    """The commit message of one task.

    Attributes:
        query_id: The streaming query.
        job: The write job that the driver planned for this run of the micro-batch.
        part: What the task wrote.
        tally: A summary of the rows.
    """

    query_id: str
    job: WriteJob
    part: PartMessage
    tally: Tally


class PilumStreamWriter(DataSourceStreamArrowWriter):
    """A writer that appends micro-batches, or replaces all rows by each of them ("complete")."""

    def __init__(self, schema: StructType, options: Options, overwrite: bool) -> None:
        self.job = plan_write(schema, options, job_mode(options, overwrite))
        self._checks = options.check_replays

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamPart:
        """Write the rows of one task."""
        tally = Tally()
        batches = tally.watch(iterator) if self._checks else iterator
        return StreamPart(_query_id(), self.job, write_task(self.job, batches), tally)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Publish a micro-batch, unless the table already contains it.

        Raises:
            JobMismatchError: If the table contains a batch of this number with other rows.
        """
        parts = [message for message in messages if isinstance(message, StreamPart)]
        if parts:
            key = (parts[0].query_id, batchId)
            content = Tally.total(one.tally for one in parts).content if self._checks else None
            commit_parts(
                parts[0].job, [one.part for one in parts], idempotency_key=key, content=content
            )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Delete the files of a micro-batch in which a task failed.

        If no task failed, a commit was tried. The commit deletes its files itself if it is certain
        that they are not in the table; otherwise they remain until the next cleanup.
        """
        parts = [message for message in messages if isinstance(message, StreamPart)]
        if parts and None in messages:
            abort_parts(parts[0].job)


def stream_writer(schema: StructType, options: Options, overwrite: bool) -> PilumStreamWriter:
    """Return the writer of a streaming query.

    Raises:
        UnsupportedFeatureError: If this PySpark has no Arrow writers for streams.
        InvalidInputError: If options are invalid for a stream.
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
