"""Scans: from options to batches, in bounded memory.

    fragments ──▶ windows of rows ──▶ segments of each column ──▶ threads decode ──▶ batches

A window is a group of rows that are read together (`windows.py`). With a filter, rows that cannot
match are skipped if the files have statistics (`matching.py`). Pages answer conditions on single
columns without decoding their values (`masks.py`); the rest of the filter is evaluated on its
columns. All others are read only for matches: whole windows if many rows match, single rows if few
do. Deleted rows are removed before the filter is evaluated. Where indices found the matching rows
(`selection.py`), only these are read: few of them by one take (`take.py`), many in windows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pilum.blocks import number_values
from pilum.errors import InvalidInputError
from pilum.format.blobs import materialized
from pilum.format.fields import Field
from pilum.format.meta_columns import ROW_ADDRESS, ROW_ID
from pilum.format.rows import BATCH_ROWS, Addresses, RowRanges
from pilum.format.text_forms import TextForm
from pilum.parallel import submit_waiting
from pilum.table.read.blobs import materialize
from pilum.table.read.columns import MetaColumns, ReadColumns, scan_columns
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.selection import Selection
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import Part, parts_at, read_parts
from pilum.table.read.windows import (
    Pending,
    RowSource,
    Window,
    batches,
    read_ahead,
    rows_of_window,
)

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
_LARGE_ROWS, _LARGE_REMOTE_ROWS = 1024, 8 * 1024
"""Rows from which on pages are tested without decoding them. Of windows of fewer rows, several can
be read together, which saves more requests to a remote store."""
_TABLE_WINDOW_BYTES = 256 * 1024 * 1024
"""Windows of a whole table. A page is read once for each window that it is in."""
_FOUND_WINDOW_BYTES = 64 * 1024 * 1024
"""The same with a filter, also to count rows: more is read than kept."""
_FEW_TAKEN = 128
"""Up to so many rows that match in a window are read by a take."""
_FEW_TESTED = 16
"""Of up to so many rows that indices found, all columns are read before the filter is tested."""


@dataclass(frozen=True)
class ScanOptions:
    """Options of a scan.

    Attributes:
        columns: Names of top-level columns, dotted paths of struct members, or names of
            `pilum.format.meta_columns`, in the order of the result; None for all columns.
        filter: Predicate that selects rows.
        selection: The rows that can match the filter, as far as indices found them.
        limit: Maximum number of rows, counted after the filter; None for all.
        offset: Number of rows to skip, counted after the filter.
        batch_size: Rows per batch; None for 8,192.
        with_row_id: Whether to add `_rowid` after the columns.
        with_row_address: Whether to add `_rowaddr` after the columns.
        fragment_ids: Ids of the fragments to read; None for all.
        row_range: Physical rows (first, end) of the single fragment to read, without the end;
            deleted rows are omitted.
        with_payloads: Whether blob columns return payloads; otherwise they return descriptors.
        window_bytes: Approximate size of the rows that are read together; None for 32 MiB, or more
            for a table, which is in memory as a whole. A few times this size is in memory.
        form: The form of strings and bytes, only of a scan without filter and payloads; None for
            that of the table.
    """

    columns: tuple[str, ...] | None = None
    filter: BoundFilter | None = None
    selection: Selection | None = None
    limit: int | None = None
    offset: int = 0
    batch_size: int | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    fragment_ids: tuple[int, ...] | None = None
    row_range: tuple[int, int] | None = None
    with_payloads: bool = False
    window_bytes: int | None = None
    form: TextForm | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all rows that match the filter are read, from any fragment."""
        is_limited = self.limit is not None or self.offset > 0 or self.with_payloads
        return not is_limited and self.fragment_ids is None and self.row_range is None

    def with_filter(self, filter: BoundFilter) -> ScanOptions:
        """Return the options with another filter, and no selection."""
        return self._with(filter=filter, selection=None)

    def with_selection(self, selection: Selection | None) -> ScanOptions:
        """Return the options with another selection."""
        return self._with(selection=selection)

    def for_table(self) -> ScanOptions:
        """Return the options with large windows, for a result that is in memory as a whole."""
        if self.window_bytes is not None:
            return self
        size = _TABLE_WINDOW_BYTES if self.filter is None else _FOUND_WINDOW_BYTES
        return self._with(window_bytes=size)

    def _with(self, **changes: Any) -> ScanOptions:
        changed = object.__new__(ScanOptions)  # as `dataclasses.replace`, which takes longer
        changed.__dict__.update(self.__dict__, **changes)
        return changed


