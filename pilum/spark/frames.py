"""Helper functions on sessions and frames, beyond the options of Spark's readers and writers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from pilum import EncodingOptions
from pilum.distributed import Mode
from pilum.errors import DatasetNotFoundError, InvalidInputError
from pilum.spark.aggregates.source import aggregate
from pilum.spark.batches import MAX_BYTES, MAX_ROWS, NO_LIMIT
from pilum.spark.job_reports import reported
from pilum.spark.names import is_case_sensitive
from pilum.spark.opening import asked_schema, open_version, pin
from pilum.spark.options import Options, option_texts, version_texts
from pilum.spark.orders import Order
from pilum.spark.sink import plan_write, write_frame
from pilum.spark.source import LanceDataSource, PilumDataSource, register_source
from pilum.spark.types import to_spark

_MODES: dict[str, Mode] = {
    "create": "create",
    "errorifexists": "create",
    "append": "append",
    "overwrite": "overwrite",
    "ignore": "create",
}
__all__ = ["configure", "count", "load", "read", "register", "write"]


def register(spark: SparkSession) -> None:
    """Register the formats "pilum" and "lance" with a session.

    Spark finds "pilum" by itself if the package is installed. "lance" is also the short name of the
    Java connector, so only this function registers it.
    """
    register_source(spark, PilumDataSource)
    register_source(spark, LanceDataSource)


def configure(spark: SparkSession, *, batch_rows: int | None = None) -> None:
    """Tune a session for pilum. Without an argument nothing is changed.

    This does not enable filter pushdown to Python sources: Spark would use the filtered rows of one
    query for all queries of a frame. Use `read(filter=…)` or `sql` to filter in the scan.

    Args:
        spark: The session.
        batch_rows: Number of rows per batch that Spark passes to Python, and so to a table,
            regardless of their size. By default Spark takes 10,000 rows or 64 MiB and computes the
            size of a batch after each row, which is half of the work of its JVM for a write. Use
            this for frames whose rows are known to be narrow, because a task holds a batch several
            times. It applies to the whole session; None leaves the setting unchanged.

    Raises:
        InvalidInputError: If `batch_rows` is not positive.
    """
    if batch_rows is not None:
        if batch_rows < 1:
            raise InvalidInputError(f"batch_rows: expected at least 1, found {batch_rows}")
        spark.conf.set(MAX_ROWS, str(batch_rows))
        spark.conf.set(MAX_BYTES, str(NO_LIMIT))


def read(
    spark: SparkSession,
    uri: str,
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    version: int | str | None = None,
    branch: str | None = None,
    as_of: datetime | None = None,
    blobs: Literal["descriptors", "payloads"] = "descriptors",
    batch_size: int | None = None,
    batch_bytes: int | None = None,
    partition_bytes: int | None = None,
    memory_limit: int | None = None,
    nanoseconds: str = "refuse",
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read the selected columns and rows of one version of a table as a frame.

    Args:
        spark: The session.
        uri: Location of the table.
        columns: Names or dotted paths, in the order of the result; also `_rowid`, `_rowaddr`,
            `_rowoffset`, `_row_created_at_version` and `_row_last_updated_at_version`.
        filter: A SQL condition that the scan evaluates.
        version: A number or the name of a tag, instead of the latest version.
        branch: The branch; version numbers are those of the branch.
        as_of: Read the latest version at this time instead; a time without zone is local time.
        blobs: Whether blob columns are read as descriptors or as bytes.
        batch_size: Rows per Arrow batch.
        batch_bytes: Maximum bytes per batch; larger batches are split. 16 MiB if None.
        partition_bytes: Approximate size of the files that one task reads.
        memory_limit: Approximate limit, in bytes, of the rows that a Python worker holds.
        nanoseconds: What to do with times finer than microseconds: "refuse" or "truncate".
        storage_options: Settings of the store.

    Raises:
        DatasetNotFoundError: If there is no table.
        VersionNotFoundError: If there is no such version.
        TagNotFoundError: If there is no such tag.
        BranchNotFoundError: If there is no such branch.
        ColumnNotFoundError: If there is no such column.
        FilterError: If the filter does not fit the table.
    """
    given = {
        "columns": columns and ",".join(columns),
        "filter": filter,
        "caseSensitive": is_case_sensitive(spark),
        **version_texts(version, branch, as_of),
        "blobs": blobs,
        "batchSize": batch_size,
        "batchBytes": batch_bytes,
        "partitionBytes": partition_bytes,
        "memoryLimit": memory_limit,
        "nanoseconds": nanoseconds,
    }
    options, table, pinned = open_version(option_texts(uri, given, storage_options))
    return load(spark, pinned, to_spark(asked_schema(table, options)))


