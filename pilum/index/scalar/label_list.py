"""Label lists: the set of rows of each distinct item of a list column.

A row is in the set of each of its items. Empty lists and null lists are in none. The rows whose
list is null are in a global buffer, whose number is in the metadata, as a condition is null for
them; segments of version 0 do not have it, so that their answers have to be tested again. See
`keyed_sets.py` for the rest of the file.

Source: docs/format/indices.md, "Label lists".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.arguments import require_known
from pilum.errors import CorruptFileError, UnsupportedFeatureError, UnsupportedTypeError
from pilum.format.rows import Addresses
from pilum.index.answers import Answer, RowSet
from pilum.index.base import (
    REFERENCE,
    VALUE,
    Index,
    IndexRows,
    IndexType,
    Part,
    References,
)
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.queries import HasAll, HasAny, IsNull, Query
from pilum.index.row_maps import unpack_rows
from pilum.index.scalar.key_sets import sets_of_rows, united
from pilum.index.scalar.keyed_sets import NULL_LISTS, KeyedSets, write_sets
from pilum.index.scalar.keys import require_indexable

__all__ = ["LABEL_LIST"]


class LabelListIndex(Index):
    """An open segment of a label list.

    Attributes:
        sets: The sets of rows.
        null_lists: The rows whose list is null; None if that is unknown.
    """

    def __init__(self, sets: KeyedSets, null_lists: RowSet | None) -> None:
        self.sets = sets
        self.null_lists = null_lists

    @property
    def size_bytes(self) -> int:
        """The approximate memory that it uses."""
        nulls = 0 if self.null_lists is None else self.null_lists.listed.nbytes
        return self.sets.size_bytes + nulls

    def search(self, query: Query) -> Answer | None:
        """Return the rows that match."""
        if isinstance(query, IsNull):
            return None if self.null_lists is None else Answer(self.null_lists)
        if not isinstance(query, HasAny | HasAll) or not len(query.values):
            return None
        places, has_all = self._places(query.values)
        if isinstance(query, HasAny):
            rows = self.sets.union(places)
        else:
            rows = self.sets.intersection(places) if has_all else RowSet()
        if self.null_lists is None:
            return Answer(rows, is_exact=False)
        return Answer(rows, self.null_lists)

    def estimate(self, query: Query) -> int | None:
        """Return about how many rows `search` would return."""
        if isinstance(query, IsNull):
            return None if self.null_lists is None else self.null_lists.num_listed
        if not isinstance(query, HasAny | HasAll) or not len(query.values):
            return None
        try:
            places, has_all = self._places(query.values)
        except CorruptFileError:
            return 0  # `search` reports it
        if isinstance(query, HasAny):
            return self.sets.estimate(places)
        return min(map(self.sets.estimate, np.split(places, len(places)))) if has_all else 0

    def statistics(self) -> dict[str, Any]:
        """Return the number of sets, with that of null items."""
        return {"num_bitmaps": self.sets.num_sets}

    def prewarm(self) -> None:
        """Load the sets into the cache, up to its limit."""
        self.sets.prewarm()

    def _places(self, values: pa.Array) -> tuple[NDArray[np.int64], bool]:
        """Return the distinct places of the sets of items, and whether all items have a set."""
        places = np.unique(self.sets.places_of(values))
        found = places[places >= 0]
        return found, len(found) == len(places)


class _LabelList(IndexType[LabelListIndex]):
    name = "LABEL_LIST"
    type_url = "/lance.table.LabelListIndexDetails"
    references = References.ROW_IDS

    def index_version(self, *, has_stable_row_ids: bool, details: bytes = b"") -> int:
        """Return the version of the index format that new segments have."""
        return 1

    def references_of(self, index_version: int) -> References | None:
        """Return what identifies a row in segments of a version; None if it is not supported."""
        return References.ROW_IDS if index_version in {0, 1} else None

    def require_supported(self, column: str, type: pa.DataType) -> None:
        """Raise an error if columns of a type cannot be indexed."""
        if not pt.is_list(type) and not pt.is_large_list(type):
            raise UnsupportedTypeError(
                f"LABEL_LIST index: column {column!r} has the type {type}; it must be a list or a "
                "large list"
            )
        require_indexable(f"{column}[]", type.value_type, self.name)

    def parameters(self, given: Mapping[str, Any], type: pa.DataType) -> None:
        """Raise an error if there are parameters."""
        require_known("LABEL_LIST has", given, ())

    def train(self, rows: IndexRows, parameters: None, folder: IndexFolderWriter) -> bytes:
        """Write the set of rows of each item."""
        items, kind = _Items(rows.batches), rows.type.value_type
        write_sets(sets_of_rows(items, kind), kind, folder, items.null_lists)
        return b""

    def open(self, folder: IndexFolder, details: bytes, index_version: int) -> LabelListIndex:
        """Open a segment: read its keys, and the rows whose list is null."""
        sets = KeyedSets(folder)
        number = sets.file.metadata.get(NULL_LISTS)
        if number is None:
            return LabelListIndex(sets, None)
        if not (number.isascii() and number.isdigit()):
            raise CorruptFileError(f"{NULL_LISTS}: {number!r:.40}", sets.file.path)
        data = sets.file.global_buffer(int(number[:10]))
        return LabelListIndex(sets, RowSet(unpack_rows(data, sets.file.path)))

    def can_merge(self, index: LabelListIndex) -> bool:
        """Return whether it is known which lists are null."""
        return index.null_lists is not None

    def merge(
        self,
        parts: Sequence[Part[LabelListIndex]],
        rows: IndexRows | None,
        folder: IndexFolderWriter,
    ) -> bytes:
        """Unite the sets of each item, and those of null lists."""
        kind = parts[-1].index.sets.type
        if rows is not None:  # a damaged manifest may name another column
            self.require_supported("", rows.type)
        parts = [part for part in parts if part.has_rows]
        if not all(self.can_merge(part.index) for part in parts):
            raise UnsupportedFeatureError(
                "a LABEL_LIST index of version 0 does not say which lists are null; create it again"
            )
        sources = [part.index.sets.blocks(part.moves) for part in parts]
        items = _Items(iter(()) if rows is None else rows.batches)
        sources.append(sets_of_rows(items, kind))
        items.known += [_moved(part) for part in parts]
        write_sets(united(sources), kind, folder, items.null_lists)
        return b""


LABEL_LIST = _LabelList()


class _Items:
    """The items of lists, with the row of each; and the rows whose list is null.

    Attributes:
        known: Rows whose list is null.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.known: list[Addresses] = [np.empty(0, dtype=np.uint64)]

    def null_lists(self) -> Addresses:
        """Return the rows whose list is null, when all items have been read."""
        return RowSet.of(np.concatenate(self.known)).listed

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of the columns `VALUE` and `REFERENCE`."""
        for batch in self._batches:
            lists, references = batch.column(VALUE), batch.column(REFERENCE)
            if lists.null_count:
                is_valid = lists.is_valid()
                self.known.append(references.filter(pc.invert(is_valid)).to_numpy())
                lists, references = lists.filter(is_valid), references.filter(is_valid)
            rows = references.take(pc.list_parent_indices(lists))
            yield pa.RecordBatch.from_arrays([lists.flatten(), rows], names=[VALUE, REFERENCE])


def _moved(part: Part[LabelListIndex]) -> Addresses:
    assert part.index.null_lists is not None
    rows = part.index.null_lists.listed
    if part.moves is None:
        return rows
    references, exist = part.moves(rows)
    return references[exist]
