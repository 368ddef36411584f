"""New columns, and other values of columns: one task and one new file per fragment.

No other column is read or written. A job with a name keeps a journal (`journal.py`) and can be
started again after any failure: finished fragments are not computed again, and a job whose last
commit is in the table is not done twice. Source: docs/guide/spark-jobs.md, "New columns".
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
    """Computes new columns in tasks, one per fragment; other columns are not written anew.

    Args:
        spark: The session.
        uri: Location of the table.
        transforms: Names and SQL expressions, or a function of batches, such as a model that
            computes embeddings. It is pickled to the workers.
        read_columns: The columns that a function gets; None for all.
        output_schema: What a function gives: an Arrow schema, a Spark schema or its DDL.
        form: What a function gets and gives: "arrow" record batches, or "pandas" frames.
        batch_size: Rows per batch; None for 8,192.
        job: Names the job. Started again with this name, it goes on where it stopped, and is not
            done twice. The code of a function is not compared: another function, another name.
        journal: Where the journal of a named job is; None for `_jobs` in the table. The driver and
            all workers must reach it.
        commit_every: Commits whenever this many fragments are finished. The columns are there from
            the beginning, null where they are not computed yet. Needs a `job`.
        storage_options: Settings of the store.

    Returns:
        The version that has the columns.

    Raises:
        SchemaMismatchError: If the table has a column of the name.
        FilterError: If an expression does not parse or bind.
        CommitConflictError: If others changed the table each time when it was to be committed.
        InvalidInputError: If other arguments make no sense, or the job's name belongs to another.
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
    """Gives columns other values in tasks, one per fragment; rows stay where they are.

    Only the columns that are updated are written anew, whole. Rows that others append meanwhile
    keep their values.

    Args:
        spark: The session.
        uri: Location of the table.
        updates: Columns and SQL expressions, or a function of batches.
        where: Only rows for which this SQL condition is true; a function still gets all rows.
        read_columns: As in `add_columns`, like all that follow.
        output_schema: The columns that a function gives.
        form: What a function gets and gives.
        batch_size: Rows per batch.
        job: Names the job.
        journal: Where the journal of a named job is.
        commit_every: Commits whenever this many fragments are finished. Needs a `job`.
        storage_options: Settings of the store.

    Returns:
        The version that has the values.

    Raises:
        ColumnNotFoundError: If the table lacks a column.
        FilterError: If an expression does not parse or bind.
        SchemaMismatchError: If values do not fit.
        CommitConflictError: If others rewrote the fragments, or interfered every time.
        InvalidInputError: If other arguments make no sense, or the job's name belongs to another.
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
    """Puts computed columns, of any type, in the place of those that have their names.

    Each task writes one fragment, and one commit exchanges the columns; others stay as they are.
    If others append rows meanwhile, those are computed too. Where the types stay the same,
    `update_columns` does with less, and commits in groups.

    Args:
        spark: The session.
        uri: Location of the table.
        transforms: Names of columns and SQL expressions, or a function of batches.
        read_columns: As in `add_columns`, like all that follow.
        output_schema: The columns that a function gives.
        form: What a function gets and gives.
        batch_size: Rows per batch.
        job: Names the job.
        journal: Where the journal of a named job is.
        storage_options: Settings of the store.

    Returns:
        The version that has the columns.

    Raises:
        ColumnNotFoundError: If the table lacks a column.
        FilterError: If an expression does not parse or bind.
        CommitConflictError: If others changed the table each time when it was to be committed.
        InvalidInputError: If a column has an index or is part of the primary key, other arguments
            make no sense, or the job's name belongs to another.
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
