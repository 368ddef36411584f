"""Bitmap indices: the set of rows of each distinct value, for columns with few of them.

A range is the union of the sets of its values. See `keyed_sets.py` for the file.

Source: docs/format/indices.md, "Bitmaps".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from pilum.arguments import require_known
from pilum.errors import CorruptFileError
from pilum.format.rows import BATCH_ROWS, Addresses
from pilum.index.answers import Answer
from pilum.index.base import Index, IndexRows, IndexType, Part, References
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.queries import Between, IsIn, IsNull, Query, StartsWith
from pilum.index.scalar.key_sets import sets_of_rows, united
from pilum.index.scalar.keyed_sets import FILE, KeyedSets, write_sets
from pilum.index.scalar.keys import has_prefixes, require_indexable

__all__ = ["BITMAP"]


class BitmapIndex(Index):
    """An open segment of a bitmap index.

    Attributes:
        sets: The sets of rows.
    """

    def __init__(self, sets: KeyedSets) -> None:
        self.sets = sets

    @property
    def type(self) -> pa.DataType:
        """Type of the values."""
        return self.sets.type

    @property
    def value_type(self) -> pa.DataType:
        """See `Index.value_type`."""
        return self.sets.type

    @property
    def size_bytes(self) -> int:
        """The approximate memory that it uses."""
        return self.sets.size_bytes

    def search(self, query: Query) -> Answer | None:
        """Return the rows that match, exactly."""
        places = self._places(query)
        if places is None:
            return None
        rows = self.sets.union(places)
        if isinstance(query, IsNull):
            return Answer(rows)
        return Answer(rows, lambda: self.sets.union(self.sets.null_place()))

    def rows_with(self, values: Sequence[int]) -> Addresses | None:
        """Return the rows with one integer, if they are at most a batch; see `Index.rows_with`."""
        places = self.sets.place_of_integer(values[0]) if len(values) == 1 else None
        if places is None:
            return None
        rows = self.sets.union(places)
        return rows.listed if rows.num_listed <= BATCH_ROWS else None

    def set_with(self, value: int) -> BitMap64 | None:
        """Return the rows with one integer; see `Index.set_with`."""
        places = self.sets.place_of_integer(value)
        return None if places is None else self.sets.union(places).bitmap

    def estimate(self, query: Query) -> int | None:
        """Return about how many rows `search` would return."""
        try:
            places = self._places(query)
        except CorruptFileError:
            return 0  # `search` reports it
        return None if places is None else self.sets.estimate(places)

    def statistics(self) -> dict[str, Any]:
        """Return the number of sets, with that of null."""
        return {"num_bitmaps": self.sets.num_sets}

    def prewarm(self) -> None:
        """Load the sets into the cache, up to its limit."""
        self.sets.prewarm()

    def _places(self, query: Query) -> NDArray[np.int64] | None:
        match query:
            case IsNull():
                return self.sets.null_place()
            case IsIn():
                return self.sets.distinct_places(query.values)
            case StartsWith() if has_prefixes(self.sets.type):
                return self.sets.places_between(query)
            case Between():
                for end in (query.low, query.high):
                    self.sets.require_type(self.type if end is None else end.type)
                return self.sets.places_between(query)
        return None


class _Bitmap(IndexType[BitmapIndex]):
    name = "BITMAP"
    type_url = "/lance.table.BitmapIndexDetails"
    references = References.ROW_IDS
    files = (FILE,)
    keeps_sets = True

    def require_supported(self, column: str, type: pa.DataType) -> None:
        """Raise an error if columns of a type cannot be indexed."""
        require_indexable(column, type, self.name)

    def parameters(self, given: Mapping[str, Any], type: pa.DataType) -> None:
        """Raise an error if there are parameters."""
        require_known("BITMAP has", given, ())

    def train(self, rows: IndexRows, parameters: None, folder: IndexFolderWriter) -> bytes:
        """Write the set of rows of each value."""
        write_sets(sets_of_rows(rows.batches, rows.type), rows.type, folder)
        return b""

    def open(self, folder: IndexFolder, details: bytes, index_version: int) -> BitmapIndex:
        """Open a segment: read its keys."""
        return BitmapIndex(KeyedSets(folder))

    def merge(
        self,
        parts: Sequence[Part[BitmapIndex]],
        rows: IndexRows | None,
        folder: IndexFolderWriter,
    ) -> bytes:
        """Unite the sets of each value."""
        sources = [part.index.sets.blocks(part.moves) for part in parts]
        if rows is not None:
            sources.append(sets_of_rows(rows.batches, rows.type))
        write_sets(united(sources), parts[-1].index.sets.type, folder)
        return b""


BITMAP = _Bitmap()
