"""Rows that match a filter, of the windows of a scan.

    windows ──▶ rows that pages rule out ──▶ the filter on its columns ──▶ the other columns

The other columns are read only for matches: whole windows if many rows match, single rows if few
do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from pilum.format.fields import Field
from pilum.table.read.columns import ReadColumns, tested_columns, wanted_columns
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.scan_options import ScanOptions
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import read_parts
from pilum.table.read.windows import Pending, ReadRows, Window, read_ahead

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundFilter

__all__ = ["tested_rows", "tested_windows"]

_LARGE_ROWS, _LARGE_REMOTE_ROWS = 1024, 8 * 1024
"""Rows from which on pages are tested without decoding them. Of windows of fewer rows, several can
be read together, which saves more requests to a remote store."""
_FEW_TAKEN = 128
"""Up to so many rows that match in a window are read by a take."""


def tested_rows(
    snapshot: Snapshot,
    options: ScanOptions,
    filter: BoundFilter,
    windows_with: Callable[[Sequence[Field]], Iterator[Window]],
) -> Iterator[ReadRows]:
    """Read the rows that match a filter.

    `windows_with` returns the windows of a scan that reads some fields.
    """
    from pilum.table.read.matching import matching_windows, rows_where

    wanted, tested = wanted_columns(snapshot, options), tested_columns(snapshot, filter)
    others = _others(snapshot, wanted, tested)
    windows = windows_with([*tested.fields, *others.fields])
    for narrowed, rest in _narrowed(snapshot, windows, wanted.schema.names):
        if rest is None:
            found = _limited(narrowed, options)
            lean = map(Window.lean, found) if wanted.fields else found
            yield from _read(snapshot, lean, wanted)
            continue
        tested = tested_columns(snapshot, rest)
        others = _others(snapshot, wanted, tested)
        both = [name for name in wanted.schema.names if name in tested.schema.names]
        for window, full, mask in matching_windows(map(Window.lean, narrowed), tested, rest):
            table = rows_where(full.select(both), mask)
            matching = window.matching(mask)
            if others.columns:
                own = Pending(matching, others.columns).table(others.schema)
                table = _side_by_side(own, table) if both else own
            columns = table.select(wanted.schema.names).columns
            yield ReadRows.of(matching, pa.Table.from_arrays(columns, schema=wanted.schema))


def _read(snapshot: Snapshot, windows: Iterator[Window], wanted: ReadColumns) -> Iterator[ReadRows]:
    """Read the rows of windows: few of a local fragment by a take, more by threads."""
    for has_few, group in groupby(windows, _has_few_rows):
        if not has_few:
            for window, pending in read_ahead(group, wanted.columns):
                yield ReadRows.of(window, pending.table(wanted.schema))
            continue
        for window in group:
            source = window.source
            assert isinstance(source, FragmentReader)
            yield ReadRows(source, read_parts(snapshot, [(source, window.wanted())], wanted))


def _has_few_rows(window: Window) -> bool:
    is_local = isinstance(window.source, FragmentReader) and not window.source.store.is_remote
    return is_local and window.num_rows <= _FEW_TAKEN


def _limited(windows: Iterator[Window], options: ScanOptions) -> Iterator[Window]:
    """Leave out rows after those that the offset and the limit ask for."""
    if options.limit is None:
        yield from windows
        return
    left = options.offset + options.limit
    for window in windows:
        if window.num_rows >= left:
            yield window if window.num_rows == left else window.first(left)
            return
        yield window
        left -= window.num_rows


def _others(snapshot: Snapshot, wanted: ReadColumns, tested: ReadColumns) -> ReadColumns:
    """Return the requested columns that a filter does not read."""
    at_hand = set(tested.schema.names)
    names = (name for name in wanted.schema.names if name not in at_hand)
    return ReadColumns.described(snapshot, tuple(names))


def _side_by_side(left: pa.Table, right: pa.Table) -> pa.Table:
    for field, column in zip(right.schema, right.columns, strict=True):
        left = left.append_column(field, column)
    return left


def tested_windows(
    snapshot: Snapshot, filter: BoundFilter, windows: Iterator[Window]
) -> Iterator[tuple[Window, pa.BooleanArray | None]]:
    """Yield windows with rows that match a filter, and a mask of these; None if all rows match.

    Only columns of the filter are read.
    """
    for narrowed, rest in _narrowed(snapshot, windows, ()):
        if rest is None:
            yield from ((window, None) for window in narrowed)
            continue
        from pilum.table.read.matching import matching_windows

        lean = map(Window.lean, narrowed)
        found = matching_windows(lean, tested_columns(snapshot, rest), rest)
        yield from ((window, mask) for window, _, mask in found)


def _narrowed(
    snapshot: Snapshot, windows: Iterator[Window], returned: Collection[str]
) -> Iterator[tuple[Iterator[Window], BoundFilter | None]]:
    """Leave out rows of windows that cannot match, as far as pages can answer their filter.

    `returned` are the names of the columns that the scan returns.

    Yields:
        Adjacent windows, and what is left of the filter for their rows; None for nothing.
    """
    for (filter, is_large), group in groupby(windows, _form):
        if filter is not None and is_large:
            from pilum.table.read.masks import narrowed

            yield from narrowed(snapshot, group, filter, returned)
        else:
            yield iter(group), filter


def _form(window: Window) -> tuple[BoundFilter | None, bool]:
    """Return what is left to test of the rows of a window, and whether it is large."""
    large = _LARGE_REMOTE_ROWS if window.source.store.is_remote else _LARGE_ROWS
    return window.filter, window.rows.num_rows >= large
