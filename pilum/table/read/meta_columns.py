"""Columns that are in no data file: information that the table has about its rows.

Their names and meanings are in `pilum.format.meta_columns`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.blocks import integers
from pilum.format.meta_columns import CREATED_AT_VERSION, ROW_ADDRESS, ROW_ID, ROW_OFFSET
from pilum.format.row_address import addresses_in, first_address
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.windows import MetaValues, Window

__all__ = ["MetaColumns"]

_UNKNOWN_VERSION = 1
_MAX_SIGNED_ID = (1 << 31) - 1


class MetaColumns:
    """The meta columns of one version.

    Args:
        snapshot: The version.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def of(self, reader: FragmentReader) -> MetaValues:
        """Return a function that computes the values of a column for a window of a fragment."""
        return partial(self._of_window, reader)

    def _of_window(self, reader: FragmentReader, name: str, window: Window) -> pa.Array:
        if self._is_address(name) and reader.id <= _MAX_SIGNED_ID:
            # Row numbers with another start; adding the start to others would copy them.
            return integers(window.wanted(first_address(reader.id)).view(np.uint64))
        return self.values(reader, name, window.wanted())

    def values(self, reader: FragmentReader, name: str, rows: NDArray[np.int64]) -> pa.Array:
        """Return the values of the column `name` for some physical rows of a fragment.

        Raises:
            CorruptFileError: If the recorded information is damaged.
        """
        return integers(self._function(name)(reader, rows))

    def _function(
        self, name: str
    ) -> Callable[[FragmentReader, NDArray[np.int64]], NDArray[np.generic]]:
        if self._is_address(name):
            return _addresses
        if name == ROW_ID:
            return _row_ids
        if name == ROW_OFFSET:
            return self._positions
        if not self._snapshot.has_stable_row_ids:
            return _unknown_versions
        return _created_at if name == CREATED_AT_VERSION else _updated_at

    def _is_address(self, name: str) -> bool:
        return name == ROW_ADDRESS or (name == ROW_ID and not self._snapshot.has_stable_row_ids)

    def _positions(self, reader: FragmentReader, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        deleted = reader.deletions
        here = rows if deleted is None else deleted.positions(rows)
        return (here + self._firsts[reader.id]).astype(np.uint64)

    @cached_property
    def _firsts(self) -> dict[int, int]:
        """Return the number of live rows before each fragment."""
        fragments = self._snapshot.manifest.fragments
        bounds = np.cumsum([0, *(fragment.num_rows for fragment in fragments)]).tolist()
        return {int(one.id): first for one, first in zip(fragments, bounds, strict=False)}


def _addresses(reader: FragmentReader, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    return addresses_in(reader.id, rows)


def _row_ids(reader: FragmentReader, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    return reader.row_ids.at(rows)


def _created_at(reader: FragmentReader, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    return reader.created_at.at(rows)


def _updated_at(reader: FragmentReader, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    return reader.updated_at.at(rows)


def _unknown_versions(reader: FragmentReader, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    del reader
    return np.full(len(rows), _UNKNOWN_VERSION, dtype=np.uint64)
