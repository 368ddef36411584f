"""Scans: from options to batches, in bounded memory.

    fragments ──▶ windows of rows ──▶ segments of each column ──▶ threads decode ──▶ batches

A window is a group of rows that are read together (`windows.py`); small fragments share one
(`fragment_runs.py`). Without a filter, the offset and the limit are applied before, so that no
other file is opened. With a filter, rows that cannot match are skipped if the files have statistics
(`matching.py`). Pages answer conditions on single columns without decoding their values
(`masks.py`); the rest of the filter is evaluated on its columns, and all others are read for
matches (`filtered_rows.py`). Deleted rows are removed before the filter is evaluated. Where indices
found the matching rows, only these are read (`selected_rows.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pilum.arrays import has_dictionaries
from pilum.blocks import number_values
from pilum.errors import InvalidInputError
from pilum.format.blobs import materialized
from pilum.format.fields import Field
from pilum.format.meta_columns import META_COLUMNS
from pilum.format.rows import BATCH_ROWS, Addresses, RowRanges
from pilum.parallel import submit_waiting
from pilum.table.read.blobs import materialize
from pilum.table.read.columns import (
    MetaColumns,
    ReadColumns,
    column_names,
    scan_columns,
    tested_columns,
    wanted_columns,
)
from pilum.table.read.filtered_rows import tested_rows, tested_windows
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.fragment_runs import FragmentRun, in_runs
from pilum.table.read.scan_options import ScanOptions
from pilum.table.read.selected_rows import (
    are_few,
    is_of_all,
    looked_up,
    num_selected,
    parts_of,
    taken_rows,
)
from pilum.table.read.selection import Selection
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.windows import ReadRows, Window, batches_between, read_ahead, rows_of_window

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundFilter

__all__ = [
    "ScanOptions",
    "column_names",
    "count_rows",
    "scan",
    "scan_addresses",
    "scan_schema",
    "scan_table",
    "scan_tables",
    "windows_of_matches",
]

_FIRST_WINDOW_BATCHES = 4
_MOST_AHEAD = 31
"""Maximum number of fragments of a remote store that are opened ahead."""
_NO_LIMIT = 2**63 - 1
_EVERYTHING = ScanOptions()


def scan_schema(snapshot: Snapshot, options: ScanOptions) -> pa.Schema:
    """Return the schema of the batches of a scan."""
    if options.with_payloads:
        return ReadColumns.of(materialized(snapshot.schema), column_names(snapshot, options)).schema
    return wanted_columns(snapshot, options).schema


def scan(snapshot: Snapshot, options: ScanOptions) -> Iterator[pa.RecordBatch]:
    """Read batches in row order.

    Args:
        snapshot: The version.
        options: Columns and rows to read.

    Yields:
        Non-empty batches with the schema `scan_schema`, of `batch_size` rows. They are shorter at
        the end of a fragment, after a filter, and where rows are deleted.

    Raises:
        ColumnNotFoundError: If a column does not exist.
        CorruptFileError: If a file is damaged.
        FilterError: If the filter fails on a value.
    """
    if not column_names(snapshot, options):
        yield from (batch.select([]) for batch in scan(snapshot, options.for_addresses()))
        return
    for rows in _found(snapshot, options):
        yield from batches_between(rows.cuts, rows.table, options.batch_size or BATCH_ROWS)


def scan_table(snapshot: Snapshot, options: ScanOptions) -> pa.Table:
    """Read all rows of a scan, without splitting them into batches."""
    names = column_names(snapshot, options)
    if not names:
        return scan_table(snapshot, options.for_addresses()).select([])
    found = looked_up(snapshot, options, names)
    if found is not None:
        return found
    tables = list(scan_tables(snapshot, options.for_table()))
    return pa.concat_tables(tables) if tables else scan_schema(snapshot, options).empty_table()


def count_rows(snapshot: Snapshot, options: ScanOptions = _EVERYTHING) -> int:
    """Count the rows of a scan; without a filter, only the manifest is needed.

    Of the options, the filter, the selection, the fragments and rows apply.
    """
    if options.filter is None and options.fragment_ids is None:
        return snapshot.num_rows
    selection = options.selection
    if selection is not None and selection.is_exact and is_of_all(snapshot, options):
        return num_selected(snapshot, selection, selection.touched)
    if options.limit is not None or options.offset:
        options = replace(options, limit=None, offset=0)
    return sum(_counts(snapshot, options.for_table()))


def scan_addresses(snapshot: Snapshot, options: ScanOptions) -> list[Addresses]:
    """Return the addresses of the rows of a scan, in its order.

    Of the options, the filter, the selection and the fragments apply.
    """
    tables = scan_tables(snapshot, options.for_addresses())
    return [number_values(chunk) for table in tables for chunk in table.column(0).chunks]


def windows_of_matches(
    snapshot: Snapshot, options: ScanOptions, filter: BoundFilter
) -> list[tuple[FragmentReader, Window]]:
    """Return windows of the rows that match a filter, with their fragments, in the order of a scan.

    Of the options, the fragments apply. Only columns of the filter are read.
    """
    found = []
    fields = tested_columns(snapshot, filter).fields
    windows = _windows(snapshot, options.for_table(), fields, may_join=False)
    for window, mask in tested_windows(snapshot, filter, windows):
        assert isinstance(window.source, FragmentReader)
        found.append((window.source, window if mask is None else window.matching(mask)))
    return found


def _counts(snapshot: Snapshot, options: ScanOptions) -> Iterator[int]:
    """Yield the numbers of matching rows of parts of a scan."""
    if options.filter is None:
        yield from (window.num_rows for window in _windows(snapshot, options, []))
        return
    for part, is_tested in parts_of(snapshot, options):
        if is_tested:
            yield from _tested_counts(snapshot, part, options.filter)
        elif part.selection is None or part.row_range is not None:
            yield from (window.num_rows for window in _windows(snapshot, part, []))
        else:
            yield num_selected(snapshot, part.selection, part.fragment_ids or ())


def _tested_counts(snapshot: Snapshot, options: ScanOptions, filter: BoundFilter) -> Iterator[int]:
    windows = _windows(snapshot, options, tested_columns(snapshot, filter).fields)
    for window, mask in tested_windows(snapshot, filter, windows):
        yield window.num_rows if mask is None else int(mask.true_count)


def scan_tables(snapshot: Snapshot, options: ScanOptions) -> Iterator[pa.Table]:
    """Read non-empty tables, one per window; a fragment has one or more windows.

    Small fragments share one. In a scan without columns, the tables lose their rows; see
    `scan_table` and `scan`.
    """
    return (rows.table for rows in _found(snapshot, options))


def _found(snapshot: Snapshot, options: ScanOptions) -> Iterator[ReadRows]:
    if not options.with_payloads or snapshot.described is snapshot.schema:
        yield from _given_rows(snapshot, options)
        return
    schema = scan_schema(snapshot, options)
    columns = scan_columns(snapshot.schema, schema.names)
    for rows in _given_rows(snapshot, options):
        assert isinstance(rows.source, FragmentReader)
        yield ReadRows(rows.source, materialize(rows.source, columns, rows.table, schema))


def _given_rows(snapshot: Snapshot, options: ScanOptions) -> Iterator[ReadRows]:
    if options.filter is None:
        yield from _all_rows(snapshot, options)
        return
    skip, left = options.offset, options.limit
    for rows in _matching_rows(snapshot, options, options.filter) if left != 0 else ():
        wanted = rows if skip == 0 and left is None else rows.slice(skip, left)
        skip -= min(skip, rows.table.num_rows)
        if wanted.table.num_rows:
            yield wanted
        if left is not None:
            left -= wanted.table.num_rows
            if left == 0:
                return


def _all_rows(snapshot: Snapshot, options: ScanOptions) -> Iterator[ReadRows]:
    wanted = wanted_columns(snapshot, options)
    windows = _windows(snapshot, options, wanted.fields)
    for window, pending in read_ahead(windows, wanted.columns):
        yield ReadRows.of(window, pending.table(wanted.schema))


def _matching_rows(
    snapshot: Snapshot, options: ScanOptions, filter: BoundFilter
) -> Iterator[ReadRows]:
    """Read the rows that match a filter, in the order of the fragments."""
    for part, is_tested in parts_of(snapshot, options):
        if are_few(part):
            yield ReadRows(None, taken_rows(snapshot, part, filter if is_tested else None))
        else:
            windows_with = partial(_windows, snapshot, part)
            yield from (
                tested_rows(snapshot, part, filter, windows_with)
                if is_tested
                else _all_rows(snapshot, part)
            )


def _windows(
    snapshot: Snapshot, options: ScanOptions, read: Sequence[Field], *, may_join: bool = True
) -> Iterator[Window]:
    """Yield the windows of a scan; small fragments share one if they may be joined."""
    size = options.batch_size or BATCH_ROWS
    meta = MetaColumns(snapshot)
    may_join = may_join and _can_join(snapshot, options, read)
    for fragment, wanted, left in _wanted_rows(snapshot, options, read, may_join):
        if isinstance(fragment, FragmentRun):
            yield Window(fragment, wanted, None, meta.of(fragment), left)
            continue
        fields = fragment.fields(read)
        start = int(wanted.starts[0])
        if int(wanted.stops[-1]) - start <= size:
            window = _window(fragment, wanted, meta, options.selection, left)
            if window.num_rows:
                yield window
            continue
        # The size of payloads is unknown until they are read.
        full = size if options.with_payloads else rows_of_window(fields, size, options.window_bytes)
        # A limit after a filter may be reached soon, so begin with small windows and double them.
        impatient = options.filter is not None and options.limit is not None
        rows = min(full, _FIRST_WINDOW_BATCHES * size) if impatient else full
        while start < wanted.stops[-1]:
            found = wanted.within(start, start + rows)
            rows_here = RowRanges(found.bounds + start)
            window = _window(fragment, rows_here, meta, options.selection, left)
            if window.num_rows:
                yield window
            start += rows
            rows = min(2 * rows, full)


def _window(
    fragment: FragmentReader,
    rows: RowRanges,
    meta: MetaColumns,
    selection: Selection | None,
    left: BoundFilter | None,
) -> Window:
    """Return a window of the given rows that are not deleted."""
    kept = None
    if fragment.deletions is not None and len(rows.bounds):
        kept = fragment.deletions.kept(rows)
    window = Window(fragment, rows, kept, meta.of(fragment), left)
    return window.lean() if selection is None else window.spanning()


def _can_join(snapshot: Snapshot, options: ScanOptions, fields: Sequence[Field]) -> bool:
    """Return whether small fragments may be read together: all rows of files that are opened."""
    if not fields or len(snapshot.manifest.fragments) == 1 or options.with_payloads:
        return False
    if options.selection is not None or options.row_range is not None:
        return False
    # Rows are left out by their ids and versions before a file is opened.
    if options.filter is not None and not set(META_COLUMNS).isdisjoint(options.filter.columns):
        return False
    # Dictionaries of different files may have too many values for one.
    return not any(has_dictionaries(field.arrow_type) for field in fields)


def _wanted_rows(
    snapshot: Snapshot, options: ScanOptions, fields: Sequence[Field], may_join: bool
) -> Iterator[tuple[FragmentReader | FragmentRun, RowRanges, BoundFilter | None]]:
    """Yield fragments with rows to read, and what is left to test of the filter."""
    ranges = _row_ranges(snapshot, options, fields)
    for fragment, start, stop in in_runs(ranges) if may_join else ranges:
        if isinstance(fragment, FragmentRun):
            yield fragment, RowRanges.one(start, stop), options.filter
            continue
        if options.selection is None and options.filter is not None:
            from pilum.table.read.matching import runs_to_read

            runs = runs_to_read(fragment, snapshot.described, options.filter, start, stop)
            for rows, left in runs:
                yield fragment, rows, left
            continue
        rows = RowRanges.one(start, stop)
        if options.selection is not None:
            rows = options.selection.ranges_of(fragment.id, start, stop)
        if len(rows.bounds):
            yield fragment, rows, options.filter


def _row_ranges(
    snapshot: Snapshot, options: ScanOptions, fields: Sequence[Field]
) -> Iterator[tuple[FragmentReader, int, int]]:
    """Yield fragments with a range of rows; without a filter, the offset and limit are applied."""
    unfiltered = options.filter is None
    skip = options.offset if unfiltered else 0
    left = options.limit if unfiltered and options.limit is not None else _NO_LIMIT
    for fragment in _opened_ahead(_fragments(snapshot, options), fields):
        start, stop = options.row_range or (0, fragment.num_rows)
        if not 0 <= start <= stop <= fragment.num_rows:
            raise InvalidInputError(
                f"rows {start} to {stop} of fragment {fragment.fragment.id}, "
                f"which has {fragment.num_rows}"
            )
        if options.row_range is None and skip and skip >= fragment.fragment.num_rows:
            skip -= fragment.fragment.num_rows  # without reading its deletion file
            continue
        deleted = fragment.deletions
        present = stop - start - (deleted.count(start, stop) if deleted else 0)
        skipped = min(skip, present)
        given = min(left, present - skipped)
        skip -= skipped
        left -= given
        if given and deleted:
            position = deleted.position(start) + skipped
            first, last = deleted.physical(np.array([position, position + given - 1])).tolist()
            yield fragment, first, last + 1
        elif given:
            yield fragment, start + skipped, start + skipped + given
        if left == 0:
            return


def _fragments(snapshot: Snapshot, options: ScanOptions) -> Iterator[FragmentReader]:
    fragments = snapshot.manifest.fragments
    if options.fragment_ids is None:
        # Not by id: in some old tables, two fragments have the same id.
        yield from map(snapshot.reader, fragments)
        return
    for number in options.fragment_ids:
        fragment = fragments.find(number)
        if fragment is None:
            raise InvalidInputError(
                f"no fragment {number} in version {snapshot.manifest.version}; "
                f"there are {len(fragments)}"
            )
        yield snapshot.reader(fragment)


def _opened_ahead(
    fragments: Iterable[FragmentReader], fields: Sequence[Field]
) -> Iterator[FragmentReader]:
    """Yield the same fragments; of a remote store, the next ones are opened in the background.

    On a local disk, a file is opened when the previous one has been read: there is little latency,
    and threads cost more than they save. With a store that answers after 30 ms, opening a thousand
    fragments one after the other would take half a minute. One fragment is opened at first, then
    twice as many each time, because a scan may end soon.
    """
    running: deque[tuple[FragmentReader, Future[None]]] = deque()
    ahead = 0
    try:
        for fragment in fragments:
            if not fragment.store.is_remote:
                yield fragment
                continue
            running.append((fragment, submit_waiting(partial(_open, fragment, fields))))
            if len(running) > ahead:
                yield _opened(*running.popleft())
                ahead = min(2 * ahead + 1, _MOST_AHEAD)
        while running:
            yield _opened(*running.popleft())
    finally:
        for _, future in running:
            future.cancel()


def _open(fragment: FragmentReader, fields: Sequence[Field]) -> None:
    if fragment.small_files() is None:
        fragment.fields(fields)
    fragment.deletions  # noqa: B018 - read once, and kept


def _opened(fragment: FragmentReader, opening: Future[None]) -> FragmentReader:
    wait([opening])  # an error is raised again when the fragment is read
    return fragment
