"""Indices built and optimized in Spark tasks, each with one commit.

Values do not pass through the JVM. Source: `pilum.distributed.indices`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pyspark.sql import SparkSession

from pilum.distributed import indices
from pilum.distributed.indices import IndexConfig
from pilum.spark.job_reports import reported
from pilum.spark.options import table_uri
from pilum.spark.tasks import SparkTasks

__all__ = ["create_index", "optimize_indices"]


@reported("create-index")
def create_index(
    spark: SparkSession,
    uri: str,
    column: str,
    index_type: str | IndexConfig,
    *,
    name: str | None = None,
    replace: bool = True,
    merge: bool = False,
    fragments_per_task: int | None = None,
    job: str | None = None,
    journal: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    **parameters: Any,
) -> int:
    """Create an index of a column in tasks, each of which trains a segment of some fragments.

    The index becomes visible with one commit. Concurrent writes may go on: rows that are added
    after the start are found without the index. If a compaction rewrites fragments concurrently,
    the new ones are indexed before the commit.

    Args:
        spark: The session.
        uri: Location of the table.
        column: Name of the column, or the dotted path of a member of a struct.
        index_type: Name of the type, such as "BTREE", in upper or lower case; or an `IndexConfig`
            with parameters.
        name: Name of the index; "{column}_idx" if None.
        replace: Whether an index of this name is replaced; otherwise it is an error.
        merge: Whether the driver merges the segments into one. Fewer segments make a lookup
            cheaper; the merge reads and writes the index once more, on one machine.
        fragments_per_task: Number of fragments of a task, and so of a segment; None for as many as
            have about eight million rows.
        job: Name of the job. A job restarted with this name continues with the segments that exist,
            and a finished job is not repeated.
        journal: Location of the journal of a named job; None for `_jobs` in the table. The driver
            and all workers must reach it.
        storage_options: Settings of the store.
        parameters: Parameters of the type.

    Returns:
        The version that has the index.

    Raises:
        DatasetNotFoundError: If there is no table.
        ColumnNotFoundError: If the column does not exist.
        UnsupportedTypeError: If the type of the column cannot be indexed.
        UnsupportedFeatureError: If the type of the index does not exist.
        IndexAlreadyExistsError: If an index of the name exists and is not to be replaced.
        CommitConflictError: If concurrent commits won in every attempt.
        InvalidInputError: If another argument is invalid, or the job name belongs to a different
            job.
        pyspark.errors.PySparkException: If a task failed in all attempts. Nothing of the index is
            visible then.
    """
    return indices.create_index(
        SparkTasks(spark),
        table_uri(uri),
        column,
        index_type,
        parameters,
        name=name,
        replaces=replace,
        merges=merge,
        fragments_per_task=fragments_per_task,
        job=job,
        journal=journal and table_uri(journal),
        storage_options=storage_options,
    )


@reported("optimize-indices")
def optimize_indices(
    spark: SparkSession,
    uri: str,
    *,
    num_indices_to_merge: int | None = None,
    index_names: Collection[str] | None = None,
    retrain: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Add rows that are not indexed to the indices, and merge segments, in one task per index.

    Args:
        spark: The session.
        uri: Location of the table.
        num_indices_to_merge: As in `LanceDataset.optimize.optimize_indices`, like the next two.
        index_names: Names of the indices; by default all that this library can read.
        retrain: Whether to build the indices again from all rows.
        storage_options: Settings of the store.

    Returns:
        The version with the new segments; the latest one if nothing is to be done.

    Raises:
        DatasetNotFoundError: If there is no table.
        IndexNotFoundError: If an index does not exist.
        UnsupportedFeatureError: If an index is named that this library cannot read.
        CommitConflictError: If a concurrent commit conflicts with this one.
        InvalidInputError: If an argument is invalid.
        pyspark.errors.PySparkException: If a task failed in all attempts. The indices are
            unchanged then.
    """
    return indices.optimize_indices(
        SparkTasks(spark),
        table_uri(uri),
        index_names,
        num_indices_to_merge,
        retrain=retrain,
        storage_options=storage_options,
    )
