"""Look up keys in an index: the pairs of a key and a row with this key.

keys 7 3 9        index on the column        pairs 7 ↔ 0:12, 9 ↔ 2:5
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray
from pyroaring import BitMap

from pilum.format.rows import Addresses
from pilum.table.indices.open_segments import UNREADABLE, OpenSegment, open_segments
from pilum.table.indices.segments import segments
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import are_present

__all__ = ["KeyPairs", "index_for_keys", "look_up"]

_ROWS_PER_KEY = 16
"""Minimum rows per key; with more keys, a join reads fewer bytes."""

_PAIRED = "BTREE"
"""The type of indices that find keys."""
_JOINED = (pt.is_dictionary, pt.is_boolean)
"""Types of keys that are joined by their bits, which no index has."""


@dataclass(frozen=True)
class KeyPairs:
    """Pairs of keys and rows.

    Attributes:
        places: int64, shape (n,): places of the keys.
        addresses: uint64, shape (n,): rows with the same value, none of them deleted.
        covered: The fragments whose rows were searched.
    """

    places: NDArray[np.int64]
    addresses: Addresses
    covered: BitMap


def look_up(snapshot: Snapshot, column: str, keys: pa.Array) -> KeyPairs | None:
    """Find the rows that have given keys.

    Args:
        snapshot: The version.
        column: The column of the keys.
        keys: Values of its type, without nulls.

    Returns:
        The pairs in any order; None if no index can find them, or a join is likely to be faster.
    """
    if not snapshot.manifest.index_section or len(keys) * _ROWS_PER_KEY > snapshot.num_rows:
        return None
    from pilum.table.indices.plans import named_indices  # few processes look up keys

    for index in named_indices(open_segments(snapshot, column)):
        found = _look_up(snapshot, index.segments, keys)
        if found is not None:
            return found
    return None


def index_for_keys(snapshot: Snapshot, column: str) -> tuple[str, int] | None:
    """Return the index in which `look_up` would search keys, and for how many keys at most.

    None if no index can find keys of this column. No file is read.

    Raises:
        CorruptFileError: If an entry of the manifest is damaged.
    """
    field = snapshot.schema.by_name[column]
    if any(test(field.arrow_type) for test in _JOINED):
        return None
    for segment in segments(snapshot):
        if segment.field_id == field.id and segment.fragments and segment.type.name == _PAIRED:
            return segment.name, snapshot.num_rows // _ROWS_PER_KEY
    return None


def _look_up(snapshot: Snapshot, opened: Sequence[OpenSegment], keys: pa.Array) -> KeyPairs | None:
    places = [np.empty(0, np.int64)]
    addresses = [np.empty(0, np.uint64)]
    covered = BitMap()
    for segment in opened:
        try:
            found = segment.pairs(keys)
        except UNREADABLE as error:
            warnings.warn(
                f"index {segment.name!r}, segment {segment.segment.entry.uuid}, is not used, as it "
                f"cannot be read; drop it and create it again: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
            continue
        if found is None:
            return None
        places.append(found[0])
        addresses.append(found[1])
        covered |= segment.fragments
    if not covered:
        return None
    every, rows = np.concatenate(places), np.concatenate(addresses)
    is_there = are_present(snapshot, rows)
    if not is_there.all():
        every, rows = every[is_there], rows[is_there]
    return KeyPairs(every, rows, covered)
