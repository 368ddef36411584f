"""New folders of segments for tests."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
from index.scalar.strategies import rows_of
from numpy.typing import NDArray

from pilum.format.rows import Addresses
from pilum.format.version import FileVersion
from pilum.index.base import IndexType, Moves
from pilum.index.files import IndexFolderWriter
from pilum.storage.local import LocalStore


class Folders:
    """New folders of segments in a store."""

    def __init__(self, path: str, version: FileVersion = FileVersion.V2_1) -> None:
        self._store = LocalStore(path)
        self._version = version
        self._numbers = count()

    def new(self) -> IndexFolderWriter:
        return IndexFolderWriter(self._store, f"_indices/{next(self._numbers)}", self._version)

    def built(
        self,
        kind: IndexType[Any],
        column: pa.Array,
        references: list[int] | None = None,
        **parameters: Any,
    ) -> Any:
        """Train an index of a column and open it."""
        writer = self.new()
        rows = rows_of(column, references)
        details = kind.train(rows, kind.parameters(parameters, column.type), writer)
        version = kind.index_version(has_stable_row_ids=False)
        return kind.open(writer.written(), details, version)


def moved(gone: set[int], by: int) -> Moves:
    """Return a function that moves rows, some of which no longer exist."""

    def moves(references: Addresses) -> tuple[Addresses, NDArray[np.bool_]]:
        exist = [row not in gone for row in references.tolist()]
        return references + np.uint64(by), np.array(exist, np.bool_)

    return moves


def nulls_of(column: pa.Array) -> list[int]:
    """Return the rows of a column that are null."""
    rows: list[int] = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist()
    return rows
