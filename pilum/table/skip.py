"""Which rows of a fragment a filter has to look at, by what its files know about their contents.

batches of a legacy file   | x in [1, 9] | x in [5, 12] | x unknown |
filter x > 10              |             |##############|###########|     rows that are read
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pilum.expressions import BoundFilter
from pilum.expressions.prune import Zones
from pilum.format.rows import RowRanges
from pilum.format.schema import Schema
from pilum.table.columns import scan_columns
from pilum.table.files import FragmentReader

__all__ = ["rows_to_test"]


def rows_to_test(
    fragment: FragmentReader, schema: Schema, filter: BoundFilter, start: int, stop: int
) -> RowRanges:
    """The rows of a fragment in [start, stop) that may match; those left out cannot.

    Raises:
        CorruptFileError: If what a file knows about itself is damaged.
    """
    whole = RowRanges.of((start, stop))
    zones = _zones(fragment, schema, filter)
    if not zones or not len(whole.bounds):
        return whole
    bounds = next(iter(zones.values())).row_bounds
    keep = np.flatnonzero(filter.may_match(zones, len(bounds) - 1))
    return _clipped(_ranges(bounds, keep), start, stop)


def _zones(
    fragment: FragmentReader, schema: Schema, filter: BoundFilter
) -> dict[tuple[str, ...], Zones]:
    """Of the columns that a filter reads; of several cuts into zones only the first counts."""
    found: dict[tuple[str, ...], Zones] = {}
    for column in scan_columns(schema, filter.columns):
        if column.field is None:
            continue
        top = column.field.name
        members = () if column.name == top else tuple(column.name.split(".")[1:])
        own = fragment.field(column.field).zones(members)
        first = next(iter(found.values()), own)
        if own and first and np.array_equal(own.row_bounds, first.row_bounds):
            found[(top, *members)] = own
    return found


def _ranges(bounds: NDArray[np.int64], keep: NDArray[np.int64]) -> RowRanges:
    """Rows of zones; neighbours become one range."""
    runs = RowRanges.of_rows(keep)
    pairs = np.stack([bounds[runs.starts], bounds[runs.stops]], axis=1)
    return RowRanges(np.ascontiguousarray(pairs[pairs[:, 0] < pairs[:, 1]]))


def _clipped(rows: RowRanges, start: int, stop: int) -> RowRanges:
    return RowRanges(rows.within(start, stop).bounds + start) if len(rows.bounds) else rows
