"""`pilum.spark.aggregate`: a Python data source whose tasks return partials, combined by Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pilum.distributed import Split, read_split
from pilum.distributed.conditions import ROW_ADDRESS, BoundProjection, bind_value
from pilum.distributed.splits import batch_rows, partition_splits
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.spark.aggregates.partials import BoundPartial, BoundPartials, Call, Partial
from pilum.spark.opening import open_version, pin
from pilum.spark.options import Options, option_texts, version_texts
from pilum.spark.tasks import settle
from pilum.spark.types import exchange_schema, to_spark

__all__ = [
    "PartialsReader",
    "Planned",
    "Request",
    "aggregate",
    "final",
    "partial_frame",
]

_REQUEST = "request"
# A batch yields one row per group, so large batches yield fewer rows in all. They are about as
# large as the window that a scan reads at once.
_BATCH_ROWS = 256 * 1024
_BATCH_BYTES = 32 << 20
# Measured memory of grouping, half of it for the libraries that are loaded for it.
_GROUPING_BYTES = 100 << 20
# Rows that are not passed to Spark are cheap.
_TASK_ROWS = 4_000_000


@dataclass(frozen=True)
class Request:
    """SQL expressions to group a table by, and aggregates: functions with an optional argument."""

    keys: tuple[str, ...]
    calls: tuple[Call, ...]

    def to_json(self) -> str:
        """Return the request as the text of an option."""
        return json.dumps([self.keys, [[call.function, call.argument] for call in self.calls]])

    @classmethod
    def from_json(cls, text: str) -> Request:
        """Parse the text that `to_json` wrote."""
        keys, calls = json.loads(text)
        return cls(tuple(keys), tuple(Call(*call) for call in calls))


@dataclass(frozen=True)
class Planned:
    """A request bound to the columns of one version: keys, arguments and partials, in order.

    `arguments` has None for a call without one; `bound` is the computation that tasks run.
    """

    key_fields: tuple[st.StructField, ...]
    arguments: tuple[st.DataType | None, ...]
    partials: tuple[tuple[Partial, ...], ...]
    bound: BoundPartials

    @classmethod
    def of(cls, request: Request, schema: pa.Schema, *, truncate: bool = False) -> Planned:
        """Bind a request to the columns of a table.

        If `truncate`, times finer than Spark's are truncated instead of refused.
        """
        keys = tuple(bind_value(text, schema) for text in request.keys)
        values = [
            None if c.argument is None else bind_value(c.argument, schema) for c in request.calls
        ]
        fields = [None if value is None else _spark(value) for value in values]
        types = tuple(None if field is None else field.dataType for field in fields)
        partials = tuple(c.partials(kind) for c, kind in zip(request.calls, types, strict=True))
        bound = tuple(
            BoundPartial(kind, value, None if field is None else _crossing([field]).types[0])
            for own, value, field in zip(partials, values, fields, strict=True)
            for kind, _ in own
        )
        key_fields = tuple(_key(_spark(key)) for key in keys)
        named = [st.StructField(f"k{i}", key.dataType) for i, key in enumerate(key_fields)]
        crossing = _crossing([*named, *_fields(partials)])
        return cls(key_fields, types, partials, BoundPartials(keys, bound, crossing, truncate))


class PartialsSource(DataSource):
    """A source of partial aggregates: one option is the request, the others are for reading."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format, which only `pilum.spark.aggregate` uses."""
        return "pilum-aggregates"

    def reader(self, schema: st.StructType) -> PartialsReader:
        """Return a reader of partial aggregates; `schema` is their schema."""
        given = dict(self.options)
        request = Request.from_json(given.pop(_REQUEST))
        return PartialsReader(request, Options.parse(given))