def load(spark: SparkSession, texts: Mapping[str, str], schema: StructType) -> DataFrame:
    """Return a frame of the columns of `schema`, with options as `open_version` returns them."""
    register_source(spark, PilumDataSource)
    return spark.read.format("pilum").schema(schema).options(**texts).load()


def count(
    spark: SparkSession,
    uri: str,
    *,
    filter: str | None = None,
    version: int | str | None = None,
    branch: str | None = None,
    as_of: datetime | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Count the rows of a table; without a filter, only the metadata is read.

    `frame.count()` moves every column of the frame to the JVM; this function moves no row, even
    with a filter.

    Args:
        spark: The session.
        uri: Location of the table.
        filter: A SQL condition.
        version: A number or the name of a tag, instead of the latest version.
        branch: The branch.
        as_of: Count in the latest version at this time instead.
        storage_options: Settings of the store.
    """
    if filter is None:
        given = version_texts(version, branch, as_of)
        return pin(Options.parse(option_texts(uri, given, storage_options)))[1].num_rows
    (row,) = aggregate(
        spark,
        uri,
        {"rows": "count(*)"},
        filter=filter,
        version=version,
        branch=branch,
        as_of=as_of,
        storage_options=storage_options,
    ).collect()
    return int(row["rows"])


@reported("write")
def write(
    frame: DataFrame,
    uri: str,
    *,
    mode: Literal["create", "errorifexists", "append", "overwrite", "ignore"],
    branch: str | None = None,
    schema_mode: Literal["merge"] | None = None,
    sort_by: Sequence[str | Column] | None = None,
    zorder_by: Sequence[str] | None = None,
    hilbert_by: Sequence[str] | None = None,
    num_partitions: int | None = None,
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
    data_storage_version: str | None = None,
    stable_row_ids: bool = False,
    encoding_options: EncodingOptions | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Write a frame with one commit.

    Unlike `frame.write`, this function supports all modes, returns the version it created, and does
    not use Spark's commit coordinator, which fails jobs under `spark.speculation`. It uses
    `mapInArrow`, for which Spark requires pandas.

    Args:
        frame: The rows to write.
        uri: Location of the table.
        mode: "create", or "errorifexists" as Spark calls it, requires that there is no table yet;
            "append" and "overwrite" create the table if there is none; "ignore" does nothing if
            there is one.
        branch: The branch to write to; it must exist.
        schema_mode: "merge" adds the columns that the table lacks; existing rows get nulls.
        sort_by: Sort the rows by these columns, within each file and across files.
        zorder_by: Order the rows along a Z-order curve, which stores rows with similar values in
            all of these columns close together.
        hilbert_by: The same along a Hilbert curve, with narrower value ranges per file.
        num_partitions: Number of tasks that write sorted rows.
        max_rows_per_file: Number of rows after which a task starts a new file. By default the
            table's setting `lance.compaction.target_rows_per_fragment`, or else 1,048,576.
        max_bytes_per_file: Number of bytes after which a task starts a new file. By default the
            table's setting `lance.compaction.target_bytes_per_fragment`, or else 90 GiB.
        data_storage_version: File format version of a new or overwritten table.
        stable_row_ids: Whether rows of a new table keep their ids when they move.
        encoding_options: Settings of the encodings.
        memory_limit: Approximate limit, in bytes, of the rows that a Python worker holds.
        storage_options: Settings of the store.

    Returns:
        The version that contains the rows; with "ignore", the latest version of an existing table.

    Raises:
        DatasetAlreadyExistsError: If mode is "create" and there is a table.
        BranchNotFoundError: If there is no such branch.
        SchemaMismatchError: If the columns do not fit the table.
        InvalidInputError: If arguments contradict each other.
        CommitError: If conflicting commits of other writers prevent the write.
    """
    given = {
        "branch": branch,
        "caseSensitive": is_case_sensitive(frame.sparkSession),
        "schemaMode": schema_mode,
        "maxRowsPerFile": max_rows_per_file,
        "maxBytesPerFile": max_bytes_per_file,
        "dataStorageVersion": data_storage_version,
        "stableRowIds": stable_row_ids,
        "memoryLimit": memory_limit,
    }
    options = Options.parse(option_texts(uri, given, storage_options))
    if encoding_options is not None:
        options = replace(options, encoding=encoding_options)
    if mode == "ignore" and (found := _latest_version(options)) is not None:
        return found
    job = plan_write(frame.schema, options, _MODES[mode])
    order = Order(sort_by, zorder_by, hilbert_by)
    if num_partitions is not None and not order:
        raise InvalidInputError("num_partitions: only with sort_by, zorder_by or hilbert_by")
    return write_frame(order.apply(frame, num_partitions), job)


def _latest_version(options: Options) -> int | None:
    try:
        return pin(options)[1].version
    except DatasetNotFoundError:
        return None
