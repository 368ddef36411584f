"""Row addresses: where a row is stored, in 64 bits.

    bits 63 … 32    id of the fragment
    bits 31 … 0     physical row in the fragment, deleted rows included

Addresses in ascending order are grouped by fragment. An address changes when its row moves.
Source: docs/format/table.md, "Row ids".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MAX_FRAGMENT_ID",
    "MAX_ROWS",
    "Addresses",
    "addresses_in",
    "addresses_of_rows",
    "by_fragment",
    "first_address",
    "fragment_ids_of",
    "rows_of",
]

MAX_FRAGMENT_ID = 2**32 - 1
MAX_ROWS = 2**32 - 1
"""Maximum fragment id, and maximum number of physical rows of a fragment."""

Addresses = NDArray[np.uint64]
"""Row addresses, uint64, shape (n,)."""

_ROW_BITS = 32
_SHIFT = np.uint64(_ROW_BITS)
_ROW_MASK = np.uint64(MAX_ROWS)


def first_address(fragment_id: int) -> int:
    """Return the address of row 0 of a fragment."""
    return int(fragment_id) << _ROW_BITS


def addresses_in(fragment_id: int, rows: NDArray[np.integer]) -> Addresses:
    """Return the addresses of physical rows of one fragment."""
    return rows.astype(np.uint64) + np.uint64(first_address(fragment_id))


def addresses_of_rows(fragment_ids: NDArray[np.integer], rows: NDArray[np.integer]) -> Addresses:
    """Return the address of each physical row, given its fragment."""
    return (fragment_ids.astype(np.uint64) << _SHIFT) + rows.astype(np.uint64)


def fragment_ids_of(addresses: Addresses) -> NDArray[np.int64]:
    """Return the id of the fragment of each address."""
    return (addresses >> _SHIFT).view(np.int64)


def rows_of(addresses: Addresses) -> NDArray[np.int64]:
    """Return the physical row of each address, within its fragment."""
    return (addresses & _ROW_MASK).view(np.int64)


def by_fragment(addresses: Addresses) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Split addresses, in any order and with repetitions, by fragment.

    Yields:
        The id of a fragment, in ascending order, and the positions of its addresses in `addresses`,
        ascending.
    """
    ids = fragment_ids_of(addresses)
    order = np.argsort(ids, kind="stable")
    cuts = np.flatnonzero(np.diff(ids[order])) + 1
    for positions in np.split(order, cuts) if len(order) else ():
        yield int(ids[positions[0]]), positions
