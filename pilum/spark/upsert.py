"""Streaming upserts by keys: the function that `foreachBatch` calls.

    micro-batch ──▶ the newest row of each key ──▶ merge_into with the key (query, batch number)

Small batches are merged by the driver, others by tasks. For a batch that runs again, the table
contains its key, and nothing happens. An older batch is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

import pilum
from pilum.distributed.recent_files import compact_recent
from pilum.distributed.tasks import optional_count, require_count
from pilum.distributed.versions import branch_uri
from pilum.errors import DatasetNotFoundError, InvalidInputError, JobMismatchError
from pilum.spark.job_reports import JobRecorder
from pilum.spark.merging import merge_into
from pilum.spark.names import find_name, is_case_sensitive, quoted, require_free
from pilum.spark.options import table_uri
from pilum.spark.sink import QUERY_ID
from pilum.spark.source import PilumDataSource, register_source

__all__ = ["upsert"]

_RANK = "_pilum_rank"
_GOES = "_pilum_goes"
_LOCAL_ROWS = 10_000


def upsert(
    uri: str,
    on: str | Sequence[str],
    *,
    newest_by: str | None = None,
    delete_when: str | None = None,
    columns: Sequence[str] | None = None,
    branch: str | None = None,
    app_id: str | None = None,
    local_rows: int = _LOCAL_ROWS,
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
    compact_every: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that updates rows with known keys and adds others.

    >>> changes.writeStream.foreachBatch(pilum.spark.upsert("/tmp/t", on="id")).start()

    Each micro-batch is one commit, and is in the table exactly once, however often it runs. The
    first micro-batch creates the table if there is none. Columns that a batch lacks keep their
    values.

    Args:
        uri: Location of the table.
        on: The key column or columns.
        newest_by: A column that orders the rows of one key: the row with the greatest value wins,
            within a batch and against the table, so a late row changes nothing. Without it the last
            batch wins, and several rows of one key in a batch are an error if the table has the
            key.
        delete_when: A condition in Spark SQL over the columns of the stream, such as "op = 'D'".
            Rows for which it is true delete the row with their key. The table keeps no tombstone
            with the time of a deleted row: a row of this key that arrives later is new, whatever
            its time.
        columns: The columns of the stream to write, including the keys and `newest_by`; all if
            None.
        branch: The branch that is changed; it must exist.
        app_id: Name of the stream; if None, the id of its query, which is stored in the checkpoint.
            Spark Connect does not provide it.
        local_rows: A micro-batch with at most this many rows is merged by the driver, without a
            shuffle.
        max_rows_per_file: As in `merge_into`, like the next one.
        max_bytes_per_file: Number of bytes after which a task starts a new file.
        compact_every: After this many micro-batches, the newest small files are joined with one
            commit, on the driver. A failure of that is logged, and the next time joins more.
        storage_options: Settings of the store.

    Returns:
        A function of a frame and the number of its batch. It raises the errors of
        `SparkMerge.execute`, which end the query.

    Raises:
        InvalidInputError: If there is no key, or `columns` lacks a required column.
        BranchNotFoundError: If there is no such branch.
    """
    keys = (on,) if isinstance(on, str) else tuple(on)
    if not keys or not all(keys):
        raise InvalidInputError(f"on: expected names of columns, found {on!r}")
    names = None if columns is None else tuple(columns)
    needed = [*keys, *([] if newest_by is None else [newest_by])]
    if names is not None and (missing := [name for name in needed if name not in names]):
        raise InvalidInputError(f"columns: {missing} must be among them, found {list(names)}")
    local_rows = require_count("local_rows", local_rows)
    access = dict(storage_options or {})
    place = branch_uri(table_uri(uri), branch, access)
    return _Upsert(
        place,
        keys,
        newest_by,
        delete_when,
        names,
        app_id,
        local_rows,
        optional_count("max_rows_per_file", max_rows_per_file, 1),
        optional_count("max_bytes_per_file", max_bytes_per_file, 1),
        optional_count("compact_every", compact_every, 1),
        access,
    )


