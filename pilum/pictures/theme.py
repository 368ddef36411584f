"""Colours that are legible on light and dark grounds, and the frame of SVG pictures.

A picture takes the colour of its text from its surroundings, so that it fits a notebook of any
theme. As a file of its own it has a ground, light or dark as the reader prefers.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from pilum.pictures.page_map import Encoding
from pilum.pictures.words import visible

__all__ = ["COLORS", "clipped", "rectangle", "svg_document", "text_at"]

COLORS = {
    Encoding.PLAIN: "#8a94a6",
    Encoding.BIT_PACKED: "#3b82c4",
    Encoding.RUN_LENGTH: "#2f9e78",
    Encoding.DICTIONARY: "#e08a2c",
    Encoding.SYMBOLS: "#9367c8",
    Encoding.COMPRESSED: "#c9504f",
    Encoding.BYTE_STREAMS: "#2aa0ad",
    Encoding.CONSTANT: "#b5a642",
    Encoding.BLOB: "#a4687a",
}
"""Mid tones: at least 2.5 to 1 against white and against the darkest ground."""

_FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"
_GROUNDS = (
    "<style>.pilum-ground{fill:#fff}svg{color:#1f2328}"
    "@media(prefers-color-scheme:dark){.pilum-ground{fill:#0d1117}svg{color:#e6edf3}}</style>"
)
_CHARACTER_PIXELS = 0.56
"""Width of an average character, as a share of the font size."""


def svg_document(
    width: int, height: int, parts: Iterable[str], title: str, *, has_ground: bool
) -> str:
    """Return a picture; with a ground it is a file of its own, without one a part of a page."""
    size = f'viewBox="0 0 {width} {height}"'
    if not has_ground:
        size += f' style="max-width:{width}px;width:100%;display:block"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
        f'aria-label={quoteattr(visible(title))} font-family="{_FONT}" fill="currentColor">'
    )
    ground = [_GROUNDS, '<rect class="pilum-ground" width="100%" height="100%"/>']
    return "\n".join([head, *(ground if has_ground else []), *parts, "</svg>\n"])


def text_at(
    x: float,
    y: float,
    text: str,
    size: float = 12,
    *,
    anchor: str = "start",
    is_muted: bool = False,
    is_bold: bool = False,
    color: str = "",
) -> str:
    """Return a line of text with its baseline at `y`."""
    more = f' text-anchor="{anchor}"' if anchor != "start" else ""
    more += ' opacity="0.62"' if is_muted else ""
    more += ' font-weight="600"' if is_bold else ""
    more += f' fill="{color}"' if color else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}"{more}>{escape(visible(text))}</text>'
    )


def rectangle(
    x: float, y: float, width: float, height: float, color: str, title: str = "", radius: float = 2
) -> str:
    """Return a box, with a text that appears under the pointer."""
    inner = f"<title>{escape(visible(title))}</title>" if title else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'rx="{min(radius, width / 2):.1f}" fill="{color}">{inner}</rect>'
    )


def clipped(text: str, width: float, size: float) -> str:
    """Return as much of a text as fits into a width in pixels."""
    most = max(int(width / (size * _CHARACTER_PIXELS)), 1)
    return text if len(text) <= most else text[: most - 1] + "…"
