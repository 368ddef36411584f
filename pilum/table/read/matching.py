"""Evaluation of a filter on windows of rows.

    windows       |    |  |     |        |          few rows each, of small fragments
    evaluated     |    |  :     |        :   ...    1, 2, 4 … of them at once
    masks         |    |  |     |        |

Evaluating a filter has a fixed cost, however few the rows are. Small windows are therefore
evaluated together. The first groups are small, because the caller may need only the first matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pilum.arrays.picking import filtered
from pilum.errors import UnsupportedTypeError
from pilum.parallel import submit
from pilum.table.read.columns import ScanColumn
from pilum.table.read.windows import Window, joined_batch, read_ahead

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundFilter

__all__ = ["matching_windows", "rows_where"]

_MASK_ROWS = 256 * 1024
_ROWS_TOGETHER = 8192
_BYTES_TOGETHER = 1024 * 1024
_WINDOWS_TOGETHER = 256

Tested = tuple[Window, pa.Table]


def matching_windows(
    windows: Iterable[Window], columns: list[ScanColumn], schema: pa.Schema, filter: BoundFilter
) -> Iterator[tuple[Window, pa.Table, pa.BooleanArray]]:
    """Read the columns of a filter and evaluate it.

    Args:
        windows: Windows to test.
        columns: Columns that the filter reads.
        schema: Schema of these columns.
        filter: Predicate that selects rows.

    Yields:
        Each window with a match, its columns, and the mask of rows for which the filter is true.

    Raises:
        CorruptFileError: If a file is damaged.
        FilterError: If the filter fails on a value.
    """
    read = ((window, pending.table(schema)) for window, pending in read_ahead(windows, columns))
    for tested in _together(read):
        for (window, table), mask in zip(tested, _masks(tested, filter), strict=True):
            if mask.true_count:
                yield window, table, mask


def _together(windows: Iterable[Tested]) -> Iterator[list[Tested]]:
    """Group adjacent small windows; a large window is a group of its own."""
    waiting: list[Tested] = []
    num_rows = num_bytes = 0
    most = 1
    for window, table in windows:
        if num_rows + table.num_rows > _ROWS_TOGETHER or num_bytes + table.nbytes > _BYTES_TOGETHER:
            yield waiting
            waiting, num_rows, num_bytes = [], 0, 0
        waiting.append((window, table))
        num_rows += table.num_rows
        num_bytes += table.nbytes
        if len(waiting) >= most:
            yield waiting
            waiting, num_rows, num_bytes = [], 0, 0
            most = min(2 * most, _WINDOWS_TOGETHER)
    yield waiting


def _masks(tested: list[Tested], filter: BoundFilter) -> Iterator[pa.BooleanArray]:
    """Yield the mask of rows for which the filter is true, for each of several windows."""
    tables = [table for _, table in tested]
    if len(tables) > 1:
        try:
            mask = filter.mask(joined_batch(pa.concat_tables(tables)))
        except UnsupportedTypeError:
            pass  # their dictionaries are not compatible
        else:
            ends = np.cumsum([table.num_rows for table in tables]).tolist()
            for table, end in zip(tables, ends, strict=True):
                yield mask.slice(end - table.num_rows, table.num_rows)
            return
    for table in tables:
        yield _mask(filter, table)


def _mask(filter: BoundFilter, table: pa.Table) -> pa.BooleanArray:
    """Return where the filter is true; several threads share a large table."""
    batches = table.to_batches(max_chunksize=_MASK_ROWS)
    if len(batches) == 1:
        return filter.mask(batches[0])
    futures = [submit(partial(filter.mask, batch)) for batch in batches]
    return pa.concat_arrays([future.result() for future in futures])


def rows_where(table: pa.Table, mask: pa.BooleanArray) -> pa.Table:
    """Return the matching rows, chunk by chunk: `Table.filter` slices chunks, see `filtered`."""
    if mask.true_count == len(mask):
        return table
    columns = []
    for column in table.columns:
        start, chunks = 0, []
        for chunk in column.chunks:
            chunks.append(filtered(chunk, mask.slice(start, len(chunk))))
            start += len(chunk)
        columns.append(pa.chunked_array(chunks, column.type))
    return pa.Table.from_arrays(columns, schema=table.schema)
