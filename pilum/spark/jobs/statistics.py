"""Statistics as a job of Spark: tasks read fragments, and what they found is joined by the driver.

    plan ──▶ a task per group of fragments ──▶ a summary of each column ──▶ joined by the driver

Values do not pass through the JVM, only the summaries do: some KiB per column and task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from pilum.distributed import WriteJob
from pilum.errors import ColumnNotFoundError
from pilum.spark.options import table_uri
from pilum.spark.row_tasks import fragment_groups, over_groups, pinned
from pilum.table.read.column_statistics import ColumnSummary, summarize
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.open import open_table

__all__ = ["ColumnStatistics", "analyze"]


@dataclass(frozen=True)
class ColumnStatistics:
    """What a column of a table holds.

    Attributes:
        name: Of the column.
        num_rows: Rows of the table, without deleted ones.
        null_count: Of them, those that are null here.
        min: The least value; None if there is none, or the type has no order. NaN does not count.
        max: The greatest.
        distinct_count: How many different values there are; from 1,024 on about, within 6 % in 95
            of 100 cases. None for nested types.
    """

    name: str
    num_rows: int
    null_count: int
    min: Any
    max: Any
    distinct_count: int | None


def analyze(
    spark: SparkSession,
    uri: str,
    columns: Sequence[str] | None = None,
    *,
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> list[ColumnStatistics]:
    """Reads a table and says what its columns hold, as ANALYZE does elsewhere.

    Nothing is written: the format has no place for it.

    Args:
        spark: The session.
        uri: Location of the table.
        columns: Names of columns; None for all.
        version: Instead of the latest one.
        storage_options: Settings of the store.

    Returns:
        The columns, in the order given.

    Raises:
        DatasetNotFoundError: If there is no table.
        VersionNotFoundError: If there is no such version.
        ColumnNotFoundError: If there is no such column.
        pyspark.errors.PySparkException: If a task failed in all attempts.
    """
    access = dict(storage_options or {})
    store = open_table(table_uri(uri), access)
    snapshot = Snapshot.latest(store) if version is None else Snapshot.at(store, version)
    known = snapshot.described.arrow.names
    names = tuple(known if columns is None else columns)
    if unknown := [name for name in names if name not in known]:
        raise ColumnNotFoundError(f"no columns {unknown}; there are {known}")
    version, schema = snapshot.manifest.version, snapshot.manifest.schema
    job = WriteJob(table_uri(uri), str(uuid4()), "append", version, schema, storage_options=access)
    totals = dict.fromkeys(names, ColumnSummary())
    for part in over_groups(spark, fragment_groups(snapshot), partial(_read, job, names), job):
        totals = {name: total.joined(part[name]) for name, total in totals.items()}
    return [_statistics(name, total) for name, total in totals.items()]


def _read(
    job: WriteJob, columns: tuple[str, ...], fragment_ids: tuple[int, ...]
) -> dict[str, ColumnSummary]:
    """Of some fragments, within a task of Spark."""
    return summarize(pinned(job), columns, fragment_ids)


def _statistics(name: str, total: ColumnSummary) -> ColumnStatistics:
    distinct = None if total.distinct is None else total.distinct.count
    return ColumnStatistics(name, total.num_rows, total.null_count, total.min, total.max, distinct)
