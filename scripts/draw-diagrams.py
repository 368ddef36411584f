#!/usr/bin/env python3
"""Draws the diagrams of README and docs into docs/images; the same each time.

python scripts/draw-diagrams.py

table.svg      a table: its folder, versions, fragments, and the pages of one file
layers.svg     the packages of pilum, and which may import which
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pilum.pictures.theme import rectangle, svg_document, text_at

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
BLUE, GREEN, ORANGE, PURPLE, GREY = "#3b82c4", "#2f9e78", "#e08a2c", "#9367c8", "#8a94a6"

LAYERS = (
    (ORANGE, ("cli",), "the command pilum"),
    (ORANGE, ("spark",), "DataFrames, SQL and streams"),
    (ORANGE, ("torch", "sampler", "training"), "datasets and loaders for training"),
    (
        PURPLE,
        ("distributed", "fragment", "commit", "indices", "optimize", "namespace"),
        "jobs on many workers, catalogs",
    ),
    (PURPLE, ("dataset",), "LanceDataset, in eight chapters"),
    (PURPLE, ("file", "blob"), "single data files; blobs as files"),
    (GREEN, ("table",), "manifests, versions, transactions, scans"),
    (GREEN, ("index",), "files of indices, queries and answers"),
    (BLUE, ("container",), "one file: footer, pages, columns"),
    (BLUE, ("encodings",), "structural layouts, compressive encodings"),
    (BLUE, ("levels", "blocks"), "nesting; runs of values"),
    (GREY, ("storage", "expressions", "kernels"), "bytes in and out; filters; loops in Rust"),
    (GREY, ("format",), "names, versions and row addresses of the formats"),
    (GREY, ("arrays", "arguments"), "rows of nested Arrow arrays; checks"),
    (GREY, ("cache", "parallel", "progress", "errors"), "limits, threads, bars, exceptions"),
)


def box(
    x: float, y: float, width: float, color: str, text: str, height: float = 24
) -> Iterator[str]:
    """Yield a box with a text in its middle."""
    yield rectangle(x, y, width, height, color, radius=3)
    yield text_at(x + width / 2, y + height / 2 + 4, text, anchor="middle", color="#fff")


def arrow(x1: float, y1: float, x2: float, y2: float) -> Iterator[str]:
    """Yield a line with a head at its end."""
    yield (
        f'<path d="M{x1:.0f} {y1:.0f}C{(x1 + x2) / 2:.0f} {y1:.0f} {(x1 + x2) / 2:.0f} {y2:.0f} '
        f'{x2 - 6:.0f} {y2:.0f}" fill="none" stroke="currentColor" opacity="0.55"/>'
    )
    yield (
        f'<path d="M{x2 - 7:.0f} {y2 - 4:.0f}L{x2:.0f} {y2:.0f}L{x2 - 7:.0f} {y2 + 4:.0f}Z" '
        'fill="currentColor" opacity="0.55"/>'
    )


def table() -> Iterator[str]:
    """Yield the parts of the picture of a table."""
    yield text_at(20, 30, "flights.lance/", 16, is_bold=True)
    yield text_at(
        20, 50, "a table is a folder; a commit adds files and changes none", is_muted=True
    )
    for x, title in ((20, "_versions/"), (330, "fragments"), (610, "data/")):
        yield text_at(x, 82, title, is_bold=True)
    for number, y in ((1, 96), (2, 136)):
        yield from box(20, y, 190, PURPLE, f"manifest of version {number}")
    yield text_at(20, 186, "_transactions/", is_bold=True)
    yield from box(20, 200, 190, GREY, "what the commit changed")
    for number, y, rows in ((0, 96, "0100….lance"), (1, 136, "1011….lance")):
        yield from box(330, y, 150, GREEN, f"fragment {number}")
        yield from box(610, y, 150, BLUE, rows)
        yield from arrow(480, y + 12, 610, y + 12)
    yield from arrow(210, 108, 330, 108)
    yield from arrow(210, 146, 330, 114)
    yield from arrow(210, 150, 330, 148)
    yield from box(330, 200, 150, GREY, "deleted rows")
    yield text_at(490, 216, "_deletions/, one bitmap for a fragment", is_muted=True)

    yield text_at(20, 268, "one file", is_bold=True)
    yield text_at(
        80, 268, "the pages of all columns, then what is needed to find them", is_muted=True
    )
    x = 20.0
    pages = (("a", "rows 0…"), ("b", "rows 0…"), ("a", "rows n…"), ("b", "rows m…"))
    for column, rows in pages:
        yield from box(x, 282, 96, BLUE if column == "a" else ORANGE, f"page of {column}", 30)
        yield text_at(x + 48, 328, rows, 11, anchor="middle", is_muted=True)
        x += 100
    ends = (
        (96, "schema", ""),
        (130, "columns", "their pages, encodings"),
        (110, "offset tables", ""),
        (110, "footer", "2.2, LANC"),
    )
    for width, text, below in ends:
        yield from box(x, 282, width, GREY, text, 30)
        yield text_at(x + width / 2, 328, below, 11, anchor="middle", is_muted=True)
        x += width + 4


def layers() -> Iterator[str]:
    """Yield the parts of the picture of the packages."""
    yield text_at(20, 30, "pilum", 16, is_bold=True)
    yield text_at(20, 50, "imports go down, or to the right", is_muted=True)
    for place, (color, names, what) in enumerate(LAYERS):
        y = 66 + 28 * place
        width = (500 - 4 * (len(names) - 1)) / len(names)
        for number, name in enumerate(names):
            yield from box(20 + number * (width + 4), y, width, color, name)
        yield text_at(534, y + 16, what, is_muted=True)


PICTURES = {
    "table.svg": lambda: svg_document(
        900, 344, table(), "a table and one of its files", has_ground=True
    ),
    "layers.svg": lambda: svg_document(
        900, 500, layers(), "the packages of pilum", has_ground=True
    ),
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (IMAGES / name).write_text(draw(), encoding="utf-8")
