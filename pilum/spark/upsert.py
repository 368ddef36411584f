"""Streams that update rows by keys: what `foreachBatch` calls.

    micro-batch ──▶ the newest row of each key ──▶ Arrow batches, one by one, to the driver
                ──▶ merge_insert with the key (query, batch number) ──▶ one commit

Only a part of the micro-batch is in the memory of the driver at a time; what the merge has to keep
goes to a temporary file. A batch that runs again finds its key in the table, and nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from pilum.dataset.lance_dataset import LanceDataset, dataset
from pilum.errors import DatasetNotFoundError, InvalidInputError
from pilum.spark.convert import convert_batch
from pilum.spark.options import Options
from pilum.spark.sink import plan_write
from pilum.spark.source import PilumDataSource
from pilum.spark.stream_sink import QUERY_ID

__all__ = ["upsert"]

_RANK = "_pilum_rank"
_PACKED = "batch binary"


def upsert(
    uri: str,
    on: str | Sequence[str],
    *,
    newest_by: str | None = None,
    app_id: str | None = None,
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
        storage_options: Settings of the store.

    Returns:
        A function of a frame and the number of its batch. It raises as
        `pilum.MergeInsertBuilder.execute`, and that ends the query.

    Raises:
        InvalidInputError: If there is no key.
    """
    keys = (on,) if isinstance(on, str) else tuple(on)
    if not keys or not all(keys):
        raise InvalidInputError(f"on: expected names of columns, found {on!r}")
    return _Upsert(uri, keys, newest_by, app_id, dict(storage_options or {}))


@dataclass(frozen=True)
class _Upsert:
    """Takes micro-batches."""

    uri: str
    on: tuple[str, ...]
    newest_by: str | None
    app_id: str | None
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
            self._merge(table, newest, (app_id, batch_id))

    def _create(self, frame: DataFrame, key: tuple[str, int]) -> None:
        frame.sparkSession.dataSource.register(PilumDataSource)
        writer = frame.write.format(PilumDataSource.name()).mode("append").options(**self._access)
        app_id, number = key
        writer.options(mode="create", txnAppId=app_id, txnVersion=number).save(self.uri)

    def _merge(self, table: LanceDataset, frame: DataFrame, key: tuple[str, int]) -> None:
        options = Options.parse({"path": self.uri, **self._access})
        job = plan_write(frame.schema, options, "append")
        schema = pa.schema([job.schema.arrow.field(name) for name in frame.columns])
        batches = (convert_batch(batch, schema) for batch in _arrow_batches(frame))
        merge = table.merge_insert(self.on).when_matched_update_all(self._is_newer)
        merge = merge.when_not_matched_insert_all()
        merge.idempotency_key(key).execute(pa.RecordBatchReader.from_batches(schema, batches))

    @property
    def _is_newer(self) -> str | None:
        if self.newest_by is None:
            return None
        name = _quoted(self.newest_by)
        return f"target.{name} IS NULL OR source.{name} >= target.{name}"

    @property
    def _access(self) -> dict[str, str]:
        return {f"storage.{name}": value for name, value in self.storage_options.items()}


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


def _arrow_batches(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """The rows of a frame; a partition of it at a time is fetched."""
    for row in frame.mapInArrow(_packed, _PACKED).toLocalIterator():
        with pa.ipc.open_stream(row.batch) as reader:
            yield from reader


def _packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.record_batch({"batch": pa.array([sink.getvalue().to_pybytes()], pa.binary())})
