"""Rows to index: the values of a column with the references of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from pilum.arrays import join_arrays
from pilum.errors import InvalidInputError
from pilum.format.meta_columns import ROW_ADDRESS, ROW_ID
from pilum.format.rows import BATCH_ROWS
from pilum.index.answers import RowSet
from pilum.index.base import REFERENCE, VALUE, IndexRows, References
from pilum.table.read.columns import ScanColumn
from pilum.table.read.scan import ScanOptions, scan_table, scan_tables
from pilum.table.read.selection import Selection
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import addresses_of
from pilum.table.read.windows import batches

__all__ = ["OnRows", "existing_fragments", "index_rows", "indexed_column"]

_SEED = 42
_WINDOW_BYTES = 8 << 20
_BATCH_BYTES = 1 << 20

OnRows = Callable[[int], None]
"""Function that is called with the number of rows that were read since the last call."""


def indexed_column(snapshot: Snapshot, path: str) -> ScanColumn:
    """Return the column to index.

    Raises:
        ColumnNotFoundError: If it does not exist.
        InvalidInputError: If it is a meta column.
    """
    column = ScanColumn(snapshot.described, path)
    if column.leaf is None:
        raise InvalidInputError(f"column {path!r} is in no file and cannot be indexed")
    return column


def existing_fragments(snapshot: Snapshot) -> BitMap:
    """Return the ids of the fragments of a version."""
    return BitMap([fragment.id for fragment in snapshot.manifest.fragments])


def index_rows(
    snapshot: Snapshot,
    column: ScanColumn,
    references: References,
    fragment_ids: BitMap,
    on_rows: OnRows,
) -> IndexRows:
    """Return the live rows of fragments.

    Args:
        snapshot: The version.
        column: The column, from `indexed_column`.
        references: What identifies a row.
        fragment_ids: Ids of existing fragments.
        on_rows: Called while the rows are read.
    """
    fragments = [one for one in snapshot.manifest.fragments if one.id in fragment_ids]
    has_ids = references is References.ROW_IDS
    options = ScanOptions(
        columns=(column.name,),
        with_row_id=has_ids,
        with_row_address=not has_ids,
        fragment_ids=tuple(int(one.id) for one in fragments),
        window_bytes=_WINDOW_BYTES,
    )
    found = _read(snapshot, options, ROW_ID if has_ids else ROW_ADDRESS, on_rows)
    values = ScanOptions(columns=(column.name,), fragment_ids=options.fragment_ids)

    def sample(count: int) -> pa.Array:
        return _sample(snapshot, values, column.arrow.type, count)

    num_rows = sum(one.num_rows for one in fragments)
    return IndexRows(column.arrow.type, found, num_rows, sample)


def _read(
    snapshot: Snapshot, options: ScanOptions, reference: str, on_rows: OnRows
) -> Iterator[pa.RecordBatch]:
    for table in scan_tables(snapshot, options) if options.fragment_ids else ():
        row_bytes = table.nbytes // max(table.num_rows, 1)
        for batch in batches([table], max(_BATCH_BYTES // max(row_bytes, 1), BATCH_ROWS)):
            columns = [batch.column(0), batch.column(reference)]
            yield pa.RecordBatch.from_arrays(columns, names=[VALUE, REFERENCE])
            on_rows(batch.num_rows)


def _sample(snapshot: Snapshot, options: ScanOptions, type: pa.DataType, count: int) -> pa.Array:
    """Return the values of random live rows, in the order of the rows."""
    fragments = snapshot.manifest.fragments
    places = np.flatnonzero(np.isin(fragments.ids, np.array(options.fragment_ids, np.uint64)))
    sizes = np.diff(fragments.bounds)[places]
    total = int(sizes.sum())
    if not total:
        return pa.array([], type)
    if count < total:
        generator = np.random.default_rng(_SEED)
        chosen = np.sort(generator.choice(total, count, replace=False, shuffle=False))
        number = np.searchsorted(np.cumsum(sizes), chosen, side="right")
        skipped = fragments.bounds[places] - (np.cumsum(sizes) - sizes)
        found = RowSet.of(addresses_of(snapshot, chosen + skipped[number]))
        covered = BitMap(options.fragment_ids)
        options = replace(options, selection=Selection(covered, found, True, only_covered=True))
    column = scan_table(snapshot, options).column(0)
    return join_arrays(column.chunks, "column to index")
