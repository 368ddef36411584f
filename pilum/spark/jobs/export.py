"""A table into files of other formats, by Spark's own writers; blobs into files of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from pilum.errors import InvalidInputError
from pilum.spark.frames import read
from pilum.spark.jobs.files import write_files
from pilum.spark.jobs.ingest import FORMATS, SourceFormat
from pilum.spark.jobs.transforms import require_query, transformed
from pilum.spark.options import table_uri

__all__ = ["export"]

_LONGEST = 2**31 - 1


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
    """Writes a version of a table as files of another format, by Spark's own writers.

    Args:
        spark: The session.
        source: Location of the table.
        target: Folder of the files.
        format: "parquet", "csv" (with a header), "json", "orc", or "files": the content of each
            row becomes the file that its path names. Paths of ingested files lose what all of them
            begin with, unless a `transform` says what they are.
        columns: As in `pilum.spark.read`.
        filter: As there.
        version: As there.
        transform: A query over `{source}`, as in `ingest`.
        partition_by: Columns that become folders named `key=value`.
        mode: What to do if there is something already; files are not deleted for others.
        blobs: Whether columns of blobs give bytes or descriptors.
        batch_size: As in `pilum.spark.read`: bounds the memory that large blobs need.
        options: Options of Spark's writer.
        storage_options: Settings of the table's store.

    Raises:
        DatasetNotFoundError: If there is no table.
        InvalidInputError: If arguments make no sense.
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
        write_files(frame, table_uri(target), mode, dict(storage_options or {}))
        return
    frame = rows(columns=columns, blobs=blobs, batch_size=batch_size)
    given = {**({"header": "true"} if format == "csv" else {}), **(options or {})}
    # "error" is the one of the two names that Spark Connect knows, too.
    named = "error" if mode == "errorifexists" else mode
    writer = transformed(spark, frame, transform).write.format(format).mode(named)
    writer.options(**given).partitionBy(*partition_by).save(table_uri(target))


def _below_folder(frame: DataFrame, paths: DataFrame) -> DataFrame:
    """Paths that are absolute, as those of ingested files, from the folder of all of them on."""
    first, last = paths.select(sf.min("path"), sf.max("path")).first() or (None, None)
    if first is None or last is None or not (":" in first or first.startswith("/")):
        return frame
    folder = _folder_of_both(first, last)
    return frame.withColumn("path", sf.substring("path", len(folder) + 2, _LONGEST))


def _folder_of_both(first: str, last: str) -> str:
    """The folder that two paths have in common; so have all that are between them in order."""
    parts = []
    for one, other in zip(first.split("/")[:-1], last.split("/")[:-1], strict=False):
        if one != other:
            break
        parts.append(one)
    return "/".join(parts)
