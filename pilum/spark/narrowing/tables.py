"""`pilum.spark.table`: a table as a frame that reads what its actions need."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pyspark.sql import DataFrame, SparkSession

from pilum.errors import DatasetNotFoundError
from pilum.spark.catalog import Names, Place
from pilum.spark.frames import read
from pilum.spark.narrowing.frames import as_narrow, reads_of
from pilum.spark.narrowing.leaves import Reads
from pilum.spark.options import table_uri

__all__ = ["narrow", "reads", "table"]


def table(
    spark: SparkSession,
    name: str,
    *,
    version: int | str | None = None,
    branch: str | None = None,
    as_of: datetime | None = None,
    blobs: Literal["descriptors", "payloads"] = "descriptors",
    batch_size: int | None = None,
    partition_bytes: int | None = None,
    memory_limit: int | None = None,
    nanoseconds: str = "refuse",
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return a table as a frame that decides what to read when an action is called.

    The frame has all methods of Spark's frames. Its actions, such as `collect`, `count`, `show` and
    `write`, read only the columns and rows that the whole query needs: columns, conditions and
    limits are found in Spark's plan. Counts without conditions are read from the metadata, and
    plain aggregates are computed by the tasks that read. The rows are those of `read`.

    Args:
        spark: The session, classic or of Spark Connect.
        name: Location of the table, or a name that `attach` gave, such as "lake.orders".
        version: A number or the name of a tag, instead of the latest version.
        branch: The branch; version numbers are those of the branch.
        as_of: Read the latest version at this time instead; a time without zone is local time.
        blobs: Whether blob columns are read as descriptors or as bytes.
        batch_size: Rows per Arrow batch.
        partition_bytes: Approximate size of the files that one task reads.
        memory_limit: Approximate limit, in bytes, of the rows that a Python worker holds.
        nanoseconds: What to do with times finer than microseconds: "refuse" or "truncate".
        storage_options: Settings of the store. Those of an attached table precede them.

    Raises:
        DatasetNotFoundError: If there is no table.
        VersionNotFoundError: If there is no such version.
        TagNotFoundError: If there is no such tag.
        BranchNotFoundError: If there is no such branch.
    """
    place = _place(spark, name)
    found = read(
        spark,
        place.uri,
        version=version,
        branch=branch,
        as_of=as_of,
        blobs=blobs,
        batch_size=batch_size,
        partition_bytes=partition_bytes,
        memory_limit=memory_limit,
        nanoseconds=nanoseconds,
        storage_options={**(storage_options or {}), **place.storage_options},
    )
    return narrow(found)


def narrow(frame: DataFrame) -> DataFrame:
    """Return a frame with the same rows whose actions read only what they need, as `table`.

    Use it for frames that name tables of `table` or `read` and were made otherwise, such as
    `spark.sql` over a temporary view, or a join that begins with another frame. Tables that were
    loaded by `format("pilum")` are narrowed only if the option "version" names their version.

    Args:
        frame: A frame of Spark; it is not changed.
    """
    if hasattr(frame, "_jdf"):
        copy = type(frame)(frame._jdf, frame.sparkSession)
    else:
        copy = type(frame)(frame._plan, frame._session)
    found: DataFrame = as_narrow(copy)
    return found


def reads(frame: DataFrame) -> tuple[Reads, ...]:
    """Return what an action on all rows of a frame reads of each table of pilum in its plan.

    Args:
        frame: A frame of `table` or `narrow`, or any other frame of Spark.
    """
    return reads_of(frame)


def _place(spark: SparkSession, name: str) -> Place:
    found = None if "/" in name else Names.of(spark, {}).find(name.split("."))
    if found is None:
        return Place(table_uri(name))
    if found.place is None:
        raise DatasetNotFoundError(f"there is no table {name!r}")
    return found.place
