"""A column of sets of rows: single sets are read on demand, and later the whole column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges
from pilum.index.files import IndexFile
from pilum.index.scalar.read_costs import ReadCosts

__all__ = ["StoredSets"]


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
        self._costs = ReadCosts(file)

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
            if not self._costs.reads_whole(rows):
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
