"""Read values of many columns together, if their positions are known in advance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from pilum import kernels
from pilum.encodings.base import at_page
from pilum.encodings.v2_0.base import Direct
from pilum.format.rows import RowRanges
from pilum.storage.base import Plan, Ranges

__all__ = ["DirectRead", "read_directly"]


@dataclass(frozen=True, slots=True)
class DirectRead:
    """Some values of a page.

    Attributes:
        values: Their positions, and how arrays are built from their bytes.
        rows: The selected rows.
        number: Number of the page in its column.
        column: Number of the column in its file.
        path: Path of the file.
    """

    values: Direct
    rows: RowRanges
    number: int
    column: int
    path: str


def read_directly(reads: Sequence[DirectRead]) -> Plan[list[pa.Array]]:
    """Read values of one file with one request."""
    if not reads:
        return []
    picked = kernels.PickedSlots(
        [
            (offset, bits, read.rows.bounds if rows is None else rows)
            for read in reads
            for offset, bits, rows in read.values.slots
        ]
    )
    fetched = yield Ranges(*picked.ranges())
    parts = picked.decode(fetched.data, fetched.starts)
    arrays, first = [], 0
    for read in reads:
        slots, make = read.values
        end = first + len(slots)
        with at_page(read.path, read.column, read.number):
            arrays.append(make(parts[first:end], read.rows.num_rows))
        first = end
    return arrays
