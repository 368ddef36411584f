"""Pass rows to Python in batches that are bounded by bytes, at less cost than Spark's own bound.

After each row, Spark computes the size of the batch so far, column by column: half of the work of
its JVM for a write. Here the bound is part of the query instead, where Spark compiles it: a batch
of 10,000 rows has 64 MiB, so 6,710 bytes are a place in it, and a wide row takes several places.

    rows      4 kB   20 kB             1 kB           width: octet_length(text) + 8 * size(vector)
    places    0      0     1     2     0              one row for each, null but for the first
    batch     row    row   null  null  row ──▶ tasks drop the rows of other places

Spark's check is off for the job alone, by a property of the thread. It stays on where the width of
a row is not known cheaply (maps, lists of texts), where the session sets a limit, where the job
also passes other rows to Python (functions of the user), and on Spark Connect, which has no such
properties.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from pilum.spark.names import quoted
from pilum.spark.properties import local_properties

__all__ = ["MAX_BYTES", "MAX_ROWS", "NO_LIMIT", "collect_from_tasks"]

MAX_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
MAX_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
# With exactly this value, Spark does not check the size of batches.
NO_LIMIT = 2**31 - 1

_BATCH_BYTES = 64 << 20
_MOST_ROWS = 1 << 20
_PLACE = "_pilum_batch_place"
_OTHER_PYTHON = re.compile("Python|Pandas|Arrow")
# What other leaves execute is not in the plan.
_PLAIN_LEAVES = frozenset(
    {
        "DataSourceV2ScanRelation",
        "HiveTableRelation",
        "LocalRelation",
        "LogicalRelation",
        "OneRowRelation",
        "Range",
    }
)
_WIDTHS: dict[type[st.DataType], int] = {
    st.BooleanType: 1,
    st.NullType: 1,
    st.DateType: 4,
    st.DecimalType: 16,
    st.NumericType: 8,
    st.TimestampType: 8,
    st.TimestampNTZType: 8,
    st.DayTimeIntervalType: 8,
}

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class _Width:
    """The width of a column: some bytes in each row, and an expression for the others."""

    fixed_bytes: int
    variable_bytes: tuple[Column, ...] = ()


def collect_from_tasks(frame: DataFrame, task: Task, schema: str) -> list[Row]:
    """Run a task on the batches of each partition of a frame, as `mapInArrow`, and collect rows."""
    spark = frame.sparkSession
    checks = not hasattr(frame, "_jdf") or spark.conf.get(MAX_BYTES, None) is not None
    bounded = None if checks else _bounded(frame)
    if bounded is None or not _is_all_that_python_gets(bounded):
        return frame.mapInArrow(task, schema).collect()
    with local_properties(spark, {MAX_BYTES: str(NO_LIMIT)}):
        return bounded.mapInArrow(partial(_without_places, task), schema).collect()


def _without_places(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return task(map(_rows_alone, batches))


def _rows_alone(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a batch, without those that only take its places."""
    if _PLACE not in batch.schema.names:
        return batch
    places = batch.column(_PLACE)
    rows = batch.drop_columns([_PLACE])
    if places.null_count == len(places):
        return rows
    return rows.filter(pa.compute.equal(pa.compute.fill_null(places, 0), 0))


def _is_all_that_python_gets(frame: DataFrame) -> bool:
    """Return whether the query of a frame passes no other rows to Python."""
    plan: Any = frame._jdf.queryExecution().optimizedPlan()
    return plan.subqueriesAll().isEmpty() and all(map(_is_plain, _nodes(plan)))


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for number in range(children.size()):
        yield from _nodes(children.apply(number))


def _is_plain(node: Any) -> bool:
    name = str(node.nodeName())
    if node.children().isEmpty():
        return name in _PLAIN_LEAVES
    return _OTHER_PYTHON.search(name) is None


def _bounded(frame: DataFrame) -> DataFrame | None:
    """Return a frame of which no batch has more bytes than Spark allows; None if unknown."""
    names = [name.lower() for name in frame.columns]
    if len({*names, _PLACE}) <= len(names):
        return None
    rows = _max_rows(frame.sparkSession)
    widths = {one.name: _width(sf.col(quoted(one.name)), one.dataType) for one in frame.schema}
    known = [width for width in widths.values() if width is not None]
    if len(known) < len(widths) or not 1 <= rows <= _MOST_ROWS:
        return None
    if sum(width.fixed_bytes for width in known) * rows > _BATCH_BYTES:
        return None
    parts = [part for width in known for part in width.variable_bytes]
    if not parts:
        return frame
    place_bytes = _BATCH_BYTES // rows
    width = reduce(Column.__add__, parts)
    last = (width / sf.lit(place_bytes)).cast("int")
    places = sf.when(width >= place_bytes, sf.sequence(sf.lit(0), last))
    wide = frame.select("*", sf.explode_outer(places).alias(_PLACE))
    is_row = sf.coalesce(sf.col(_PLACE), sf.lit(0)) == 0

    def column(name: str, width: _Width | None) -> Column:
        whole = sf.col(quoted(name))
        return sf.when(is_row, whole).alias(name) if width and width.variable_bytes else whole

    return wide.select(*(column(*one) for one in widths.items()), _PLACE)


def _max_rows(spark: SparkSession) -> int:
    return int(spark.conf.get(MAX_ROWS) or 0)


def _width(column: Column, kind: st.DataType) -> _Width | None:
    """Return the width of a column in an Arrow batch; None if it takes long to compute."""
    if isinstance(kind, st.StringType | st.BinaryType | st.CharType | st.VarcharType):
        return _Width(4, (_or_zero(sf.octet_length(column)),))
    if isinstance(kind, st.StructType):
        if len({one.name.lower() for one in kind.fields}) < len(kind.fields):
            return None  # a name alone does not select one of these
        members = [_width(column.getField(one.name), one.dataType) for one in kind.fields]
        known = [one for one in members if one is not None]
        if len(known) < len(members):
            return None
        parts = tuple(part for one in known for part in one.variable_bytes)
        return _Width(1 + sum(one.fixed_bytes for one in known), parts)
    if isinstance(kind, st.ArrayType):
        item = _width(column, kind.elementType)
        if item is None or item.variable_bytes:
            return None
        return _Width(4, (_or_zero(sf.array_size(column)) * item.fixed_bytes,))
    for known_kind, width in _WIDTHS.items():
        if isinstance(kind, known_kind):
            return _Width(width)
    return None


def _or_zero(number: Column) -> Column:
    return sf.coalesce(number.cast("bigint"), sf.lit(0))
