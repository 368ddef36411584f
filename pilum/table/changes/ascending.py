"""Look up a few keys by binary search where the table's keys ascend, as ids mostly do.

    keys of the source, sorted          3   5 | 40   41   55 | 90
    a batch of the table, ascending           | 12 … 40 … 77 |       only 40, 41 and 55 can be in it

This avoids the cost of a hash join for each row of the table.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

__all__ = ["FewKeys"]

_ROWS_PER_KEY = 8
"""Minimum rows per key; with more keys, a hash join is as fast."""

Pairs: TypeAlias = tuple[NDArray[np.uint64], NDArray[np.int64]]


class FewKeys:
    """Keys of the source, prepared for lookups in batches of the table.

    Args:
        keys: One or more key columns without nulls, and int64 numbers of the rows.
    """

    def __init__(self, keys: pa.Table) -> None:
        self._keys = keys

    @staticmethod
    def are_in(keys: pa.Table, num_rows: int) -> bool:
        """Return whether keys are few enough for `num_rows` rows of a table, and comparable."""
        is_one = keys.num_columns == 2 and pt.is_integer(keys.column(0).type)
        return bool(is_one and keys.num_rows * _ROWS_PER_KEY <= num_rows)

    def pairs(self, rows: pa.RecordBatch) -> Pairs | None:
        """Find the keys in rows of the table.

        Args:
            rows: A key column without nulls, and uint64 addresses.

        Returns:
            Addresses, in the order of the rows, and for each a row of the source; None if the keys
            do not ascend, are too many here, or a key repeats in the source.
        """
        column, numbers = (one.to_numpy() for one in rows.columns)
        if not len(column) or not (column[1:] >= column[:-1]).all() or self._sorted is None:
            return None
        keys, own = self._sorted
        low = int(keys.searchsorted(column[0]))
        high = int(keys.searchsorted(column[-1], "right"))
        if (high - low) * _ROWS_PER_KEY > len(column):
            return None
        first = column.searchsorted(keys[low:high])  # not past the end: the last one is greatest
        found = column[first] == keys[low:high]
        first = first[found]
        counts = column.searchsorted(keys[low:high][found], "right") - first
        places = np.arange(counts.sum()) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        return numbers[places], np.repeat(own[low:high][found], counts)

    @cached_property
    def _sorted(self) -> tuple[NDArray[Any], NDArray[np.int64]] | None:
        keys, rows = (np.asarray(column.to_numpy()) for column in self._keys.columns)
        if not (keys[1:] > keys[:-1]).all():
            order = np.argsort(keys)
            keys, rows = keys[order], rows[order]
        return None if (keys[1:] == keys[:-1]).any() else (keys, rows)
