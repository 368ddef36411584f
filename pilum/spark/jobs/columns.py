"""Computation of new columns and of new values: one task and one new file per fragment.

No other column is read or written. A job with a name keeps a journal (`pilum.distributed.journal`)
and can be restarted after any failure: finished fragments are not computed again, and a job whose
last commit is in the table is not repeated. Source: docs/guide/spark-jobs.md, "New columns".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from pilum.distributed.columns import ColumnValues, compute_columns
from pilum.distributed.tasks import optional_count
from pilum.errors import InvalidInputError, SchemaMismatchError
from pilum.spark.job_reports import reported
from pilum.spark.options import table_uri
from pilum.spark.tasks import SparkTasks
from pilum.spark.types import to_arrow

__all__ = ["add_columns", "replace_columns", "update_columns"]

Form = Literal["arrow", "pandas"]
OutputSchema: TypeAlias = pa.Schema | st.StructType | str


@reported("add-columns")
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
    values = _column_values(transforms, read_columns, output_schema, form, batch_size)
    return _compute(spark, uri, "add", values, job, journal, commit_every, storage_options)


@reported("update-columns")
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
    values = _column_values(updates, read_columns, output_schema, form, batch_size, where)
    return _compute(spark, uri, "update", values, job, journal, commit_every, storage_options)


@reported("replace-columns")
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
    values = _column_values(transforms, read_columns, output_schema, form, batch_size)
    return _compute(spark, uri, "replace", values, job, journal, None, storage_options)


def _compute(
    spark: SparkSession,
    uri: str,
    how: Literal["add", "update", "replace"],
    values: ColumnValues,
    job: str | None,
    journal: str | None,
    commit_every: int | None,
    storage_options: Mapping[str, str] | None,
) -> int:
    return compute_columns(
        SparkTasks(spark),
        table_uri(uri),
        values,
        how,
        job=job,
        journal=journal and table_uri(journal),
        commit_every=commit_every,
        storage_options=storage_options,
    )


def _column_values(
    values: Mapping[str, str] | Callable[[Any], Any],
    read_columns: Sequence[str] | None,
    output_schema: OutputSchema | None,
    form: Form,
    batch_size: int | None,
    where: str | None = None,
) -> ColumnValues:
    """Check and combine the arguments."""
    optional_count("batch_size", batch_size, 1)
    if isinstance(values, Mapping):
        if read_columns is not None or output_schema is not None:
            raise InvalidInputError("read_columns and output_schema are for functions only")
        return ColumnValues(dict(values), batch_size=batch_size, where=where)
    if not callable(values):
        raise InvalidInputError(f"expected a dict of SQL expressions or a function, not {values!r}")
    if output_schema is None:
        raise InvalidInputError("output_schema: needed for a function")
    if form not in {"arrow", "pandas"}:
        raise InvalidInputError(f"form: expected arrow or pandas, found {form!r}")
    if isinstance(read_columns, str):
        raise InvalidInputError(f"read_columns: expected a list of names, found {read_columns!r}")
    if isinstance(output_schema, str):
        output_schema = st.StructType.fromDDL(output_schema)
    if isinstance(output_schema, st.StructType):
        output_schema = to_arrow(output_schema)
    function = _PandasFunction(values, output_schema) if form == "pandas" else values
    reads = None if read_columns is None else tuple(read_columns)
    return ColumnValues(None, function, output_schema, reads, batch_size, where)


@dataclass(frozen=True)
class _PandasFunction:
    """An adapter that turns a function of pandas frames into one of record batches."""

    function: Callable[[Any], Any]
    schema: pa.Schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        result = self.function(batch.to_pandas())
        if hasattr(result, "to_frame"):  # one column as a series
            result = result.to_frame(self.schema.names[0])
        if not hasattr(result, "iloc"):
            raise InvalidInputError(
                f"the function returned {type(result).__name__}, not a DataFrame or Series"
            )
        if set(result.columns) != set(self.schema.names):
            raise SchemaMismatchError(
                f"the function returned the columns {list(result.columns)}, not {self.schema.names}"
            )
        return pa.RecordBatch.from_pandas(result, schema=self.schema, preserve_index=False)
