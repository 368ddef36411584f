"""Draw a page map in a terminal: a line per column, a bar of its pages, lengths to scale.

Adjacent pages differ in brightness. Without colours, letters show the encodings, and adjacent pages
alternate between small and capital ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilum.pictures.page_map import ColumnPages, PageMap, runs
from pilum.pictures.theme import COLORS
from pilum.pictures.words import size_text, visible

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

__all__ = ["page_map_text"]

_NAME_WIDTH = 28
_SIDE_WIDTH = 26
_LEAST_BAR = 20
_MOST_BAR = 100


def page_map_text(picture: PageMap, width: int, *, has_colors: bool) -> Group:
    """Return the picture for a terminal of `width` columns; needs rich."""
    from rich.console import Group
    from rich.text import Text

    names = min(max((len(column.name) for column in picture.columns), default=0), _NAME_WIDTH)
    bar = min(max(width - names - _SIDE_WIDTH, _LEAST_BAR), _MOST_BAR)
    largest = max((column.size_bytes for column in picture.columns), default=0) or 1
    lines = [Text(visible(picture.title), style="bold")]
    for column in picture.columns:
        name = visible(column.name)
        line = Text(f"{_short(name, names):<{names}}  ", style="bold", end="")
        line = Text.assemble(line, _bar(column, bar / largest, has_colors))
        line.append(" " * max(names + 2 + bar - len(line), 0))
        line.append(f"{size_text(column.size_bytes):>12}")
        line.append("" if column.ratio is None else f"  {column.ratio:>5.1f}×", style="dim")
        lines.append(line)
    return Group(*lines, Text(""), _legend(picture, has_colors))


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _bar(column: ColumnPages, characters_per_byte: float, has_colors: bool) -> Text:
    from rich.text import Text

    found, drawn = Text(""), 0
    for number, run in enumerate(runs(column, 1 / characters_per_byte)):
        end = max(round((run.start_bytes + run.size_bytes) * characters_per_byte), drawn)
        if number == 0:
            end = max(end, 1)  # a column is never invisible
        if has_colors:
            shade = "█" if number % 2 == 0 else "▓"
            found.append(shade * (end - drawn), style=COLORS[run.encoding])
        else:
            letter = run.encoding.letter
            found.append((letter if number % 2 == 0 else letter.upper()) * (end - drawn))
        drawn = end
    return found


def _legend(picture: PageMap, has_colors: bool) -> Text:
    from rich.text import Text

    found = Text("")
    for encoding in picture.encodings:
        mark = "██" if has_colors else encoding.letter
        found.append(mark, style=COLORS[encoding] if has_colors else "")
        found.append(f" {encoding.title}   ")
    found.append(f"{picture.num_pages:,} pages, {size_text(picture.size_bytes)}", style="dim")
    return found
