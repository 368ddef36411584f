"""Filters: which rows of a fragment have to be tested, and which of these match.

Rows that cannot match are skipped, where the zone maps of a file say so. Long runs of rows that are
sure to match are not tested. Zones of row ids, addresses and versions are always known.

    zones            | x in [1, 9] | x in [5, 12] | x unknown | x in [11, 15] |
    filter x > 10    |             |##### test ###|### test ##|#### sure #####|   are read

The filter is then evaluated on windows of rows:

    windows       |    |  |     |        |          few rows each, of small fragments
    evaluated     |    |  :     |        :   ...    1, 2, 4 … of them at once
    masks         |    |  |     |        |

Evaluating a filter has a fixed cost, however few the rows are. Small windows are therefore
evaluated together. The first groups are small, because the caller may need only the first matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrays import filtered
from pilum.blocks import number_array
from pilum.errors import UnsupportedTypeError
from pilum.expressions.filter import BoundFilter
from pilum.expressions.prune import Zones
from pilum.format.meta_columns import CREATED_AT_VERSION, ROW_ADDRESS, ROW_ID, UPDATED_AT_VERSION
from pilum.format.rows import BATCH_ROWS, RowRanges, first_address
from pilum.format.schema import Schema
from pilum.parallel import submit
from pilum.table.model.row_id_sequence import Piece
from pilum.table.model.version_sequence import VersionSequence
from pilum.table.read.columns import ReadColumns, scan_columns
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.windows import Window, joined_batch, read_ahead

__all__ = ["matches", "matching_windows", "rows_to_test", "rows_where", "runs_to_read"]

_MASK_ROWS = 256 * 1024
_BYTES_TOGETHER = 1024 * 1024
_WINDOWS_TOGETHER = 256
_ZONE_ROWS = 1 << 16
_SURE_ROWS = 1 << 16
"""Fewest adjacent rows that are not tested: several windows cost more than to test the rows."""

Tested = tuple[Window, pa.Table]


def matching_windows(
    windows: Iterable[Window], wanted: ReadColumns, filter: BoundFilter
) -> Iterator[tuple[Window, pa.Table, pa.BooleanArray]]:
    """Read the columns of a filter, and evaluate it.

    Yields:
        Each window with a match, its columns, and the mask of rows for which the filter is true.
    """
    ahead = read_ahead(windows, wanted.columns)
    read = ((window, pending.table(wanted.schema)) for window, pending in ahead)
    for tested in _together(read):
        for (window, table), mask in zip(tested, _masks(tested, filter), strict=True):
            if mask.true_count:
                yield window, table, mask


def _together(windows: Iterable[Tested]) -> Iterator[list[Tested]]:
    """Group adjacent small windows; a large window is a group of its own."""
    waiting: list[Tested] = []
    num_rows = num_bytes = 0
    most = 1
    for window, table in windows:
        if num_rows + table.num_rows > BATCH_ROWS or num_bytes + table.nbytes > _BYTES_TOGETHER:
            yield waiting
            waiting, num_rows, num_bytes = [], 0, 0
        waiting.append((window, table))
        num_rows += table.num_rows
        num_bytes += table.nbytes
        if len(waiting) >= most:
            yield waiting
            waiting, num_rows, num_bytes = [], 0, 0
            most = min(2 * most, _WINDOWS_TOGETHER)
    yield waiting


def _masks(tested: list[Tested], filter: BoundFilter) -> Iterator[pa.BooleanArray]:
    """Yield the mask of rows for which the filter is true, for each of several windows."""
    tables = [table for _, table in tested]
    if len(tables) > 1:
        try:
            mask = filter.mask(joined_batch(pa.concat_tables(tables)))
        except UnsupportedTypeError:
            pass  # their dictionaries are not compatible
        else:
            ends = np.cumsum([table.num_rows for table in tables]).tolist()
            for table, end in zip(tables, ends, strict=True):
                yield mask.slice(end - table.num_rows, table.num_rows)
            return
    for table in tables:
        yield matches(filter, table)


def matches(filter: BoundFilter, table: pa.Table) -> pa.BooleanArray:
    """Return where the filter is true; several threads share a large table.

    The table has the columns of the filter, and at least one row.
    """
    batches = table.to_batches(max_chunksize=_MASK_ROWS)
    if len(batches) == 1:
        return filter.mask(batches[0])
    futures = [submit(partial(filter.mask, batch)) for batch in batches]
    return pa.concat_arrays([future.result() for future in futures])


def rows_where(table: pa.Table, mask: pa.BooleanArray) -> pa.Table:
    """Return the matching rows, chunk by chunk: `Table.filter` slices chunks, see `filtered`."""
    if mask.true_count == len(mask):
        return table
    columns = []
    for column in table.columns:
        start, chunks = 0, []
        for chunk in column.chunks:
            chunks.append(filtered(chunk, mask.slice(start, len(chunk))))
            start += len(chunk)
        columns.append(pa.chunked_array(chunks, column.type))
    return pa.Table.from_arrays(columns, schema=table.schema)


def rows_to_test(
    fragment: FragmentReader, schema: Schema, filter: BoundFilter, start: int, stop: int
) -> RowRanges:
    """Return the rows of a fragment in [start, stop) that may match; no other row can match."""
    whole = RowRanges.of((start, stop))
    zones = _all_zones(fragment, schema, filter) if len(whole.bounds) else {}
    if not zones:
        return whole
    bounds = next(iter(zones.values())).row_bounds
    may = filter.may_match(zones, len(bounds) - 1)
    return _clipped(_ranges(bounds, np.flatnonzero(may)), start, stop)


def runs_to_read(
    fragment: FragmentReader, schema: Schema, filter: BoundFilter, start: int, stop: int
) -> Iterator[tuple[RowRanges, BoundFilter | None]]:
    """Yield the rows of a fragment in [start, stop) that may match, and what is left to test.

    That is None for rows that are sure to match. Of many rows, terms of the filter that are true
    for all of them are not tested.
    """
    if start >= stop:
        return
    whole = RowRanges.one(start, stop)
    zones = _all_zones(fragment, schema, filter)
    if not zones:
        yield whole, filter
        return
    bounds = next(iter(zones.values())).row_bounds
    found = filter.matching(zones, len(bounds) - 1)
    may = found.may
    rows = whole if may.all() else _clipped(_ranges(bounds, np.flatnonzero(may)), start, stop)
    if rows.num_rows < _SURE_ROWS:
        if len(rows.bounds):
            yield rows, filter
        return
    are_sure = found.are_sure
    left = filter if all(are_sure) else filter.without(are_sure)
    at = start
    must = may & found.must
    if must.any():
        sure = _clipped(_ranges(bounds, np.flatnonzero(must)), start, stop)
        for first, end in sure.bounds[sure.stops - sure.starts >= _SURE_ROWS].tolist():
            if len((before := _clipped(rows, at, first)).bounds):
                yield before, left
            yield RowRanges.one(first, end), None
            at = end
    if at > start:
        rows = _clipped(rows, at, stop)
    if len(rows.bounds):
        yield rows, left


def _all_zones(
    fragment: FragmentReader, schema: Schema, filter: BoundFilter
) -> dict[tuple[str, ...], Zones]:
    """Return zones of columns of a filter; those of ids are most selective, and in no file."""
    return (
        _zones_of_ids(fragment, schema, filter)
        or _zones_of_versions(fragment, schema, filter)
        or _zones(fragment, schema, filter)
    )


def _zones(
    fragment: FragmentReader, schema: Schema, filter: BoundFilter
) -> dict[tuple[str, ...], Zones]:
    """Return the zones of the filter's columns; of different divisions, the first one is used."""
    found: dict[tuple[str, ...], Zones] = {}
    for column in scan_columns(schema, filter.columns):
        if column.field is None:
            continue
        top = column.field.name
        members = () if column.name == top else tuple(column.name.split(".")[1:])
        own = fragment.field(column.field).zones(members)
        first = next(iter(found.values()), own)
        if own and (own is first or (first and _are_alike(own, first))):
            found[(top, *members)] = own
    return found


