"""Read values of many columns together, if their positions are known in advance."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pilum import kernels
from pilum.encodings.joint import JointRead
from pilum.encodings.v2_0.base import Direct
from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges
from pilum.storage.base import Plan, Ranges

__all__ = ["DirectRead"]


class DirectRead(JointRead):
    """Some values of a page.

    Attributes:
        values: Their positions, and how arrays are built from their bytes.
        rows: The selected rows.
    """

    __slots__ = ("rows", "values")

    def __init__(
        self, values: Direct, rows: RowRanges, number: int, column: int, path: str
    ) -> None:
        super().__init__(number, column, path)
        self.values = values
        self.rows = rows

    @classmethod
    def read_all(cls, reads: Sequence[DirectRead]) -> Plan[list[pa.Array]]:
        """Read values of one file with one request."""
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
            behind = first + len(slots)
            try:
                arrays.append(make(parts[first:behind], read.rows.num_rows))
            except CorruptFileError as error:
                raise read.located(error) from None
            first = behind
        return arrays
