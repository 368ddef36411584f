"""Merge a source into a table by keys, with actions for matched and unmatched rows.

                         source    table
    matched                *         *       updated | deleted | refused | left
    not matched            *                 inserted | ignored
    not matched by source            *       deleted where a condition holds | left

The keys of both are joined, then rows are written (`pilum.table.changes.merge_part`), and finally
rows that moved or are deleted are marked. Several tasks can share the second step.

Source: docs/format/table.md, "Updates".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilum.format.row_address import addresses_in
from pilum.table.changes.delete import matching_rows
from pilum.table.changes.merge_clauses import Clauses
from pilum.table.changes.merge_part import Merge, MergedPart
from pilum.table.changes.rewrite import (
    discarded_on_failure,
    moved,
    require_rewritable,
    rows_by_fragment,
)
from pilum.table.commit.operations.update import Update
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.spool import Spool

__all__ = ["MergeCounts", "finish_merge", "merge_rows"]


@dataclass(frozen=True)
class MergeCounts:
    """The numbers of rows that a merge changed."""

    inserted: int
    updated: int
    deleted: int


def merge_rows(snapshot: Snapshot, spool: Spool, clauses: Clauses) -> tuple[Update, MergeCounts]:
    """Write changed and new rows; the table changes only when the result is committed.

    Args:
        snapshot: The version.
        spool: The source.
        clauses: The actions of the merge.

    Returns:
        The operation to commit, and the numbers of rows that it changes.

    Raises:
        InvalidInputError: If several rows of the source match one row of the table that they
            change, or if there is a match and matches are refused.
        SchemaMismatchError: If the source does not fit the table.
        FilterError: If an expression fails on a value.
        CorruptFileError: If a file is damaged.
        UnsupportedFeatureError: If rows of the table cannot be rewritten.
        OSError: If the store fails. After any exception, no file is left.
    """
    require_rewritable(snapshot)
    merge = Merge(snapshot, spool, clauses)
    matches = merge.matches()
    part = merge.write(matches)
    with discarded_on_failure(snapshot, part.rewritten.fragments):
        others = _others(snapshot, clauses, matches.addresses)
        return finish_merge(snapshot, clauses, [part], others)


def finish_merge(
    snapshot: Snapshot,
    clauses: Clauses,
    parts: Iterable[MergedPart],
    others: NDArray[np.uint64],
) -> tuple[Update, MergeCounts]:
    """Mark rows that moved or are deleted; the table changes only when the result is committed.

    Args:
        snapshot: The version.
        clauses: The clauses of the merge.
        parts: The parts of all tasks.
        others: uint64, shape (n,): addresses of rows that the source does not have and that are
            deleted.

    Raises:
        OSError: If the store fails. After any exception, no file is left.
    """
    parts = tuple(parts)
    updated = [part.rewritten.addresses for part in parts]
    gone = [*(part.removed for part in parts), others]
    rows = rows_by_fragment(np.sort(np.concatenate([*updated, *gone])))
    num_inserted = sum(part.num_inserted for part in parts)
    fields = [one.id for one in snapshot.schema.walk()]
    keyed = clauses.inserts_primary_keys and num_inserted > 0
    operation = moved(snapshot, (part.rewritten for part in parts), rows, fields, keyed)
    return operation, MergeCounts(num_inserted, sum(map(len, updated)), sum(map(len, gone)))


def _others(
    snapshot: Snapshot, clauses: Clauses, matched: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return addresses of the table rows that match nothing and are to be deleted."""
    if not clauses.deletes_others:
        return np.empty(0, np.uint64)
    found = matching_rows(snapshot, clauses.others)
    addresses = [addresses_in(number, rows.offsets) for number, rows in found.items()]
    return np.setdiff1d(np.concatenate([np.empty(0, np.uint64), *addresses]), matched)
