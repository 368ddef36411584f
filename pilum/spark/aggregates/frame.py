"""`pilum.spark.aggregate`: tasks compute partial aggregates, and Spark combines them."""

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
    """Return a frame of partial aggregates of one version: keys `k0` … and partials `p0` ….

    Args:
        spark: The session.
        request: The requested groups and aggregates.
        texts: Options for reading.

    Raises:
        The errors of `aggregate`.
    """
    options, snapshot = pin(Options.parse(texts))
    described = snapshot.described.arrow
    planned = Planned.of(request, described)
    if options.filter is not None:
        bind(options.filter, described)  # report errors here, before any task runs
    kept = {name: text for name, text in texts.items() if name not in {"asOf", "branch"}}
    kept |= {"path": options.path, "version": str(options.version), REQUEST: request.to_json()}
    spark.dataSource.register(PartialsSource)
    reader = spark.read.format(PartialsSource.name()).schema(to_spark(planned.bound.schema))
    return reader.options(**kept).load(), planned


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
