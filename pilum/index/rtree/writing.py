"""Boxes and rows to the files of a segment."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.expressions.geometry.bounds import Boxes
from pilum.format.rows import Addresses
from pilum.index.files import IndexFileWriter, IndexFolderWriter
from pilum.index.row_maps import pack_rows
from pilum.index.rtree.hilbert import hilbert_order
from pilum.index.rtree.levels import Levels

__all__ = [
    "BBOX",
    "BBOX_NAMES",
    "COLUMNS",
    "NULLS",
    "NULLS_FILE",
    "NUM_ITEMS",
    "NUM_PAGES",
    "PAGES_FILE",
    "PAGE_ROWS",
    "Items",
    "boxes_around",
    "write",
]

PAGES_FILE, NULLS_FILE = "page_data.lance", "nulls.lance"

PAGE_ROWS, NUM_ITEMS, NUM_PAGES, BBOX = "page_size", "num_items", "num_pages", "bbox"
"""Entries of the metadata of the file of pages."""

BBOX_NAMES = ("minx", "miny", "maxx", "maxy")

NULLS = "nulls"
_ENDS = [pa.field(name, pa.float64(), False) for name in ("xmin", "ymin", "xmax", "ymax")]
COLUMNS = pa.schema(
    [
        pa.field("bbox", pa.struct(_ENDS), False, {"ARROW:extension:name": "geoarrow.box"}),
        pa.field("id", pa.uint64(), False),
    ]
)
_NULLS_COLUMNS = pa.schema([pa.field(NULLS, pa.binary(), False)])

_ROWS_TOGETHER = 1 << 16


@dataclass(frozen=True, slots=True)
class Items:
    """Rows of a segment.

    Attributes:
        boxes: Boxes without NaN, shape (n, 4).
        references: The row of each box.
        nulls: The rows that are null.
    """

    boxes: Boxes
    references: Addresses
    nulls: Addresses

    @classmethod
    def joined(cls, parts: Iterable[Items]) -> Items:
        """Join rows."""
        empty = np.empty(0, np.uint64)
        found = [cls(np.empty((0, 4)), empty, empty), *parts]
        count = sum(len(one.boxes) for one in found)
        return cls(
            np.concatenate([one.boxes for one in found], out=np.empty((count, 4))),
            np.concatenate([one.references for one in found]),
            np.concatenate([one.nulls for one in found]),
        )


def write(items: Items, page_rows: int, folder: IndexFolderWriter) -> None:
    """Write both files."""
    order = hilbert_order(items.boxes)
    levels = Levels.of(len(order), page_rows)
    with folder.file(PAGES_FILE, COLUMNS) as file:
        boxes, num_pages = _write_items(file, items, order, page_rows), 0
        for _ in levels.sizes[1:]:
            _write_rows(file, boxes, np.arange(num_pages, num_pages + len(boxes), dtype=np.uint64))
            num_pages += len(boxes)
            boxes = _boxes_of_pages(boxes, page_rows)
        file.add_metadata(
            {
                PAGE_ROWS: str(page_rows),
                NUM_ITEMS: str(len(order)),
                NUM_PAGES: str(levels.num_pages),
                BBOX: _shown(boxes),
            }
        )
    nulls = pack_rows(np.unique(items.nulls))
    folder.write(NULLS_FILE, pa.table([[nulls]], schema=_NULLS_COLUMNS))


def _write_items(
    file: IndexFileWriter, items: Items, order: NDArray[np.int64], page_rows: int
) -> Boxes:
    """Write rows in an order; return the boxes of their pages."""
    pages = [np.empty((0, 4))]
    step = -(-_ROWS_TOGETHER // page_rows) * page_rows
    for first in range(0, len(order), step):
        rows = order[first : first + step]
        boxes = np.asfortranarray(items.boxes[rows])
        _write_rows(file, boxes, items.references[rows])
        pages.append(_boxes_of_pages(boxes, page_rows))
    return np.concatenate(pages)


def _write_rows(file: IndexFileWriter, boxes: Boxes, ids: NDArray[np.uint64]) -> None:
    structs = pa.StructArray.from_arrays([pa.array(end) for end in boxes.T], fields=_ENDS)
    file.write(pa.RecordBatch.from_arrays([structs, pa.array(ids)], schema=COLUMNS))


def _boxes_of_pages(boxes: Boxes, page_rows: int) -> Boxes:
    return boxes_around(boxes, np.arange(0, len(boxes), page_rows))


def boxes_around(boxes: Boxes, starts: NDArray[np.int64]) -> Boxes:
    """Return the box around each run of boxes, given the first one of each run."""
    low = np.minimum.reduceat(boxes[:, :2], starts)
    return np.hstack([low, np.maximum.reduceat(boxes[:, 2:], starts)])


def _shown(boxes: Boxes) -> str:
    """Return the box around some boxes as JSON; an end that is not finite is null."""
    ends = [None] * 4 if len(boxes) == 0 else _boxes_of_pages(boxes, len(boxes))[0].tolist()
    known = [end if end is not None and math.isfinite(end) else None for end in ends]
    return json.dumps(dict(zip(BBOX_NAMES, known, strict=True)), separators=(",", ":"))
