"""Readers of the sequences of a fragment, wherever they are stored.

Source: docs/format/table.md, "Row ids".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.storage.base import Store
from pilum.table.model.fragment import Fragment
from pilum.table.model.row_id_sequence import RowIdSequence
from pilum.table.model.stored_sequence import (
    CREATED_AT,
    ROW_IDS,
    ExternalSequence,
    SequenceKind,
    StoredSequence,
)
from pilum.table.model.version_sequence import VersionSequence

__all__ = ["HiddenColumn", "load_row_ids", "load_versions"]

HiddenColumn = Callable[[SequenceKind], NDArray[np.uint64]]
"""Function that reads the column in which a sequence is stored: uint64, one per physical row."""

_FIRST_VERSION = 1
"""Version that the reference reports for rows without a recorded version."""


def load_row_ids(store: Store, fragment: Fragment, hidden: HiddenColumn) -> RowIdSequence:
    """Read the id of each physical row.

    Args:
        store: Store of the table.
        fragment: The fragment; its `physical_rows` are known.
        hidden: Reads a hidden column of the fragment.

    Raises:
        NotFoundError: If the sequence is in another file that is missing.
        CorruptFileError: If the sequence is missing, damaged, too short or too long.
    """
    stored = fragment.row_ids
    if stored is None:
        raise CorruptFileError("no row ids in a table that has them", f"fragment {fragment.id}")
    data = _bytes(store, stored)
    try:
        if data is None:
            return RowIdSequence.of(hidden(ROW_IDS))
        sequence = RowIdSequence.from_bytes(data, fragment.physical_rows)
        _require_rows("row ids", len(sequence), fragment)
    except CorruptFileError as error:
        raise error.at(f"fragment {fragment.id}") from error.__cause__
    return sequence.joined()


def load_versions(
    store: Store, fragment: Fragment, kind: SequenceKind, hidden: HiddenColumn
) -> VersionSequence:
    """Read the version that created or last changed each row; 1 if it was not recorded.

    Raises:
        As `load_row_ids`, except for a missing sequence.
    """
    stored = fragment.created_at if kind is CREATED_AT else fragment.updated_at
    if stored is None:
        return VersionSequence.uniform(fragment.physical_rows, _FIRST_VERSION)
    data = _bytes(store, stored)
    try:
        if data is None:
            return VersionSequence.of(hidden(kind))
        sequence = VersionSequence.from_bytes(data, fragment.physical_rows)
        _require_rows("versions of rows", len(sequence), fragment)
    except CorruptFileError as error:
        raise error.at(f"fragment {fragment.id}") from error.__cause__
    return sequence


def _bytes(store: Store, stored: StoredSequence) -> bytes | None:
    """Return the serialized sequence, None if it is a hidden column."""
    if isinstance(stored, bytes):
        return stored
    if isinstance(stored, ExternalSequence):
        return _external(store, stored)
    return None


def _external(store: Store, stored: ExternalSequence) -> bytes:
    path = stored.path
    if path.startswith("/") or ".." in path.split("/"):
        raise CorruptFileError(f"a sequence in {path!r}, outside of the table")
    data = store.read(path)
    end = stored.offset_bytes + stored.size_bytes
    if end > len(data):
        raise CorruptFileError(f"a sequence up to byte {end} of {len(data)}", path)
    return data[stored.offset_bytes : end]


def _require_rows(what: str, found: int, fragment: Fragment) -> None:
    if found != fragment.physical_rows:
        raise CorruptFileError(f"{what}: {found} for {fragment.physical_rows} rows")
