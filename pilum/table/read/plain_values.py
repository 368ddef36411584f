"""Values of fixed width that are stored as they are, by the addresses of their rows.

A search compares the vectors of some rows with its query, and needs no Arrow array of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pilum.format.rows import Addresses
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import parts_at

__all__ = ["plain_values"]


def plain_values(snapshot: Snapshot, addresses: Addresses, column: str) -> NDArray[np.uint8] | None:
    """Return the bytes of the values of rows in local files.

    Args:
        snapshot: The version.
        addresses: Addresses of live rows, ascending and distinct.
        column: Name of the column.

    Returns:
        Shape (number of rows, bytes of a value); None if the values have to be read in another way.

    Raises:
        InvalidInputError: If a row does not exist.
        CorruptFileError: If a file is damaged.
    """
    field = snapshot.described.by_name.get(column)
    if field is None or snapshot.store.is_remote:
        return None
    found = []
    for reader, rows in parts_at(snapshot, addresses):
        [own] = reader.fields((field,))
        values = own.plain_values(rows)
        if values is None:
            return None
        found.append(values)
    if not found:
        return None
    return found[0] if len(found) == 1 else np.concatenate(found)
