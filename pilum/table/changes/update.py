"""Update rows: read the rows that match a filter, compute and rewrite them, as a stream.

filter ──▶ matching rows, whole ──▶ expressions ──▶ new fragments
                  └──▶ their addresses ──▶ deletion files
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.format.meta_columns import ROW_ADDRESS, ROW_ID
from pilum.table.changes.rewrite import (
    Rewritten,
    moved,
    require_rewritable,
    rows_by_fragment,
    with_blobs,
    write_rows,
)
from pilum.table.commit.operations.update import Update
from pilum.table.read.live_rows import written_schema
from pilum.table.read.scan import ScanOptions, scan
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.align import align

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundFilter, BoundProjection

__all__ = ["finish_update", "rewrite_matching", "update_rows"]


def update_rows(
    snapshot: Snapshot, filter: BoundFilter | None, values: Mapping[str, BoundProjection]
) -> tuple[Update, int]:
    """Write the changed rows; the table changes only when the result is committed.

    Memory does not grow with the rows, except for 8 bytes per row.

    Args:
        snapshot: The version.
        filter: Rows to update; None for all.
        values: Expressions by column, each with the column's type.

    Returns:
        The operation to commit, and the number of rows.

    Raises:
        FilterError: If an expression fails on a value.
        SchemaMismatchError: If a non-nullable value is null.
        CorruptFileError: If a file is damaged.
        UnsupportedFeatureError: If rows of the table cannot be rewritten.
        OSError: If the store fails. After any exception, no file is left.
    """
    part = rewrite_matching(snapshot, ScanOptions(filter=filter), values)
    return finish_update(snapshot, [part], values), len(part.addresses)


def rewrite_matching(
    snapshot: Snapshot,
    rows: ScanOptions,
    values: Mapping[str, BoundProjection],
    file_name_prefix: str | None = None,
) -> Rewritten:
    """Write the changed rows of some fragments, as one task of an update.

    Args:
        snapshot: The version.
        rows: The rows to update, by a filter, fragments and a range; its columns are ignored.
        values: As for `update_rows`, and so are the errors.
        file_name_prefix: Prefix of the file names, to identify their writer.
    """
    require_rewritable(snapshot)
    found: list[NDArray[np.uint64]] = []
    schema = written_schema(snapshot)
    changed = _changed(snapshot, rows, values, found)
    fragments = write_rows(snapshot, schema, changed, file_name_prefix)
    return Rewritten(fragments, np.concatenate([np.empty(0, np.uint64), *found]))


def finish_update(
    snapshot: Snapshot, parts: Iterable[Rewritten], values: Mapping[str, BoundProjection]
) -> Update:
    """Mark the old rows as deleted; the table changes only when the result is committed.

    Args:
        snapshot: The version.
        parts: Results of `rewrite_matching` for different rows.
        values: The same values as there.

    Raises:
        OSError: If the store fails. After any exception, no file is left.
    """
    parts = tuple(parts)
    addresses = np.concatenate([np.empty(0, np.uint64), *(part.addresses for part in parts)])
    fields = (field for name in values for field in snapshot.schema.by_name[name].walk())
    rows = rows_by_fragment(np.sort(addresses))
    return moved(snapshot, parts, rows, (field.id for field in fields))


def _changed(
    snapshot: Snapshot,
    rows: ScanOptions,
    values: Mapping[str, BoundProjection],
    found: list[NDArray[np.uint64]],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows with their new values; append their addresses to `found`."""
    alignment = align(written_schema(snapshot).arrow, snapshot.schema)
    names = snapshot.schema.names
    needs_ids = any(ROW_ID in value.columns for value in values.values())
    read = (*names, ROW_ADDRESS, *((ROW_ID,) if needs_ids else ()))
    for batch in scan(snapshot, replace(rows, columns=read)):
        addresses = batch.column(ROW_ADDRESS).to_numpy()
        found.append(addresses)
        columns = [
            values[name].evaluate(batch) if name in values else batch.column(name) for name in names
        ]
        changed = pa.RecordBatch.from_arrays(columns, names)
        yield from map(alignment.batch, with_blobs(snapshot, addresses, changed, values))
