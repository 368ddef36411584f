"""Single rows of many small fragments: their files are read whole, and so are their pages.

A file that is small is read as a whole when it is opened. To look for single values in each of its
pages takes longer than to decode all pages of many such files together and to pick the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.format.rows import RowRanges
from pilum.table.columns import ScanColumn
from pilum.table.deletions.deletion_vector import bit_mask
from pilum.table.scanning.files import FragmentReader
from pilum.table.scanning.meta_columns import MetaColumns
from pilum.table.scanning.windows import Window, read_ahead

__all__ = ["are_small", "rows_of_small"]

_SMALL_BYTES = 64 * 1024

Part = tuple[FragmentReader, NDArray[np.int64]]


def are_small(reader: FragmentReader) -> bool:
    """Whether all files of a fragment are small, and near."""
    if reader.store.is_remote:
        return False
    sizes = [file.size_bytes for file in reader.fragment.files]
    return bool(sizes) and all(size is not None and size <= _SMALL_BYTES for size in sizes)


def rows_of_small(
    parts: Sequence[Part], columns: list[ScanColumn], schema: pa.Schema, meta: MetaColumns
) -> Iterator[pa.Table]:
    """Reads rows of small fragments.

    Args:
        parts: Fragments, each with its rows: ascending, distinct, at least one.
        columns: What to read.
        schema: Of them.
        meta: Gives the columns that no file has.

    Yields:
        A table per fragment.

    Raises:
        CorruptFileError: If a file is damaged.
    """
    windows = (_window(reader, rows, meta) for reader, rows in parts)
    return (pending.table(schema) for _, pending in read_ahead(windows, columns))


def _window(reader: FragmentReader, rows: NDArray[np.int64], meta: MetaColumns) -> Window:
    wanted = np.zeros(reader.num_rows, np.bool_)
    wanted[rows] = True
    whole = RowRanges.one(0, reader.num_rows)
    return Window(reader, whole, bit_mask(wanted), meta.of(reader))
