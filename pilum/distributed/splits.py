"""Splits: the rows of one version in ranges that are planned once and read by many processes.

A task costs an engine tens of milliseconds before it reads a row, so a scan gets as few tasks as
the amount of data allows. Two measures give the cost of reading:

    bytes   of the projected columns only, whatever else the files contain
    rows    each of which an engine processes by itself, however narrow it is, unless a filter
            removes it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa

from pilum.distributed.versions import TableVersion
from pilum.errors import InvalidInputError
from pilum.expressions import BoundFilter
from pilum.format.version import FileVersion
from pilum.table.indices.use import with_selection
from pilum.table.model.fragment import Fragment
from pilum.table.read.json_columns import text_batches
from pilum.table.read.matching import rows_to_test
from pilum.table.read.scan import ScanOptions, scan, scan_schema
from pilum.table.read.snapshot import Snapshot

__all__ = [
    "DEFAULT_SPLIT_BYTES",
    "Split",
    "batch_rows",
    "first_splits",
    "group_splits",
    "partition_splits",
    "plan_splits",
    "read_split",
    "split_fragment",
]

DEFAULT_SPLIT_BYTES = 32 << 20
# Rows of the largest mini-block chunk: a range that ends between chunks decodes no chunk twice.
_ROW_STEP = 4096
# A file of a million narrow rows that slightly exceeds 64 MiB is not cut.
_TASK_FILE_BYTES = 96 << 20
_TASK_MEMORY_BYTES = 128 << 20
_TASK_ROWS = 2_000_000
# Most conditions keep few rows, for which starting a task costs more than its scan.
_TASK_FILTERED_ROWS = 2 * _TASK_ROWS


@dataclass(frozen=True, slots=True)
class Split:
    """A range of rows of one fragment of one version.

    Attributes:
        uri: Location of the table.
        version: The pinned version.
        fragment_id: The fragment.
        start: First physical row of the range within the fragment.
        stop: Physical row after the last row of the range.
        size_bytes: Estimated share of the bytes of the fragment's files, for load balancing.
    """

    uri: str
    version: int
    fragment_id: int
    start: int
    stop: int
    size_bytes: int


def plan_splits(
    version: TableVersion | Snapshot,
    target_bytes: int = DEFAULT_SPLIT_BYTES,
    filter: BoundFilter | None = None,
) -> list[Split]:
    """Split a version into ranges of rows, in scan order.

    Args:
        version: The version; `LanceDataset.snapshot` is one, too.
        target_bytes: Larger files are split, at multiples of 4,096 rows.
        filter: Ranges that it cannot match are pruned where that is known without reading rows:
            from statistics of legacy files, and from row ids, addresses and versions.

    Raises:
        InvalidInputError: If `target_bytes` is not positive.
        UnsupportedFormatError: If the writer was too old to record numbers of rows, and they cannot
            be read from the data files.
    """
    if target_bytes < 1:
        raise InvalidInputError(f"target_bytes: expected a positive number, found {target_bytes}")
    snapshot = version.snapshot if isinstance(version, TableVersion) else version
    return [
        split
        for fragment in snapshot.manifest.fragments
        for split in _matching(
            snapshot, fragment, filter, split_fragment(snapshot, fragment, target_bytes)
        )
    ]


def _matching(
    snapshot: Snapshot, fragment: Fragment, filter: BoundFilter | None, splits: Iterator[Split]
) -> Iterator[Split]:
    if filter is None or not _knows(snapshot, filter):
        return splits
    reader, rows = snapshot.reader(fragment), fragment.physical_rows
    tested = rows_to_test(reader, snapshot.described, filter, 0, rows)
    if not len(tested.bounds):
        return iter(())
    return (split for split in splits if len(tested.within(split.start, split.stop).bounds))


def _knows(snapshot: Snapshot, filter: BoundFilter) -> bool:
    """Return whether anything is known about a filter column; files since 2.0 record nothing."""
    is_legacy = snapshot.manifest.data_version is FileVersion.LEGACY
    return is_legacy or not set(filter.columns).issubset(snapshot.described.names)


def split_fragment(snapshot: Snapshot, fragment: Fragment, target_bytes: int) -> Iterator[Split]:
    """Split one fragment of a version into ranges of rows, as `plan_splits`."""
    rows = fragment.physical_rows
    # A file of unknown size is not split, and shares its task with no other file.
    size_bytes = sum(file.size_bytes or target_bytes for file in fragment.files)
    pieces = max(1, -(-size_bytes // target_bytes))
    step = -(-rows // pieces)
    step = max(_ROW_STEP, -(-step // _ROW_STEP) * _ROW_STEP)
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        share = size_bytes * (stop - start) // rows
        yield Split(snapshot.store.uri, snapshot.manifest.version, fragment.id, start, stop, share)


class _HasSize(Protocol):
    """An item with a size in bytes, which can be grouped."""

    @property
    def size_bytes(self) -> int: ...


_S = TypeVar("_S", bound=_HasSize)


def group_splits(
    splits: Iterable[_S], target_bytes: int = DEFAULT_SPLIT_BYTES
) -> list[tuple[_S, ...]]:
    """Group adjacent splits until a group holds about `target_bytes`; keep their order."""
    groups: list[list[_S]] = []
    size_bytes = 0
    for split in splits:
        size_bytes += split.size_bytes
        if not groups or size_bytes > target_bytes:
            groups.append([])
            size_bytes = split.size_bytes
        groups[-1].append(split)
    return [tuple(group) for group in groups]


def partition_splits(
    version: TableVersion,
    columns: tuple[str, ...],
    filter: BoundFilter | None = None,
    target_bytes: int | None = None,
    max_rows: int | None = None,
) -> list[tuple[Split, ...]]:
    """Split a version into the ranges that single tasks read.

    Ranges that the filter cannot match are skipped, if that is known without reading rows.

    Args:
        version: The version.
        columns: The columns to read.
        filter: A filter.
        target_bytes: Approximate size of the files that one task reads; if None, 96 MiB, or more
            for a projection.
        max_rows: Approximate maximum number of rows per task, used without `target_bytes`; if None,
            2 M, and twice as many with a filter.
    """
    if max_rows is None:
        max_rows = _TASK_FILTERED_ROWS if filter else _TASK_ROWS
    file_bytes = target_bytes or _file_bytes(version, columns, filter, max_rows)
    return group_splits(plan_splits(version, file_bytes, filter), file_bytes)


def first_splits(
    version: TableVersion, groups: Iterable[tuple[Split, ...]], num_rows: int
) -> list[tuple[Split, ...]]:
    """Return the first splits that have at least `num_rows` rows together, in the given groups."""
    deleted: dict[int, int] = {
        fragment.id: fragment.physical_rows - fragment.num_rows
        for fragment in version.snapshot.manifest.fragments
    }
    kept: list[tuple[Split, ...]] = []
    for group in groups:
        own: list[Split] = []
        for split in group:
            if num_rows <= 0:
                break
            own.append(split)
            num_rows -= max(0, split.stop - split.start - deleted[split.fragment_id])
        if own:
            kept.append(tuple(own))
    return kept


def _file_bytes(
    version: TableVersion, columns: tuple[str, ...], filter: BoundFilter | None, max_rows: int
) -> int:
    """Return the size of files whose projected columns are enough for one task."""
    snapshot = version.snapshot
    wanted = {*columns, *(filter.columns if filter else ())}
    files = (file for fragment in snapshot.manifest.fragments for file in fragment.files)
    row_bytes = sum(file.size_bytes or 0 for file in files) / max(1, snapshot.num_rows)
    if row_bytes == 0:
        return _TASK_FILE_BYTES
    if wanted.issuperset(snapshot.described.names):
        rows = _TASK_FILE_BYTES / row_bytes
    else:
        rows = _TASK_MEMORY_BYTES / version.row_bytes(wanted)
    return max(1, round(min(rows, max_rows) * row_bytes))


def batch_rows(
    version: TableVersion, split: Split, names: Iterable[str], max_rows: int, max_bytes: int
) -> int:
    """Return the number of rows per batch, limited by row count and by size in memory."""
    return max(1, min(max_rows, int(max_bytes / version.row_bytes(names, split.fragment_id))))


def read_split(
    split: Split,
    *,
    columns: tuple[str, ...] | None = None,
    filter: BoundFilter | None = None,
    batch_size: int | None = None,
    with_payloads: bool = False,
    window_bytes: int | None = None,
    json_as_text: bool = False,
    version: TableVersion | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Scan the rows of a split.

    Args:
        split: The split to read.
        columns: Names or dotted paths, in the requested order; all columns if None.
        filter: Keeps the rows for which it is true.
        batch_size: Rows per batch.
        with_payloads: Whether to return the bytes of blobs instead of their descriptors.
        window_bytes: Bytes of rows that are read in one window; see `ScanOptions`.
        json_as_text: Whether JSON is returned as text; otherwise in its stored form.
        version: The version of the split, if the caller has it open already.
        storage_options: Options of the object store.

    Raises:
        VersionNotFoundError: If the version no longer exists.
    """
    if version is None:
        version = TableVersion(split.uri, split.version, storage_options or {})
    options = ScanOptions(
        columns=columns,
        filter=filter,
        batch_size=batch_size,
        fragment_ids=(split.fragment_id,),
        row_range=(split.start, split.stop),
        with_payloads=with_payloads,
        window_bytes=window_bytes,
    )
    batches = scan(version.snapshot, with_selection(version.snapshot, options))
    if not json_as_text:
        return batches
    return iter(text_batches(scan_schema(version.snapshot, options), batches))
