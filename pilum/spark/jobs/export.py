"""Export of a table to files of other formats by Spark's writers, and of blobs to single files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from pilum.distributed.files import has_files, write_files
from pilum.errors import DatasetAlreadyExistsError, InvalidInputError
from pilum.spark.frames import read
from pilum.spark.job_reports import reported
from pilum.spark.jobs.ingest import FORMATS, SourceFormat, require_query, transformed
from pilum.spark.options import table_uri

__all__ = ["export"]

_LONGEST = 2**31 - 1
_NEEDED = ("path", "content")


@reported("export", "source")
def export(
    spark: SparkSession,
    source: str,
    target: str,
    *,
    format: SourceFormat = "parquet",
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    version: int | None = None,
    transform: str | None = None,
    partition_by: Sequence[str] = (),
    mode: Literal["errorifexists", "overwrite", "append"] = "errorifexists",
    blobs: Literal["payloads", "descriptors"] = "payloads",
    batch_size: int | None = None,
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Write a version of a table as files of another format, with Spark's own writers.

    Args:
        spark: The session.
        source: Location of the table.
        target: Folder for the files.
        format: "parquet", "csv" (with a header), "json", "orc", or "files": the content of each row
            becomes the file that its path names. For ingested files, the common prefix of all paths
            is removed, unless a `transform` sets the paths.
        columns: As in `pilum.spark.read`.
        filter: As in `pilum.spark.read`.
        version: As in `pilum.spark.read`.
        transform: A query over `{source}`, as in `ingest`.
        partition_by: Columns that become folders named `key=value`.
        mode: What to do if the target exists; format "files" does not support "overwrite".
        blobs: Whether blob columns are exported as bytes or as descriptors.
        batch_size: As in `pilum.spark.read`. It bounds the memory that large blobs need.
        options: Options of Spark's writer.
        storage_options: Settings of the table's store.

    Raises:
        DatasetNotFoundError: If there is no table.
        InvalidInputError: If an argument is invalid.
        pyspark.errors.PySparkException: If Spark cannot write the files.
    """
    if format not in FORMATS:
        raise InvalidInputError(f"format: expected one of {list(FORMATS)}, found {format!r}")
    require_query(transform)
    rows = partial(
        read, spark, source, filter=filter, version=version, storage_options=storage_options
    )
    if format == "files":
        if partition_by or options or mode == "overwrite":
            raise InvalidInputError(
                "format files: no partition_by, options and mode overwrite; see mode append"
            )
        frame = rows(columns=columns, blobs="payloads", batch_size=batch_size)
        if transform is None and "path" in frame.columns:
            frame = _below_folder(frame, rows(columns=["path"]))
        frame = transformed(spark, frame, transform)
        _write_files(frame, table_uri(target), mode, dict(storage_options or {}))
        return
    frame = rows(columns=columns, blobs=blobs, batch_size=batch_size)
    given = {**({"header": "true"} if format == "csv" else {}), **(options or {})}
    # "error" is the one of the two names that Spark Connect supports as well.
    named = "error" if mode == "errorifexists" else mode
    writer = transformed(spark, frame, transform).write.format(format).mode(named)
    writer.options(**given).partitionBy(*partition_by).save(table_uri(target))


def _below_folder(frame: DataFrame, paths: DataFrame) -> DataFrame:
    """Return the frame with absolute paths made relative to their common folder."""
    first, last = paths.select(sf.min("path"), sf.max("path")).first() or (None, None)
    if first is None or last is None or not (":" in first or first.startswith("/")):
        return frame
    folder = _folder_of_both(first, last)
    return frame.withColumn("path", sf.substring("path", len(folder) + 2, _LONGEST))


def _folder_of_both(first: str, last: str) -> str:
    """Return the folder shared by two paths, and so by all paths sorted between them."""
    parts = []
    for one, other in zip(first.split("/")[:-1], last.split("/")[:-1], strict=False):
        if one != other:
            break
        parts.append(one)
    return "/".join(parts)


def _write_files(
    frame: DataFrame,
    target: str,
    mode: Literal["errorifexists", "append"],
    storage_options: Mapping[str, str],
) -> None:
    """Write the content of each row to a file, in tasks."""
    if missing := [name for name in _NEEDED if name not in frame.columns]:
        raise InvalidInputError(
            f"format files: expected the columns path and content, {missing} are missing; "
            "name them so with transform="
        )
    if mode == "errorifexists" and has_files(target, storage_options):
        raise DatasetAlreadyExistsError(f"{target}: there are files already; use mode append")

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write_files(batches, target, storage_options)

    written = frame.select(*_NEEDED).mapInArrow(write, "path string, refusal string")
    told = written.groupBy("path").agg(sf.count("*").alias("n"), sf.max("refusal").alias("refusal"))
    for row in told.where("n > 1 OR refusal IS NOT NULL").limit(1).collect():
        raise InvalidInputError(f"{row.path!r}: {row.refusal or 'the path comes twice'}")
