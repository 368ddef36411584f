"""A filter that is true for given rows, such as those that another search found.

full-text query ──▶ rows ──▶ RowFilter ──▶ search of the nearest vectors among them
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from pilum.blocks import number_values
from pilum.expressions.filter import BoundFilter
from pilum.format.meta_columns import ROW_ADDRESS
from pilum.format.rows import Addresses
from pilum.index.answers import RowSet
from pilum.table.model.deletion_vector import bit_mask

__all__ = ["RowFilter"]


@dataclass(frozen=True, eq=False)
class RowFilter(BoundFilter):
    """A filter that is true for some rows of a version.

    Attributes:
        rows: The addresses of the rows.
    """

    rows: RowSet

    @classmethod
    def of(cls, addresses: Addresses) -> Self:
        """Return the filter for rows in any order, which may repeat."""
        return cls((ROW_ADDRESS,), RowSet.of(addresses))

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """See `BoundFilter.mask`."""
        return bit_mask(self.rows.contains(number_values(batch.column(ROW_ADDRESS))))
