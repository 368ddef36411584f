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
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pilum.distributed import Split, read_split
from pilum.distributed.conditions import BoundFilter
from pilum.distributed.splits import batch_rows, first_splits, partition_splits
from pilum.errors import InvalidInputError
from pilum.spark.convert import convert_batch, cut
from pilum.spark.names import stored_paths
from pilum.spark.opening import asked_schema, check_columns, pin, require_one_projection
from pilum.spark.options import Options
from pilum.spark.sink import PilumStreamWriter, PilumWriter, stream_writer
from pilum.spark.stream_source import PilumStreamReader, stream_reader, with_feed_columns
from pilum.spark.tasks import settle
from pilum.spark.types import exchange_schema, to_spark

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

__all__ = ["LanceDataSource", "PilumDataSource", "PilumReader", "PushedReader", "register_source"]

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
        self._pinned, version = pin(options)
        schema = to_spark(asked_schema(version, options))
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
        table: The pinned version.
        columns: The columns that the scan reads: names, or dotted paths to members of structs.
        filter: The condition on rows, if any.
    """

    def __init__(self, schema: StructType, options: Options) -> None:
        options, self.table = pin(options)
        self.columns = stored_paths(
            schema.names, self.table.columns, case_sensitive=options.case_sensitive
        )
        self.filter: BoundFilter | None = None
        self._schema = schema
        self._options = options
        require_one_projection(schema, options)
        check_columns(schema, self.columns, self.table, options)
        self._keep(options.filter)

    def partitions(self) -> list[InputPartition]:
        """Return ranges of rows, each about as large as the option "partitionBytes"."""
        groups = partition_splits(
            self.table, self.columns, self.filter, self._options.partition_bytes
        )
        if self._options.limit is not None and self.filter is None:
            groups = first_splits(self.table, groups, self._options.limit)
        return [InputPartition(group) for group in groups]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Scan one partition and yield batches of exactly the types that Spark accepts."""
        # Of a table without rows, Spark reads None before 4.3, and since then a partition of None.
        splits: tuple[Split, ...] = () if partition is None else partition.value or ()
        settle()
        schema = exchange_schema(self._schema)
        truncate = self._options.nanoseconds == "truncate"
        for batch in self._enough(splits):
            yield from cut(
                convert_batch(batch, schema, truncate=truncate),
                self._options.bounded_batch_bytes,
            )

    def _enough(self, splits: Iterable[Split]) -> Iterator[pa.RecordBatch]:
        """Scan splits until the option "limit" is reached, if it is given."""
        left = self._options.limit
        for split in splits:
            for batch in self._scan(split):
                yield batch if left is None else batch.slice(0, left)
                if left is not None:
                    left = max(0, left - batch.num_rows)
                    if left == 0:
                        return

    def _keep(self, *conditions: str | None) -> None:
        """Restrict the scan to rows that fulfil all conditions; None is ignored."""
        terms = [f"({condition})" for condition in conditions if condition]
        self.filter = self.table.condition(" AND ".join(terms)) if terms else None

    @property
    def _payloads(self) -> bool:
        return self._options.blobs == "payloads"

    def _scan(self, split: Split) -> Iterator[pa.RecordBatch]:
        rows = self._options.batch_size or batch_rows(
            self.table, split, self.columns, _BATCH_ROWS, self._options.bounded_batch_bytes
        )
        if self._options.limit is not None:
            rows = min(rows, self._options.limit)
        return read_split(
            split,
            columns=self.columns,
            filter=self.filter,
            batch_size=rows,
            with_payloads=self._payloads,
            window_bytes=self._options.window_bytes,
            json_as_text=True,
            version=self.table,
        )


class PushedReader(PilumReader):
    """A reader with filter pushdown, for frames that are used by one query only.

    All other queries of the frame get the rows of that query, without an error; see
    docs/spark-pushdown.md. Spark refuses this reader while filter pushdown is disabled.
    """

    def __init__(self, schema: StructType, options: Options) -> None:
        super().__init__(schema, options)
        # Conditions refer to the columns that Spark sees, but filters see blob descriptors.
        hidden = self.table.blob_columns if self._payloads else ()
        self._pushable = pa.schema([one for one in self.table.columns if one.name not in hidden])

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Accept the filters that the scan can evaluate and return those left to Spark."""
        from pilum.spark.filters import split as split_filters  # PySpark 4.0 has no filters

        text, rest = split_filters(filters, self._pushable)
        self._keep(self._options.filter, text)
        return rest


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a format with a session; a format may be registered twice."""
    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        # Spark 4.0 refuses a source that it has discovered by itself; later versions accept it
        # again.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
