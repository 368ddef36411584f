"""Streams that update rows by keys: what `foreachBatch` calls.

    micro-batch ──▶ the newest row of each key ──▶ merge_into with the key (query, batch number)

Small batches are merged by the driver, others by tasks. A batch that runs again finds its key in
the table, and nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from pilum.dataset.lance_dataset import dataset
from pilum.dataset.options import require_count
from pilum.errors import DatasetNotFoundError, InvalidInputError
from pilum.spark.merging import merge_into
from pilum.spark.source import PilumDataSource
from pilum.spark.stream_sink import QUERY_ID

__all__ = ["upsert"]

_RANK = "_pilum_rank"
_LOCAL_ROWS = 10_000


def upsert(
    uri: str,
    on: str | Sequence[str],
    *,
    newest_by: str | None = None,
    app_id: str | None = None,
    local_rows: int = _LOCAL_ROWS,
    storage_options: Mapping[str, str] | None = None,
) -> Callable[[DataFrame, int], None]:
    """Makes the function for `foreachBatch` that updates rows with known keys and adds others.

    >>> changes.writeStream.foreachBatch(pilum.spark.upsert("/tmp/t", on="id")).start()

    Each micro-batch is one commit, and is in the table once, however often it runs. The first one
    creates the table if there is none. Columns that a batch lacks keep their values.

    Args:
        uri: Location of the table.
        on: The key column, or several.
        newest_by: A column; of several rows with one key, the one in which it is greatest counts,
            whether they come together, or one is in the table: a late row changes nothing.
            Without it the last batch counts, and several rows of one key in it are an error if the
            table has the key.
        app_id: Names the stream; the id of its query if None, which is that of the checkpoint.
            Spark Connect does not tell it.
        local_rows: A micro-batch with at most so many rows is merged by the driver, without a
            shuffle.
        storage_options: Settings of the store.

    Returns:
        A function of a frame and the number of its batch. It raises as `SparkMerge.execute`, and
        that ends the query.

    Raises:
        InvalidInputError: If there is no key.
    """
    keys = (on,) if isinstance(on, str) else tuple(on)
    if not keys or not all(keys):
        raise InvalidInputError(f"on: expected names of columns, found {on!r}")
    local_rows = require_count("local_rows", local_rows)
    return _Upsert(uri, keys, newest_by, app_id, local_rows, dict(storage_options or {}))


@dataclass(frozen=True)
class _Upsert:
    """Takes micro-batches."""

    uri: str
    on: tuple[str, ...]
    newest_by: str | None
    app_id: str | None
    local_rows: int
    storage_options: Mapping[str, str] = field(repr=False)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        app_id = self.app_id or _query_id(frame)
        newest = frame if self.newest_by is None else _newest(frame, self.on, self.newest_by)
        try:
            table = dataset(self.uri, storage_options=self.storage_options)
        except DatasetNotFoundError:
            self._create(newest, (app_id, batch_id))
            return
        last = table.last_commit(app_id)
        if last is None or last.app_version < batch_id:
            self._merge(newest, (app_id, batch_id))

    def _create(self, frame: DataFrame, key: tuple[str, int]) -> None:
        frame.sparkSession.dataSource.register(PilumDataSource)
        app_id, number = key
        once = {"mode": "create", "txnAppId": app_id, "txnVersion": str(number)}
        access = {f"storage.{name}": value for name, value in self.storage_options.items()}
        writer = frame.write.format(PilumDataSource.name()).mode("append")
        writer.options(**once, **access).save(self.uri)

    def _merge(self, frame: DataFrame, key: tuple[str, int]) -> None:
        frame.persist()  # a merge looks at its source more than once
        try:
            merge = merge_into(
                frame.sparkSession,
                self.uri,
                frame,
                self.on,
                local_rows=self.local_rows,
                storage_options=self.storage_options,
            )
            merge.when_matched_update_all(self._is_newer).when_not_matched_insert_all()
            merge.idempotency_key(key).execute()
        finally:
            frame.unpersist()

    @property
    def _is_newer(self) -> str | None:
        if self.newest_by is None:
            return None
        name = _quoted(self.newest_by)
        return f"target.{name} IS NULL OR source.{name} >= target.{name}"


def _query_id(frame: DataFrame) -> str:
    """The query that runs this batch: Spark keeps it in a property of the thread."""
    try:
        query_id = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    except PySparkException:  # Spark Connect has no context
        query_id = None
    if not query_id:
        raise InvalidInputError(
            "upsert: Spark does not tell the id of the query here; name the stream with app_id, "
            "differently from others that write to the table"
        )
    return query_id


def _newest(frame: DataFrame, on: Sequence[str], newest_by: str) -> DataFrame:
    """One row of each key; rows in which a part of it is null match nothing, and all stay."""
    keys = [_column(name) for name in on]
    order = Window.partitionBy(*keys).orderBy(_column(newest_by).desc_nulls_last())
    no_key = reduce(lambda one, other: one | other, (key.isNull() for key in keys))
    ranked = frame.withColumn(_RANK, sf.row_number().over(order))
    return ranked.where((sf.col(_RANK) == 1) | no_key).drop(_RANK)


def _column(name: str) -> Column:
    return sf.col(_quoted(name))


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
