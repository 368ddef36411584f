"""A column of sets of rows: single sets are read on demand, and later the whole column.

    search for a set     read 1     read 2     …     read n     the whole column, which is kept

A read of one set costs about as much as that of `_READ_BYTES` in order. When the reads of single
sets have cost as much as the whole column would have, it is read and kept. So they cost at most
twice as much as the better of the two, whatever is searched for.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges
from pilum.index.files import IndexFile

__all__ = ["StoredSets"]

_READ_BYTES = 128 << 10
_MOST_BYTES = 128 << 20
"""A larger file is not read as a whole, unless it is asked for."""


class StoredSets:
    """The column.

    Args:
        file: The file.
        name: The name of the column, of binary values that are not null.
    """

    def __init__(self, file: IndexFile, name: str) -> None:
        self._file = file
        self._name = name
        self._whole: pa.Array | None = None
        self._spent_bytes = 0

    @property
    def nbytes(self) -> int:
        """The memory that is kept."""
        return 0 if self._whole is None else int(self._whole.nbytes)

    def load(self) -> pa.Array:
        """Read the whole column, keep it and return it.

        Raises:
            CorruptFileError: If the file is damaged.
        """
        self._whole = self._read(None)
        return self._whole

    def at(self, places: NDArray[np.int64]) -> pa.Array:
        """Return sets at ascending, distinct places.

        Raises:
            CorruptFileError: If the file is damaged.
        """
        whole = self._whole
        if whole is None:
            rows = RowRanges.of_rows(places)
            self._spent_bytes += len(rows.bounds) * _READ_BYTES
            if self._file.size_bytes > min(self._spent_bytes, _MOST_BYTES):
                return self._read(rows)
            whole = self.load()
        if len(places) == 1:
            return whole.slice(int(places[0]), 1)
        return whole.take(pa.array(places))

    def _read(self, rows: RowRanges | None) -> pa.Array:
        column = self._file.read([self._name], rows).column(0).combine_chunks()
        if column.null_count or not pa.types.is_binary(column.type):
            raise CorruptFileError(
                f"sets of rows as {column.type}, {column.null_count} of them null", self._file.path
            )
        return column
