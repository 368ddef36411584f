"""What happened to rows between two versions, told by their ids.

A fragment that both versions have, with the same deletion file, has lost nothing; the other
fragments of the older version are listed, and their ids looked up in the newer one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pilum.table.fragment import Fragment
from pilum.table.row_id_index import row_id_index
from pilum.table.snapshot import Snapshot

__all__ = ["deleted_row_ids"]


def deleted_row_ids(older: Snapshot, newer: Snapshot) -> Iterator[NDArray[np.uint64]]:
    """Ids of the rows that one version has and a later one does not.

    Args:
        older: A version with stable row ids.
        newer: Another one of the same table.

    Yields:
        uint64, for each fragment that has lost rows; memory does not grow with the others.

    Raises:
        CorruptFileError: If row ids are damaged.
    """
    kept = {_content(fragment) for fragment in newer.manifest.fragments}
    for fragment in older.manifest.fragments:
        if _content(fragment) in kept:
            continue
        reader = older.reader(fragment)
        ids = reader.row_ids.without(reader.deletions).ids()
        _, is_there = row_id_index(newer).find(ids)
        if not is_there.all():
            yield ids[~is_there]


def _content(fragment: Fragment) -> tuple[object, ...]:
    return fragment.id, fragment.row_ids, fragment.deletion_file
