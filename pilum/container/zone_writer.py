"""Write the zone maps of a file: after its pages, one after the other, each in its own column.

    pages     300 MB
    zones     8,192 rows each, if all maps take no more than 1/256 of what is before them;
              else 16,384 rows each, or 32,768, …; none if a map of one zone is too much

All maps of a file have the same zones. Files of 8,192 rows or less have none. Unless maps are
requested, neither have columns whose values are in no order, as samples of the first page show.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa

from pilum.container.frame import FileBody, PageEntry, Places
from pilum.container.zone_map import pack_zones
from pilum.container.zone_summary import (
    ROWS_PER_ZONE,
    ZoneSummary,
    are_in_no_order,
    has_zones,
)
from pilum.format.fields import Field

__all__ = ["ColumnZones", "write_zones"]

_SHARE = 256
_ALIGNMENT = 8


class ColumnZones:
    """The pieces of zones of one column that is being written.

    Attributes:
        num_rows: Rows of the pages that are being encoded, or are.
    """

    def __init__(self, field: Field, *, are_requested: bool) -> None:
        self._type = field.arrow_type
        self._are_requested = are_requested
        self._pieces: list[ZoneSummary] = []
        self.num_rows = 0

    @classmethod
    def of(cls, field: Field, zones: bool | None) -> ColumnZones | None:
        """Begin with a column; None if its values have no zones.

        `zones` says whether to write them; None where they may be of use.
        """
        if zones is False or not has_zones(field):
            return None
        return cls(field, are_requested=bool(zones))

    def begin(self, values: pa.Array) -> int | None:
        """Take notice of the rows of a page, and return the first of them.

        None if these are the first rows, and a map of the column would be of no use.
        """
        first = self.num_rows
        if not (first or self._are_requested) and are_in_no_order(values):
            return None
        self.num_rows += len(values)
        return first

    def add(self, piece: ZoneSummary) -> None:
        """Add what is known of the rows of a page; pages are added in order."""
        self._pieces.append(piece)

    def pack(self, rows_per_zone: int, pages: Sequence[PageEntry]) -> bytes:
        """Serialise the map, and fill it up so that another one can follow."""
        zones = ZoneSummary.joined(self._pieces, rows_per_zone)
        data = pack_zones(zones, self._type, rows_per_zone, [stored for stored, _ in pages])
        self._pieces = [zones]
        return data


def write_zones(
    body: FileBody, columns: Sequence[tuple[ColumnZones | None, Sequence[PageEntry]]], num_rows: int
) -> list[Places]:
    """Write the zone maps of columns with their pages; return the buffers of each column."""
    nothing: list[Places] = [()] * len(columns)
    zoned = [
        (place, zones, pages)
        for place, (zones, pages) in enumerate(columns)
        if zones is not None and pages
    ]
    if num_rows <= ROWS_PER_ZONE or not zoned:
        return nothing
    most, rows_per_zone = body.sink.position // _SHARE, ROWS_PER_ZONE
    while True:
        maps = [zones.pack(rows_per_zone, pages) for _, zones, pages in zoned]
        padded = [data + bytes(-len(data) % _ALIGNMENT) for data in maps]
        if sum(map(len, padded)) <= most:
            break
        if rows_per_zone >= num_rows:
            return nothing
        rows_per_zone *= 2
    position, _ = body.buffer(b"".join(padded))
    starts = accumulate(map(len, padded), initial=position)
    found = nothing.copy()
    for (place, _, _), start, data in zip(zoned, starts, maps, strict=False):
        found[place] = ((start, len(data)),)
    return found
