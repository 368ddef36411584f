"""Updating rows: those that a filter matches are read, computed and written anew, in a stream.

filter ──▶ matching rows, whole ──▶ expressions ──▶ new fragments
                  └──▶ their addresses ──▶ deletion files
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.expressions import BoundFilter, BoundProjection
from pilum.table.changes.rewrite import (
    moved,
    require_rewritable,
    rows_by_fragment,
    with_blobs,
    write_rows,
)
from pilum.table.columns import ROW_ADDRESS, ROW_ID
from pilum.table.operations.update import Update
from pilum.table.scanning.scan import ScanOptions, scan
from pilum.table.snapshot import Snapshot
from pilum.table.upkeep.compaction_rows import written_schema
from pilum.table.writing.align import align

__all__ = ["update_rows"]


def update_rows(
    snapshot: Snapshot, filter: BoundFilter | None, values: Mapping[str, BoundProjection]
) -> tuple[Update, int]:
    """Writes the changed rows; the table does not change before the result is committed.

    Memory does not grow with the rows, but for 8 bytes of each.

    Args:
        snapshot: The version.
        filter: Which rows; None for all.
        values: Columns with what is computed for them, of their type.

    Returns:
        What to commit, and the number of rows.

    Raises:
        FilterError: If an expression fails on a value.
        SchemaMismatchError: If a value is null that must not be.
        CorruptFileError: If a file is damaged.
        UnsupportedFeatureError: If rows of the table cannot be written anew.
        OSError: If the store failed. Whatever is raised, no file is left.
    """
    require_rewritable(snapshot)
    found: list[NDArray[np.uint64]] = []
    fragments = write_rows(
        snapshot, written_schema(snapshot), _changed(snapshot, filter, values, found)
    )
    addresses = np.concatenate(found) if found else np.empty(0, np.uint64)
    fields = (field for name in values for field in snapshot.schema.by_name[name].walk())
    rows = rows_by_fragment(addresses)
    ids = (field.id for field in fields)
    return moved(snapshot, fragments, addresses, rows, ids), len(addresses)


def _changed(
    snapshot: Snapshot,
    filter: BoundFilter | None,
    values: Mapping[str, BoundProjection],
    found: list[NDArray[np.uint64]],
) -> Iterator[pa.RecordBatch]:
    """The rows with their new values; their addresses go to `found`."""
    alignment = align(written_schema(snapshot).arrow, snapshot.schema)
    names = snapshot.schema.names
    needs_ids = any(ROW_ID in value.columns for value in values.values())
    read = (*names, ROW_ADDRESS, *((ROW_ID,) if needs_ids else ()))
    options = ScanOptions(columns=read, filter=filter)
    for batch in scan(snapshot, options):
        addresses = batch.column(ROW_ADDRESS).to_numpy()
        found.append(addresses)
        columns = [
            values[name].evaluate(batch) if name in values else batch.column(name) for name in names
        ]
        rows = pa.RecordBatch.from_arrays(columns, names)
        yield from map(alignment.batch, with_blobs(snapshot, addresses, rows))
