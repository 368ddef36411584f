"""Rows that are read together: a window of some columns becomes one table, decoded by threads.

A window is as many rows as about `_WINDOW_BYTES` of memory hold; the next ones are read while the
caller works on the last. Rows in between that nobody wants, such as deleted ones, are read too and
left out where they are decoded, unless few others are left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.container.segments import FieldReader, Segment, read_segments
from pilum.encodings.dictionary_arrays import join_arrays
from pilum.format.rows import RowRanges
from pilum.format.schema import Field
from pilum.parallel import submit
from pilum.table.columns import ScanColumn, addresses
from pilum.table.deletion_vector import bit_mask

__all__ = ["Pending", "RowSource", "Window", "batches", "read_ahead", "rows_of_window"]

_WINDOW_BYTES = 32 * 1024 * 1024
_WINDOWS_AHEAD = 2
_TASK_BYTES = 512 * 1024
_FEW = 0.05
"""Below this share of wanted rows, single ones are read instead of all chunks of a window."""


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
    """Some rows that are read together.

    Attributes:
        source: What has them.
        rows: What is read.
        kept: For each of these, whether it is wanted; None if all are.
    """

    source: RowSource
    rows: RowRanges
    kept: pa.BooleanArray | None = None

    @property
    def num_rows(self) -> int:
        """How many rows are wanted."""
        return self.rows.num_rows if self.kept is None else int(self.kept.true_count)

    def wanted(self) -> NDArray[np.int64]:
        """The rows that are wanted."""
        rows = self.rows.rows()
        return rows if self.kept is None else rows[self.kept.to_numpy(zero_copy_only=False)]

    def matching(self, mask: pa.BooleanArray) -> Window:
        """Fewer rows: of those that are wanted the ones for which `mask` is true."""
        if self.kept is None:
            return Window(self.source, self.rows, mask).lean()
        kept = self.kept.to_numpy(zero_copy_only=False).copy()
        kept[kept] = mask.to_numpy(zero_copy_only=False)
        return Window(self.source, self.rows, bit_mask(kept)).lean()

    def lean(self) -> Window:
        """The same rows; if they are few, they are read one by one."""
        if self.kept is None or self.num_rows > _FEW * len(self.kept):
            return self
        return Window(self.source, RowRanges.of_rows(self.wanted()))


class Pending:
    """Columns of a window that threads are reading.

    Small pages are read several at a time, as handing them out one by one costs more than
    decoding them.
    """

    def __init__(self, window: Window, columns: list[ScanColumn]) -> None:
        self._window = window
        self._columns = columns
        self._counts: list[int | None] = []
        self._futures: list[Future[list[pa.Array]]] = []
        bundle: list[tuple[Segment, pa.BooleanArray | None]] = []
        bundle_bytes = 0.0
        for column in columns:
            if column.field is None:
                self._counts.append(None)
                continue
            field = window.source.field(column.field)
            segments = list(field.segments(window.rows))
            self._counts.append(len(segments))
            first = 0
            for segment in segments:
                num_rows = segment.rows.num_rows
                kept = None if window.kept is None else window.kept.slice(first, num_rows)
                first += num_rows
                bundle.append((segment, kept))
                bundle_bytes += num_rows * field.bytes_per_row
                if bundle_bytes >= _TASK_BYTES:
                    self._futures.append(submit(partial(_read, bundle)))
                    bundle, bundle_bytes = [], 0.0
        if bundle:
            self._futures.append(submit(partial(_read, bundle)))

    def table(self, schema: pa.Schema) -> pa.Table:
        """Waits for the rows."""
        chunks = chain.from_iterable(future.result() for future in self._futures)
        arrays = []
        for column, count in zip(self._columns, self._counts, strict=True):
            if count is None:
                own = [addresses(self._window.source.id, self._window.wanted())]
            else:
                own = [column.pick(chunk) for chunk in islice(chunks, count)]
            arrays.append(pa.chunked_array(own, column.arrow.type))
        return pa.Table.from_arrays(arrays, schema=schema)

    def cancel(self) -> None:
        """Gives up what has not begun."""
        for future in self._futures:
            future.cancel()


def _read(bundle: list[tuple[Segment, pa.BooleanArray | None]]) -> list[pa.Array]:
    arrays = read_segments([segment for segment, _ in bundle])
    return [
        array if kept is None or kept.false_count == 0 else array.filter(kept)
        for array, (_, kept) in zip(arrays, bundle, strict=True)
    ]


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
