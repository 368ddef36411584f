"""The batch boundaries of a legacy file.

    rows_per_group 4      0   4   8   12 …       a new fragment
    bounds                0   3   10  12         one more file of a fragment: like its other files

Readers of the format read all files of a fragment batch by batch. Source:
docs/format/legacy.md, "Several files".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilum.errors import InvalidInputError

__all__ = ["Grouping"]


@dataclass(frozen=True, slots=True)
class Grouping:
    """The ends of batches.

    Attributes:
        rows: Rows per batch, where `bounds` do not say otherwise.
        bounds: int64, the first row of each batch and the end; None if all batches have one size.
    """

    rows: int
    bounds: NDArray[np.int64] | None = None

    def end_behind(self, row: int) -> int:
        """Return the first batch end after a row.

        Raises:
            InvalidInputError: If there are no rows after it.
        """
        if self.bounds is None:
            return (row // self.rows + 1) * self.rows
        at = int(np.searchsorted(self.bounds, row, "right"))
        if at == len(self.bounds):
            raise InvalidInputError(f"more than {row} rows; the fragment has {row}")
        return int(self.bounds[at])

    def end_until(self, row: int) -> int:
        """Return the last batch end at or before a row."""
        if self.bounds is None:
            return row // self.rows * self.rows
        return int(self.bounds[np.searchsorted(self.bounds, row, "right") - 1])

    def cuts(self, first: int, num_rows: int) -> NDArray[np.int64]:
        """Return the bounds of the batches that cover some rows, counted from the first of them.

        Args:
            first: The row at which a batch begins.
            num_rows: Number of rows from there; the last batch may be cut short.
        """
        if self.bounds is None:
            return np.append(np.arange(0, num_rows, self.rows), num_rows)
        # Empty batches count, too: a bound that is repeated is kept every time.
        low = int(np.searchsorted(self.bounds, first, "right")) if first else 1
        high = int(np.searchsorted(self.bounds, first + num_rows, "right"))
        inner = self.bounds[low:high] - first
        last = [num_rows] if not len(inner) or inner[-1] < num_rows else []
        return np.concatenate([[0], inner, last]).astype(np.int64)
