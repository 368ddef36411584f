"""Maintenance as Spark jobs: the driver plans and commits, tasks read and write.

compact    plan ──▶ one task per group of fragments ──▶ one commit per `commit_every` tasks
analyze    one task per group of fragments ──▶ a summary of each column ──▶ joined by the driver
verify     manifests and ends of files on the driver; with `deep`, pages: one task per fragment
cleanup    on the driver: it only lists and deletes

Values do not pass through the JVM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

import pilum
from pilum import CleanupExplanation, CleanupStats
from pilum.distributed import find_version, upkeep
from pilum.distributed.upkeep import ColumnStatistics, CompactionMetrics, VerifyReport
from pilum.spark.job_reports import reported
from pilum.spark.options import table_uri
from pilum.spark.tasks import SparkTasks

__all__ = ["analyze", "cleanup", "compact", "verify"]


@reported("compact")
def compact(
    spark: SparkSession,
    uri: str,
    *,
    where: str | None = None,
    commit_every: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Any,
) -> CompactionMetrics:
    """Compact small fragments into larger ones, without deleted rows, in Spark tasks.

    Args:
        spark: The session.
        uri: Location of the table.
        where: A SQL condition: only fragments that have rows that fulfil it are rewritten, as a
            whole.
        commit_every: Commit whenever this many tasks are done, so that a later failure loses
            little; None for one commit at the end.
        storage_options: Settings of the store.
        options: Options of `LanceDataset.optimize.compact_files`, such as
            `target_rows_per_fragment`.

    Returns:
        Metrics of the work done. Groups of fragments that were changed concurrently are left as
        they are.

    Raises:
        CommitConflictError: If concurrent writers changed all of the fragments.
        UnsupportedFeatureError: If the table or an index has a feature that cannot be compacted.
        InvalidInputError: If an argument is invalid.
        pyspark.errors.PythonException: If a task failed in all attempts. Earlier commits are kept.
    """
    tasks, location = SparkTasks(spark), table_uri(uri)
    if where is not None:
        options = upkeep.excluding_others(tasks, location, where, options, storage_options)
    return upkeep.compact(tasks, location, options, commit_every, storage_options)


@reported("analyze")
def analyze(
    spark: SparkSession,
    uri: str,
    columns: Sequence[str] | None = None,
    *,
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> list[ColumnStatistics]:
    """Read a table and compute the statistics of its columns, like ANALYZE elsewhere.

    Nothing is written, because the format has no place for column statistics.

    Args:
        spark: The session.
        uri: Location of the table.
        columns: Names of columns; None for all.
        version: The version to read instead of the latest one.
        storage_options: Settings of the store.

    Returns:
        The statistics, in the order of the given columns.

    Raises:
        DatasetNotFoundError: If there is no table.
        VersionNotFoundError: If there is no such version.
        ColumnNotFoundError: If there is no such column.
        pyspark.errors.PySparkException: If a task failed in all attempts.
    """
    found = find_version(table_uri(uri), version, storage_options=storage_options)
    return upkeep.analyze(SparkTasks(spark), found, columns)


@reported("verify")
def verify(
    spark: SparkSession,
    uri: str,
    *,
    deep: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> VerifyReport:
    """Check the structure of a table without changing it; damage raises no error.

    Args:
        spark: The session.
        uri: Location of the table.
        deep: Whether tasks also decode all pages of the latest version.
        storage_options: Settings of the store.

    Returns:
        The report of `LanceDataset.verify`.
    """
    return upkeep.verify(SparkTasks(spark), table_uri(uri), storage_options, deep=deep)


@reported("cleanup")
def cleanup(
    spark: SparkSession,
    uri: str,
    *,
    older_than: timedelta | None = None,
    retain_versions: int | None = None,
    delete_unverified: bool = False,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> CleanupStats | CleanupExplanation:
    """Remove old versions and the files of failed writers; runs on the driver.

    Args:
        spark: The session; no Spark job is started.
        uri: Location of the table.
        older_than: Remove versions older than this; two weeks if neither condition is given.
        retain_versions: Keep this many of the newest versions. If `older_than` is given too, only
            versions that fulfil both conditions are removed.
        delete_unverified: Whether to remove also recent files that no version refers to. Safe only
            if no writer is active.
        dry_run: Whether to only report what would be removed.
        storage_options: Settings of the store.

    Raises:
        The errors of `LanceDataset.cleanup_old_versions`.
    """
    del spark
    table = pilum.dataset(table_uri(uri), storage_options=dict(storage_options or {}))
    clean = partial(
        table.cleanup_old_versions,
        older_than,
        retain_versions,
        delete_unverified=delete_unverified,
    )
    return clean(dry_run=True) if dry_run else clean()
