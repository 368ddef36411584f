"""RTREE: the bounding boxes of geometries in a tree, and the rows that are null.

    page_data.lance     the boxes of rows, then those of their pages, of the pages of these, …

| column | type | |
|---|---|---|
| `bbox` | struct<xmin, ymin, xmax, ymax: double> | not null; of a row, or around those of a page |
| `id` | uint64 | the row: its address or stable row id; of a box of a page, its number |

    nulls.lance         one row

| column | type | |
|---|---|---|
| `nulls` | binary | the rows that are null, as a set of Roaring bitmaps |

The boxes of rows are in the order of a Hilbert curve. A page is `page_size` rows, 4,096 by default,
except the last one of its level. The boxes of all pages of a level follow this level, unless it is
one page: the root. The metadata of page_data.lance contains `page_size`, `num_items`, the number of
boxes of rows, `num_pages`, and `bbox`: `minx`, `miny`, `maxx` and `maxy` of all boxes as JSON.
Rows whose geometry is empty or has no place are in neither file.

Source: docs/format/indices.md, "RTREE".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pilum.arguments import require_count, require_known
from pilum.errors import UnsupportedTypeError
from pilum.expressions.geometry.bounds import bounds_of
from pilum.expressions.geometry.layouts import layout_of
from pilum.format.rows import Addresses
from pilum.index.base import REFERENCE, VALUE, IndexRows, IndexType, Part, References
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.rtree.index import RTreeIndex
from pilum.index.rtree.writing import NULLS_FILE, PAGE_ROWS, PAGES_FILE, Items, write

__all__ = ["RTREE"]

_PAGE_ROWS = 4096
_NONE = np.empty(0, np.uint64)


class _RTreeType(IndexType[RTreeIndex]):
    """See the module."""

    name = "RTREE"
    type_url = "/lance.index.pb.RTreeIndexDetails"
    references = References.ROW_IDS
    files = (PAGES_FILE, NULLS_FILE)

    def require_supported(self, column: str, type: pa.DataType) -> None:
        """See `IndexType.require_supported`."""
        if layout_of(type) is None:
            raise UnsupportedTypeError(
                f"RTREE index column {column} must be a geometry: points, lists of points or boxes "
                f"of doubles, WKB or WKT; not {type}"
            )

    def parameters(self, given: Mapping[str, Any], type: pa.DataType) -> int:
        """See `IndexType.parameters`; returns the number of rows of a page."""
        del type
        require_known("RTREE has", given, (PAGE_ROWS,))
        return require_count(PAGE_ROWS, given.get(PAGE_ROWS, _PAGE_ROWS), 2)

    def train(self, rows: IndexRows, parameters: int, folder: IndexFolderWriter) -> bytes:
        """See `IndexType.train`."""
        write(Items.joined(_items(rows)), parameters, folder)
        return b""

    def open(self, folder: IndexFolder, details: bytes, index_version: int) -> RTreeIndex:
        """See `IndexType.open`."""
        del details, index_version
        return RTreeIndex(folder)

    def merge(
        self,
        parts: Sequence[Part[RTreeIndex]],
        rows: IndexRows | None,
        folder: IndexFolderWriter,
    ) -> bytes:
        """See `IndexType.merge`."""
        found = [one for part in parts for one in _moved(part)]
        found += [] if rows is None else _items(rows)
        write(Items.joined(found), parts[-1].index.page_rows, folder)
        return b""


RTREE = _RTreeType()


def _items(rows: IndexRows) -> Iterator[Items]:
    """Yield the bounding boxes of rows."""
    for batch in rows.batches:
        values, references = batch.column(VALUE), batch.column(REFERENCE).to_numpy()
        boxes = bounds_of(values)
        has_place = ~np.isnan(boxes).any(axis=1)
        is_null = values.is_null().to_numpy(zero_copy_only=False)
        nulls = references[is_null]
        if not has_place.all():
            boxes, references = boxes[has_place], references[has_place]
        yield Items(boxes, references, nulls)


def _moved(part: Part[RTreeIndex]) -> Iterator[Items]:
    """Yield the rows of a segment that still exist."""
    nulls, _ = _exist(part, part.index.nulls)
    yield Items(np.empty((0, 4)), _NONE, nulls)
    for boxes, references in part.index.items():
        left, exist = _exist(part, references)
        yield Items(boxes[exist], left, _NONE)


def _exist(
    part: Part[RTreeIndex], references: Addresses
) -> tuple[Addresses, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return where rows are now, and which of them still exist."""
    if part.moves is None:
        return references, np.ones(len(references), np.bool_)
    moved, exist = part.moves(references)
    return moved[exist], exist
