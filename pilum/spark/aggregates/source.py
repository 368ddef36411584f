"""The Python data source of `pilum.spark.aggregate`: tasks scan and return partial aggregates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pilum.distributed import Split, read_split
from pilum.errors import UnsupportedFeatureError
from pilum.expressions import bind, bind_projection
from pilum.expressions.filter import BoundProjection
from pilum.format.meta_columns import ROW_ADDRESS
from pilum.spark.aggregates.calls import Call, Partial
from pilum.spark.aggregates.partials import BoundPartial, BoundPartials
from pilum.spark.opening import pin
from pilum.spark.options import Options
from pilum.spark.partitions import batch_rows, partition_splits
from pilum.spark.types import exchange_schema, to_spark
from pilum.spark.workers import settle
from pilum.table.read.json_columns import is_json_field
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.open import open_table

__all__ = ["REQUEST", "PartialsSource", "Planned", "Request"]

REQUEST = "request"
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
    """The groups and aggregates requested of a table.

    Attributes:
        keys: SQL expressions to group by.
        calls: Aggregates, each a function with an optional argument.
    """

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
    """A request bound to the columns of one version.

    Attributes:
        key_fields: The keys as Spark fields.
        arguments: Types of the arguments; None for a call without one.
        partials: The partial aggregates of each call.
        bound: The computation that tasks run.
    """

    key_fields: tuple[st.StructField, ...]
    arguments: tuple[st.DataType | None, ...]
    partials: tuple[tuple[Partial, ...], ...]
    bound: BoundPartials

    @classmethod
    def of(cls, request: Request, schema: pa.Schema, *, truncate: bool = False) -> Planned:
        """Bind a request.

        Args:
            request: The requested groups and aggregates.
            schema: Columns of the table.
            truncate: Whether times finer than Spark's are truncated instead of refused.

        Raises:
            ColumnNotFoundError: If it names a column that does not exist.
            FilterError: If an argument does not parse or bind.
            UnsupportedFeatureError: If values cannot be aggregated or grouped by.
            UnsupportedTypeError: If Spark has no type for them.
        """
        keys = tuple(_bound(text, schema) for text in request.keys)
        values = [None if c.argument is None else _bound(c.argument, schema) for c in request.calls]
        fields = [None if value is None else _spark(value) for value in values]
        types = tuple(None if field is None else field.dataType for field in fields)
        partials = tuple(c.partials(kind) for c, kind in zip(request.calls, types, strict=True))
        bound = tuple(
            BoundPartial(one.kind, value, None if field is None else _crossing([field]).types[0])
            for own, value, field in zip(partials, values, fields, strict=True)
            for one in own
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
        request = Request.from_json(given.pop(REQUEST))
        return PartialsReader(request, Options.parse(given))


class PartialsReader(DataSourceReader):
    """A reader that scans the needed columns and aggregates batch by batch."""

    def __init__(self, request: Request, options: Options) -> None:
        if options.memory_limit is not None:
            left = max(1, options.memory_limit - _GROUPING_BYTES)
            options = replace(options, memory_limit=left)
        self._options, snapshot = pin(options)
        truncate = options.nanoseconds == "truncate"
        described = snapshot.described.arrow
        self._partials = Planned.of(request, described, truncate=truncate).bound
        self._filter = bind(options.filter, described) if options.filter else None
        self._columns = self._partials.columns or (ROW_ADDRESS,)

    def partitions(self) -> list[InputPartition]:
        """Return ranges of rows, larger than those of scans that pass their rows to Spark."""
        groups = partition_splits(
            self._snapshot(),
            self._columns,
            self._filter,
            self._options.partition_bytes,
            max_rows=_TASK_ROWS,
        )
        return [InputPartition(group) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the partials of one partition, one batch per batch of the scan."""
        # Spark makes a partition of None if a table has no rows at all.
        splits: tuple[Split, ...] = partition.value or ()
        settle()
        snapshot = self._snapshot()
        for split in splits:
            for batch in self._scan(split, snapshot):
                yield self._partials.of(batch)

    def _scan(self, split: Split, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
        options = self._options
        window_bytes = options.window_bytes
        # Grouping copies the rows.
        most_bytes = min(_BATCH_BYTES, (window_bytes or 4 * _BATCH_BYTES) // 4)
        rows = batch_rows(snapshot, split, self._columns, _BATCH_ROWS, most_bytes)
        return read_split(
            split,
            columns=self._columns,
            filter=self._filter,
            batch_size=options.batch_size or rows,
            window_bytes=window_bytes,
            snapshot=snapshot,
        )

    def _snapshot(self) -> Snapshot:
        options = self._options
        assert isinstance(options.version, int)
        return Snapshot.at(open_table(options.path, options.storage_options), options.version)


def _bound(text: str, schema: pa.Schema) -> BoundProjection:
    bound = bind_projection(text, schema)
    if is_json_field(bound.field):
        raise UnsupportedFeatureError(f"{text}: JSON is not aggregated by its bytes")
    return bound


def _spark(value: BoundProjection) -> st.StructField:
    return to_spark(pa.schema([value.field])).fields[0]


def _key(field: st.StructField) -> st.StructField:
    if isinstance(field.dataType, st.ArrayType | st.StructType | st.VariantType):
        raise UnsupportedFeatureError(f"groups by {field.simpleString()}")
    return field


def _fields(partials: Iterable[tuple[Partial, ...]]) -> list[st.StructField]:
    given = [one for own in partials for one in own]
    return [st.StructField(f"p{number}", one.spark) for number, one in enumerate(given)]


def _crossing(fields: Sequence[st.StructField]) -> pa.Schema:
    return exchange_schema(st.StructType(list(fields)))
