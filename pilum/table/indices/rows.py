"""Rows to index: the values of a column with the references of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from pilum.arrays import join_arrays
from pilum.bitmap import roaring
from pilum.blocks import number_array, number_values
from pilum.errors import InvalidInputError
from pilum.format.meta_columns import ROW_ADDRESS, ROW_ID
from pilum.format.rows import BATCH_ROWS, first_address
from pilum.index.answers import RowSet
from pilum.index.base import REFERENCE, VALUE, IndexRows, References, Span
from pilum.table.model.fragment import Fragment
from pilum.table.read.columns import ScanColumn
from pilum.table.read.scan import ScanOptions, scan_table, scan_tables
from pilum.table.read.selection import Selection
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import addresses_of
from pilum.table.read.windows import batches

__all__ = ["OnRows", "document_type", "existing_fragments", "index_rows", "indexed_column"]

_SEED = 42
_WINDOW_BYTES = 8 << 20
_BATCH_BYTES = 1 << 20
_ZONES_BYTES = 8 << 20
"""Bytes of a batch with its references. Zones take longer for each batch than for its rows."""
_REFERENCE_BYTES = 8

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


def document_type(column: ScanColumn) -> pa.DataType:
    """Return the type of the documents of a column: JSON is text, but has a binary stored form."""
    return pa.json_() if _is_json(column) else column.arrow.type


def existing_fragments(snapshot: Snapshot) -> BitMap:
    """Return the ids of the fragments of a version."""
    return roaring(snapshot.manifest.fragments.ids.astype(np.uint32))


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
        fragment_ids=tuple(int(one.id) for one in fragments),
        window_bytes=_WINDOW_BYTES,
    )
    found = _with_ids(snapshot, options) if has_ids else _with_addresses(snapshot, options)
    spans = _counted_spans(_spans(snapshot, options, _ZONES_BYTES), on_rows)
    values = ScanOptions(columns=(column.name,), fragment_ids=options.fragment_ids)

    def sample(count: int) -> pa.Array:
        return _sample(snapshot, values, column.arrow.type, count)

    num_rows = sum(one.num_rows for one in fragments)
    rows = _counted(found, on_rows)
    are_zones = references is References.ZONES
    return IndexRows(
        column.arrow.type,
        rows,
        num_rows,
        sample,
        spans=spans if are_zones else None,
        are_json=_is_json(column),
    )


def _is_json(column: ScanColumn) -> bool:
    return column.leaf is not None and column.leaf.is_json


_Rows = Iterator[tuple[pa.Array, pa.Array]]
"""Values, and the reference of each."""


def _counted(rows: _Rows, on_rows: OnRows) -> Iterator[pa.RecordBatch]:
    for values, references in rows:
        yield pa.RecordBatch.from_arrays([values, references], names=[VALUE, REFERENCE])
        on_rows(len(values))


def _with_ids(snapshot: Snapshot, options: ScanOptions) -> _Rows:
    for table in _tables(snapshot, replace(options, with_row_id=True)):
        for batch in _batches(table):
            yield batch.column(0), batch.column(ROW_ID)


def _counted_spans(spans: Iterator[Span], on_rows: OnRows) -> Iterator[Span]:
    for values, addresses in spans:
        yield values, addresses
        on_rows(len(values))


def _with_addresses(snapshot: Snapshot, options: ScanOptions) -> _Rows:
    for values, addresses in _spans(snapshot, options, _BATCH_BYTES):
        if isinstance(addresses, int):
            addresses = np.arange(addresses, addresses + len(values), dtype=np.uint64)
        yield values, number_array(addresses)


def _spans(snapshot: Snapshot, options: ScanOptions, size_bytes: int) -> Iterator[Span]:
    """Yield values with addresses, which are adjacent in fragments that have no deleted rows."""
    known = map(snapshot.manifest.fragments.find, options.fragment_ids or ())
    for is_whole, run in groupby(filter(None, known), lambda one: one.deletion_file is None):
        fragments = list(run)
        part = replace(options, fragment_ids=tuple(int(one.id) for one in fragments))
        if is_whole:
            yield from _adjacent(snapshot, part, fragments, size_bytes)
            continue
        for table in _tables(snapshot, replace(part, with_row_address=True)):
            for batch in _batches(table, size_bytes):
                yield batch.column(0), number_values(batch.column(ROW_ADDRESS))


def _adjacent(
    snapshot: Snapshot, options: ScanOptions, fragments: Sequence[Fragment], size_bytes: int
) -> Iterator[tuple[pa.Array, int]]:
    """Yield values of whole fragments, of one at a time."""
    coming = iter(fragments)
    first = left = 0
    for table in _tables(snapshot, options):
        for batch in _batches(table, size_bytes):
            start = 0
            while start < batch.num_rows:
                while not left:
                    fragment = next(coming)
                    first, left = first_address(fragment.id), fragment.physical_rows
                own = batch.column(0).slice(start, left)
                yield own, first
                first += len(own)
                left -= len(own)
                start += len(own)


def _tables(snapshot: Snapshot, options: ScanOptions) -> Iterable[pa.Table]:
    return scan_tables(snapshot, options) if options.fragment_ids else ()


def _batches(table: pa.Table, size_bytes: int = _BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    row_bytes = table.nbytes // max(table.num_rows, 1) + _REFERENCE_BYTES
    return batches([table], max(size_bytes // row_bytes // BATCH_ROWS, 1) * BATCH_ROWS)


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