class PartialsReader(DataSourceReader):
    """A reader that scans the needed columns and aggregates batch by batch."""

    def __init__(self, request: Request, options: Options) -> None:
        if options.memory_limit is not None:
            left = max(1, options.memory_limit - _GROUPING_BYTES)
            options = replace(options, memory_limit=left)
        self._options, self._table = pin(options)
        truncate = options.nanoseconds == "truncate"
        self._partials = Planned.of(request, self._table.columns, truncate=truncate).bound
        self._filter = self._table.condition(options.filter) if options.filter else None
        self._columns = self._partials.columns or (ROW_ADDRESS,)

    def partitions(self) -> list[InputPartition]:
        """Return ranges of rows, larger than those of scans that pass their rows to Spark."""
        groups = partition_splits(
            self._table,
            self._columns,
            self._filter,
            self._options.partition_bytes,
            max_rows=_TASK_ROWS,
        )
        return [InputPartition(group) for group in groups]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the partials of one partition, one batch per batch of the scan."""
        # Of a table without rows, Spark reads None before 4.3, and since then a partition of None.
        splits: tuple[Split, ...] = () if partition is None else partition.value or ()
        settle()
        for split in splits:
            for batch in self._scan(split):
                yield self._partials.of(batch)

    def _scan(self, split: Split) -> Iterator[pa.RecordBatch]:
        options = self._options
        window_bytes = options.window_bytes
        # Grouping copies the rows.
        most_bytes = min(_BATCH_BYTES, (window_bytes or 4 * _BATCH_BYTES) // 4)
        rows = batch_rows(self._table, split, self._columns, _BATCH_ROWS, most_bytes)
        return read_split(
            split,
            columns=self._columns,
            filter=self._filter,
            batch_size=options.batch_size or rows,
            window_bytes=window_bytes,
            version=self._table,
        )


def _spark(value: BoundProjection) -> st.StructField:
    return to_spark(pa.schema([value.field])).fields[0]


def _key(field: st.StructField) -> st.StructField:
    if isinstance(field.dataType, st.ArrayType | st.StructType | st.VariantType):
        raise UnsupportedFeatureError(f"groups by {field.simpleString()}")
    return field


def _fields(partials: Iterable[tuple[Partial, ...]]) -> list[st.StructField]:
    given = [spark for own in partials for _, spark in own]
    return [st.StructField(f"p{number}", spark) for number, spark in enumerate(given)]


def _crossing(fields: Sequence[st.StructField]) -> pa.Schema:
    return exchange_schema(st.StructType(list(fields)))


def aggregate(
    spark: SparkSession,
    uri: str,
    aggregates: Mapping[str, str],
    *,
    group_by: Sequence[str] = (),
    filter: str | None = None,
    version: int | str | None = None,
    branch: str | None = None,
    as_of: datetime | None = None,
    partition_bytes: int | None = None,
    memory_limit: int | None = None,
    nanoseconds: str = "refuse",
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Compute counts, sums and extremes of a table in the tasks that read it.

    Spark does not push aggregates down to Python sources: for `read(…).groupBy(…).agg(…)` every row
    is passed to the JVM, one by one. Here tasks aggregate with Arrow, and one row per group of some
    256 thousand rows is passed.

    Args:
        spark: The session.
        uri: Location of the table.
        aggregates: Names of the results, and calls such as "count(*)", "sum(price * quantity)" or
            "max(length(name))". Functions are count, sum, min, max and avg; arguments use the SQL
            dialect of pilum's filters.
        group_by: Names of columns; the result has one row per combination of their values.
        filter: A SQL condition on rows.
        version: A number or the name of a tag, instead of the latest version.
        branch: The branch.
        as_of: Read the latest version at this time instead.
        partition_bytes: Approximate size of the files that one task reads.
        memory_limit: Approximate limit, in bytes, of the rows that a Python worker holds.
        nanoseconds: What to do with times finer than microseconds: "refuse" or "truncate".
        storage_options: Settings of the store.

    Returns:
        The columns of `group_by`, then the results, in the types of Spark's own functions. Without
        `group_by` one row, even for a table without rows.

    Raises:
        DatasetNotFoundError: If there is no table.
        ColumnNotFoundError: If there is no such column.
        FilterError: If the filter or an argument does not fit the table.
        InvalidInputError: If a text is not a call, or no aggregate is given.
        UnsupportedFeatureError: If a function is not supported, or values have no sum or no order.
    """
    if not isinstance(aggregates, Mapping) or not aggregates:
        raise InvalidInputError(f"aggregates: expected a dict of names and calls: {aggregates!r}")
    if isinstance(group_by, str):
        raise InvalidInputError(f"group_by: expected a list of names, found {group_by!r}")
    given = {
        "filter": filter,
        **version_texts(version, branch, as_of),
        "partitionBytes": partition_bytes,
        "memoryLimit": memory_limit,
        "nanoseconds": nanoseconds,
    }
    keys = tuple(f"`{name}`" for name in group_by)
    request = Request(keys, tuple(map(Call.parse, aggregates.values())))
    frame, planned = partial_frame(spark, request, option_texts(uri, given, storage_options))
    results = [
        sf.expr(text).alias(name)
        for name, text in zip(aggregates, final(request, planned), strict=True)
    ]
    if not group_by:
        return frame.agg(*results)
    named = [
        sf.col(f"k{number}").alias(name, metadata=field.metadata)
        for number, (name, field) in enumerate(zip(group_by, planned.key_fields, strict=True))
    ]
    return frame.groupBy(*named).agg(*results)


def partial_frame(
    spark: SparkSession, request: Request, texts: Mapping[str, str]
) -> tuple[DataFrame, Planned]:
    """Return a frame of partial aggregates of one version: keys `k0` … and partials `p0` …."""
    _, table, pinned = open_version(texts)
    planned = Planned.of(request, table.columns)
    spark.dataSource.register(PartialsSource)
    reader = spark.read.format(PartialsSource.name()).schema(to_spark(planned.bound.schema))
    return reader.options(**pinned, **{_REQUEST: request.to_json()}).load(), planned


def final(request: Request, planned: Planned) -> list[str]:
    """Return, for each call, the Spark SQL that combines its partials."""
    names = (f"p{number}" for number in count())
    return [
        _final(call, argument, [next(names) for _ in own])
        for call, argument, own in zip(
            request.calls, planned.arguments, planned.partials, strict=True
        )
    ]


def _final(call: Call, argument: st.DataType | None, names: list[str]) -> str:
    if call.function == "count":
        return f"coalesce(sum({names[0]}), 0)"
    if call.function == "avg":
        return f"CASE WHEN sum({names[1]}) > 0 THEN sum({names[0]}) / sum({names[1]}) END"
    return f"CAST({call.function}({names[0]}) AS {call.result(argument).simpleString()})"
