"""`pilum.spark.aggregate`: partial aggregates of tasks, and Spark's aggregates of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import count

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from pilum.errors import InvalidInputError
from pilum.expressions import bind
from pilum.spark.aggregates.calls import Call
from pilum.spark.aggregates.source import REQUEST, PartialsSource, Planned, Request
from pilum.spark.opening import pin
from pilum.spark.options import Options, option_texts, version_texts
from pilum.spark.types import to_spark

__all__ = ["aggregate", "final", "partial_frame"]


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
    """Counts, sums and extremes of a table, computed where it is read.

    Spark hands no aggregates to Python sources: what `read(…).groupBy(…).agg(…)` aggregates are
    rows that have crossed, one by one, to the JVM. Here tasks aggregate with Arrow, and a row for
    each group of some 256 thousand rows crosses.

    Args:
        spark: The session.
        uri: Location of the table.
        aggregates: Names of the results, and calls such as "count(*)", "sum(price * quantity)" or
            "max(length(name))": count, sum, min, max and avg, of SQL of pilum's filters.
        group_by: Names of columns; each combination of their values is a row of the result.
        filter: A SQL condition on rows.
        version: A number or the name of a tag, instead of the latest version.
        branch: The branch.
        as_of: The latest version at this time instead.
        partition_bytes: Size of the files that one task reads, about.
        memory_limit: About how many bytes of rows a Python worker holds.
        nanoseconds: What to do with times finer than microseconds: "refuse" or "truncate".
        storage_options: Settings of the store.

    Returns:
        The columns of `group_by`, then the results, of the types that Spark's own functions give.
        Without `group_by` one row, also of a table without rows.

    Raises:
        DatasetNotFoundError: If there is no table.
        ColumnNotFoundError: If there is no such column.
        FilterError: If the filter or an argument does not fit the table.
        InvalidInputError: If a call is none, or nothing is asked for.
        UnsupportedFeatureError: For other functions, and values that have no sum or no order.
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
    """A frame of what tasks give: keys `k0`, `k1` … and partials `p0`, `p1` …, of one version.

    Args:
        spark: The session.
        request: What is wanted.
        texts: Options of reading.

    Raises:
        As `aggregate`.
    """
    options, snapshot = pin(Options.parse(texts))
    described = snapshot.described.arrow
    planned = Planned.of(request, described)
    if options.filter is not None:
        bind(options.filter, described)  # what is wrong with it is better told here
    kept = {name: text for name, text in texts.items() if name not in {"asOf", "branch"}}
    kept |= {"path": options.path, "version": str(options.version), REQUEST: request.to_json()}
    spark.dataSource.register(PartialsSource)
    reader = spark.read.format(PartialsSource.name()).schema(to_spark(planned.bound.schema))
    return reader.options(**kept).load(), planned


def final(request: Request, planned: Planned) -> list[str]:
    """What Spark makes of the partials, in its SQL, for each call."""
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
