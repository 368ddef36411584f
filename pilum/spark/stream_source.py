"""Following a table: micro-batches of what its versions bring.

    driver   initialOffset, latestOffset(start, limit) ──▶ offsets     `stream_offsets`
             partitions(start, end) ──▶ version, fragment, rows        `stream_rows`
    tasks    read(partition) ──▶ batches

One reader lives on the driver as long as the query; tasks get others, made anew. Since Spark 4.2 it
is asked with a start and a limit. Earlier versions ask for the latest offset only: there a
micro-batch takes all that there is, and limits are refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.spark.opening import pin
from pilum.spark.options import Options
from pilum.spark.stream_offsets import Follower, Limit, Offset
from pilum.spark.stream_rows import FEED_COLUMNS, read_splits, stream_splits

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:  # PySpark 4.1 and older have neither limits nor this trigger

        class SupportsTriggerAvailableNow:
            """Stands for what is not there."""


__all__ = ["PilumStreamReader", "stream_reader"]

_TAKES_LIMITS = bool(
    inspect.signature(DataSourceStreamReader.latestOffset).parameters.keys() - {"self"}
)


class PilumStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is added to a table, or what happens to its rows."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self._schema = schema
        self._options = options
        self._target: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new query begins."""
        return self._follower.beginning().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit among the options."""
        from pyspark.sql.streaming import datasource as limits

        options = self._options
        if options.max_files_per_trigger is not None:
            return limits.ReadMaxFiles(options.max_files_per_trigger)
        if options.max_rows_per_trigger is not None:
            return limits.ReadMaxRows(options.max_rows_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return limits.ReadMaxBytes(options.max_bytes_per_trigger)
        return limits.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Pins the last version that the query reads."""
        self._target = self._latest()

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """The end of the next micro-batch."""
        target = self._latest() if self._target is None else self._target
        if start is None:
            return Offset(target + 1).to_json()
        offset = Offset.from_json(start)
        return self._follower.advance(offset, _limit(limit), target).to_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where the stream would be if it had read all; for the progress of the query."""
        return Offset(self._latest() + 1).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Cuts a micro-batch for tasks."""
        pieces = self._follower.pieces(Offset.from_json(start), Offset.from_json(end))
        return [InputPartition(group) for group in stream_splits(pieces, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the rows of one task."""
        return read_splits(partition.value or (), self._schema, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Lets go of what is behind."""
        self._follower.forget(Offset.from_json(end))

    @cached_property
    def _follower(self) -> Follower:
        """On the driver, once: whoever follows must be able to read."""
        from pilum.spark.source import check_schema

        follower = Follower(self._options)
        latest = follower.latest()
        fields = [field for field in self._schema.fields if field.name not in FEED_COLUMNS]
        check_schema(StructType(fields), latest, self._options)
        if self._options.read_change_feed and not latest.has_stable_row_ids:
            raise InvalidInputError(
                f"{latest.store.uri} has no stable row ids, so nobody can tell which rows change; "
                "tables have them if they are made with enable_stable_row_ids=True"
            )
        return follower

    def _latest(self) -> int:
        return self._follower.latest().manifest.version


def stream_reader(schema: StructType, options: Options) -> PilumStreamReader:
    """The reader of a streaming query.

    Raises:
        InvalidInputError: If options make no sense for a stream, or contradict each other.
        UnsupportedFeatureError: If this PySpark cannot limit micro-batches.
    """
    limits = {
        "maxFilesPerTrigger": options.max_files_per_trigger,
        "maxRowsPerTrigger": options.max_rows_per_trigger,
        "maxBytesPerTrigger": options.max_bytes_per_trigger,
    }
    given = [name for name, value in limits.items() if value is not None]
    if len(given) > 1:
        raise InvalidInputError(f"the options {' and '.join(given)} exclude each other")
    if given and not _TAKES_LIMITS:
        raise UnsupportedFeatureError(f"option {given[0]!r}: needs PySpark 4.2 or newer")
    if options.version is not None or options.as_of is not None:
        raise InvalidInputError(
            'a stream has no "version" or "asOf": use "startingVersion" or "startingTimestamp"'
        )
    if options.starting_version is not None and options.starting_timestamp is not None:
        raise InvalidInputError(
            'the options "startingVersion" and "startingTimestamp" exclude each other'
        )
    if options.read_change_feed and options.filter is not None:
        raise InvalidInputError(
            'a change feed takes no "filter": rows enter and leave it by being updated'
        )
    if options.read_change_feed and options.blobs == "payloads":
        raise InvalidInputError('a change feed gives descriptors of blobs: leave "blobs" out')
    if options.branch is not None:
        options = replace(options, path=pin(options)[0].path, branch=None)
    return PilumStreamReader(schema, options)


def _limit(limit: ReadLimit | None) -> Limit:
    return Limit(
        files=getattr(limit, "max_files", None),
        rows=getattr(limit, "max_rows", None),
        size_bytes=getattr(limit, "max_bytes", None),
    )
