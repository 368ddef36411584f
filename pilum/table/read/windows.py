"""Rows that are read together: a window of some columns becomes one table, decoded by threads.

A window is as many rows as about `_WINDOW_BYTES` of memory hold; the next ones are read while the
caller works on the last. Rows in between that nobody wants, such as deleted ones, are read too and
left out where they are decoded, unless few others are left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrays.joining import join_arrays
from pilum.arrays.picking import filtered
from pilum.blocks import truths
from pilum.container.segments import FieldReader, Segment, read_segments
from pilum.format.rows import RowRanges
from pilum.format.schema import Field
from pilum.parallel import submit, submit_waiting
from pilum.storage.base import Store
from pilum.table.model.deletion_vector import bit_mask
from pilum.table.read.columns import ScanColumn

__all__ = [
    "MetaValues",
    "Pending",
    "RowSource",
    "Window",
    "batches",
    "joined_batch",
    "read_ahead",
    "rows_of_window",
]

_WINDOW_BYTES = 32 * 1024 * 1024
_LEAST_ROW_BYTES = 8
"""Of its id, or of what is computed for it, where next to nothing is read."""
_WINDOWS_AHEAD = 2
_SMALL_WINDOWS_AHEAD = 32
_TASK_BYTES = 512 * 1024
_BYTES_AHEAD = 2 * _TASK_BYTES
_REMOTE_BYTES_AHEAD = 64 * 1024 * 1024
"""What a network brings while one request waits."""
_THREAD_BYTES = 32 * 1024
"""Threads would only wait for each other where segments are on average smaller."""
_TINY_VALUES = 1024
_TINY_VALUE_BYTES = 64
_FEW = 0.05
"""Below this share of wanted rows, single ones are read instead of all chunks of a window."""


MetaValues = Callable[[str, "Window"], pa.Array]
"""Values of a column that no file has, by its name, for physical rows."""


class RowSource(Protocol):
    """What has fields to read: a fragment, or a file."""

    @property
    def store(self) -> Store:
        """Where it is."""
        ...

    def field(self, field: Field) -> FieldReader:
        """Opens what a field, with only its wanted members, needs."""
        ...


@dataclass(frozen=True, slots=True)
class Window:
    """Some rows that are read together.

    Attributes:
        source: What has them.
        rows: What is read.
        kept: For each of these, whether it is wanted; None if all are.
        meta: Gives the columns that no file has; None where there are none.
    """

    source: RowSource
    rows: RowRanges
    kept: pa.BooleanArray | None = None
    meta: MetaValues | None = None

    @property
    def num_rows(self) -> int:
        """How many rows are wanted."""
        return self.rows.num_rows if self.kept is None else int(self.kept.true_count)

    def wanted(self, first: int = 0) -> NDArray[np.int64]:
        """The rows that are wanted, where row 0 of the fragment is called `first`."""
        if self.kept is None:
            return self.rows.rows(first)
        kept = np.flatnonzero(truths(self.kept))
        one_range = len(self.rows.bounds) == 1
        return kept + (self.rows.bounds[0, 0] + first) if one_range else self.rows.rows(first)[kept]

    def matching(self, mask: pa.BooleanArray) -> Window:
        """Fewer rows: of those that are wanted the ones for which `mask` is true."""
        if self.kept is None:
            return replace(self, kept=mask).lean()
        kept = truths(self.kept)
        kept[kept] = truths(mask)
        return replace(self, kept=bit_mask(kept)).lean()

    def lean(self) -> Window:
        """The same rows; if they are few, they are read one by one."""
        if self.kept is None or self.num_rows > _FEW * len(self.kept):
            return self
        return replace(self, rows=RowRanges.of_rows(self.wanted()), kept=None)


class _Task:
    """Segments that one thread reads together."""

    def __init__(self, is_remote: bool) -> None:
        self._is_remote = is_remote
        self.size_bytes = 0.0
        self.segments: list[tuple[Segment, pa.BooleanArray | None]] = []
        self._future: Future[list[pa.Array]] | None = None
        self._arrays: list[pa.Array] | None = None

    @property
    def has_started(self) -> bool:
        return self._future is not None or self._arrays is not None

    @property
    def is_for_threads(self) -> bool:
        """Whether there is more to read or decode than one step of Python after the other."""
        return self._is_remote or self.size_bytes >= len(self.segments) * _THREAD_BYTES

    def start(self) -> Future[list[pa.Array]]:
        """Hands it out, unless it is; no segment may follow."""
        if self._future is None:
            start = submit_waiting if self._is_remote else submit
            self._future = start(partial(_read, self.segments))
        return self._future

    def arrays(self) -> list[pa.Array]:
        """Waits for the arrays of the segments; once, as each column asks for its own."""
        if self._arrays is None:
            # Who waits can as well read what no other thread has begun.
            is_mine = self._future is None and not self._is_remote
            self._arrays = _read(self.segments) if is_mine else self.start().result()
        return self._arrays

    def cancel(self) -> None:
        """Gives up unless it has begun."""
        if self._future is not None:
            self._future.cancel()


class _Tasks:
    """Small segments together, also those of several windows.

    Handing them out one by one costs more than decoding them.
    """

    def __init__(self, is_remote: bool) -> None:
        self._is_remote = is_remote
        self._last = _Task(is_remote)
        self._has_others = False

    def add(
        self, segment: Segment, kept: pa.BooleanArray | None, size_bytes: float
    ) -> tuple[_Task, int]:
        """Returns the task of a segment, and the place of its array in the result."""
        if self._last.has_started:
            self._last = _Task(self._is_remote)
            self._has_others = True
        task = self._last
        task.segments.append((segment, kept))
        task.size_bytes += size_bytes
        if task.size_bytes >= _TASK_BYTES:
            self._has_others = True
            self._last = _Task(self._is_remote)
            if task.is_for_threads:
                task.start()
        return task, len(task.segments) - 1

    def flush(self) -> None:
        """Hands out what is left, unless it is all there is and waiting for it would be as long."""
        is_worth_it = self._is_remote or (self._has_others and self._last.is_for_threads)
        if self._last.segments and not self._last.has_started and is_worth_it:
            self._last.start()


class Pending:
    """Columns of a window that threads are reading.

    Args:
        window: Which rows.
        columns: Of which columns.
        tasks: What the segments are added to; None for tasks of their own.

    Attributes:
        size_bytes: About the memory that they will take.
    """

    def __init__(
        self, window: Window, columns: list[ScanColumn], tasks: _Tasks | None = None
    ) -> None:
        self.size_bytes = 0.0
        self._window = window
        self._columns = columns
        own = tasks or _Tasks(window.source.store.is_remote)
        # Asking how large very few values are costs more than reading them.
        is_tiny = window.rows.num_rows * len(columns) <= _TINY_VALUES
        self._places: list[list[tuple[_Task, int]] | None] = []
        for column in columns:
            if column.field is None:
                self._places.append(None)
                continue
            field = window.source.field(column.field)
            row_bytes = _TINY_VALUE_BYTES if is_tiny else field.bytes_per_row
            self._places.append(list(self._add(field.segments(window.rows), row_bytes, own)))
        if tasks is None:
            own.flush()

    def _add(
        self, segments: Iterable[Segment], row_bytes: float, tasks: _Tasks
    ) -> Iterator[tuple[_Task, int]]:
        kept, first = self._window.kept, 0
        for segment in segments:
            num_rows = segment.rows.num_rows
            self.size_bytes += num_rows * row_bytes
            yield tasks.add(
                segment, None if kept is None else kept.slice(first, num_rows), num_rows * row_bytes
            )
            first += num_rows

    def table(self, schema: pa.Schema) -> pa.Table:
        """Waits for the rows."""
        arrays = []
        for column, places in zip(self._columns, self._places, strict=True):
            if places is None:
                assert self._window.meta is not None
                own = [self._window.meta(column.name, self._window)]
            else:
                own = [column.pick(task.arrays()[place]) for task, place in places]
            arrays.append(pa.chunked_array(own, column.arrow.type))
        return pa.Table.from_arrays(arrays, schema=schema)

    def cancel(self) -> None:
        """Gives up what has not begun."""
        for places in self._places:
            for task, _ in places or ():
                task.cancel()


def _read(bundle: list[tuple[Segment, pa.BooleanArray | None]]) -> list[pa.Array]:
    arrays = read_segments([segment for segment, _ in bundle])
    return [
        array if kept is None or kept.false_count == 0 else filtered(array, kept)
        for array, (_, kept) in zip(arrays, bundle, strict=True)
    ]


def read_ahead(
    windows: Iterable[Window], columns: list[ScanColumn]
) -> Iterator[tuple[Window, Pending]]:
    """Starts reading windows before they are asked for: few large ones, or more small ones."""
    running: deque[tuple[Window, Pending]] = deque()
    tasks = _Tasks(is_remote=False)
    ahead_bytes = 0.0
    try:
        for window in windows:
            is_remote = window.source.store.is_remote
            # Several windows in one task would wait one after the other.
            running.append((window, Pending(window, columns, None if is_remote else tasks)))
            ahead_bytes += running[-1][1].size_bytes
            wanted_bytes = _REMOTE_BYTES_AHEAD if is_remote else _BYTES_AHEAD
            is_enough = ahead_bytes >= wanted_bytes or len(running) > _SMALL_WINDOWS_AHEAD
            if is_enough and len(running) > _WINDOWS_AHEAD:
                ahead_bytes -= running[0][1].size_bytes
                yield running.popleft()
        tasks.flush()
        while running:
            yield running.popleft()
    finally:
        for _, pending in running:
            pending.cancel()


def rows_of_window(
    fields: Iterable[FieldReader], batch_size: int, window_bytes: int | None = None
) -> int:
    """How many rows are read together; whole batches.

    Args:
        fields: What is read.
        batch_size: Rows of a batch.
        window_bytes: Size in memory that a window aims at; None for the usual one.
    """
    bytes_per_row = sum(field.bytes_per_row for field in fields)
    wanted = int((window_bytes or _WINDOW_BYTES) / max(bytes_per_row, _LEAST_ROW_BYTES))
    return max(wanted // batch_size, 1) * batch_size


def batches(tables: Iterable[pa.Table], batch_size: int) -> Iterator[pa.RecordBatch]:
    """Cuts tables of few chunks into batches; copies only where a page ends within one."""
    for table in tables:
        for start in range(0, table.num_rows, batch_size):
            yield joined_batch(table.slice(start, batch_size))


def joined_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch.

    Raises:
        UnsupportedTypeError: If the dictionaries of a column do not go together.
    """
    if not table.num_columns:
        rows = pa.StructArray.from_buffers(pa.struct([]), table.num_rows, [None])
        return pa.RecordBatch.from_struct_array(rows).replace_schema_metadata(table.schema.metadata)
    arrays = [
        join_arrays(column.chunks or [pa.nulls(0, column.type)], f"column {name!r}")
        for name, column in zip(table.schema.names, table.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)