_EVERYTHING = ScanOptions()


def scan_schema(snapshot: Snapshot, options: ScanOptions) -> pa.Schema:
    """Return the schema of the batches of a scan."""
    if options.with_payloads:
        return ReadColumns.of(materialized(snapshot.schema), column_names(snapshot, options)).schema
    return _columns(snapshot, options).schema


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
        yield from (batch.select([]) for batch in scan(snapshot, _addresses(options)))
        return
    yield from batches(scan_tables(snapshot, options), options.batch_size or BATCH_ROWS)


def scan_table(snapshot: Snapshot, options: ScanOptions) -> pa.Table:
    """Read all rows of a scan, without splitting them into batches."""
    names = column_names(snapshot, options)
    if not names:
        return scan_table(snapshot, _addresses(options)).select([])
    found = _looked_up(snapshot, options, names)
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
    if selection is not None and selection.is_exact and _is_of_all(snapshot, options):
        return _num_selected(snapshot, selection, selection.touched)
    if options.limit is not None or options.offset:
        options = replace(options, limit=None, offset=0)
    return sum(_counts(snapshot, options.for_table()))


def scan_addresses(snapshot: Snapshot, options: ScanOptions) -> list[Addresses]:
    """Return the addresses of the rows of a scan, in its order.

    Of the options, the filter, the selection and the fragments apply.
    """
    tables = scan_tables(snapshot, _addresses(options))
    return [number_values(chunk) for table in tables for chunk in table.column(0).chunks]


def windows_of_matches(
    snapshot: Snapshot, options: ScanOptions, filter: BoundFilter
) -> list[tuple[FragmentReader, Window]]:
    """Return windows of the rows that match a filter, with their fragments, in the order of a scan.

    Of the options, the fragments apply. Only columns of the filter are read.
    """
    found = []
    for window, mask in _tested_windows(snapshot, options.for_table(), filter):
        assert isinstance(window.source, FragmentReader)
        found.append((window.source, window if mask is None else window.matching(mask)))
    return found


def _is_of_all(snapshot: Snapshot, options: ScanOptions) -> bool:
    """Return whether all rows are requested that indices found, in all fragments."""
    selection = options.selection
    is_whole = options.fragment_ids is None and options.row_range is None
    num_fragments = len(snapshot.manifest.fragments)
    return selection is not None and is_whole and len(selection.covered) == num_fragments


def _num_selected(snapshot: Snapshot, selection: Selection, fragment_ids: Iterable[int]) -> int:
    """Count the rows of fragments that were found and are not deleted."""
    total = 0
    for fragment in map(snapshot.manifest.fragments.find, fragment_ids):
        assert fragment is not None
        deletions = snapshot.deletions(fragment) if fragment.deletion_file else None
        total += selection.count(fragment.id, fragment.physical_rows, deletions)
    return total


def _counts(snapshot: Snapshot, options: ScanOptions) -> Iterator[int]:
    """Yield the numbers of matching rows of parts of a scan."""
    if options.filter is None:
        yield from (window.num_rows for window in _windows(snapshot, options, []))
        return
    for part, is_tested in _parts(snapshot, options):
        if is_tested:
            yield from _tested_counts(snapshot, part, options.filter)
        elif part.selection is None or part.row_range is not None:
            yield from (window.num_rows for window in _windows(snapshot, part, []))
        else:
            yield _num_selected(snapshot, part.selection, part.fragment_ids or ())