def _are_alike(one: Zones, other: Zones) -> bool:
    return np.array_equal(one.row_bounds, other.row_bounds)


def _zones_of_ids(
    fragment: FragmentReader, schema: Schema, filter: BoundFilter
) -> dict[tuple[str, ...], Zones]:
    """Return the zones of row ids or row addresses, if the filter reads them."""
    names = {ROW_ID, ROW_ADDRESS}.intersection(filter.columns).difference(schema.names)
    if not names:
        return {}
    if ROW_ID in names and fragment.fragment.row_ids is not None:
        return {(ROW_ID,): _zones_of_pieces(fragment.row_ids.pieces)}
    first = first_address(fragment.id)
    zones = _zones_of_pieces([range(first, first + fragment.num_rows)])
    return {(name,): zones for name in names}


def _zones_of_versions(
    fragment: FragmentReader, schema: Schema, filter: BoundFilter
) -> dict[tuple[str, ...], Zones]:
    """Return the zones of the versions that created or changed rows, if the filter reads them."""
    names = set(filter.columns).difference(schema.names)
    known: dict[str, VersionSequence] = {}
    if CREATED_AT_VERSION in names:
        known[CREATED_AT_VERSION] = fragment.created_at
    if UPDATED_AT_VERSION in names:
        known[UPDATED_AT_VERSION] = fragment.updated_at
    if not known:
        return {}
    bounds = np.unique(np.concatenate([sequence.bounds() for sequence in known.values()]))
    num_zones = len(bounds) - 1
    found: dict[tuple[str, ...], Zones] = {}
    for name, sequence in known.items():
        versions = number_array(sequence.at(bounds[:-1]))
        nothing, anything = np.zeros(num_zones, np.bool_), np.ones(num_zones, np.bool_)
        found[(name,)] = Zones(bounds, versions, versions, nothing, anything)
    return found


def _zones_of_pieces(pieces: Sequence[Piece]) -> Zones:
    parts = [
        piece[start : start + _ZONE_ROWS]
        for piece in pieces
        for start in range(0, len(piece), _ZONE_ROWS)
    ]
    return Zones(
        np.cumsum([0, *map(len, parts)], dtype=np.int64),
        number_array(np.array([_least(part) for part in parts], dtype=np.uint64)),
        number_array(np.array([_most(part) for part in parts], dtype=np.uint64)),
        may_be_null=np.zeros(len(parts), np.bool_),
        may_have_value=np.ones(len(parts), np.bool_),
    )


def _least(piece: Piece) -> int:
    return piece[0] if isinstance(piece, range) else int(piece.min())


def _most(piece: Piece) -> int:
    return piece[-1] if isinstance(piece, range) else int(piece.max())


def _ranges(bounds: NDArray[np.int64], keep: NDArray[np.int64]) -> RowRanges:
    """Return the rows of zones; adjacent zones become one range."""
    runs = RowRanges.of_rows(keep)
    pairs = np.stack([bounds[runs.starts], bounds[runs.stops]], axis=1)
    return RowRanges(np.ascontiguousarray(pairs[pairs[:, 0] < pairs[:, 1]]))


def _clipped(rows: RowRanges, start: int, stop: int) -> RowRanges:
    return RowRanges(rows.within(start, stop).bounds + start) if len(rows.bounds) else rows
