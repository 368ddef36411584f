"""The rows of a micro-batch: partitions of version, fragment and rows, and their batches.

    Piece(ADDED …)      ──▶ some rows of a fragment                        "insert"
    Piece(CHANGED …)    ──▶ those of them that the version wrote           "insert" or "update"
    Piece(LOST …)       ──▶ rows of the version before that are gone       "delete"

The last column appears in change feeds only, together with the version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import LongType, StringType, StructType

from pilum.distributed import DEFAULT_SPLIT_BYTES, Split, group_splits, read_split, split_fragment
from pilum.errors import ColumnNotFoundError
from pilum.expressions import bind
from pilum.spark.convert import convert_batch, cut, with_missing
from pilum.spark.options import Options
from pilum.spark.types import exchange_schema
from pilum.table.change_feed.delta import deleted_rows
from pilum.table.change_feed.steps import Mark, Piece, Rows
from pilum.table.model.stored_sequence import CREATED_AT, UPDATED_AT
from pilum.table.read.columns import scan_columns
from pilum.table.read.json_columns import text_batches
from pilum.table.read.scan import ScanOptions, scan_schema
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import take_addresses
from pilum.table.versions.open import open_table

__all__ = ["FEED_COLUMNS", "StreamSplit", "read_splits", "stream_splits", "with_feed_columns"]

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
FEED_COLUMNS = (CHANGE_TYPE, COMMIT_VERSION)
"""Columns of a change feed: "insert", "update" or "delete", and the version of the change."""

_BATCH_ROWS = 10_000
_SHIFT = np.uint64(32)


@dataclass(frozen=True, slots=True)
class StreamSplit:
    """Some rows of a micro-batch.

    Attributes:
        split: The fragment and range of the rows.
        rows: The selected rows of the range.
        commit_version: The version that added, changed or removed them.
        mark: The mark of the version that is read, in case the table is dropped and created again.
    """

    split: Split
    rows: Rows
    commit_version: int
    mark: Mark

    @property
    def size_bytes(self) -> int:
        """Return the share of the fragment's files, in bytes."""
        return self.split.size_bytes


def with_feed_columns(schema: StructType) -> StructType:
    """Return the columns of a table followed by those of a change feed."""
    wide = StructType(list(schema.fields))
    return wide.add(CHANGE_TYPE, StringType()).add(COMMIT_VERSION, LongType())


def stream_splits(
    pieces: Iterable[tuple[int, Piece]], options: Options
) -> list[tuple[StreamSplit, ...]]:
    """Split pieces into tasks, each about as large as the option "partitionBytes"."""
    target = options.partition_bytes or DEFAULT_SPLIT_BYTES
    # A split needs only the number of a version, so one snapshot serves for all.
    snapshot = Snapshot.latest(open_table(options.path, options.storage_options))
    found: list[StreamSplit] = []
    for version, piece in pieces:
        for split in split_fragment(snapshot, piece.fragment, target):
            pinned = replace(split, version=piece.version)
            found.append(StreamSplit(pinned, piece.rows, version, piece.mark))
    return group_splits(found, target)


def read_splits(
    splits: Iterable[StreamSplit], schema: StructType, options: Options
) -> Iterator[pa.RecordBatch]:
    """Read the rows of some splits, with exactly the types that Spark accepts.

    Columns that the table did not have yet are null.

    Raises:
        VersionNotFoundError: If a version was cleaned up after the batch was planned.
        InvalidInputError: If the table was dropped and created again after that.
        SchemaMismatchError: If values do not fit the schema.
    """
    store = open_table(options.path, options.storage_options)
    exchange = exchange_schema(schema)
    truncate = options.nanoseconds == "truncate"
    for one in splits:
        snapshot = Snapshot.at(store, one.split.version)
        one.mark.require(snapshot.manifest, store.uri)
        for stored in _read(one, snapshot, exchange.names, options):
            (batch,) = text_batches(stored.schema, [stored])
            full = with_missing(_with_versions(batch, one.commit_version), exchange)
            yield from cut(
                convert_batch(full, exchange, truncate=truncate), options.bounded_batch_bytes
            )


def _read(
    one: StreamSplit, snapshot: Snapshot, names: list[str], options: Options
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of the table and the kind of change."""
    columns = tuple(name for name in names if name not in FEED_COLUMNS and _has(snapshot, name))
    changed = one.rows is Rows.CHANGED
    if changed or not columns:  # a scan without columns would not report the number of rows
        columns = (*columns, CREATED_AT.column)
    payloads = options.blobs == "payloads"
    stored = scan_schema(snapshot, ScanOptions(columns=columns, with_payloads=payloads))
    for batch in text_batches(stored, _scan(one, snapshot, columns, options)):
        if changed:
            is_new = pc.equal(batch.column(CREATED_AT.column), one.commit_version)
            yield batch.append_column(CHANGE_TYPE, pc.if_else(is_new, "insert", "update"))
        else:
            yield _of_type(batch, "delete" if one.rows is Rows.LOST else "insert")


def _scan(
    one: StreamSplit, snapshot: Snapshot, columns: tuple[str, ...], options: Options
) -> Iterable[pa.RecordBatch]:
    if one.rows is Rows.LOST:
        return _lost(one.split, snapshot, columns)
    changed = f"{UPDATED_AT.column} = {one.commit_version}"
    given = changed if one.rows is Rows.CHANGED else options.filter
    return read_split(
        one.split,
        columns=columns,
        filter=None if given is None else bind(given, snapshot.described.arrow),
        batch_size=_batch_rows(one, options),
        with_payloads=options.blobs == "payloads",
        window_bytes=options.window_bytes,
        snapshot=snapshot,
    )


def _lost(split: Split, snapshot: Snapshot, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that the next version does not have, with their old values."""
    newer = Snapshot.at(snapshot.store, split.version + 1)
    (fragment,) = (one for one in snapshot.manifest.fragments if one.id == split.fragment_id)
    rows = deleted_rows(snapshot, fragment, newer)
    rows = rows[(rows >= split.start) & (rows < split.stop)]
    addresses = rows.astype(np.uint64) + (np.uint64(split.fragment_id) << _SHIFT)
    for start in range(0, len(addresses), _BATCH_ROWS):
        table = take_addresses(snapshot, addresses[start : start + _BATCH_ROWS], columns)
        yield from table.to_batches()


def _of_type(batch: pa.RecordBatch, change: str) -> pa.RecordBatch:
    return batch.append_column(CHANGE_TYPE, pa.array([change]).take(_zeros(batch)))


def _with_versions(batch: pa.RecordBatch, version: int) -> pa.RecordBatch:
    return batch.append_column(COMMIT_VERSION, pa.array([version], pa.int64()).take(_zeros(batch)))


def _zeros(batch: pa.RecordBatch) -> pa.Array:
    return pa.array(np.zeros(batch.num_rows, dtype=np.int8))


def _has(snapshot: Snapshot, name: str) -> bool:
    with suppress(ColumnNotFoundError):
        return bool(scan_columns(snapshot.described, [name]))
    return False


def _batch_rows(one: StreamSplit, options: Options) -> int:
    row_bytes = max(1, one.size_bytes // max(1, one.split.stop - one.split.start))
    return options.batch_size or max(1, min(_BATCH_ROWS, options.bounded_batch_bytes // row_bytes))
