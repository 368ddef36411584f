"""Check the zone maps of a fragment against its rows, as these are decoded.

    zone 3 of "price"    [1.5, 99.0], no nulls, no NaN
    its rows             0.25 ... 80.0, two nulls          less than it says: a fault

Filters trust zone maps. Bounds that are wider than the values are no fault.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.container.zone_summary import ROWS_PER_ZONE, ZoneSummary, is_bytes
from pilum.errors import CorruptFileError
from pilum.expressions.compare import ordinals
from pilum.expressions.prune import Zones
from pilum.format.schema import Schema
from pilum.table.read.fragment_files import FragmentReader

__all__ = ["ZoneCheck"]

_PART_ROWS = 8 * ROWS_PER_ZONE


class ZoneCheck:
    """The zone maps of a fragment, and the rows that were checked."""

    def __init__(self, fragment: FragmentReader, schema: Schema) -> None:
        found = ((field.name, fragment.field(field).zones(())) for field in schema.fields)
        self._zones = {name: zones for name, zones in found if zones and _is_aligned(zones)}
        self._next_row = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Check the next rows of the fragment.

        Raises:
            CorruptFileError: If a zone map says something else of them.
        """
        for start in range(0, rows.num_rows, _PART_ROWS):
            part = rows.slice(start, _PART_ROWS)
            for name, zones in self._zones.items():
                self._check(name, zones, part.column(name))
            self._next_row += part.num_rows

    def _check(self, name: str, zones: Zones, values: pa.Array) -> None:
        if zones.least.type != values.type:
            return
        found = ZoneSummary.of(values, self._next_row)
        first_rows = self._next_row + np.cumsum(found.rows) - found.rows
        own = np.searchsorted(zones.row_bounds, first_rows, side="right") - 1
        for is_wrong in _faults(zones, own, found):
            if is_wrong.any():
                place = int(own[is_wrong.argmax()])
                start, stop = zones.row_bounds[place : place + 2].tolist()
                raise CorruptFileError(
                    f"zone map: the values of rows {start} to {stop} are others", f"column {name!r}"
                )


def _is_aligned(zones: Zones) -> bool:
    """Return whether zones consist of whole summaries; the batches of legacy files do not."""
    return not (zones.row_bounds[:-1] % ROWS_PER_ZONE).any()


def _faults(
    zones: Zones, own: NDArray[np.int64], found: ZoneSummary
) -> Iterator[NDArray[np.bool_]]:
    """Yield, for several statements, which runs of rows contradict their zones."""
    yield (found.nulls > 0) & ~zones.may_be_null[own]
    yield (found.nulls < found.rows) & ~zones.may_have_value[own]
    if zones.may_be_nan is not None:
        yield (found.nans > 0) & ~zones.may_be_nan[own]
    places = pa.array(own)
    least, most = (_ordered(ends.take(places)) for ends in (zones.least, zones.most))
    yield _is_true(pc.less(_ordered(found.least), least))
    yield _is_true(pc.greater(_ordered(found.most), most))


def _ordered(ends: pa.Array) -> pa.Array:
    """Return values that Arrow compares in the order of filters."""
    if pt.is_floating(ends.type):
        return ordinals(ends)
    if pt.is_boolean(ends.type):
        return ends.cast(pa.uint8())
    if is_bytes(ends.type):
        return ends.cast(pa.large_binary())
    return ends


def _is_true(mask: pa.BooleanArray) -> NDArray[np.bool_]:
    return np.asarray(mask.fill_null(False))
