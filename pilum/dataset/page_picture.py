"""A picture of the pages of columns, to scale."""

from __future__ import annotations

from collections.abc import Sequence

from pilum.container.explain import PageExplanation, raw_bytes_of
from pilum.pictures.page_map import Box, ColumnPages, PageMap, encoding_of

__all__ = ["page_picture"]


def page_picture(pages: Sequence[PageExplanation], title: str) -> PageMap:
    """Return the pages to scale, column by column."""
    columns: dict[str, list[PageExplanation]] = {}
    for page in pages:
        columns.setdefault(page.column, []).append(page)
    return PageMap(title, [_drawn(name, found) for name, found in columns.items()])


def _drawn(name: str, pages: Sequence[PageExplanation]) -> ColumnPages:
    boxes = [
        Box(
            page.first_row,
            page.num_rows,
            page.stored_bytes,
            encoding_of(page.layout, page.encoding, page.dictionary),
            _words(page),
        )
        for page in pages
    ]
    return ColumnPages(name, pages[0].type, boxes, raw_bytes_of(pages))


def _words(page: PageExplanation) -> str:
    dictionary = f", dictionary of {page.dictionary}" if page.dictionary else ""
    return f"{page.layout}, {page.encoding}{dictionary}"
