"""Single reads of a file, until it is cheaper to read it as a whole and keep it.

    search     read 1     read 2     …     read n     the whole, which is kept

A read of one range costs about as much as that of `_READ_BYTES` in order. When the single reads
have cost as much as the whole would have, it is read and kept. So they cost at most twice as much
as the better of the two, whatever is searched for.
"""

from __future__ import annotations

from pilum.format.rows import RowRanges
from pilum.index.files import IndexFile

__all__ = ["ReadCosts"]

_READ_BYTES = 128 << 10
_MOST_BYTES = 128 << 20
"""A larger file is not read as a whole, unless it is asked for."""


class ReadCosts:
    """The cost of single reads of a file."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file
        self._spent_bytes = 0

    def reads_whole(self, rows: RowRanges) -> bool:
        """Count a read of some rows; return whether the file is to be read as a whole instead."""
        self._spent_bytes += len(rows.bounds) * _READ_BYTES
        return self._file.size_bytes <= min(self._spent_bytes, _MOST_BYTES)
