"""Computation of new columns and of new values: one task and one new file per fragment.

No other column is read or written. A job with a name keeps a journal (`journal.py`) and can be
restarted after any failure: finished fragments are not computed again, and a job whose last commit
is in the table is not repeated. Source: docs/guide/spark-jobs.md, "New columns".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from pilum.spark.jobs.column_run import ColumnRun
from pilum.spark.jobs.functions import Form, OutputSchema, column_values

__all__ = ["add_columns", "replace_columns", "update_columns"]


def add_columns(
    spark: SparkSession,
    uri: str,
    transforms: Mapping[str, str] | Callable[[Any], Any],
    *,
    read_columns: Sequence[str] | None = None,
    output_schema: OutputSchema | None = None,
    form: Form = "arrow",
    batch_size: int | None = None,
    job: str | None = None,
    journal: str | None = None,
    commit_every: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Compute new columns in tasks, one per fragment; other columns are not rewritten.

    Args:
        spark: The session.
        uri: Location of the table.
        transforms: Column names and SQL expressions, or a function of batches, such as a model that
            computes embeddings. A function is pickled and sent to the workers.
        read_columns: The columns that a function receives; None for all.
        output_schema: Columns that a function returns: an Arrow schema, a Spark schema or its DDL.
        form: What a function receives and returns: "arrow" record batches, or "pandas" frames.
        batch_size: Rows per batch; None for 8,192.
        job: Name of the job. A job restarted with this name resumes where it stopped, and a
            finished job is not repeated. The code of a function is not compared, so use another
            name for another function.
        journal: Location of the journal of a named job; None for `_jobs` in the table. The driver
            and all workers must reach it.
        commit_every: Commit whenever this many fragments are finished. The columns exist from the
            start, with nulls where they are not computed yet. Requires a `job`.
        storage_options: Settings of the store.

    Returns:
        The version that has the columns.

    Raises:
        SchemaMismatchError: If the table already has a column of that name.
        FilterError: If an expression does not parse or bind.
        CommitConflictError: If concurrent commits won in every attempt.
        InvalidInputError: If another argument is invalid, or the job name belongs to a different
            job.
        pyspark.errors.PythonException: If a computation failed in all attempts of a task.
    """
    values = column_values(
        transforms,
        read_columns=read_columns,
        output_schema=output_schema,
        form=form,
        batch_size=batch_size,
    )
    run = ColumnRun.of(spark, uri, values, False, job, journal, commit_every, storage_options)
    return run.add() if commit_every is None else run.add_in_groups(commit_every)


def update_columns(
    spark: SparkSession,
    uri: str,
    updates: Mapping[str, str] | Callable[[Any], Any],
    *,
    where: str | None = None,
    read_columns: Sequence[str] | None = None,
    output_schema: OutputSchema | None = None,
    form: Form = "arrow",
    batch_size: int | None = None,
    job: str | None = None,
    journal: str | None = None,
    commit_every: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Update the values of columns in tasks, one per fragment; rows keep their positions.

    Only the updated columns are rewritten, as a whole. Rows that are appended concurrently keep
    their values.

    Args:
        spark: The session.
        uri: Location of the table.
        updates: Column names and SQL expressions, or a function of batches.
        where: Update only rows for which this SQL condition is true; a function still receives all
            rows.
        read_columns: As in `add_columns`, like all following arguments.
        output_schema: The columns that a function returns.
        form: What a function receives and returns.
        batch_size: Rows per batch.
        job: Name of the job.
        journal: Location of the journal of a named job.
        commit_every: Commit whenever this many fragments are finished. Requires a `job`.
        storage_options: Settings of the store.

    Returns:
        The version that has the values.

    Raises:
        ColumnNotFoundError: If the table lacks a column.
        FilterError: If an expression does not parse or bind.
        SchemaMismatchError: If values do not fit.
        CommitConflictError: If other writers rewrote the fragments, or won in every attempt.
        InvalidInputError: If another argument is invalid, or the job name belongs to a different
            job.
        pyspark.errors.PythonException: If a computation failed in all attempts of a task.
    """
    values = column_values(
        updates,
        read_columns=read_columns,
        output_schema=output_schema,
        form=form,
        batch_size=batch_size,
        where=where,
    )
    run = ColumnRun.of(spark, uri, values, True, job, journal, commit_every, storage_options)
    return run.update(commit_every)


def replace_columns(
    spark: SparkSession,
    uri: str,
    transforms: Mapping[str, str] | Callable[[Any], Any],
    *,
    read_columns: Sequence[str] | None = None,
    output_schema: OutputSchema | None = None,
    form: Form = "arrow",
    batch_size: int | None = None,
    job: str | None = None,
    journal: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Replace columns by computed columns of any type under the same names.

    Each task writes one fragment, and one commit swaps the columns; other columns are unchanged.
    Rows that are appended concurrently are computed as well. If the types stay the same,
    `update_columns` is cheaper and can commit in groups.

    Args:
        spark: The session.
        uri: Location of the table.
        transforms: Column names and SQL expressions, or a function of batches.
        read_columns: As in `add_columns`, like all following arguments.
        output_schema: The columns that a function returns.
        form: What a function receives and returns.
        batch_size: Rows per batch.
        job: Name of the job.
        journal: Location of the journal of a named job.
        storage_options: Settings of the store.

    Returns:
        The version that has the columns.

    Raises:
        ColumnNotFoundError: If the table lacks a column.
        FilterError: If an expression does not parse or bind.
        CommitConflictError: If concurrent commits won in every attempt.
        InvalidInputError: If a column has an index or is part of the primary key, another argument
            is invalid, or the job name belongs to a different job.
        pyspark.errors.PythonException: If a computation failed in all attempts of a task.
    """
    values = column_values(
        transforms,
        read_columns=read_columns,
        output_schema=output_schema,
        form=form,
        batch_size=batch_size,
    )
    run = ColumnRun.of(spark, uri, values, False, job, journal, None, storage_options, swaps=True)
    return run.add()
