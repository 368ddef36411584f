"""Windows: groups of rows that are read together, into one table, and decoded by threads.

A window has as many rows as fit in about `_WINDOW_BYTES` of memory, or more on request. The next
windows are prefetched while the caller processes the last one. Unneeded rows in between, such as
deleted ones, are read too and removed during decoding, unless few rows remain.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrays import filtered, from_zero, is_picked_wrongly, join_arrays
from pilum.blocks import kept_values, true_places, truths
from pilum.container.segments import FieldReader, Segment, read_segments
from pilum.format.fields import Field
from pilum.format.rows import RowRanges
from pilum.parallel import num_threads, submit, submit_waiting
from pilum.storage.base import Store
from pilum.table.model.deletion_vector import bit_mask
from pilum.table.read.columns import MetaValues, ScanColumn
from pilum.table.read.fragment_runs import FragmentRun

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundFilter

__all__ = [
    "Pending",
    "ReadRows",
    "RowSource",
    "Window",
    "batches",
    "batches_between",
    "joined_batch",
    "of_bytes",
    "of_rows",
    "read_ahead",
    "rows_of_window",
]

_WINDOW_BYTES = 32 * 1024 * 1024
_LEAST_ROW_BYTES = 8
"""Minimum size assumed per row, for its id or computed values when almost nothing is read."""
_WINDOWS_AHEAD = 2
_SMALL_WINDOWS_AHEAD = 32
_FRAGMENTS_AHEAD = 100
_TASK_BYTES = 1024 * 1024
_MOST_DECODED_BYTES = 8 * _TASK_BYTES
"""Bytes to decode, for few rows of many chunks, that are worth a task."""
_BYTES_AHEAD = 2 * _TASK_BYTES
_REMOTE_BYTES_AHEAD = 64 * 1024 * 1024
"""Bytes that a network delivers within the latency of a request."""
_ROWS_BESIDE = 64
"""Rows that are decoded beside a single one, on average."""
_PART_BYTES, _PLAIN_PART_BYTES = 1024 * 1024, 4 * 1024 * 1024
"""Least size of the parts into which a segment is split, so that no thread is idle.