def _tested_counts(snapshot: Snapshot, options: ScanOptions, filter: BoundFilter) -> Iterator[int]:
    for window, mask in _tested_windows(snapshot, options, filter):
        yield window.num_rows if mask is None else int(mask.true_count)


def _tested_windows(
    snapshot: Snapshot, options: ScanOptions, filter: BoundFilter
) -> Iterator[tuple[Window, pa.BooleanArray | None]]:
    """Yield windows with rows that match a filter, and a mask of these; None if all rows match.

    Only columns of the filter are read.
    """
    windows = _windows(snapshot, options, _tested_columns(snapshot, filter).fields)
    for narrowed, rest in _narrowed(snapshot, windows, ()):
        if rest is None:
            yield from ((window, None) for window in narrowed)
            continue
        from pilum.table.read.matching import matching_windows

        lean = map(Window.lean, narrowed)
        found = matching_windows(lean, _tested_columns(snapshot, rest), rest)
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


def _addresses(options: ScanOptions) -> ScanOptions:
    """Return options that read only addresses; without columns, Arrow tables lose their rows."""
    return replace(options, columns=(), with_row_address=True, with_payloads=False)


def _columns(snapshot: Snapshot, options: ScanOptions) -> ReadColumns:
    return ReadColumns.described(snapshot, column_names(snapshot, options), options.form)


def _tested_columns(snapshot: Snapshot, filter: BoundFilter) -> ReadColumns:
    """Return the columns that a filter reads; at least one, for the number of rows."""
    return ReadColumns.described(snapshot, filter.columns or (ROW_ID,))


def column_names(snapshot: Snapshot, options: ScanOptions) -> tuple[str, ...]:
    """Return the names of the columns of a scan."""
    names = tuple(snapshot.schema.names) if options.columns is None else options.columns
    if not (options.with_row_id or options.with_row_address):
        return names
    extra = ((ROW_ID, options.with_row_id), (ROW_ADDRESS, options.with_row_address))
    added = (name for name, wanted in extra if wanted and name not in names)
    return (*names, *added)


def scan_tables(snapshot: Snapshot, options: ScanOptions) -> Iterator[pa.Table]:
    """Read non-empty tables, one per window; a fragment has one or more windows.

    In a scan without columns, the tables lose their rows; see `scan_table` and `scan`.
    """
    if not options.with_payloads or snapshot.described is snapshot.schema:
        yield from (table for _, table in _given_rows(snapshot, options))
        return
    schema = scan_schema(snapshot, options)
    columns = scan_columns(snapshot.schema, schema.names)
    for fragment, table in _given_rows(snapshot, options):
        assert isinstance(fragment, FragmentReader)
        yield materialize(fragment, columns, table, schema)


_Rows = tuple[RowSource | None, pa.Table]
"""Rows, and the fragment that contains them if payloads of blobs are read from it."""


def _given_rows(snapshot: Snapshot, options: ScanOptions) -> Iterator[_Rows]:
    if options.filter is None:
        yield from _all_rows(snapshot, options)
        return
    skip, left = options.offset, options.limit
    for fragment, table in _matching_rows(snapshot, options, options.filter) if left != 0 else ():
        wanted = table if skip == 0 and left is None else table.slice(skip, left)
        skip -= min(skip, table.num_rows)
        if wanted.num_rows:
            yield fragment, wanted
        if left is not None:
            left -= wanted.num_rows
            if left == 0:
                return


def _all_rows(snapshot: Snapshot, options: ScanOptions) -> Iterator[_Rows]:
    wanted = _columns(snapshot, options)
    windows = _windows(snapshot, options, wanted.fields)
    for window, pending in read_ahead(windows, wanted.columns):
        yield window.source, pending.table(wanted.schema)


