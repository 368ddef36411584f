"""Draw a page map as SVG: a line per column, a box per page, widths to scale.

number          ▇▇▇▇▇▇▇ ▇▇▇▇▇▇ ▇▇                    210.2 KiB   3.7 times smaller
int64           mini-block, inline_bitpacking(64)
"""

from __future__ import annotations

from collections.abc import Iterator

from pilum.pictures.page_map import ColumnPages, PageMap, Run, runs
from pilum.pictures.theme import COLORS, clipped, rectangle, svg_document, text_at
from pilum.pictures.words import size_text

__all__ = ["page_map_svg"]

_WIDTH = 900
_LEFT, _RIGHT = 200, 130
_MARGIN, _TOP, _STEP, _BAR = 20, 76, 44, 18
_BARS = _WIDTH - _LEFT - _RIGHT
_GAP = 1.2
_LEAST_PIXELS = 3.0
_LABEL_PIXELS = 64
_MOST_COLUMNS = 40


def page_map_svg(picture: PageMap, *, has_ground: bool = True) -> str:
    """Return the picture of the pages of a file or table.

    Args:
        picture: What to draw; of more than 40 columns, the largest are drawn.
        has_ground: Whether it is a file of its own, or else part of a page.
    """
    shown, others = picture.largest(_MOST_COLUMNS)
    parts = [
        text_at(_MARGIN, 30, clipped(picture.title, _WIDTH - 2 * _MARGIN, 16), 16, is_bold=True),
        text_at(_MARGIN, 50, _subtitle(picture), 12, is_muted=True),
    ]
    largest = max((column.size_bytes for column in shown), default=0) or 1
    for number, column in enumerate(shown):
        parts.extend(_column(column, _TOP + number * _STEP, _BARS / largest))
    y = _TOP + len(shown) * _STEP
    if others:
        size = size_text(sum(column.size_bytes for column in others))
        parts.append(text_at(_LEFT, y + 8, f"{len(others):,} more columns, {size}", is_muted=True))
        y += 24
    parts.extend(_legend(picture, y + 14))
    return svg_document(_WIDTH, y + 30, parts, picture.title, has_ground=has_ground)


def _subtitle(picture: PageMap) -> str:
    return (
        f"{len(picture.columns):,} columns, {picture.num_pages:,} pages, "
        f"{size_text(picture.size_bytes)}; one box is one page, its width the bytes it takes"
    )


def _column(column: ColumnPages, y: float, pixels_per_byte: float) -> Iterator[str]:
    yield text_at(_MARGIN, y + 13, clipped(column.name, _LEFT - 30, 13), 13, is_bold=True)
    yield text_at(_MARGIN, y + 29, clipped(column.type, _LEFT - 30, 11), 11, is_muted=True)
    for run in runs(column, _LEAST_PIXELS / pixels_per_byte):
        yield from _box(run, y, pixels_per_byte)
    right = _WIDTH - _MARGIN
    yield text_at(right, y + 13, size_text(column.size_bytes), 12, anchor="end")
    if column.ratio is not None:
        ratio = f"{column.ratio:.1f}× smaller" if column.ratio >= 1.05 else "as large as in memory"
        yield text_at(right, y + 29, ratio, 11, anchor="end", is_muted=True)
    if column.boxes:
        text = clipped(column.boxes[0].text, _BARS - 20, 11)
        yield text_at(_LEFT, y + 32, text, 11, is_muted=True)


def _box(run: Run, y: float, pixels_per_byte: float) -> Iterator[str]:
    x, width = _LEFT + run.start_bytes * pixels_per_byte, run.size_bytes * pixels_per_byte
    drawn = max(width - _GAP, 1.0)
    yield rectangle(x, y, drawn, _BAR, COLORS[run.encoding], _title(run))
    if width >= _LABEL_PIXELS:
        label = size_text(run.size_bytes)
        yield text_at(x + drawn / 2, y + 13, label, 10.5, anchor="middle", color="#fff")


def _title(run: Run) -> str:
    first, last = run.boxes[0], run.boxes[-1]
    pages = f"page {run.first:,}"
    if len(run.boxes) > 1:
        pages = f"pages {run.first:,} to {run.first + len(run.boxes) - 1:,}"
    rows = f"rows {first.first_row:,} to {last.first_row + last.num_rows - 1:,}"
    return f"{pages}, {rows}, {size_text(run.size_bytes)}: {first.text}"


def _legend(picture: PageMap, y: float) -> Iterator[str]:
    x = float(_LEFT)
    for encoding in picture.encodings:
        yield rectangle(x, y - 10, 12, 12, COLORS[encoding])
        yield text_at(x + 17, y, encoding.title, 12)
        x += 17 + 7.2 * len(encoding.title) + 20
