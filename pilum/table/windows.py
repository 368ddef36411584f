"""Rows that are read together: a window of some columns becomes one table, decoded by threads.

A window is as many rows as about `_WINDOW_BYTES` of memory hold; the next ones are read while the
caller works on the last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Protocol

import pyarrow as pa

from pilum.container.segments import FieldReader, Segment, read_segments
from pilum.encodings.dictionary_arrays import join_arrays
from pilum.format.rows import RowRanges
from pilum.format.schema import Field
from pilum.parallel import submit
from pilum.table.columns import ScanColumn, addresses

__all__ = ["Pending", "RowSource", "Window", "batches", "read_ahead", "rows_of_window"]

_WINDOW_BYTES = 32 * 1024 * 1024
_WINDOWS_AHEAD = 2
_TASK_BYTES = 512 * 1024


class RowSource(Protocol):
    """What has fields to read: a fragment, or a file."""

    @property
    def id(self) -> int:
        """The upper half of the addresses of its rows."""
        ...

    def field(self, field: Field) -> FieldReader:
        """Opens what a field, with only its wanted members, needs."""
        ...


@dataclass(frozen=True, slots=True)
class Window:
    """Some rows that are read together."""

    source: RowSource
    rows: RowRanges


class Pending:
    """Columns of some rows that threads are reading.

    Small pages are read several at a time, as handing them out one by one costs more than
    decoding them.
    """

    def __init__(
        self, window: Window, columns: list[ScanColumn], rows: RowRanges | None = None
    ) -> None:
        self._window = window
        self._columns = columns
        self._rows = window.rows if rows is None else rows
        self._counts: list[int | None] = []
        self._futures: list[Future[list[pa.Array]]] = []
        bundle: list[Segment] = []
        bundle_bytes = 0.0
        for column in columns:
            if column.field is None:
                self._counts.append(None)
                continue
            field = window.source.field(column.field)
            segments = list(field.segments(self._rows))
            self._counts.append(len(segments))
            for segment in segments:
                bundle.append(segment)
                bundle_bytes += segment.rows.num_rows * field.bytes_per_row
                if bundle_bytes >= _TASK_BYTES:
                    self._futures.append(submit(partial(read_segments, bundle)))
                    bundle, bundle_bytes = [], 0.0
        if bundle:
            self._futures.append(submit(partial(read_segments, bundle)))

    def table(self, schema: pa.Schema) -> pa.Table:
        """Waits for the rows."""
        chunks = chain.from_iterable(future.result() for future in self._futures)
        arrays = []
        for column, count in zip(self._columns, self._counts, strict=True):
            if count is None:
                own = [addresses(self._window.source.id, self._rows.rows())]
            else:
                own = [column.pick(chunk) for chunk in islice(chunks, count)]
            arrays.append(pa.chunked_array(own, column.arrow.type))
        return pa.Table.from_arrays(arrays, schema=schema)

    def cancel(self) -> None:
        """Gives up what has not begun."""
        for future in self._futures:
            future.cancel()


def read_ahead(
    windows: Iterable[Window], columns: list[ScanColumn]
) -> Iterator[tuple[Window, Pending]]:
    """Starts reading windows before they are asked for."""
    running: deque[tuple[Window, Pending]] = deque()
    try:
        for window in windows:
            running.append((window, Pending(window, columns)))
            if len(running) > _WINDOWS_AHEAD:
                yield running.popleft()
        while running:
            yield running.popleft()
    finally:
        for _, pending in running:
            pending.cancel()


def rows_of_window(fields: Iterable[FieldReader], batch_size: int) -> int:
    """How many rows are read together; whole batches."""
    bytes_per_row = sum(field.bytes_per_row for field in fields)
    return max(int(_WINDOW_BYTES / max(bytes_per_row, 1)) // batch_size, 1) * batch_size


def batches(tables: Iterable[pa.Table], batch_size: int) -> Iterator[pa.RecordBatch]:
    """Cuts tables of few chunks into batches; copies only where a page ends within one."""
    for table in tables:
        for start in range(0, table.num_rows, batch_size):
            yield _batch(table.slice(start, batch_size))


def _batch(table: pa.Table) -> pa.RecordBatch:
    arrays = [
        join_arrays(column.chunks, f"column {name!r}")
        for name, column in zip(table.schema.names, table.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)
