"""Masks: the rows of windows that match conditions on single columns, found without decoding them.

    filter    a > 1 AND s LIKE 'x%' AND a + b = 7

    window    | . . . . . . . . . . . . . |
    a > 1     | x x . x . . x x . x . . x |      on the stored values of a, page by page
    s LIKE    |   x         x x           |      if few rows are left, only of these
    rest                    x                    by Arrow, see `matching.py`

Pages that cannot be tested where they are stored are read as Arrow arrays, and the condition is
evaluated on these. Files of versions before 2.1 have no such pages. In remote stores, columns that
are to be returned are not tested, as their bytes would be fetched twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pilum.blocks import true_places, truths
from pilum.container.segments import Segment
from pilum.expressions.conditions import AnyOf, ColumnMask, Mask, column_masks, split_filter
from pilum.expressions.filter import BoundFilter, SqlFilter
from pilum.expressions.nodes import references
from pilum.format.rows import RowRanges
from pilum.format.schema import Schema
from pilum.parallel import num_threads, submit, submit_waiting
from pilum.table.model.deletion_vector import bit_mask
from pilum.table.read.columns import ReadColumns, ScanColumn
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.windows import Window

__all__ = ["Masks", "narrowed"]

_LEAST_ROWS = 8 * 1024
_MOST_VALUES = 2 * 1024 * 1024
"""Values that one thread tests at once, of all columns of the conditions.

A million numbers are tested in a millisecond or less, which a second thread does not shorten.
"""
_MOST_BYTES, _MOST_TEXT_BYTES = 16 * 1024 * 1024, 8 * 1024 * 1024
"""Bytes of the widest column, and of texts, that one thread tests at once."""
_ALONE = 3
"""So many windows, if they are small, are tested before others are begun."""
_FEW = 0.01
"""Share of remaining rows below which another column is tested for single rows."""
_FEW_TEXTS = 0.1
"""The same share for texts, whose test takes longer."""


@dataclass(frozen=True, slots=True, eq=False)
class Masks:
    """The part of a filter that pages can answer.

    Attributes:
        mask: The conditions.
        columns: The columns of its conditions, by path.
        rest: The part of the filter that has to be evaluated on Arrow data; None for nothing.
        is_read_again: Whether a column of the conditions is among those to return.
    """

    mask: Mask
    columns: dict[tuple[str, ...], ScanColumn]
    rest: BoundFilter | None
    is_read_again: bool

    @classmethod
    def of(cls, snapshot: Snapshot, filter: BoundFilter, returned: Collection[str]) -> Masks | None:
        """Split a filter; return None if pages can answer no part of it.

        A filter keeps its parts for the schema that it was last split for. `returned` are the names
        of the columns that the scan returns.
        """
        known: _Known = filter.derived.get(cls, (None, None))
        schema, made = known
        if schema is not snapshot.described:
            made = cls._split(snapshot, filter)
            filter.derived[cls] = snapshot.described, made
        if made is None or set(made.names).isdisjoint(returned):
            return made
        return replace(made, is_read_again=True)

    @classmethod
    def _split(cls, snapshot: Snapshot, filter: BoundFilter) -> Masks | None:
        """Split a filter; no column is read again."""
        without: list[tuple[str, ...]] = []
        while True:
            mask, rest = split_filter(filter.implied, without)
            if mask is None:
                return None
            paths = dict.fromkeys(part.path for part in column_masks(mask))
            names = tuple(".".join(path) for path in paths)
            columns = dict(zip(paths, ReadColumns.described(snapshot, names).columns, strict=True))
            if all(map(_is_leaf, columns.values())):
                break
            without = [path for path, column in columns.items() if not _is_leaf(column)]
        left: BoundFilter | None = None if rest is None else filter
        if rest is not None and isinstance(filter, SqlFilter):
            left = SqlFilter(references(rest), rest)
        return cls(mask, columns, left, is_read_again=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of the conditions."""
        return tuple(column.name for column in self.columns.values())

    def split(self, windows: Iterable[Window]) -> Iterator[tuple[bool, Iterator[Window]]]:
        """Group adjacent windows by whether their pages can be tested.

        Windows with pages that can be tested are narrowed to the rows for which the conditions are
        true; those without such rows are left out.
        """
        for is_tested, group in groupby(windows, self._has_pages):
            narrow = self._narrowed if is_tested else iter
            yield is_tested, narrow(group)

    def _has_pages(self, window: Window) -> bool:
        if self.is_read_again and window.source.store.is_remote:
            return False  # bytes from a network cost more than to decode them
        fields = (column.field for column in self.columns.values())
        return any(field and window.source.field(field).has_masks for field in fields)

    def _narrowed(self, windows: Iterable[Window]) -> Iterator[Window]:
        """Test the rows of windows in threads, in order.

        The calling thread tests the first windows if they are small, as a limit may need no others.
        It also tests the last part of the last window of a local file, as it then waits.
        """
        running: deque[_Tested] = deque()
        left: Window | None = None
        ahead = 0
        try:
            for number, window in enumerate(windows):
                is_remote = window.source.store.is_remote
                if number < _ALONE and not (running or is_remote) and self._is_small(window):
                    yield from _finished(window, [], [self._of_part(window)])
                    continue
                if left is not None:
                    running[-1][1].append(submit(partial(self._of_part, left)))
                start = submit_waiting if is_remote else submit
                *parts, last = self._parts(window)
                tests = [start(partial(self._of_part, part)) for part in parts]
                if is_remote:
                    tests.append(start(partial(self._of_part, last)))
                left = None if is_remote else last
                running.append((window, tests))
                ahead += len(parts) + 1
                while len(running) > 1 and ahead > 2 * num_threads():
                    ahead -= len(running[0][1])
                    yield from _finished(*running.popleft())
            own = [] if left is None else [self._of_part(left)]
            while len(running) > 1:
                yield from _finished(*running.popleft())
            if running:
                yield from _finished(*running.popleft(), own)
        finally:
            for _, tests in running:
                for test in tests:
                    test.cancel()

    def _is_small(self, window: Window) -> bool:
        return window.rows.num_rows <= self._rows_of_part(window) // 8

    def _parts(self, window: Window) -> Sequence[Window]:
        """Split a window for several threads."""
        rows, kept = window.rows, window.kept
        step = self._rows_of_part(window)
        if len(rows.bounds) > 1 or rows.num_rows <= step:
            return [window]
        step = _even(rows.num_rows, step)
        start, stop = rows.bounds[0].tolist()
        return [
            replace(
                window,
                rows=RowRanges.one(cut, min(cut + step, stop)),
                kept=None if kept is None else kept.slice(cut - start, step),
            )
            for cut in range(start, stop, step)
        ]

    def _rows_of_part(self, window: Window) -> int:
        most = _MOST_VALUES // len(self.columns)
        for mask in column_masks(self.mask):
            field = self.columns[mask.path].field
            if field is not None:
                most_bytes = _MOST_TEXT_BYTES if self._is_hard(mask, window) else _MOST_BYTES
                width = window.source.field(field).bytes_per_row
                most = min(most, int(most_bytes / max(width, 1)))
        return max(_LEAST_ROWS, most)

    def _is_hard(self, mask: ColumnMask, window: Window) -> bool:
        """Return whether the values are texts that are tested one by one."""
        field = self.columns[mask.path].field if mask.is_hard else None
        return field is not None and not window.source.field(field).has_dictionary

    def _of_part(self, window: Window) -> pa.BooleanArray:
        return self._test(self.mask, window, window.kept)

    def _test(self, mask: Mask, window: Window, wanted: pa.BooleanArray | None) -> pa.BooleanArray:
        """Return which rows of a window match, among the wanted ones; None for all."""
        if isinstance(mask, ColumnMask):
            return self._test_column(mask, window, wanted)
        found: pa.BooleanArray | None = None
        for part in mask.parts:
            own = self._test(part, window, wanted)
            if isinstance(mask, AnyOf):
                found = own if found is None else pc.or_(found, own)
                left = pc.invert(found)
                wanted = left if wanted is None else pc.and_(wanted, left)
            else:
                wanted = found = own
            if not wanted.true_count:
                break
        assert found is not None
        return found

    def _test_column(
        self, mask: ColumnMask, window: Window, wanted: pa.BooleanArray | None
    ) -> pa.BooleanArray:
        rows = window.rows
        if wanted is None:
            return self._test_rows(mask, window, rows)
        few = _FEW_TEXTS if self._is_hard(mask, window) else _FEW
        if wanted.true_count > few * len(wanted):
            return pc.and_(self._test_rows(mask, window, rows), wanted)
        places, flags = true_places(wanted), np.zeros(len(wanted), np.bool_)
        if len(places):
            own = RowRanges.of_rows(rows.at(places))
            flags[places] = truths(self._test_rows(mask, window, own))
        return bit_mask(flags)

    def _test_rows(self, mask: ColumnMask, window: Window, rows: RowRanges) -> pa.BooleanArray:
        column = self.columns[mask.path]
        assert column.field is not None
        segments = window.source.field(column.field).segments(rows)
        found = [_test_segment(mask, column, segment) for segment in segments]
        return found[0] if len(found) == 1 else pa.concat_arrays(found)


