"""B-trees: all values in order, in pages, with a table of their bounds.

    page_data.lance      values   ids       the values in order, nulls first, and their rows
                         null     2         page p has the rows from p * batch_size on
                         1        1
                         3        3
    page_lookup.lance    min      max     null_count    page_idx      metadata: batch_size
                         null     3       1             0

Equal values are in the order of the table, and may straddle pages. Two requests open a segment; a
lookup reads the pages that may contain the value.

Source: docs/format/indices.md, "B-tree".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arguments import require_count, require_known
from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from pilum.index.base import IndexRows, IndexType, Part, References
from pilum.index.files import IndexFile, IndexFolder, IndexFolderWriter
from pilum.index.scalar.btree_index import BTreeIndex
from pilum.index.scalar.btree_lookup import Lookup
from pilum.index.scalar.keys import require_indexable
from pilum.index.scalar.sorting import Block, merged, sorted_rows

__all__ = ["BTREE"]

_DATA, _LOOKUP = "page_data.lance", "page_lookup.lance"
_PAGE_ROWS = 4096
_MAX_PAGE_ROWS = 2**31 - 1


class _BTree(IndexType[BTreeIndex]):
    """B-trees. In tables with stable row ids, version 0 has row ids, version 1 addresses."""

    name = "BTREE"
    type_url = "/lance.table.BTreeIndexDetails"
    references = References.ADDRESSES
    files = (_LOOKUP, _DATA)

    def index_version(self, *, has_stable_row_ids: bool, details: bytes = b"") -> int:
        """Return the version of the index format that new segments have."""
        del details
        return 1 if has_stable_row_ids else 0

    def references_of(self, index_version: int) -> References | None:
        """Return what identifies a row in segments of a version; None if it is not supported."""
        return {0: References.ROW_IDS, 1: References.ADDRESSES}.get(index_version)

    def require_supported(self, column: str, type: pa.DataType) -> None:
        """Raise an error if columns of a type cannot be indexed."""
        require_indexable(column, type, self.name)

    def parameters(self, given: Mapping[str, Any], type: pa.DataType) -> int:
        """Return the number of rows of a page: `zone_size`, by default 4096."""
        require_known("BTREE has", given, ("zone_size",))
        rows = require_count("zone_size", given.get("zone_size", _PAGE_ROWS), 1)
        if rows > _MAX_PAGE_ROWS:
            raise InvalidInputError(f"zone_size: expected at most {_MAX_PAGE_ROWS}, found {rows}")
        return rows

    def train(self, rows: IndexRows, parameters: int, folder: IndexFolderWriter) -> bytes:
        """Sort the rows and write them."""
        return _write(sorted_rows(rows.batches), rows.type, parameters, folder)

    def open(self, folder: IndexFolder, details: bytes, index_version: int) -> BTreeIndex:
        """Open a segment: read its lookup table."""
        data, lookup = folder.open(_DATA), folder.open(_LOOKUP)
        if len(data.schema) != 2 or data.schema.types[1] != pa.uint64():
            raise CorruptFileError(f"pages of a B-tree: columns {data.schema}", data.path)
        bounds, page_rows = _page_bounds(data, lookup)
        lost_nulls = lookup.batch_bounds is not None
        table = Lookup.read(lookup, bounds, data.schema.types[0], lost_nulls=lost_nulls)
        return BTreeIndex(data, table, page_rows)

    def merge(
        self,
        parts: Sequence[Part[BTreeIndex]],
        rows: IndexRows | None,
        folder: IndexFolderWriter,
    ) -> bytes:
        """Merge the sorted rows of segments with new ones."""
        runs = [part.index.blocks(part.moves) for part in parts]
        if rows is not None:
            runs.append(sorted_rows(rows.batches))
        last = parts[-1].index
        return _write(merged(runs), last.type, last.page_rows or _PAGE_ROWS, folder)


BTREE = _BTree()


def _page_bounds(data: IndexFile, lookup: IndexFile) -> tuple[NDArray[np.int64], int]:
    """Return the first row of each page, and the end; and the rows of a page, 0 if they differ."""
    metadata = lookup.metadata
    if metadata.get("range_partitioned", "false") != "false":
        raise UnsupportedFeatureError(f"B-tree of several ranges\n  {lookup.path}")
    text = metadata.get("batch_size")
    if text is None:
        bounds = data.batch_bounds
        if bounds is not None:
            return np.asarray(bounds, dtype=np.int64), 0
        text = str(_PAGE_ROWS)
    if not (text.isascii() and text.isdigit()) or not 0 < int(text[:11]) <= _MAX_PAGE_ROWS:
        raise CorruptFileError(f"pages of a B-tree: {text[:20]!r} rows", lookup.path)
    bounds = np.arange(0, data.num_rows + int(text), int(text), dtype=np.int64)
    return np.minimum(bounds, data.num_rows), int(text)


def _write(
    blocks: Iterable[Block], kind: pa.DataType, page_rows: int, folder: IndexFolderWriter
) -> bytes:
    schema = pa.schema([pa.field("values", kind), pa.field("ids", pa.uint64(), nullable=False)])
    ends = _PageEnds(kind, page_rows)
    with folder.file(_DATA, schema) as file:
        for block in blocks:
            columns = [block.values, pa.array(block.references)]
            file.write(pa.RecordBatch.from_arrays(columns, schema=schema))
            ends.add(block.values)
    folder.write(
        _LOOKUP, ends.table(), {"batch_size": str(page_rows), "range_partitioned": "false"}
    )
    return b""


class _PageEnds:
    """The first and the last value of each page of a stream of sorted values."""

    def __init__(self, kind: pa.DataType, page_rows: int) -> None:
        self._page_rows = page_rows
        self._num_rows = self._num_nulls = 0
        self._last = pa.nulls(0, kind)
        self._mins: list[pa.Array] = [self._last]
        self._maxs: list[pa.Array] = [self._last]

    def add(self, values: pa.Array) -> None:
        """Add the next values."""
        if not len(values):
            return
        start, stop, step = self._num_rows, self._num_rows + len(values), self._page_rows
        firsts = np.arange(-(-start // step) * step, stop, step) - start
        lasts = np.arange(-(-(start + 1) // step) * step, stop + 1, step) - 1 - start
        self._mins.append(values.take(pa.array(firsts)))
        self._maxs.append(values.take(pa.array(lasts)))
        self._last = values.take(pa.array([len(values) - 1]))
        self._num_rows = stop
        self._num_nulls += values.null_count

    def table(self) -> pa.Table:
        """Return the lookup table."""
        rest = [self._last] if self._num_rows % self._page_rows else []
        mins, maxs = pa.concat_arrays(self._mins), pa.concat_arrays([*self._maxs, *rest])
        starts = np.arange(len(mins)) * self._page_rows
        sizes = np.minimum(starts + self._page_rows, self._num_rows) - starts
        nulls = np.clip(self._num_nulls - starts, 0, sizes)
        fields = [
            pa.field("min", mins.type),
            pa.field("max", mins.type),
            pa.field("null_count", pa.uint32(), nullable=False),
            pa.field("page_idx", pa.uint32(), nullable=False),
        ]
        numbers = np.arange(len(mins), dtype=np.uint32)
        columns = [mins, maxs, pa.array(nulls.astype(np.uint32)), pa.array(numbers)]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))
