"""Delete rows: one scan of a filter's columns, new deletion files, one transaction.

filter ──▶ addresses of the rows ──▶ per fragment: with those deleted before ──▶ a new file
                                                                             └▶ or no row is left
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pilum.errors import UnsupportedFeatureError
from pilum.format.meta_columns import ROW_ADDRESS
from pilum.format.row_address import fragment_ids_of, rows_of
from pilum.table.commit.operations.delete import Delete
from pilum.table.commit.operations.marked_rows import Marked, MarkedRows
from pilum.table.model.deletion_bytes import store_deletions
from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.read.scan import ScanOptions, scan
from pilum.table.read.snapshot import Snapshot

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundFilter

__all__ = ["delete_rows", "mark_rows", "matching_rows"]

_BATCH_ROWS = 1 << 20


def matching_rows(
    snapshot: Snapshot, filter: BoundFilter | None, fragment_ids: tuple[int, ...] | None = None
) -> dict[FragmentId, DeletionVector]:
    """Find the rows for which a filter is true.

    Args:
        snapshot: The version.
        filter: The predicate; only its columns are read. None for all rows.
        fragment_ids: Fragments to search; None for all.

    Returns:
        Physical rows of each fragment with matches, without rows that are already deleted.

    Raises:
        FilterError: If the filter fails on a value.
        CorruptFileError: If a file is damaged.
        UnsupportedFeatureError: If a column of the table hides the addresses.
    """
    if ROW_ADDRESS in snapshot.schema.names:
        raise UnsupportedFeatureError(f"a table with a column of its own named {ROW_ADDRESS}")
    options = ScanOptions(
        columns=(ROW_ADDRESS,), filter=filter, batch_size=_BATCH_ROWS, fragment_ids=fragment_ids
    )
    found: dict[FragmentId, list[NDArray[np.uint32]]] = {}
    for batch in scan(snapshot, options):
        addresses = batch.column(0).to_numpy()  # of one fragment: no batch spans two
        number = FragmentId(int(fragment_ids_of(addresses[:1])[0]))
        found.setdefault(number, []).append(rows_of(addresses).astype(np.uint32))
    return {number: DeletionVector(np.concatenate(rows)) for number, rows in found.items()}


def delete_rows(
    snapshot: Snapshot, rows: dict[FragmentId, DeletionVector], predicate: str = ""
) -> Delete:
    """Write new deletion files; the table changes only when the result is committed.

    Args:
        snapshot: The version.
        rows: Physical rows of fragments, none of them deleted already.
        predicate: The filter that selected the rows, for readers of the history.

    Returns:
        The operation to commit.

    Raises:
        OSError: If the store fails. After any exception, no file is left.
    """
    found = mark_rows(snapshot, rows)
    return Delete(found.updated, found.removed, predicate, found.marked)


def mark_rows(snapshot: Snapshot, rows: dict[FragmentId, DeletionVector]) -> MarkedRows:
    """Write the deletion files alone, for any operation that removes the rows.

    The arguments and errors are those of `delete_rows`.
    """
    fragments = {fragment.id: fragment for fragment in snapshot.manifest.fragments}
    marked = {number: _marked(fragments[number], vector) for number, vector in rows.items()}
    parts = [
        (mark.before, _all_deleted(snapshot, mark.before, mark.rows))
        for mark in marked.values()
        if mark.rows is not None
    ]
    return MarkedRows(
        store_deletions(snapshot.store, parts, snapshot.manifest.version),
        tuple(number for number, mark in marked.items() if mark.rows is None),
        marked,
    )


def _marked(fragment: Fragment, rows: DeletionVector) -> Marked:
    return Marked(fragment, None if len(rows) == fragment.num_rows else rows)


def _all_deleted(snapshot: Snapshot, fragment: Fragment, rows: DeletionVector) -> DeletionVector:
    deleted = snapshot.deletions(fragment)
    return deleted.union(rows) if deleted else rows
