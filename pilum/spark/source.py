"""The batch reader: a pinned version is split into partitions and scanned to Arrow batches.

    load()    schema() pins the version          pickled with the source to every query
    query     reader() ─ partitions()      in a short Python process by the driver
    tasks     read(partition)                    scan ─▶ the Arrow types that Spark accepts

The version is looked up once, in `schema`, so all queries of one DataFrame see one snapshot. With a
user-defined schema Spark does not call `schema`, and the version is the latest one when Spark plans
the query. The option "version" and `pilum.spark.read` always pin it.

Spark keeps the partitions that it planned last and uses them for all queries of a DataFrame. So
they contain all rows, or those of the option "filter", which is the same for all queries, and Spark
evaluates the conditions of a query. `PushedReader` is the opt-in exception.

Spark never requests fewer columns than `load` reported. So a user-defined schema, or the option
"columns", is the projection. Source: docs/spark.md, "Reading".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pilum.distributed import Split, read_split
from pilum.errors import InvalidInputError
from pilum.expressions import bind
from pilum.expressions.filter import BoundFilter
from pilum.format.blobs import has_blobs
from pilum.spark.convert import convert_batch, cut
from pilum.spark.names import stored_paths
from pilum.spark.opening import asked_schema, pin
from pilum.spark.options import Options
from pilum.spark.partitions import batch_rows, partition_splits
from pilum.spark.requested_schema import check_columns, require_one_projection
from pilum.spark.sink import PilumWriter
from pilum.spark.stream_rows import with_feed_columns
from pilum.spark.stream_sink import PilumStreamWriter, stream_writer
from pilum.spark.stream_source import PilumStreamReader, stream_reader
from pilum.spark.types import exchange_schema, to_spark
from pilum.spark.workers import settle
from pilum.table.read.json_columns import text_batches
from pilum.table.read.scan import ScanOptions, scan_schema
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.open import open_table

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

__all__ = ["LanceDataSource", "PilumDataSource", "PilumReader", "PushedReader"]

# Batches of about this many rows pass through the pipe to the JVM fastest.
_BATCH_ROWS = 20_000


class PilumDataSource(DataSource):
    """`format("pilum")`: Lance tables, reading and writing, in batches and as streams."""

    _pinned: Options | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "pilum"

    def schema(self) -> StructType:
        """Pin the version and return the columns of the table, or those of the option "columns"."""
        options = Options.parse(dict(self.options))
        self._pinned, snapshot = pin(options)
        schema = to_spark(asked_schema(snapshot, options))
        return with_feed_columns(schema) if options.read_change_feed else schema

    def reader(self, schema: StructType) -> PilumReader:
        """Return a reader of the columns of `schema`, in its order."""
        options = self._pinned or Options.parse(dict(self.options))
        if options.read_change_feed:
            raise InvalidInputError('option "readChangeFeed": only streams have it, readStream')
        return (PushedReader if options.pushdown else PilumReader)(schema, options)

    def writer(self, schema: StructType, overwrite: bool) -> PilumWriter:
        """Return a writer that overwrites, or appends and creates the table if there is none."""
        return PilumWriter(schema, Options.parse(dict(self.options)), overwrite)

    def streamReader(self, schema: StructType) -> PilumStreamReader:  # noqa: N802
        """Return a reader that follows the table from version to version."""
        return stream_reader(schema, Options.parse(dict(self.options)))

    def streamWriter(self, schema: StructType, overwrite: bool) -> PilumStreamWriter:  # noqa: N802
        """Return a writer that appends each micro-batch once, or replaces all rows by it."""
        return stream_writer(schema, Options.parse(dict(self.options)), overwrite)


class LanceDataSource(PilumDataSource):
    """The same source under the name of the Java connector: `format("lance")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "lance"


class PilumReader(DataSourceReader):
    """A reader of some columns of one version.

    Attributes:
        uri: Location of the table.
        version: The pinned version.
        columns: The columns that the scan reads: names, or dotted paths to members of structs.
        filter: The condition on rows, if any.
    """

    def __init__(self, schema: StructType, options: Options) -> None:
        options, snapshot = pin(options)
        self.uri = options.path
        self.version = snapshot.manifest.version
        self.columns = stored_paths(
            schema.names, snapshot.described.arrow, case_sensitive=options.case_sensitive
        )
        self.filter: BoundFilter | None = None
        self._schema = schema
        self._options = options
        self._table = snapshot.described.arrow
        require_one_projection(schema, options)
        check_columns(schema, self.columns, snapshot, options)
        self._keep(options.filter)

    def partitions(self) -> list[InputPartition]:
        """Return ranges of rows, each about as large as the option "partitionBytes"."""
        groups = partition_splits(
            self._snapshot(), self.columns, self.filter, self._options.partition_bytes
        )
        return [InputPartition(group) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Scan one partition and yield batches of exactly the types that Spark accepts."""
        # Spark makes a partition of None if a table has no rows at all.
        splits: tuple[Split, ...] = partition.value or ()
        settle()
        snapshot = self._snapshot()
        schema = exchange_schema(self._schema)
        stored = scan_schema(
            snapshot, ScanOptions(columns=self.columns, with_payloads=self._payloads)
        )
        truncate = self._options.nanoseconds == "truncate"
        for split in splits:
            for batch in text_batches(stored, self._scan(split, snapshot)):
                yield from cut(
                    convert_batch(batch, schema, truncate=truncate),
                    self._options.bounded_batch_bytes,
                )

    def _keep(self, *conditions: str | None) -> None:
        """Restrict the scan to rows that fulfil all conditions; None is ignored."""
        terms = [f"({condition})" for condition in conditions if condition]
        self.filter = bind(" AND ".join(terms), self._table) if terms else None

    def _snapshot(self) -> Snapshot:
        return Snapshot.at(open_table(self.uri, self._options.storage_options), self.version)

    @property
    def _payloads(self) -> bool:
        return self._options.blobs == "payloads"

    def _scan(self, split: Split, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
        rows = self._options.batch_size or batch_rows(
            snapshot, split, self.columns, _BATCH_ROWS, self._options.bounded_batch_bytes
        )
        return read_split(
            split,
            columns=self.columns,
            filter=self.filter,
            batch_size=rows,
            with_payloads=self._payloads,
            window_bytes=self._options.window_bytes,
            snapshot=snapshot,
        )


class PushedReader(PilumReader):
    """A reader with filter pushdown, for frames that are used by one query only.

    All other queries of the frame get the rows of that query, without an error; see
    docs/spark-pushdown.md. Spark refuses this reader while filter pushdown is disabled.
    """

    def __init__(self, schema: StructType, options: Options) -> None:
        super().__init__(schema, options)
        snapshot = self._snapshot()
        # Conditions refer to the columns that Spark sees, but filters see blob descriptors.
        self._pushable = pa.schema(
            [
                field.arrow
                for field, stored in zip(
                    snapshot.described.fields, snapshot.schema.fields, strict=True
                )
                if not (self._payloads and has_blobs(stored))
            ]
        )

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Accept the filters that the scan can evaluate and return those left to Spark."""
        from pilum.spark.filters import split as split_filters  # PySpark 4.0 has no filters

        text, rest = split_filters(filters, self._pushable)
        self._keep(self._options.filter, text)
        return rest
