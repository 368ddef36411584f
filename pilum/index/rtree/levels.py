"""The levels of a tree: boxes of rows, then boxes of pages, up to a level of one page.

    9 boxes, 3 in each page     rows of the file    pages
    level 0, of rows            0 … 8               0, 1, 2
    level 1, of pages           9, 10, 11           3

A box of page `p` is in row `number of boxes + p`; the last page, which is the root, has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

__all__ = ["Levels"]


@dataclass(frozen=True, slots=True)
class Levels:
    """The size of each level.

    Attributes:
        page_rows: Number of rows in each page, except the last one of a level; at least 2.
        sizes: Number of rows in each level, that of boxes of rows first; each at least 1, unless
            it is the only one.
    """

    page_rows: int
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, num_items: int, page_rows: int) -> Levels:
        """Return the levels for a number of boxes."""
        sizes = [num_items]
        while sizes[-1] > page_rows:
            sizes.append(-(-sizes[-1] // page_rows))
        return cls(page_rows, tuple(sizes))

    @property
    def num_rows(self) -> int:
        """The number of rows of all levels."""
        return sum(self.sizes)

    @property
    def starts(self) -> list[int]:
        """The first row of each level."""
        return list(accumulate(self.sizes[:-1], initial=0))

    @property
    def num_pages(self) -> int:
        """The number of pages: each but the root has a box. No page if there are no rows."""
        return self.num_rows - self.sizes[0] + min(self.sizes[0], 1)

    @property
    def page_starts(self) -> list[int]:
        """The first row of each page."""
        ranges = zip(self.starts, self.sizes, strict=True)
        return [row for start, size in ranges for row in range(start, start + size, self.page_rows)]
