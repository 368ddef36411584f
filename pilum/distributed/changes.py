"""The rows of a micro-batch: ranges of the pieces that versions changed, and their batches.

Piece(ADDED …)      ──▶ some rows of a fragment                        "insert"
Piece(CHANGED …)    ──▶ those of them that the version wrote           "insert" or "update"
Piece(LOST …)       ──▶ rows of the version before that are gone       "delete"
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from pilum.distributed.splits import DEFAULT_SPLIT_BYTES, Split, read_split, split_fragment
from pilum.distributed.versions import TableVersion
from pilum.errors import ColumnNotFoundError
from pilum.format.rows import addresses_in
from pilum.table.change_feed import Mark, Piece, Rows, deleted_rows
from pilum.table.model.stored_sequence import CREATED_AT, UPDATED_AT
from pilum.table.read.columns import scan_columns
from pilum.table.read.json_columns import text_batches
from pilum.table.read.scan import ScanOptions, scan_schema
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import take_addresses
from pilum.table.versions.commit_handler import open_table

__all__ = [
    "CHANGE_TYPE",
    "COMMIT_VERSION",
    "ChangeSplit",
    "plan_changes",
    "read_changes",
]

CHANGE_TYPE = "_change_type"
"""Column of a change feed: "insert", "update" or "delete"."""

COMMIT_VERSION = "_commit_version"
"""Column of a change feed: the version of the change."""

_BATCH_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class ChangeSplit:
    """Some rows of a micro-batch: a fragment and range, and the selected rows of the range.

    Attributes:
        commit_version: The version that added, changed or removed the rows.
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


def plan_changes(
    pieces: Iterable[tuple[int, Piece]],
    latest: TableVersion,
    target_bytes: int = DEFAULT_SPLIT_BYTES,
) -> Iterator[ChangeSplit]:
    """Split the pieces of a micro-batch, as `Follower.pieces` yields them, into ranges of rows.

    `latest` is any version of the table; files larger than `target_bytes` are split.
    """
    for version, piece in pieces:
        # A split needs only the number of a version, so one snapshot serves for all.
        for split in split_fragment(latest.snapshot, piece.fragment, target_bytes):
            pinned = replace(split, version=piece.version)
            yield ChangeSplit(pinned, piece.rows, version, piece.mark)


def read_changes(
    changes: Iterable[ChangeSplit],
    names: Sequence[str],
    *,
    filter: str | None = None,
    batch_size: int | None = None,
    batch_bytes: int | None = None,
    with_payloads: bool = False,
    window_bytes: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of changes, with `CHANGE_TYPE` and `COMMIT_VERSION` after their columns.

    Columns that the version does not have are left out; the filter applies to added rows. Without
    `batch_size`, batches have 10,000 rows, fewer if they are wide, or approximately `batch_bytes`
    bytes of files. Other arguments are as in `read_split`.

    Raises:
        VersionNotFoundError: If the version was cleaned up after the batch was planned.
        InvalidInputError: If the table was dropped and created again after that.
    """
    access, store = dict(storage_options or {}), None
    for change in changes:
        split = change.split
        store = store or open_table(split.uri, access)
        version = TableVersion.opened(split.uri, Snapshot.at(store, split.version), access)
        change.mark.require(version.snapshot.manifest, store.uri)
        changed = change.rows is Rows.CHANGED
        columns = tuple(name for name in names if _has(version.snapshot, name))
        if changed or not columns:  # a scan without columns would not report the number of rows
            columns = (*columns, CREATED_AT.column)
        if change.rows is Rows.LOST:
            stored = scan_schema(version.snapshot, ScanOptions(columns=columns))
            batches = iter(text_batches(stored, _lost(split, version, columns)))
        else:
            condition = f"{UPDATED_AT.column} = {change.commit_version}" if changed else filter
            batches = read_split(
                split,
                columns=columns,
                filter=None if condition is None else version.condition(condition),
                batch_size=batch_size or _batch_rows(split, batch_bytes),
                with_payloads=with_payloads,
                window_bytes=window_bytes,
                json_as_text=True,
                version=version,
            )
        for batch in batches:
            yield _with_feed_columns(batch, change)


def _batch_rows(split: Split, batch_bytes: int | None) -> int:
    row_bytes = max(1, split.size_bytes // max(1, split.stop - split.start))
    return max(1, min(_BATCH_ROWS, (batch_bytes or _BATCH_ROWS * row_bytes) // row_bytes))


def _with_feed_columns(batch: pa.RecordBatch, change: ChangeSplit) -> pa.RecordBatch:
    change_type = pa.repeat("delete" if change.rows is Rows.LOST else "insert", len(batch))
    if change.rows is Rows.CHANGED:
        is_new = pc.equal(batch.column(CREATED_AT.column), change.commit_version)
        change_type = pc.if_else(is_new, "insert", "update")
    commit_version = pa.repeat(pa.scalar(change.commit_version, pa.int64()), len(batch))
    typed = batch.append_column(CHANGE_TYPE, change_type)
    return typed.append_column(COMMIT_VERSION, commit_version)


def _lost(
    split: Split, version: TableVersion, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that the next version does not have, with their old values."""
    snapshot = version.snapshot
    newer = Snapshot.at(snapshot.store, split.version + 1)
    rows = deleted_rows(snapshot, version.fragment(split.fragment_id), newer)
    rows = rows[(rows >= split.start) & (rows < split.stop)]
    addresses = addresses_in(split.fragment_id, rows)
    for start in range(0, len(addresses), _BATCH_ROWS):
        table = take_addresses(snapshot, addresses[start : start + _BATCH_ROWS], columns)
        yield from table.to_batches()


def _has(snapshot: Snapshot, name: str) -> bool:
    with suppress(ColumnNotFoundError):
        return bool(scan_columns(snapshot.described, [name]))
    return False