def _matching_rows(
    snapshot: Snapshot, options: ScanOptions, filter: BoundFilter
) -> Iterator[_Rows]:
    """Read the rows that match a filter, in the order of the fragments."""
    for part, is_tested in _parts(snapshot, options):
        if _are_few(part):
            yield None, _few_rows(snapshot, part, filter if is_tested else None)
        else:
            yield from (
                _tested_rows(snapshot, part, filter) if is_tested else _all_rows(snapshot, part)
            )


def _are_few(options: ScanOptions) -> bool:
    """Return whether indices found no more rows than a batch has, which are taken at once."""
    is_plain = options.row_range is None and not options.with_payloads
    selection = options.selection if is_plain else None
    return selection is not None and selection.is_few(options.batch_size or BATCH_ROWS)


def _looked_up(snapshot: Snapshot, options: ScanOptions, names: tuple[str, ...]) -> pa.Table | None:
    """Take all rows of a scan if indices found them: the common case, with few steps.

    None if rows have to be tested or counted, or the indices list a row that does not exist.
    """
    selection = options.selection
    if selection is None or not (selection.is_exact and _are_few(options)):
        return None
    is_whole = options.limit is None and not options.offset and _is_of_all(snapshot, options)
    if not (is_whole and snapshot.manifest.fragments.are_ascending):
        return None
    try:
        parts = parts_at(snapshot, selection.rows.listed)
    except InvalidInputError:
        return None
    return read_parts(snapshot, parts, ReadColumns.described(snapshot, names))


def _few_rows(snapshot: Snapshot, options: ScanOptions, filter: BoundFilter | None) -> pa.Table:
    """Take the rows that indices found, and leave out those that do not match a filter."""
    parts = list(_found_rows(snapshot, options, filter))
    wanted = _columns(snapshot, options)
    if filter is None or not parts:
        return read_parts(snapshot, parts, wanted)
    from pilum.table.read.matching import matches, rows_where

    tested = _tested_columns(snapshot, filter)
    names = wanted.schema.names
    if sum([len(rows) for _, rows in parts]) <= _FEW_TESTED:
        every = tuple(dict.fromkeys((*names, *tested.schema.names)))
        table = read_parts(snapshot, parts, ReadColumns.described(snapshot, every))
        return rows_where(table.select(names), matches(filter, table))
    table = read_parts(snapshot, parts, tested)
    mask = matches(filter, table)
    if not mask.true_count:
        return wanted.schema.empty_table()
    found = dict(zip(tested.schema.names, rows_where(table, mask).columns, strict=True))
    rest = tuple(name for name in names if name not in found)
    if rest:
        more = read_parts(snapshot, _kept(parts, mask), ReadColumns.described(snapshot, rest))
        found |= dict(zip(rest, more.columns, strict=True))
    return pa.Table.from_arrays([found[name] for name in names], schema=wanted.schema)


def _kept(parts: Sequence[Part], mask: pa.BooleanArray) -> list[Part]:
    """Return the rows of parts where a mask of all of them is true."""
    is_kept = mask.to_numpy(zero_copy_only=False)
    ends = np.cumsum([len(rows) for _, rows in parts]).tolist()
    kept = [
        (reader, rows[is_kept[end - len(rows) : end]])
        for (reader, rows), end in zip(parts, ends, strict=True)
    ]
    return [part for part in kept if len(part[1])]


def _found_rows(
    snapshot: Snapshot, options: ScanOptions, filter: BoundFilter | None
) -> Iterator[Part]:
    """Yield the rows of each fragment that indices found, without deleted ones."""
    selection, fragments = options.selection, snapshot.manifest.fragments
    is_limited = filter is None and options.limit is not None
    left = options.offset + (options.limit or 0)
    for number in options.fragment_ids or ():
        fragment = fragments.find(number)
        assert selection is not None
        assert fragment is not None
        rows = selection.rows_of(number, 0, fragment.physical_rows)
        deletions = snapshot.deletions(fragment) if fragment.deletion_file else None
        if deletions is not None:
            rows = rows[~deletions.contains(rows)]
        if is_limited:
            rows = rows[:left]
            left -= len(rows)
        if len(rows):
            yield snapshot.reader(fragment), rows


