"""Partitioning of a scan into tasks: as few tasks as the amount of data allows.

A task costs Spark tens of milliseconds before it reads a row. Two measures give the cost of
reading:

    bytes   of the projected columns only, whatever else the files contain
    rows    each of which Spark's JVM processes by itself, however narrow it is, unless a filter
            removes it
"""

from __future__ import annotations

from collections.abc import Iterable

from pilum.distributed import Split, group_splits, plan_splits
from pilum.expressions.filter import BoundFilter
from pilum.table.model.fragment import Fragment
from pilum.table.read.columns import scan_columns
from pilum.table.read.snapshot import Snapshot

__all__ = ["batch_rows", "memory_bytes", "partition_splits"]

# A file of a million narrow rows that slightly exceeds 64 MiB is not cut.
_TASK_FILE_BYTES = 96 << 20
_TASK_MEMORY_BYTES = 128 << 20
_TASK_ROWS = 2_000_000
# Most conditions keep few rows, for which starting a task costs more than its scan.
_TASK_FILTERED_ROWS = 2 * _TASK_ROWS
# Size of a value in a column that no file contains, such as `_rowaddr`.
_META_BYTES = 8


def partition_splits(
    snapshot: Snapshot,
    columns: tuple[str, ...],
    filter: BoundFilter | None = None,
    target_bytes: int | None = None,
    max_rows: int | None = None,
) -> list[tuple[Split, ...]]:
    """Split a version into the ranges that single tasks read.

    Args:
        snapshot: The version.
        columns: The columns to read.
        filter: A filter; ranges that it cannot match are skipped, if that is known without reading
            rows.
        target_bytes: Approximate size of the files that one task reads; if None, 96 MiB, or more
            for a projection.
        max_rows: Approximate maximum number of rows per task, used without `target_bytes`; if None,
            2 M, and twice as many with a filter.
    """
    if max_rows is None:
        max_rows = _TASK_FILTERED_ROWS if filter else _TASK_ROWS
    file_bytes = target_bytes or _file_bytes(snapshot, columns, filter, max_rows)
    return group_splits(plan_splits(snapshot, file_bytes, filter), file_bytes)


def _file_bytes(
    snapshot: Snapshot, columns: tuple[str, ...], filter: BoundFilter | None, max_rows: int
) -> int:
    """Return the size of files whose projected columns are enough for one task."""
    wanted = {*columns, *(filter.columns if filter else ())}
    files = (file for fragment in snapshot.manifest.fragments for file in fragment.files)
    row_bytes = sum(file.size_bytes or 0 for file in files) / max(1, snapshot.num_rows)
    if row_bytes == 0:
        return _TASK_FILE_BYTES
    if wanted.issuperset(snapshot.described.names):
        rows = _TASK_FILE_BYTES / row_bytes
    else:
        rows = _TASK_MEMORY_BYTES / memory_bytes(snapshot, snapshot.manifest.fragments[0], wanted)
    return max(1, round(min(rows, max_rows) * row_bytes))


def memory_bytes(snapshot: Snapshot, fragment: Fragment, names: Iterable[str]) -> float:
    """Estimate the size in memory of some columns of a row.

    Args:
        snapshot: The version.
        fragment: One of its fragments, taken as representative of the others.
        names: The columns.
    """
    fields = [column.field for column in scan_columns(snapshot.described, names)]
    opened = snapshot.reader(fragment).fields(field for field in fields if field)
    return max(1, sum(field.bytes_per_row for field in opened) + _META_BYTES * fields.count(None))


def batch_rows(
    snapshot: Snapshot, split: Split, names: Iterable[str], max_rows: int, max_bytes: int
) -> int:
    """Return the number of rows per batch, limited by row count and by size in memory."""
    (fragment,) = [one for one in snapshot.manifest.fragments if one.id == split.fragment_id]
    return max(1, min(max_rows, int(max_bytes / memory_bytes(snapshot, fragment, names))))
