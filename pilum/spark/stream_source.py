"""The streaming reader: it follows a table and reads the changes of its versions as micro-batches.

    driver   initialOffset, latestOffset(start, limit) ──▶ offsets     `stream_offsets`
             partitions(start, end) ──▶ version, fragment, rows        `stream_rows`
    tasks    read(partition) ──▶ batches

One reader exists on the driver as long as the query runs; tasks get readers of their own. Since
Spark 4.2 it is called with a start and a limit. Earlier versions request the latest offset only.
With these, a micro-batch takes everything available, and limits are refused.

Spark requests the initial offset more than once, before and after a crash, and does not log it. So
the initial offset is a constant. The end of the first batch, which Spark logs before it plans the
batch, records where the query began (`stream_log`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pilum.errors import InvalidInputError, UnsupportedFeatureError, VersionNotFoundError
from pilum.spark.opening import pin
from pilum.spark.options import LATEST, Options
from pilum.spark.requested_schema import check_schema
from pilum.spark.stream_columns import QueryColumns
from pilum.spark.stream_log import LoggedOffset
from pilum.spark.stream_offsets import BEGINNING, Follower, Limit, Offset
from pilum.spark.stream_rows import FEED_COLUMNS, read_splits, stream_splits
from pilum.table.change_feed.steps import Mark
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.open import open_table

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:  # PySpark 4.1 and older have neither limits nor this trigger

        class SupportsTriggerAvailableNow:
            """A placeholder for the missing class."""


__all__ = ["PilumStreamReader", "stream_reader"]

_TAKES_LIMITS = bool(
    inspect.signature(DataSourceStreamReader.latestOffset).parameters.keys() - {"self"}
)


class PilumStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader of the rows added to a table, or of its row changes."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self._schema = schema
        self._options = options
        self._target: Snapshot | None = None
        self._began: Offset | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offset of a query that has read nothing."""
        return BEGINNING.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of the options."""
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
        """Pin the last version that the query reads."""
        self._target = self._follower.latest()

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return the end of the next micro-batch.

        Raises:
            InvalidInputError: If the table is not the one that the query read before.
            SchemaMismatchError: If a column that was read before does not exist any more.
        """
        target = self._target or self._follower.latest()
        if start is None:
            begun = self._begun(target)
            return self._logged(Offset(target.manifest.version + 1), begun, target).to_json()
        logged = LoggedOffset.from_json(start)
        if logged.begins:
            logged = self._begun(target)
        self._require_same(logged, target)
        end = self._follower.advance(logged.offset, _limit(limit), target.manifest.version)
        self._require_columns(logged, target)
        return self._logged(end, logged, target).to_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offset after all available rows, for the progress of the query."""
        return Offset(self._follower.latest().manifest.version + 1).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Split a micro-batch into tasks.

        Raises:
            As `latestOffset`: the batch may be one that another driver began.
        """
        first, last = LoggedOffset.from_json(start), LoggedOffset.from_json(end)
        latest = self._follower.latest()
        for logged in (first, last):  # before Spark 4.2 no other method receives the start
            self._require_same(logged, latest)
            self._require_columns(logged, latest)
        offset = self._beginning_of(last) if first.begins else first.offset
        pieces = self._follower.pieces(offset, last.offset)
        return [InputPartition(group) for group in stream_splits(pieces, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task."""
        return read_splits(partition.value or (), self._schema, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Drop the cached state of what was read."""
        self._follower.forget(LoggedOffset.from_json(end).offset)

    @cached_property
    def _follower(self) -> Follower:
        """Return the follower, created once on the driver; check that the table is readable."""
        options = self._options
        latest = Snapshot.latest(open_table(options.path, options.storage_options))
        fields = [field for field in self._schema.fields if field.name not in FEED_COLUMNS]
        check_schema(StructType(fields), latest, options)
        if options.read_change_feed and not latest.has_stable_row_ids:
            raise InvalidInputError(
                f"{latest.store.uri} has no stable row ids, so it is unknown which rows change; "
                "tables have them if they are created with enable_stable_row_ids=True"
            )
        return Follower(options, QueryColumns.of(latest, self._schema, options))

    def _begun(self, target: Snapshot) -> LoggedOffset:
        """Return where a new query begins; decided once, as the table may change between calls."""
        if self._began is None:
            self._began = self._follower.beginning(target.manifest.version)
        return LoggedOffset(self._began, self._began)

    def _beginning_of(self, end: LoggedOffset) -> Offset:
        """Return where the query whose first batch has this end began."""
        offset, options = end.offset, self._options
        if end.began is not None:
            return end.began
        # Older releases did not log it.
        if options.starting_timestamp is None and options.starting_version is None:
            return Offset(offset.version - (not offset.snapshot), snapshot=True)
        if options.starting_version == LATEST:
            raise InvalidInputError(
                f"{options.path}: an older release began this query with startingVersion "
                '"latest", and did not log which version that was; begin with a new checkpoint'
            )
        return self._follower.beginning(offset.version)

    def _require_same(self, logged: LoggedOffset, latest: Snapshot) -> None:
        if logged.table is not None:
            logged.table.require_in(self._follower.store, latest.manifest)

    def _require_columns(self, logged: LoggedOffset, latest: Snapshot) -> None:
        """Check that all columns that the query has read so far exist, whatever it reads now."""
        if logged.columns is not None:
            QueryColumns.logged(logged.columns, self._options).require_in(latest)

    def _logged(self, end: Offset, start: LoggedOffset, target: Snapshot) -> LoggedOffset:
        """Return the end of a batch in its logged form."""
        logged = LoggedOffset(end, start.began, start.table, self._follower.columns.ids)
        if start.table is not None and start.table.version == logged.last_version:
            return logged
        return replace(logged, table=self._mark(logged.last_version, target))

    def _mark(self, version: int, target: Snapshot) -> Mark | None:
        """Return the mark of a version; None if the version is gone or there was none."""
        if version == target.manifest.version:
            return Mark.of(target.manifest)
        with suppress(VersionNotFoundError):
            return Mark.of(Snapshot.at(self._follower.store, version).manifest)
        return None


def stream_reader(schema: StructType, options: Options) -> PilumStreamReader:
    """Return the reader of a streaming query.

    Raises:
        InvalidInputError: If options are invalid for a stream, or contradict each other.
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
