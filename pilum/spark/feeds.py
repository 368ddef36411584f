"""The changes between two versions as a frame, read in tasks.

driver   versions 3 to 7 ──▶ pieces of each version          `PilumStreamReader.partitions`
tasks    read(partition) ──▶ rows, _change_type, _commit_version
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pilum.distributed import find_version
from pilum.distributed.following import Offset
from pilum.errors import InvalidInputError, VersionNotFoundError
from pilum.spark.options import Options, option_texts, table_uri
from pilum.spark.stream_source import (
    LoggedOffset,
    read_splits,
    stream_reader,
    with_feed_columns,
)
from pilum.spark.types import to_spark

__all__ = ["changes"]


def changes(
    spark: SparkSession,
    uri: str,
    start: int,
    end: int | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the rows that versions inserted, updated and deleted.

    The table needs stable row ids. Each row has the columns of the latest version, `_change_type`
    ("insert", "update" with the new values, or "delete" with the old ones) and `_commit_version`.

    Args:
        spark: The session.
        uri: Location of the table.
        start: The first version whose changes are returned.
        end: The last one; the latest version if None.
        storage_options: Settings of the store.

    Raises:
        DatasetNotFoundError: If there is no table.
        VersionNotFoundError: If one of the versions does not exist (any more).
        InvalidInputError: If the table has no stable row ids, or the versions are not in order.
    """
    for name, value in (("start", start), ("end", end)):
        if not isinstance(value, int | None) or (value is not None and value < 1):
            raise InvalidInputError(f"{name}: expected the number of a version, found {value!r}")
    access = dict(storage_options or {})
    table = find_version(table_uri(uri), storage_options=access)
    last = table.version if end is None else end
    if last > table.version:
        raise VersionNotFoundError(f"{uri} has versions up to {table.version}, found end={last}")
    if start > last:
        raise InvalidInputError(f"start: version {start} is later than {last}")
    feed = Options.parse(option_texts(table_uri(uri), {"readChangeFeed": True}, storage_options))
    schema = with_feed_columns(to_spark(table.read_schema()))
    first, stop = (LoggedOffset(Offset(number)).to_json() for number in (start, last + 1))
    parts = [part.value for part in stream_reader(schema, feed).partitions(first, stop)]
    if not parts:
        none: list[Any] = []
        return spark.createDataFrame(none, schema)
    numbers = spark.range(0, len(parts), 1, len(parts))
    return numbers.mapInArrow(partial(_read, parts, schema, feed), schema)


def _read(
    parts: list[Any], schema: StructType, options: Options, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from read_splits(parts[number], schema, options)
