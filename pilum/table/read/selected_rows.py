"""Rows that indices found: few of them are taken, many are read in windows (`scan.py`).

Indices may cover only some of the fragments, and may name rows that do not match. Of a few rows,
the filter is tested on all columns at once; of more, on its own columns first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pilum.errors import InvalidInputError
from pilum.format.rows import BATCH_ROWS
from pilum.table.read.columns import ReadColumns, tested_columns, wanted_columns
from pilum.table.read.scan_options import ScanOptions
from pilum.table.read.selection import Selection
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import Part, parts_at, read_parts

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundFilter

__all__ = ["are_few", "is_of_all", "looked_up", "num_selected", "parts_of", "taken_rows"]

_FEW_TESTED = 16
"""Of up to so many rows that indices found, all columns are read before the filter is tested."""


def is_of_all(snapshot: Snapshot, options: ScanOptions) -> bool:
    """Return whether all rows are requested that indices found, in all fragments."""
    selection = options.selection
    is_whole = options.fragment_ids is None and options.row_range is None
    num_fragments = len(snapshot.manifest.fragments)
    return selection is not None and is_whole and len(selection.covered) == num_fragments


def num_selected(snapshot: Snapshot, selection: Selection, fragment_ids: Iterable[int]) -> int:
    """Count the rows of fragments that were found and are not deleted."""
    total = 0
    for fragment in map(snapshot.manifest.fragments.find, fragment_ids):
        assert fragment is not None
        deletions = snapshot.deletions(fragment) if fragment.deletion_file else None
        total += selection.count(fragment.id, fragment.physical_rows, deletions)
    return total


def are_few(options: ScanOptions) -> bool:
    """Return whether indices found no more rows than a batch has, which are taken at once."""
    is_plain = options.row_range is None and not options.with_payloads
    selection = options.selection if is_plain else None
    return selection is not None and selection.is_few(options.batch_size or BATCH_ROWS)


def looked_up(snapshot: Snapshot, options: ScanOptions, names: tuple[str, ...]) -> pa.Table | None:
    """Take all rows of a scan if indices found them: the common case, with few steps.

    None if rows have to be tested or counted, or the indices list a row that does not exist.
    """
    selection = options.selection
    if selection is None or not (selection.is_exact and are_few(options)):
        return None
    is_whole = options.limit is None and not options.offset and is_of_all(snapshot, options)
    if not (is_whole and snapshot.manifest.fragments.are_ascending):
        return None
    try:
        parts = parts_at(snapshot, selection.rows.listed)
    except InvalidInputError:
        return None
    return read_parts(snapshot, parts, ReadColumns.described(snapshot, names))


def taken_rows(snapshot: Snapshot, options: ScanOptions, filter: BoundFilter | None) -> pa.Table:
    """Take the rows that indices found, and leave out those that do not match a filter."""
    parts = list(_found_rows(snapshot, options, filter))
    wanted = wanted_columns(snapshot, options)
    if filter is None or not parts:
        return read_parts(snapshot, parts, wanted)
    from pilum.table.read.matching import matches, rows_where

    tested = tested_columns(snapshot, filter)
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


def parts_of(snapshot: Snapshot, options: ScanOptions) -> Iterator[tuple[ScanOptions, bool]]:
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