Threads hold each other up by the interpreter lock, so that to share fewer numbers takes longer.
"""
_MAPPED_BYTES = 1024 * 1024
"""Least size of segments that may be mapped, which takes no time."""
_THREAD_BYTES = 32 * 1024
"""Average size of segments below which threads would only wait for each other."""
_TINY_VALUES = 1024
_TINY_ROWS = 16
_TINY_VALUE_BYTES = 64
_FEW = 0.05
"""Share of selected rows below which single rows are read instead of all chunks of a window."""
_FEW_TEXTS = 0.3
"""The same share for texts, which take longer to decode."""
_MOST = 0.85
"""Share of selected rows above which Arrow copies their runs faster than each of them is copied."""
_SOME = 0.16
"""Share of selected rows up to which only these are decoded; of texts, always."""


class RowSource(Protocol):
    """Interface of a source of fields: a fragment, or a file."""

    @property
    def store(self) -> Store:
        """The store of the source."""

    def field(self, field: Field) -> FieldReader:
        """Open the columns of a field, reduced to the requested members."""


@dataclass(frozen=True, slots=True)
class Window:
    """A group of rows that are read together.

    Attributes:
        source: The fragment or file that contains the rows.
        rows: The rows to read.
        kept: Mask of the selected rows among these; None if all are selected.
        meta: Computes the columns that are in no file; None if there are none.
        filter: What is left to test of the filter of the scan; None for nothing.
    """

    source: RowSource
    rows: RowRanges
    kept: pa.BooleanArray | None = None
    meta: MetaValues | None = None
    filter: BoundFilter | None = None

    @property
    def num_rows(self) -> int:
        """The number of selected rows."""
        return self.rows.num_rows if self.kept is None else int(self.kept.true_count)

    def wanted(self, first: int = 0) -> NDArray[np.int64]:
        """Return the selected rows, numbered so that row 0 of the fragment is `first`."""
        if self.kept is None:
            return self.rows.rows(first)
        if len(self.rows.bounds) == 1:
            return true_places(self.kept, int(self.rows.bounds[0, 0]) + first)
        return self.rows.rows(first)[true_places(self.kept)]

    def matching(self, mask: pa.BooleanArray) -> Window:
        """Return a window of the selected rows for which `mask` is true."""
        if self.kept is None:
            return replace(self, kept=mask).lean()
        kept = truths(self.kept)
        kept[kept] = truths(mask)
        return replace(self, kept=bit_mask(kept)).lean()

    def first(self, num_rows: int) -> Window:
        """Return a window of the first selected rows, which has more of them."""
        if self.kept is None:
            return replace(self, rows=RowRanges.of_rows(self.rows.rows()[:num_rows]))
        kept = truths(self.kept)
        kept[np.flatnonzero(kept)[num_rows] :] = False
        return replace(self, kept=bit_mask(kept))

    def lean(self) -> Window:
        """Return a window of the same rows; if they are few, it reads them one by one."""
        if self.kept is None or self.num_rows > _FEW * len(self.kept):
            return self
        return replace(self, rows=RowRanges.of_rows(self.wanted()), kept=None)

    def spanning(self) -> Window:
        """Return a window of the same rows; unless they are few, it reads those in between too."""
        if len(self.rows.bounds) <= 1:
            return self.lean()
        start, stop = int(self.rows.bounds[0, 0]), int(self.rows.bounds[-1, 1])
        wanted = self.wanted(-start)
        if len(wanted) <= _FEW * (stop - start):
            return replace(self, rows=RowRanges.of_rows(wanted + start), kept=None)
        kept = np.zeros(stop - start, np.bool_)
        kept[wanted] = True
        return replace(self, rows=RowRanges.one(start, stop), kept=bit_mask(kept))


class ReadRows(NamedTuple):
    """Rows that were read together.

    Attributes:
        source: What they were read from; None for rows of any fragments.
        table: The rows.
        ends: Where the rows of each fragment end, if they are of several small ones.
    """

    source: RowSource | None
    table: pa.Table
    ends: list[int] | None = None

    @classmethod
    def of(cls, window: Window, table: pa.Table) -> ReadRows:
        """Return the rows of a window."""
        source, ends = window.source, None
        if isinstance(source, FragmentRun):
            ends = source.ends(window.num_rows, window.wanted)
        return cls(source, table, ends)

    @property
    def cuts(self) -> list[int]:
        """The row at which each fragment begins, and the end."""
        return [0, *(self.ends or [self.table.num_rows])]

    def slice(self, skip: int, count: int | None) -> ReadRows:
        """Leave out the first rows, and those after the next ones."""
        table = self.table.slice(skip, count)
        ends = [min(max(end - skip, 0), table.num_rows) for end in self.ends or ()]
        return ReadRows(self.source, table, ends or None)


class _Task:
    """Segments that one thread reads together."""

    def __init__(self, is_remote: bool) -> None:
        self._is_remote = is_remote
        self.size_bytes = 0.0
        self.decoded_bytes = 0.0
        self.segments: list[tuple[Segment, pa.BooleanArray | None]] = []
        self._future: Future[list[pa.Array]] | None = None
        self._arrays: list[pa.Array] | None = None

    @property
    def has_started(self) -> bool:
        return self._future is not None or self._arrays is not None

    @property
    def is_full(self) -> bool:
        """Whether further segments belong to another task."""
        return (
            self.has_started
            or self.size_bytes >= _TASK_BYTES
            or self.decoded_bytes >= _MOST_DECODED_BYTES
        )

    @property
    def is_for_threads(self) -> bool:
        """Whether the work is large enough to be worth a thread."""
        return self._is_remote or self.decoded_bytes >= len(self.segments) * _THREAD_BYTES

    def start(self) -> Future[list[pa.Array]]:
        """Submit the task unless it was submitted; no segment may be added afterwards."""
        if self._future is None:
            start = submit_waiting if self._is_remote else submit
            self._future = start(partial(_read, self.segments))
        return self._future

    def arrays(self) -> list[pa.Array]:
        """Wait for the arrays of the segments; the result is kept, as each column asks for it."""
        if self._arrays is None:
            # The waiting thread can read a task that no other thread has begun.
            is_mine = self._future is None and not self._is_remote
            self._arrays = _read(self.segments) if is_mine else self.start().result()
        return self._arrays

    def cancel(self) -> None:
        """Cancel the task unless it has begun."""
        if self._future is not None:
            self._future.cancel()


class _Tasks:
    """Tasks that combine small segments, including those of several windows.

    Submitting small segments one by one costs more than decoding them. The last task is left to the
    calling thread, which would only wait otherwise: another thread takes a while to wake up.
    """

    def __init__(self, is_remote: bool) -> None:
        self._is_remote = is_remote
        self._last = _Task(is_remote)

    def add(
        self, segment: Segment, kept: pa.BooleanArray | None, row_bytes: float
    ) -> tuple[_Task, int]:
        """Return the task of a segment, and the index of its array in the result."""
        rows = segment.rows
        size_bytes = rows.num_rows * row_bytes
        if size_bytes >= _MAPPED_BYTES and segment.is_mapped:
            alone = _Task(self._is_remote)
            alone.segments.append((segment, kept))
            return alone, 0
        if self._last.is_full:
            self.start_full()
            self._last = _Task(self._is_remote)
        task = self._last
        task.segments.append((segment, kept))
        task.size_bytes += size_bytes
        is_range = len(rows.bounds) <= 1
        task.decoded_bytes += size_bytes if is_range else _decoded_rows(rows) * row_bytes
        return task, len(task.segments) - 1

    def start_full(self) -> None:
        """Submit the last task if it is full, and worth a thread."""
        last = self._last
        if last.is_full and last.is_for_threads:
            last.start()

    def flush(self) -> None:
        """Submit the last task if it waits for a network."""
        if self._is_remote and self._last.segments:
            self._last.start()


class Pending:
    """Columns of a window that are being read by threads; `size_bytes` is the approximate result.

    The segments are added to the given tasks, or are separate tasks.
    """

    def __init__(
        self, window: Window, columns: list[ScanColumn], tasks: _Tasks | None = None
    ) -> None:
        self.size_bytes = 0.0
        self._window = window
        self._columns = columns
        own = tasks or _Tasks(window.source.store.is_remote)
        # Computing the size of very few values costs more than reading them.
        num_rows = window.rows.num_rows
        is_tiny = num_rows <= _TINY_ROWS or num_rows * len(columns) <= _TINY_VALUES
        self._places: list[list[tuple[_Task, int]] | None] = []
        share = 0.0 if is_tiny else self._share()
        for column in columns:
            if column.field is None:
                self._places.append(None)
                continue
            # Arrow cannot filter views.
            wanted = column.formed if window.kept is None and column.formed else column.field
            field = window.source.field(wanted)
            row_bytes = _TINY_VALUE_BYTES if is_tiny else field.bytes_per_row
            few = _FEW_TEXTS if column.has_texts else 0.0
            segments = field.segments(window.rows)
            if share and wanted is column.field:
                least = _PLAIN_PART_BYTES if column.is_plain else _PART_BYTES
                segments = _split(segments, row_bytes, share, least)
            self._places.append(list(self._add(segments, few, row_bytes, own)))
        if tasks is None:
            own.flush()

    def _share(self) -> float:
        """Return the bytes that each thread reads if all read as much; 0 if none is left idle.

        More columns than threads keep all of them busy.
        """
        window, threads = self._window, num_threads()
        if window.source.store.is_remote or not 0 < len(self._columns) <= threads:
            return 0.0
        fields = [window.source.field(one.field) for one in self._columns if one.field is not None]
        return window.rows.num_rows * sum(field.bytes_per_row for field in fields) / threads

    def _add(
        self, segments: Iterable[Segment], few: float, row_bytes: float, tasks: _Tasks
    ) -> Iterator[tuple[_Task, int]]:
        """Add segments to tasks; a share of selected rows up to `few` is read one by one.

        Segments without selected rows are not read at all.
        """
        first, kept = 0, self._window.kept
        if kept is None:
            for segment in segments:
                self.size_bytes += segment.rows.num_rows * row_bytes
                yield tasks.add(segment, None, row_bytes)
            return
        for segment in segments:
            num_rows = segment.rows.num_rows
            own = kept.slice(first, num_rows)
            first += num_rows
            if not own.true_count:
                continue
            self.size_bytes += num_rows * row_bytes
            yield tasks.add(segment, _left(segment, own, few), row_bytes)

    def table(self, schema: pa.Schema) -> pa.Table:
        """Read what no thread has begun, wait for the other rows, and return them."""
        for task in dict.fromkeys(task for places in self._places for task, _ in places or ()):
            if not task.has_started:
                task.arrays()
        arrays = []
        for column, places in zip(self._columns, self._places, strict=True):
            if places is None:
                assert self._window.meta is not None
                own = [self._window.meta(column.name, self._window.wanted)]
            else:
                own = [column.pick(task.arrays()[place]) for task, place in places]
            # Most fragments have one page; a chunked array of it is built by the table sooner.
            arrays.append(own[0] if len(own) == 1 else pa.chunked_array(own, column.arrow.type))
        return pa.Table.from_arrays(arrays, schema=schema)

    def cancel(self) -> None:
        """Cancel the reads that have not begun."""
        for places in self._places:
            for task, _ in places or ():
                task.cancel()


def _decoded_rows(rows: RowRanges) -> int:
    """Estimate the rows that are decoded for several ranges: others of their chunks are, too."""
    span = int(rows.bounds[-1, 1] - rows.bounds[0, 0])
    return min(span, rows.num_rows + _ROWS_BESIDE * len(rows.bounds))


def _split(
    segments: Iterable[Segment], row_bytes: float, share: float, least: int
) -> Iterator[Segment]:
    """Split segments that are larger than the share of a thread into parts of `least` bytes."""
    for segment in segments:
        size_bytes = segment.rows.num_rows * row_bytes
        num_parts = min(round(size_bytes / share), int(size_bytes / least))
        if num_parts > 1:
            yield from segment.parts(num_parts)
        else:
            yield segment


def _left(segment: Segment, kept: pa.BooleanArray, few: float) -> pa.BooleanArray | None:
    """Restrict a segment to its selected rows; if it cannot be, return the rows to filter later."""
    num_kept = kept.true_count
    if num_kept == len(kept):
        return None
    if (few or num_kept <= _SOME * len(kept)) and segment.keep(kept):
        return None
    if num_kept > few * len(kept):
        return kept
    segment.rows = RowRanges.of_rows(segment.rows.rows()[truths(kept)])
    return None


def _read(bundle: list[tuple[Segment, pa.BooleanArray | None]]) -> list[pa.Array]:
    arrays = read_segments([segment for segment, _ in bundle])
    return [
        array if kept is None else _kept(array, kept)
        for array, (_, kept) in zip(arrays, bundle, strict=True)
    ]


def _kept(array: pa.Array, mask: pa.BooleanArray) -> pa.Array:
    is_mixed = mask.true_count <= _MOST * len(mask)
    found = kept_values(array, mask) if is_mixed else None
    return filtered(array, mask) if found is None else found


def read_ahead(
    windows: Iterable[Window], columns: list[ScanColumn]
) -> Iterator[tuple[Window, Pending]]:
    """Start reading windows before they are requested: few large ones, or more small ones."""
    running: deque[tuple[Window, Pending]] = deque()
    tasks = _Tasks(is_remote=False)
    ahead_bytes, fragments_ahead = 0.0, 0
    try:
        for window in windows:
            is_remote = window.source.store.is_remote
            # Several windows in one task would wait for each other.
            running.append((window, Pending(window, columns, None if is_remote else tasks)))
            ahead_bytes += running[-1][1].size_bytes
            fragments_ahead += _num_fragments(window)
            wanted_bytes = _REMOTE_BYTES_AHEAD if is_remote else _BYTES_AHEAD
            are_many = len(running) > _SMALL_WINDOWS_AHEAD or fragments_ahead > _FRAGMENTS_AHEAD
            is_enough = ahead_bytes >= wanted_bytes or are_many
            if is_enough and len(running) > _WINDOWS_AHEAD:
                ahead_bytes -= running[0][1].size_bytes
                fragments_ahead -= _num_fragments(running[0][0])
                tasks.start_full()
                yield running.popleft()
        while running:
            if len(running) > 1:
                tasks.start_full()
            yield running.popleft()
    finally:
        for _, pending in running:
            pending.cancel()


def _num_fragments(window: Window) -> int:
    """Return the number of fragments of a window, at least 1: those of a run are opened for it."""
    return len(window.source.fragments) if isinstance(window.source, FragmentRun) else 1


def rows_of_window(
    fields: Iterable[FieldReader], batch_size: int, window_bytes: int | None = None
) -> int:
    """Return the number of rows to read together, a multiple of the batch size.

    The window has approximately this size in memory, or the default.
    """
    bytes_per_row = sum(field.bytes_per_row for field in fields)
    wanted = int((window_bytes or _WINDOW_BYTES) / max(bytes_per_row, _LEAST_ROW_BYTES))
    return max(wanted // batch_size, 1) * batch_size


def batches(tables: Iterable[pa.Table], batch_size: int) -> Iterator[pa.RecordBatch]:
    """Split tables of few chunks into batches; rows are copied only if a page ends within one."""
    for table in tables:
        yield from batches_between((0, table.num_rows), table, batch_size)


def batches_between(
    cuts: Sequence[int], table: pa.Table, batch_size: int
) -> Iterator[pa.RecordBatch]:
    """Split a table into batches that end at some rows, and after at most `batch_size` rows."""
    is_picked_right = not any(map(is_picked_wrongly, table.schema.types))
    whole: pa.RecordBatch | None = None
    if len(cuts) > 2 and all(column.num_chunks == 1 for column in table.columns):
        whole = joined_batch(table)  # a slice of it costs a tenth of one of a table
    for begin, end in pairwise(cuts):
        for start in range(begin, end, batch_size):
            count = min(batch_size, end - start)
            batch = _cut(table, start, count) if whole is None else whole.slice(start, count)
            yield batch if is_picked_right else from_zero(batch)


def _cut(table: pa.Table, start: int, count: int) -> pa.RecordBatch:
    """Return some rows as a batch, which Arrow makes unless a chunk ends within them."""
    rows = table.slice(start, count)
    parts: list[pa.RecordBatch] = rows.to_batches()
    return parts[0] if len(parts) == 1 else joined_batch(rows)


def joined_batch(table: pa.Table) -> pa.RecordBatch:
    """Convert a table to one batch; raise UnsupportedTypeError if its dictionaries differ."""
    if not table.num_columns:
        rows = pa.StructArray.from_buffers(pa.struct([]), table.num_rows, [None])
        return pa.RecordBatch.from_struct_array(rows).replace_schema_metadata(table.schema.metadata)
    arrays = [
        join_arrays(column.chunks or [pa.nulls(0, column.type)], f"column {name!r}")
        for name, column in zip(table.schema.names, table.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def of_rows(batches: Iterator[pa.RecordBatch], num_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of `num_rows` rows; the last one may be shorter."""
    waiting: list[pa.RecordBatch] = []
    missing = num_rows
    for batch in batches:
        while batch.num_rows >= missing:
            yield _joined([*waiting, batch.slice(0, missing)])
            batch, waiting, missing = batch.slice(missing), [], num_rows
        if batch.num_rows:
            waiting.append(batch)
            missing -= batch.num_rows
    if waiting:
        yield _joined(waiting)


def of_bytes(batches: Iterator[pa.RecordBatch], num_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of at most about `num_bytes`, with at least one row each."""
    for batch in batches:
        rows = max(num_bytes * batch.num_rows // max(batch.nbytes, 1), 1)
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else joined_batch(pa.Table.from_batches(batches))
