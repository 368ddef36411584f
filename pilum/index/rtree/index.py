"""An open segment of an R-tree.

    box ──root page──▶ pages of the next level whose boxes overlap it ──▶ … ──▶ rows

The boxes of pages are in memory. Pages of rows are read when a query needs them, and all of them
once that is cheaper.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.expressions.geometry.bounds import Boxes, overlap
from pilum.format.rows import Addresses, RowRanges
from pilum.index.answers import Answer, RowSet
from pilum.index.base import Index
from pilum.index.files import IndexFile, IndexFolder
from pilum.index.queries import InBox, IsNull, Query
from pilum.index.row_maps import unpack_rows
from pilum.index.rtree.levels import Levels
from pilum.index.rtree.writing import (
    BBOX,
    BBOX_NAMES,
    COLUMNS,
    NULLS,
    NULLS_FILE,
    NUM_ITEMS,
    NUM_PAGES,
    PAGE_ROWS,
    PAGES_FILE,
    boxes_around,
)
from pilum.index.scalar.stored_rows import StoredRows
from pilum.lazy import cached_property

__all__ = ["RTreeIndex"]

_ROWS_TOGETHER = 1 << 18


class RTreeIndex(Index):
    """A segment of an R-tree.

    Attributes:
        page_rows: Number of rows in each page.
    """

    def __init__(self, folder: IndexFolder) -> None:
        """Open both files and read the boxes of pages.

        Raises:
            CorruptFileError: If a file is damaged.
        """
        file, self._nulls_file = folder.open(PAGES_FILE), folder.open(NULLS_FILE)
        self._path = file.path
        self.page_rows = _number(file, PAGE_ROWS)
        self._num_items = _number(file, NUM_ITEMS)
        if self.page_rows < 2:
            raise CorruptFileError(f"pages of {self.page_rows} rows", file.path)
        self._levels = Levels.of(self._num_items, self.page_rows)
        if self._levels.num_rows != file.num_rows:
            raise CorruptFileError(
                f"{file.num_rows} rows; {self._num_items} boxes in pages of {self.page_rows} take "
                f"{self._levels.num_rows}",
                file.path,
            )
        if self._levels.num_pages != _number(file, NUM_PAGES):
            raise CorruptFileError(f"not {self._levels.num_pages} pages", file.path)
        self._bbox = _bbox(file)
        self._rows = StoredRows(file, COLUMNS, self._check)
        self._page_boxes = np.empty((0, 4))
        self._sought: tuple[InBox, NDArray[np.int64]] | None = None
        if self._num_items < file.num_rows:
            self._page_boxes = self._read_page_boxes(file.num_rows)

    def _read_page_boxes(self, num_rows: int) -> Boxes:
        boxes, pages = self._rows.read(RowRanges.one(self._num_items, num_rows))
        if not np.array_equal(pages, np.arange(len(pages))):
            raise CorruptFileError("boxes of pages that are not in their order", self._path)
        levels, first = self._levels, 0
        for size in levels.sizes[1:-1]:
            outer = first + size + np.arange(size) // self.page_rows
            self._require_inside(boxes[first : first + size], boxes[outer])
            first += size
        return boxes

    @property
    def size_bytes(self) -> int:
        """See `Index.size_bytes`."""
        return self._page_boxes.nbytes + self._rows.size_bytes

    def search(self, query: Query) -> Answer | None:
        """See `Index.search`: the rows that are null, or whose boxes overlap that of a query.

        No answer is exact, also not that of nulls: where row ids are stable, the reference keeps
        the nulls of rows that have got a value when it merges segments.
        """
        if isinstance(query, IsNull):
            return Answer(RowSet(self.nulls), is_exact=False)
        if not isinstance(query, InBox):
            return None
        box = np.array([query.ends])
        found = [np.empty(0, np.uint64)]
        if len(pages := self._pages_with(query, box)):
            boxes, references = self._rows.at(self._ranges(pages, self._num_items))
            found.append(references[overlap(boxes, box)])
        return Answer(RowSet.of(np.concatenate(found)), is_exact=False)

    def estimate(self, query: Query) -> int | None:
        """See `Index.estimate`: of a page, the share of its area that a box overlaps."""
        if isinstance(query, IsNull):
            return len(self.nulls)
        if not isinstance(query, InBox):
            return None
        box = np.array([query.ends])
        if self._num_items <= self.page_rows:
            return int(_shares(self._bbox[None], box)[0] * self._num_items)
        pages = self._pages_with(query, box)
        counts = np.minimum(self._num_items - pages * self.page_rows, self.page_rows)
        return int((_shares(self._page_boxes[pages], box) * counts).sum())

    @cached_property
    def nulls(self) -> Addresses:
        """The rows that are null, in ascending order.

        Raises:
            CorruptFileError: If the file is damaged.
        """
        column = self._nulls_file.read([NULLS]).column(0)
        found = column.to_pylist()
        if len(found) != 1 or not isinstance(found[0], bytes):
            raise CorruptFileError(
                f"{len(found)} values of {column.type}, not one set of rows", self._nulls_file.path
            )
        return unpack_rows(found[0], self._nulls_file.path)

    def statistics(self) -> dict[str, Any]:
        """See `Index.statistics`."""
        ends = [None if math.isnan(end) else end for end in self._bbox.tolist()]
        return {
            "page_size": self.page_rows,
            "num_pages": self._levels.num_pages,
            "num_items": self._num_items,
            "bbox": dict(zip(BBOX_NAMES, ends, strict=True)),
            "page_offsets": self._levels.page_starts,
        }

    def prewarm(self) -> None:
        """See `Index.prewarm`."""
        self._rows.load()
        _ = self.nulls

    def items(self) -> Iterator[tuple[Boxes, Addresses]]:
        """Yield the boxes of rows and their references.

        Raises:
            CorruptFileError: If the file is damaged.
        """
        step = -(-_ROWS_TOGETHER // self.page_rows) * self.page_rows
        for first in range(0, self._num_items, step):
            yield self._rows.read(RowRanges.one(first, min(first + step, self._num_items)))

    def _pages_with(self, query: InBox, box: Boxes) -> NDArray[np.int64]:
        """Return `_pages_of` for a query; an estimate is followed by a search."""
        sought = self._sought
        if sought is None or sought[0] is not query:
            sought = self._sought = query, self._pages_of(box)
        return sought[1]

    def _pages_of(self, box: Boxes) -> NDArray[np.int64]:
        """Return the pages of rows that may have boxes that overlap a box, in ascending order."""
        levels = self._levels
        pages = np.arange(min(levels.sizes[-1], 1))
        for start, size in zip(levels.starts[:0:-1], levels.sizes[:0:-1], strict=True):
            rows = self._ranges(pages, size).rows()
            boxes = self._page_boxes[rows + (start - self._num_items)]
            pages = rows[overlap(boxes, box)]
        return pages

    def _ranges(self, pages: NDArray[np.int64], size: int) -> RowRanges:
        """Return the rows of ascending pages of a level, from its first row on."""
        bounds = RowRanges.of_rows(pages).bounds * self.page_rows
        return RowRanges(np.minimum(bounds, size))

    def _check(self, rows: tuple[NDArray[Any], NDArray[Any]], ranges: RowRanges) -> None:
        """Check that boxes have no negative size, and are inside of those of their pages.

        Raises:
            CorruptFileError: If they are not.
        """
        boxes, _ = rows
        if not (boxes[:, :2] <= boxes[:, 2:]).all():
            raise CorruptFileError("boxes that end before they begin", self._path)
        if len(self._page_boxes):
            numbers = ranges.rows()
            pages = numbers[numbers < self._num_items] // self.page_rows
            if len(pages):
                starts = np.flatnonzero(np.diff(pages, prepend=-1))
                around = boxes_around(boxes[: len(pages)], starts)
                self._require_inside(around, self._page_boxes[pages[starts]])

    def _require_inside(self, inner: Boxes, outer: Boxes) -> None:
        if (inner[:, :2] < outer[:, :2]).any() or (inner[:, 2:] > outer[:, 2:]).any():
            raise CorruptFileError("boxes outside of those of their pages", self._path)


def _shares(boxes: Boxes, box: Boxes) -> NDArray[np.float64]:
    """Return the share of the area of boxes that another box overlaps; 1 if it is not known."""
    with np.errstate(all="ignore"):
        sides = boxes[:, 2:] - boxes[:, :2]
        common = np.minimum(boxes, box)[:, 2:] - np.maximum(boxes, box)[:, :2]
        shares = np.where(sides > 0, common / sides, common >= 0).prod(axis=1)
    shares[np.isnan(shares)] = 1.0
    known: NDArray[np.float64] = shares.clip(0.0, 1.0)
    return known


def _number(file: IndexFile, name: str) -> int:
    text = file.metadata.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise CorruptFileError(f"{name}: expected a number, found {text!r:.40}", file.path)
    return int(text)


def _bbox(file: IndexFile) -> NDArray[np.float64]:
    """Return the box around all boxes, NaN where an end is not known."""
    text = file.metadata.get(BBOX, "")
    try:
        found = json.loads(text)
        ends = [found[name] for name in BBOX_NAMES]
        return np.array([math.nan if end is None else float(end) for end in ends])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise CorruptFileError(f"{BBOX}: expected a box, found {text!r:.80}", file.path) from error