def _parts(snapshot: Snapshot, options: ScanOptions) -> Iterator[tuple[ScanOptions, bool]]:
    """Split a scan with a filter into runs of fragments, and say whether the filter is tested."""
    selection = options.selection
    if selection is None:
        yield options, True
        return
    fragments, ids = snapshot.manifest.fragments, options.fragment_ids
    if ids is None:
        if len(selection.covered) == len(fragments):  # the common case
            found = fragments.in_scan_order(selection.touched)
            yield replace(options, fragment_ids=found), not selection.is_exact
            return
        ids = tuple(fragments.ids.tolist())
    for is_covered, run in groupby(ids, selection.covers):
        if is_covered:
            found = tuple(filter(selection.touched.__contains__, run))
            yield replace(options, fragment_ids=found), not selection.is_exact
        elif not selection.only_covered:
            yield replace(options, fragment_ids=tuple(run), selection=None), True


def _tested_rows(snapshot: Snapshot, options: ScanOptions, filter: BoundFilter) -> Iterator[_Rows]:
    from pilum.table.read.matching import matching_windows, rows_where

    wanted, tested = _columns(snapshot, options), _tested_columns(snapshot, filter)
    others = _others(snapshot, wanted, tested)
    windows = _windows(snapshot, options, [*tested.fields, *others.fields])
    for narrowed, rest in _narrowed(snapshot, windows, wanted.schema.names):
        if rest is None:
            found = _limited(narrowed, options)
            lean = map(Window.lean, found) if wanted.fields else found
            yield from _read(snapshot, lean, wanted)
            continue
        tested = _tested_columns(snapshot, rest)
        others = _others(snapshot, wanted, tested)
        both = [name for name in wanted.schema.names if name in tested.schema.names]
        for window, full, mask in matching_windows(map(Window.lean, narrowed), tested, rest):
            table = rows_where(full.select(both), mask)
            if others.columns:
                pending = Pending(window.matching(mask), others.columns)
                own = pending.table(others.schema)
                table = _side_by_side(own, table) if both else own
            columns = table.select(wanted.schema.names).columns
            yield window.source, pa.Table.from_arrays(columns, schema=wanted.schema)


def _read(snapshot: Snapshot, windows: Iterator[Window], wanted: ReadColumns) -> Iterator[_Rows]:
    """Read the rows of windows: few of a local fragment by a take, more by threads."""
    for are_few, group in groupby(windows, _has_few_rows):
        if not are_few:
            for window, pending in read_ahead(group, wanted.columns):
                yield window.source, pending.table(wanted.schema)
            continue
        for window in group:
            source = window.source
            assert isinstance(source, FragmentReader)
            yield source, read_parts(snapshot, [(source, window.wanted())], wanted)


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


def _windows(snapshot: Snapshot, options: ScanOptions, read: Sequence[Field]) -> Iterator[Window]:
    size = options.batch_size or BATCH_ROWS
    meta = MetaColumns(snapshot)
    for fragment, wanted, left in _wanted_rows(snapshot, options, read):
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


def _wanted_rows(
    snapshot: Snapshot, options: ScanOptions, fields: Sequence[Field]
) -> Iterator[tuple[FragmentReader, RowRanges, BoundFilter | None]]:
    """Yield fragments with rows to read, and what is left to test of the filter."""
    for fragment, start, stop in _row_ranges(snapshot, options, fields):
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
    fragment.fields(fields)
    fragment.deletions  # noqa: B018 - read once, and kept


def _opened(fragment: FragmentReader, opening: Future[None]) -> FragmentReader:
    wait([opening])  # an error is raised again when the fragment is read
    return fragment
