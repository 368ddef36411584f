"""What Spark's own readers and writers cannot say: helpers on sessions and frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pilum.distributed import Mode, PartMessage, abort_parts, commit_parts
from pilum.expressions import bind
from pilum.spark.options import Options
from pilum.spark.sink import plan_write, write_task
from pilum.spark.source import LanceDataSource, PilumDataSource, open_snapshot
from pilum.spark.types import to_spark
from pilum.table.scanning.scan import ScanOptions, count_rows, scan_schema

__all__ = ["configure", "count", "read", "register", "write"]


def register(spark: SparkSession) -> None:
    """Makes the formats "pilum" and "lance" known to a session.

    Spark finds "pilum" by itself where the package is installed; "lance" is also the short name
    of the Java connector and is only taken here.
    """
    spark.dataSource.register(PilumDataSource)
    spark.dataSource.register(LanceDataSource)


def configure(spark: SparkSession) -> None:
    """Lets Spark hand filters to Python sources in this session; it does not by default."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def read(
    spark: SparkSession,
    uri: str,
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    version: int | None = None,
    as_of: datetime | None = None,
    batch_size: int | None = None,
    partition_bytes: int | None = None,
    nanoseconds: str = "refuse",
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A frame of one version of a table, of only the columns and rows wanted.

    Args:
        spark: The session.
        uri: Location of the table.
        columns: Names or dotted paths, in the wanted order; also `_rowid` and `_rowaddr`.
        filter: A SQL condition that the scan evaluates, whatever Spark's configuration is.
        version: The version, instead of the latest.
        as_of: The latest version at this time instead; a time without zone is local time.
        batch_size: Rows per Arrow batch.
        partition_bytes: Size of the files that one task reads, about.
        nanoseconds: What to do with times finer than microseconds: "refuse" or "truncate".
        storage_options: Settings of the store.

    Raises:
        DatasetNotFoundError: If there is no table.
        VersionNotFoundError: If there is no such version.
        ColumnNotFoundError: If there is no such column.
        FilterError: If the filter does not fit the table.
    """
    given = {
        "columns": columns and ",".join(columns),
        "filter": filter,
        "version": version,
        "asOf": as_of and as_of.astimezone().isoformat(),
        "batchSize": batch_size,
        "partitionBytes": partition_bytes,
        "nanoseconds": nanoseconds,
    }
    texts = _texts(uri, given, storage_options)
    options = Options.parse(texts)
    snapshot = open_snapshot(options)
    if filter is not None:
        bind(filter, snapshot.described.arrow)  # what is wrong with it is better told here
    seen = scan_schema(snapshot, ScanOptions(columns=options.columns))
    texts = {key: text for key, text in texts.items() if key not in {"asOf", "columns"}}
    texts["version"] = str(snapshot.manifest.version)
    spark.dataSource.register(PilumDataSource)
    return spark.read.format("pilum").schema(to_spark(seen)).options(**texts).load()


def count(
    spark: SparkSession,
    uri: str,
    *,
    filter: str | None = None,
    version: int | None = None,
    as_of: datetime | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """The number of rows; without a filter it is in the metadata and no row is read.

    `frame.count()` moves every column of the frame to the JVM; with a filter, this moves one.

    Args:
        spark: The session.
        uri: Location of the table.
        filter: A SQL condition.
        version: The version, instead of the latest.
        as_of: The latest version at this time instead.
        storage_options: Settings of the store.
    """
    if filter is None:
        given = {"version": version, "asOf": as_of and as_of.astimezone().isoformat()}
        return count_rows(open_snapshot(Options.parse(_texts(uri, given, storage_options))))
    frame = read(
        spark,
        uri,
        columns=["_rowaddr"],
        filter=filter,
        version=version,
        as_of=as_of,
        storage_options=storage_options,
    )
    return frame.count()


def write(
    frame: DataFrame,
    uri: str,
    *,
    mode: Mode,
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
    data_storage_version: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Writes a frame with one commit.

    Unlike `frame.write`, this knows the mode "create", says which version it made, and does not
    use Spark's commit coordinator, which gives up jobs under `spark.speculation`. It is made of
    `mapInArrow`, for which Spark wants pandas to be installed.

    Args:
        frame: The rows.
        uri: Location of the table.
        mode: "create" demands that there is no table yet; "append" and "overwrite" create it
            where there is none.
        max_rows_per_file: Rows after which a task begins a new file.
        max_bytes_per_file: Bytes after which a task begins a new file.
        data_storage_version: Version of the files of a new or overwritten table.
        storage_options: Settings of the store.

    Returns:
        The version that holds the rows.

    Raises:
        DatasetAlreadyExistsError: If mode is "create" and there is a table.
        SchemaMismatchError: If the columns do not fit the table.
        CommitError: If other writers stood in the way.
    """
    given = {
        "mode": mode,
        "maxRowsPerFile": max_rows_per_file,
        "maxBytesPerFile": max_bytes_per_file,
        "dataStorageVersion": data_storage_version,
    }
    job = plan_write(frame.schema, Options.parse(_texts(uri, given, storage_options)), mode)

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"message": [write_task(job, batches).to_json()]})

    try:
        rows = frame.mapInArrow(task, "message string").collect()
    except BaseException:
        abort_parts(job)
        raise
    return commit_parts(job, [PartMessage.from_json(row.message) for row in rows])


def _texts(
    uri: str, given: Mapping[str, object], storage_options: Mapping[str, str] | None
) -> dict[str, str]:
    access = {f"storage.{key}": value for key, value in (storage_options or {}).items()}
    texts = {key: str(value) for key, value in given.items() if value is not None}
    return {"path": uri, **texts, **access}
