"""The streaming reader: it follows a table and reads the changes of its versions as micro-batches.

    driver   initialOffset, latestOffset(start, limit) ──▶ offsets     `Follower`
             partitions(start, end) ──▶ version, fragment, rows        `plan_changes`
    tasks    read(partition) ──▶ batches                               `read_changes`

One reader exists on the driver as long as the query runs; tasks get readers of their own. Since
Spark 4.2 it is called with a start and a limit. Earlier versions request the latest offset only.
With these, a micro-batch takes everything available, and limits are refused.

Spark requests the initial offset more than once, before and after a crash, and does not log it. So
the initial offset is a constant. The end of the first batch, which Spark logs before it plans the
batch, records where the query began (`LoggedOffset`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StringType, StructType

from pilum.distributed import DEFAULT_SPLIT_BYTES, TableVersion, group_splits
from pilum.distributed.changes import (
    CHANGE_TYPE,
    COMMIT_VERSION,
    ChangeSplit,
    plan_changes,
    read_changes,
)
from pilum.distributed.following import (
    BEGINNING,
    LATEST,
    Follower,
    Limit,
    Mark,
    Offset,
    Piece,
    QueryColumns,
    foreign_offset,
)
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.lazy import cached_property
from pilum.spark.convert import convert_batch, cut, with_missing
from pilum.spark.opening import check_schema, pin
from pilum.spark.options import Options
from pilum.spark.types import exchange_schema

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:  # PySpark 4.1 and older have neither limits nor this trigger

        class SupportsTriggerAvailableNow:
            """A placeholder for the missing class."""


__all__ = [
    "PilumStreamReader",
    "read_splits",
    "stream_reader",
    "stream_splits",
    "with_feed_columns",
]

FEED_COLUMNS = (CHANGE_TYPE, COMMIT_VERSION)
_ITEM = "[]"

_TAKES_LIMITS = bool(
    inspect.signature(DataSourceStreamReader.latestOffset).parameters.keys() - {"self"}
)


@dataclass(frozen=True, slots=True)
class LoggedOffset:
    """The logged end of a micro-batch, with the state of the query.

        {"version": 7, "fragment": 2, "snapshot": false,          the offset
         "began": {"version": 5, "fragment": 0, "snapshot": true},
         "table": {"version": 6, "timestamp_ns": 1763…, "transaction": "5-3b0c….txn"},
         "columns": {"id": 0, "text": 1}}

    Spark does not log the beginning: it asks for it again whenever it plans the first batch. So the
    end of the first batch records where the query began, and all later offsets repeat it. Older
    releases logged the first line only; such offsets can still be read.

    Attributes:
        offset: The position in the history of the table.
        began: Where the query began; None in logs of older releases.
        table: The newest version that the offset has reached; None if there was none, or if it is
            unknown.
        columns: Ids of the fields that the query reads, by path; None in logs of older releases.
    """

    offset: Offset
    began: Offset | None = None
    table: Mark | None = None
    columns: Mapping[str, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON for the checkpoint. Spark compares the texts: the order is fixed."""
        values = self.offset.to_json()
        if self.began is not None:
            values["began"] = self.began.to_json()
        if self.table is not None:
            values["table"] = self.table.to_json()
        if self.columns is not None:
            values["columns"] = dict(self.columns)
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> LoggedOffset:
        """Parse an offset that `to_json` of this release or an older one wrote."""
        offset = Offset.from_json(values)
        began, table, columns = (values.get(name) for name in ("began", "table", "columns"))
        try:
            return cls(
                offset,
                None if began is None else Offset.from_json(began),
                None if table is None else Mark.from_json(table),
                None if columns is None else {str(k): int(v) for k, v in columns.items()},
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise foreign_offset(values) from error

    @property
    def begins(self) -> bool:
        """Return whether nothing has been read yet."""
        return self.offset == BEGINNING

    @property
    def last_version(self) -> int:
        """Return the newest version that the offset has reached; 0 if there is none."""
        offset = self.offset
        return offset.version if offset.fragment or offset.snapshot else offset.version - 1


class PilumStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader of the rows added to a table, or of its row changes."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self._schema = schema
        self._options = options
        self._target: TableVersion | None = None
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
            return self._logged(Offset(target.version + 1), begun, target).to_json()
        logged = LoggedOffset.from_json(start)
        if logged.begins:
            logged = self._begun(target)
        self._require_same(logged, target)
        end = self._follower.advance(logged.offset, _limit(limit), target.version)
        self._require_columns(logged, target)
        return self._logged(end, logged, target).to_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offset after all available rows, for the progress of the query."""
        return Offset(self._follower.latest().version + 1).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Split a micro-batch, which may be one that another driver began, into tasks.

        The errors are those of `latestOffset`.
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
        latest = TableVersion.latest(options.path, options.storage_options)
        fields = [field for field in self._schema.fields if field.name not in FEED_COLUMNS]
        check_schema(StructType(fields), latest, options)
        if options.read_change_feed and not latest.has_stable_row_ids:
            raise InvalidInputError(
                f"{options.path} has no stable row ids, so it is unknown which rows change; "
                "tables have them if they are created with enable_stable_row_ids=True"
            )
        wanted = set(_paths(self._schema))
        if options.filter is not None:
            wanted.update(latest.condition(options.filter).columns)
        replaced = options.passes_overwrites
        columns = QueryColumns.of(latest, wanted, are_replaced=replaced)
        return Follower(options.path, options, columns, options.storage_options)

    def _begun(self, target: TableVersion) -> LoggedOffset:
        """Return where a new query begins; decided once, as the table may change between calls."""
        if self._began is None:
            self._began = self._follower.beginning(target.version)
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

    def _require_same(self, logged: LoggedOffset, latest: TableVersion) -> None:
        if logged.table is not None:
            self._follower.require_same(logged.table, latest)

    def _require_columns(self, logged: LoggedOffset, latest: TableVersion) -> None:
        """Check that all columns that the query has read so far exist, whatever it reads now."""
        if logged.columns is not None:
            # Any version must have them, so they are looked up in none.
            replaced = self._options.passes_overwrites
            QueryColumns(logged.columns, 0, replaced).require_in(latest)

    def _logged(self, end: Offset, start: LoggedOffset, target: TableVersion) -> LoggedOffset:
        """Return the end of a batch in its logged form."""
        logged = LoggedOffset(end, start.began, start.table, self._follower.columns.ids)
        if start.table is not None and start.table.version == logged.last_version:
            return logged
        return replace(logged, table=self._follower.mark(logged.last_version, target))


def stream_reader(schema: StructType, options: Options) -> PilumStreamReader:
    """Return the reader of a streaming query."""
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


def with_feed_columns(schema: StructType) -> StructType:
    """Return the columns of a table followed by those of a change feed."""
    wide = StructType(list(schema.fields))
    return wide.add(CHANGE_TYPE, StringType()).add(COMMIT_VERSION, LongType())


def stream_splits(
    pieces: Iterable[tuple[int, Piece]], options: Options
) -> list[tuple[ChangeSplit, ...]]:
    """Split pieces into tasks, each about as large as the option "partitionBytes"."""
    target = options.partition_bytes or DEFAULT_SPLIT_BYTES
    latest = TableVersion.latest(options.path, options.storage_options)
    return group_splits(plan_changes(pieces, latest, target), target)


def read_splits(
    splits: Iterable[ChangeSplit], schema: StructType, options: Options
) -> Iterator[pa.RecordBatch]:
    """Read the rows of some splits, with exactly the types that Spark accepts.

    Columns that the table did not have yet are null.
    """
    exchange = exchange_schema(schema)
    batches = read_changes(
        splits,
        [name for name in exchange.names if name not in FEED_COLUMNS],
        filter=options.filter,
        batch_size=options.batch_size,
        batch_bytes=options.bounded_batch_bytes,
        with_payloads=options.blobs == "payloads",
        window_bytes=options.window_bytes,
        storage_options=options.storage_options,
    )
    truncate = options.nanoseconds == "truncate"
    for batch in batches:
        full = convert_batch(with_missing(batch, exchange), exchange, truncate=truncate)
        yield from cut(full, options.bounded_batch_bytes)


def _limit(limit: ReadLimit | None) -> Limit:
    return Limit(
        files=getattr(limit, "max_files", None),
        rows=getattr(limit, "max_rows", None),
        size_bytes=getattr(limit, "max_bytes", None),
    )


def _paths(wanted: DataType, path: str = "") -> Iterator[str]:
    """Yield the paths of the fields that a query reads, as in `QueryColumns`."""
    if path:
        yield path
    if isinstance(wanted, StructType):
        for field in wanted.fields:
            yield from _paths(field.dataType, f"{path}.{field.name}" if path else field.name)
    elif isinstance(wanted, ArrayType):
        yield from _paths(wanted.elementType, f"{path}{_ITEM}")
    elif isinstance(wanted, MapType):
        entry = f"{path}{_ITEM}"
        yield entry
        yield from _paths(wanted.keyType, f"{entry}.key")
        yield from _paths(wanted.valueType, f"{entry}.value")
