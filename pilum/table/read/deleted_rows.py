"""Scans that include deleted rows that are still stored; these rows no longer have an id."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.format.meta_columns import ROW_ADDRESS, ROW_ID
from pilum.format.row_address import by_fragment, rows_of
from pilum.table.model.fragments import Fragments
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.snapshot import Snapshot

__all__ = ["undeleted", "with_nullable_ids", "without_ids"]


def undeleted(snapshot: Snapshot) -> Snapshot:
    """Return the version as if no row of its files were deleted."""
    fragments = Fragments(
        replace(fragment, deletion_file=None) for fragment in snapshot.manifest.fragments
    )
    return replace(snapshot, manifest=replace(snapshot.manifest, fragments=fragments))


def with_nullable_ids(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the batches that `without_ids` yields."""
    return pa.schema(
        [
            field.with_nullable(True) if field.name in (ROW_ID, ROW_ADDRESS) else field
            for field in schema
        ],
        schema.metadata,
    )


def without_ids(snapshot: Snapshot, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches in which `_rowid` and `_rowaddr` of deleted rows are null.

    Args:
        snapshot: The version, with its deletion files.
        batches: Batches with the column `_rowaddr`.
    """
    readers = {
        int(fragment.id): FragmentReader.of(snapshot.session, snapshot.store, fragment)
        for fragment in snapshot.manifest.fragments
        if fragment.deletion_file is not None
    }
    for batch in batches:
        addresses = batch.column(ROW_ADDRESS).to_numpy()
        gone = pa.array(_deleted(readers, addresses))
        schema = with_nullable_ids(batch.schema)
        columns = [
            _masked(column, gone) if field.name in (ROW_ID, ROW_ADDRESS) else column
            for field, column in zip(schema, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _deleted(
    readers: dict[int, FragmentReader], addresses: NDArray[np.uint64]
) -> NDArray[np.bool_]:
    found = np.zeros(len(addresses), np.bool_)
    for number, own in by_fragment(addresses):
        deletions = readers[number].deletions if number in readers else None
        if deletions is not None:
            found[own] = deletions.contains(rows_of(addresses[own]))
    return found


def _masked(column: pa.Array, gone: pa.BooleanArray) -> pa.Array:
    return pa.array(column.to_numpy(), mask=gone.to_numpy(zero_copy_only=False))
