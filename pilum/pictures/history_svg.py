"""Draw the history of a table as SVG: a bar per version, as high as the table has rows.

rows   ▇  ▇  ▅
    ▃  ▇  ▇  ▅
    1  2  3  4     versions, coloured by what their commits did
"""

from __future__ import annotations

from collections.abc import Iterator

from pilum.pictures.history import Change, History, Step
from pilum.pictures.theme import clipped, rectangle, svg_document, text_at

__all__ = ["CHANGE_COLORS", "history_svg"]

CHANGE_COLORS = {
    Change.ADDED: "#2f9e78",
    Change.CHANGED: "#e08a2c",
    Change.REMOVED: "#c9504f",
    Change.REPLACED: "#9367c8",
    Change.COLUMNS: "#3b82c4",
    Change.INDEXED: "#2aa0ad",
    Change.MAINTAINED: "#8a94a6",
    Change.OTHER: "#a4687a",
}

_WIDTH, _HEIGHT = 900, 300
_LEFT, _RIGHT, _TOP, _BASE = 70, 20, 92, 224
_MARGIN = 20
_WIDEST_BAR = 70
_LABEL_PIXELS = 46
_MOST_BARS = 200


def history_svg(picture: History, *, has_ground: bool = True) -> str:
    """Return the picture of the newest 200 versions of a table.

    Args:
        picture: What to draw.
        has_ground: Whether it is a file of its own, or else part of a page.
    """
    steps = picture.steps[-_MOST_BARS:]
    parts = [
        text_at(_MARGIN, 30, clipped(picture.title, _WIDTH - 2 * _MARGIN, 16), 16, is_bold=True),
        text_at(_MARGIN, 50, _subtitle(picture), 12, is_muted=True),
        text_at(_LEFT - 10, _TOP + 4, f"{picture.most_rows:,}", 11, anchor="end", is_muted=True),
        text_at(_LEFT - 10, _BASE, "0 rows", 11, anchor="end", is_muted=True),
        _line(_TOP),
        _line(_BASE),
    ]
    place = min((_WIDTH - _LEFT - _RIGHT) / max(len(steps), 1), _WIDEST_BAR + 14)
    for number, step in enumerate(steps):
        parts.extend(_bar(step, _LEFT + number * place, place, picture.most_rows or 1))
    parts.extend(_legend(picture))
    return svg_document(_WIDTH, _HEIGHT, parts, picture.title, has_ground=has_ground)


def _subtitle(picture: History) -> str:
    if not picture.steps:
        return "no versions"
    first, last = picture.steps[0], picture.steps[-1]
    return (
        f"{len(picture.steps):,} versions, {first.committed:%Y-%m-%d %H:%M} to "
        f"{last.committed:%Y-%m-%d %H:%M}; one bar is one version, its height the rows"
    )


def _bar(step: Step, x: float, place: float, most_rows: int) -> Iterator[str]:
    height = max((_BASE - _TOP) * step.rows / most_rows, 2.0)
    width = max(place * 0.82, 1.0)
    operation = f"{step.operation}, " if step.operation else ""
    title = (
        f"version {step.version}: {operation}{step.rows:,} rows, {step.committed:%Y-%m-%d %H:%M:%S}"
    )
    title += f", {step.message}" if step.message else ""
    yield rectangle(x, _BASE - height, width, height, CHANGE_COLORS[step.change], title)
    middle = x + width / 2
    if step.tag:
        tag = clipped(step.tag, max(place, 24), 11)
        yield text_at(middle, _BASE - height - 6, tag, 11, anchor="middle", is_bold=True)
    if place >= _LABEL_PIXELS / 2:
        yield text_at(middle, _BASE + 16, str(step.version), 12, anchor="middle")
    if place >= _LABEL_PIXELS:
        name = clipped(step.operation, place, 10)
        yield text_at(middle, _BASE + 31, name, 10, anchor="middle", is_muted=True)


def _line(y: float) -> str:
    return (
        f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}" '
        'stroke="currentColor" opacity="0.18"/>'
    )


def _legend(picture: History) -> Iterator[str]:
    x = float(_LEFT)
    for change in picture.changes:
        yield rectangle(x, _HEIGHT - 28, 12, 12, CHANGE_COLORS[change])
        yield text_at(x + 17, _HEIGHT - 18, change.value, 12)
        x += 17 + 7.2 * len(change.value) + 20
