"""Changes of rows between two versions, by stable row ids.

A row leaves a fragment when it is deleted, or when the whole fragment is removed. Its id is looked
up in the newer version: a row that is still there has only moved.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.model.fragment import Fragment
from pilum.table.model.row_id_sequence import RowIdSequence
from pilum.table.read.row_id_index import row_id_index
from pilum.table.read.snapshot import Snapshot

__all__ = ["deleted_row_ids", "deleted_rows"]

_BATCH_IDS = 1 << 16
_NO_IDS = np.empty(0, dtype=np.uint64)
_NO_ROWS = DeletionVector(np.empty(0, dtype=np.uint32))


def deleted_row_ids(older: Snapshot, newer: Snapshot) -> Iterator[NDArray[np.uint64]]:
    """Yield the ids of the rows that a version has and a later one does not have.

    Args:
        older: A version with stable row ids.
        newer: A later version of the same table.

    Yields:
        uint64, never empty, in parts of at most 65,536 ids.

    Raises:
        CorruptFileError: If row ids are damaged.
    """
    now = {fragment.id: fragment for fragment in newer.manifest.fragments}
    for fragment in older.manifest.fragments:
        yield from _deleted(older, fragment, newer, now.get(fragment.id))


def deleted_rows(older: Snapshot, fragment: Fragment, newer: Snapshot) -> NDArray[np.int64]:
    """Return the rows of one fragment that a later version does not have in any fragment.

    Args:
        older: A version with stable row ids.
        fragment: One of its fragments.
        newer: A later version of the same table.

    Returns:
        int64, shape (n,): physical rows of the fragment, ascending.

    Raises:
        CorruptFileError: If row ids are damaged.
    """
    now = {fragment.id: fragment for fragment in newer.manifest.fragments}
    ids = list(_deleted(older, fragment, newer, now.get(fragment.id)))
    found = older.reader(fragment).row_ids.find(np.concatenate([_NO_IDS, *ids]))
    return np.sort(found)


def _deleted(
    older: Snapshot, fragment: Fragment, newer: Snapshot, now: Fragment | None
) -> Iterator[NDArray[np.uint64]]:
    gone = _gone(older, fragment, newer, now)
    for start in range(0, len(gone), _BATCH_IDS):
        ids = gone.slice(start, start + _BATCH_IDS).ids()
        _, is_there = row_id_index(newer).find(ids)
        if not is_there.all():
            yield ids[~is_there]


def _gone(
    older: Snapshot, before: Fragment, newer: Snapshot, now: Fragment | None
) -> RowIdSequence:
    """Return the ids of the rows that a fragment no longer has; other fragments may have them."""
    reader = older.reader(before)
    if now is None or now.row_ids != before.row_ids:
        return reader.row_ids.without(reader.deletions)
    if now.deletion_file == before.deletion_file:
        return RowIdSequence()
    deleted = newer.deletions(now) or _NO_ROWS
    new = deleted.without(reader.deletions or _NO_ROWS)
    return RowIdSequence.of(reader.row_ids.at(new.offsets.astype(np.int64)))