@dataclass(frozen=True)
class _Upsert:
    """The callable that upserts micro-batches."""

    uri: str
    on: tuple[str, ...]
    newest_by: str | None
    delete_when: str | None
    columns: tuple[str, ...] | None
    app_id: str | None
    local_rows: int
    max_rows: int | None
    max_bytes: int | None
    compact_every: int | None
    storage_options: Mapping[str, str] = field(repr=False)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self._apply(frame, batch_id)
        if self.compact_every and (batch_id + 1) % self.compact_every == 0:
            with JobRecorder("compact", self.uri):
                compact_recent(self.uri, self.storage_options)

    def _apply(self, frame: DataFrame, batch_id: int) -> None:
        app_id = self.app_id or _query_id(frame)
        require_free(frame.columns, _RANK, _GOES)
        newest = frame if self.newest_by is None else _newest(frame, self.on, self.newest_by)
        changes = self._marked(newest)
        try:
            table = pilum.dataset(self.uri, storage_options=self.storage_options)
        except DatasetNotFoundError:
            self._create(changes, (app_id, batch_id))
            return
        last = table.last_commit(app_id)
        if last is None or last.app_version < batch_id:
            self._merge(changes, (app_id, batch_id), table.schema.names)
        elif last.app_version > batch_id:
            raise JobMismatchError(
                f"{self.uri}: micro-batch {batch_id} of {app_id!r} comes after {last.app_version}, "
                f"which is in the table since version {last.version}: the checkpoint is older than "
                "the table. Restore the table to a version that fits, or give the stream another "
                "app_id: its batches are then merged again, which is right where newest_by decides"
            )

    def _marked(self, frame: DataFrame) -> DataFrame:
        """Return the columns to write, and a column that marks the rows to delete."""
        names = self.columns or frame.columns
        kept = [_column(name) for name in names]
        if self.delete_when is None:
            return frame.select(*kept)
        goes = sf.coalesce(sf.expr(self.delete_when), sf.lit(False))
        return frame.select(*kept, goes.alias(_GOES))

    def _create(self, frame: DataFrame, key: tuple[str, int]) -> None:
        register_source(frame.sparkSession, PilumDataSource)
        app_id, number = key
        once = {"mode": "create", "txnAppId": app_id, "txnVersion": str(number)}
        access = {f"storage.{name}": value for name, value in self.storage_options.items()}
        sizes = {"maxRowsPerFile": self.max_rows, "maxBytesPerFile": self.max_bytes}
        once |= {name: str(size) for name, size in sizes.items() if size is not None}
        if self.delete_when is not None:
            frame = frame.where(~sf.col(_GOES)).drop(_GOES)
        writer = frame.write.format(PilumDataSource.name()).mode("append")
        writer.options(**once, **access).save(self.uri)

    def _merge(self, frame: DataFrame, key: tuple[str, int], known: Sequence[str]) -> None:
        sensitive = is_case_sensitive(frame.sparkSession)

        def stored(name: str) -> str:
            return find_name(name, known, case_sensitive=sensitive) or name

        is_newer = None if self.newest_by is None else _is_newer(stored(self.newest_by))
        frame = frame.toDF(*map(stored, frame.columns))
        frame.persist()  # a merge evaluates its source more than once
        try:
            merge = merge_into(
                frame.sparkSession,
                self.uri,
                frame,
                self.on,
                local_rows=self.local_rows,
                max_rows_per_file=self.max_rows,
                max_bytes_per_file=self.max_bytes,
                storage_options=self.storage_options,
            )
            if self.delete_when is None:
                merge.when_matched_update_all(is_newer).when_not_matched_insert_all()
            else:
                newer = is_newer or "TRUE"
                merge.source_columns([name for name in frame.columns if name != _GOES])
                merge.when_matched_delete(f"source.{_GOES} AND ({newer})")
                merge.when_matched_update_all(f"NOT source.{_GOES} AND ({newer})")
                merge.when_not_matched_insert_all(f"NOT source.{_GOES}")
            merge.idempotency_key(key).execute()
        finally:
            frame.unpersist()


def _is_newer(newest_by: str) -> str:
    name = quoted(newest_by)
    return f"target.{name} IS NULL OR source.{name} >= target.{name}"


def _query_id(frame: DataFrame) -> str:
    """Return the id of the query that runs this batch, from a property of the thread."""
    try:
        query_id = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    except PySparkException:  # Spark Connect has no context
        query_id = None
    if not query_id:
        raise InvalidInputError(
            "upsert: Spark does not report the id of the query here; name the stream with app_id, "
            "differently from others that write to the table"
        )
    return query_id


def _newest(frame: DataFrame, on: Sequence[str], newest_by: str) -> DataFrame:
    """Keep the newest row of each key, and all rows with a null in the key, which match nothing."""
    keys = [_column(name) for name in on]
    order = Window.partitionBy(*keys).orderBy(_column(newest_by).desc_nulls_last())
    no_key = reduce(lambda one, other: one | other, (key.isNull() for key in keys))
    ranked = frame.withColumn(_RANK, sf.row_number().over(order))
    return ranked.where((sf.col(_RANK) == 1) | no_key).drop(_RANK)


def _column(name: str) -> Column:
    return sf.col(quoted(name))