_Tested: TypeAlias = tuple[Window, list[Future[pa.BooleanArray]]]
"""A window, and the tests of its parts."""

_Known: TypeAlias = tuple[Schema | None, Masks | None]
"""The schema that a filter was split for, and its parts."""


def narrowed(
    snapshot: Snapshot, windows: Iterator[Window], filter: BoundFilter, returned: Collection[str]
) -> Iterator[tuple[Iterator[Window], BoundFilter | None]]:
    """Leave out rows of windows that cannot match, as far as pages can answer the filter.

    `returned` are the names of the columns that the scan returns.

    Yields:
        Adjacent windows, and what is left of the filter for their rows; None for nothing.
    """
    masks = Masks.of(snapshot, filter, returned)
    if masks is None:
        yield windows, filter
        return
    for is_tested, group in masks.split(windows):
        yield group, masks.rest if is_tested else filter


def _even(num_rows: int, most: int) -> int:
    """Return the rows of parts of about the same size, in whole bytes of a bitmap."""
    num_parts = -(-num_rows // most)
    return -(-num_rows // (8 * num_parts)) * 8


def _is_leaf(column: ScanColumn) -> bool:
    return column.leaf is not None and not column.leaf.children


def _test_segment(mask: ColumnMask, column: ScanColumn, segment: Segment) -> pa.BooleanArray:
    bits = segment.mask(mask.condition)
    if bits is not None:
        num_rows = segment.rows.num_rows
        return pa.Array.from_buffers(pa.bool_(), num_rows, [None, pa.py_buffer(bits)])
    values = column.pick(segment.read())
    batch = pa.RecordBatch.from_arrays([values], [column.name])
    return SqlFilter((column.name,), mask.node).mask(batch)


def _finished(
    window: Window, tests: list[Future[pa.BooleanArray]], last: Sequence[pa.BooleanArray] = ()
) -> Iterator[Window]:
    """Wait for the tests of a window, and yield it with only its matching rows, if any.

    `last` is the result of a last part that no other thread tests.
    """
    found = [*(test.result() for test in tests), *last]
    kept = found[0] if len(found) == 1 else pa.concat_arrays(found)
    if kept.true_count:
        yield replace(window, kept=kept)
