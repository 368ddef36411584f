"""Clustering as a job of Spark: all rows of a table are written again in another order.

    table ──▶ rows with addresses ──▶ ranges of the keys, sorted ──▶ tasks: new fragments
                                                                        │ with ids of rows
    driver: one Rewrite of all fragments that there were  ◀─────────────┘

Rows that others append meanwhile stay where they are. If others change rows, the clustering comes
to nothing: its commit is refused, and its files go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession

from pilum.container.options import FileOptions
from pilum.dataset.compaction_tasks import CompactionMetrics
from pilum.distributed import WriteJob, abort_parts
from pilum.errors import CommitStatusUnknownError, InvalidInputError
from pilum.spark.clustering import Order
from pilum.spark.frames import read
from pilum.spark.options import table_uri
from pilum.spark.row_tasks import pinned, run_tasks, table_bytes
from pilum.spark.sink import write_task
from pilum.table.fragment import Fragment
from pilum.table.open import open_table
from pilum.table.row_ids.lineage import lineage_of_rows, with_lineage
from pilum.table.snapshot import Snapshot
from pilum.table.upkeep.clustering import require_clusterable
from pilum.table.upkeep.compaction import commit_moves
from pilum.table.upkeep.reuse_index import Move
from pilum.table.writing.write import WriteOptions

__all__ = ["cluster"]

_ADDRESS = "_rowaddr"
_TASK_BYTES = 256 << 20
# As in the sink: rows, their pages, what Spark sends.
_BUFFERED_SHARE = 4


def cluster(
    spark: SparkSession,
    uri: str,
    *,
    sort_by: Sequence[str | Column] | None = None,
    zorder_by: Sequence[str] | None = None,
    hilbert_by: Sequence[str] | None = None,
    num_partitions: int | None = None,
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> CompactionMetrics:
    """Writes all rows of a table again, so that those are together that are read together.

    Rows, their stable ids and their versions stay what they are; deleted rows go. It is one commit:
    whatever fails before, the table is as it was, and the files that were written are deleted.
    The table goes through Spark's shuffle, for which Spark's disks need room.

    Args:
        spark: The session.
        uri: Location of the table.
        sort_by: Sorts the rows by these columns, within a file and from file to file.
        zorder_by: Puts rows together that are near in all of these columns.
        hilbert_by: The same along a Hilbert curve: files are narrower in each column.
        num_partitions: How many tasks write, at most; by default one for 256 MiB of files.
        max_rows_per_file: Rows after which a task begins a new file.
        max_bytes_per_file: Bytes after which a task begins a new file.
        memory_limit: About how many bytes of rows a Python worker holds.
        storage_options: Settings of the store.

    Returns:
        What was done.

    Raises:
        DatasetNotFoundError: If there is no table.
        ColumnNotFoundError: If there is no such column.
        CommitConflictError: If others changed rows meanwhile, or put them elsewhere.
        UnsupportedFeatureError: If the table has columns of blobs, or an index that cannot follow.
        InvalidInputError: If not exactly one order is given, or an argument makes no sense.
        pyspark.errors.PySparkException: If a task failed in all attempts; also for a column that is
            not there in `sort_by`.
    """
    order = Order(sort_by, zorder_by, hilbert_by)
    if not order:
        raise InvalidInputError("cluster: expected one of sort_by, zorder_by and hilbert_by")
    _require_positive(
        num_partitions=num_partitions,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        memory_limit=memory_limit,
    )
    access = dict(storage_options or {})
    snapshot = Snapshot.latest(open_table(table_uri(uri), access))
    require_clusterable(snapshot)
    if not snapshot.manifest.fragments:
        return CompactionMetrics()
    options = _write_options(snapshot, max_rows_per_file, max_bytes_per_file, memory_limit)
    version, schema = snapshot.manifest.version, snapshot.manifest.schema
    job = WriteJob(table_uri(uri), str(uuid4()), "append", version, schema, options, access)
    count = num_partitions or max(1, -(-table_bytes(snapshot) // _TASK_BYTES))
    return _rewrite(snapshot, job, _ordered(spark, job, order, count, memory_limit))


def _rewrite(snapshot: Snapshot, job: WriteJob, rows: DataFrame) -> CompactionMetrics:
    """Writes rows as they come, and commits them in the place of all that there are."""
    try:
        parts = run_tasks(rows, partial(_write, job), job)  # sweeps what other attempts wrote
        new = tuple(fragment for part in parts for fragment in part)
        move = Move(snapshot.manifest.fragments, new)
        commit_moves(
            snapshot.store,
            job.read_version,
            [move],
            records_moves=False,
            keeps_order=False,
            uuid=job.uuid,
        )
    except CommitStatusUnknownError:  # it may be in, or get in yet: its files must stay
        raise
    except BaseException:
        abort_parts(job)
        raise
    return CompactionMetrics.of([move])


def _require_positive(**given: int | None) -> None:
    for name, value in given.items():
        if value is not None and (type(value) is not int or value < 1):
            raise InvalidInputError(f"{name}: expected a positive number, found {value!r}")


def _write_options(
    snapshot: Snapshot, max_rows: int | None, max_bytes: int | None, memory_limit: int | None
) -> WriteOptions:
    buffered = memory_limit and max(1, memory_limit // _BUFFERED_SHARE)
    options = WriteOptions(version=snapshot.manifest.data_version, layout=FileOptions(buffered))
    if buffered is not None:
        options = replace(options, unfinished_bytes=buffered)
    if max_rows is not None:
        options = replace(options, max_rows_per_file=max_rows)
    return options if max_bytes is None else replace(options, max_bytes_per_file=max_bytes)


def _ordered(
    spark: SparkSession, job: WriteJob, order: Order, count: int, memory_limit: int | None
) -> DataFrame:
    """All rows with their addresses, in the order wanted."""
    rows = partial(
        read,
        spark,
        job.uri,
        version=job.read_version,
        memory_limit=memory_limit,
        storage_options=job.storage_options,
    )
    frame = rows(columns=[*job.schema.arrow.names, _ADDRESS])
    keys = rows(columns=list(order.curve_columns)) if order.curve_columns else None
    return order.apply(frame, count, keys)


def _write(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> tuple[Fragment, ...]:
    """Writes the rows of one task; their ids and versions go along."""
    addresses: list[pa.Array] = []

    def without_addresses() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            addresses.append(batch.column(_ADDRESS))
            yield batch.drop_columns([_ADDRESS])

    message = write_task(job, without_addresses())
    written = tuple(Fragment.from_json(json.loads(text)) for text in message.fragments)
    places = pa.chunked_array(addresses, pa.int64()).to_numpy().astype(np.uint64)
    return with_lineage(written, lineage_of_rows(pinned(job), places))
