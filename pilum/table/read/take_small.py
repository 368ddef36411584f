"""Random access to many small fragments, whose files and pages are read whole.

A small file is read as a whole when it is opened. Looking up single values in each of its pages
takes longer than decoding all pages of many such files together and selecting the rows from all of
them at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrays.picking import taken
from pilum.blocks import integers
from pilum.format.rows import RowRanges
from pilum.format.schema import Field
from pilum.table.read.columns import MetaColumns, ScanColumn
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.windows import Pending, Window, joined_batch, read_ahead

__all__ = ["are_small", "rows_of_small"]

_SMALL_BYTES = 64 * 1024
_TOGETHER_BYTES = 4 * 1024 * 1024
_TOGETHER = 256

Part = tuple[FragmentReader, NDArray[np.int64]]


def are_small(reader: FragmentReader) -> bool:
    """Return whether all files of a fragment are small and local."""
    if reader.store.is_remote:
        return False
    sizes = [file.size_bytes for file in reader.fragment.files]
    return bool(sizes) and all(size is not None and size <= _SMALL_BYTES for size in sizes)


def rows_of_small(
    parts: Sequence[Part], columns: list[ScanColumn], schema: pa.Schema, meta: MetaColumns
) -> Iterator[pa.Table]:
    """Read rows of small fragments.

    Args:
        parts: Fragments, each with its rows: ascending, distinct, at least one.
        columns: Columns to read.
        schema: Schema of these columns.
        meta: Computes the columns that are in no file.

    Yields:
        Tables, each with the rows of several fragments.

    Raises:
        CorruptFileError: If a file is damaged.
        UnsupportedTypeError: If the dictionaries of a column are not compatible.
    """
    fields = [column.field for column in columns if column.field is not None]
    windows = (_window(reader, fields, meta) for reader, _ in parts)
    group = _Group(schema)
    for (_, pending), (reader, rows) in zip(read_ahead(windows, columns), parts, strict=True):
        group.add(pending, rows, reader.num_rows)
        if group.is_full:
            yield group.picked()
            group = _Group(schema)
    if group.tables:
        yield group.picked()


class _Group:
    """A group of fragments from which rows are selected together."""

    def __init__(self, schema: pa.Schema) -> None:
        self.tables: list[pa.Table] = []
        self._schema = schema
        self._rows: list[NDArray[np.int64]] = []
        self._num_rows = 0
        self._size_bytes = 0.0

    @property
    def is_full(self) -> bool:
        return self._size_bytes > _TOGETHER_BYTES or len(self.tables) == _TOGETHER

    def add(self, pending: Pending, rows: NDArray[np.int64], num_rows: int) -> None:
        """Add a fragment of `num_rows` rows, of which `rows` are requested."""
        self.tables.append(pending.table(self._schema))
        self._rows.append(rows + self._num_rows)
        self._num_rows += num_rows
        self._size_bytes += pending.size_bytes

    def picked(self) -> pa.Table:
        """Return the requested rows."""
        batch = joined_batch(pa.concat_tables(self.tables))
        return pa.Table.from_batches([taken(batch, integers(np.concatenate(self._rows)))])


def _window(reader: FragmentReader, fields: list[Field], meta: MetaColumns) -> Window:
    reader.fields(fields)  # faster than one by one
    return Window(reader, RowRanges.one(0, reader.num_rows), meta=meta.of(reader))
