"""Pictures of the results, as SVG: bars of ratios per case, latency by number of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from bench.questions.patterns import COUNTS
from pilum.pictures.line_chart import LineChart, Series

__all__ = ["bars", "write_plots"]

_BARS = ("scan", "filter", "count", "take sorted", "write", "cold scan")
_COLORS = ("#3465a4", "#cc4b37", "#4e9a06", "#75507b")
_WIDTH, _LEFT, _RIGHT, _TOP = 720, 200, 60, 40
_BAR, _GAP = 9, 8
_FONT = 'font-family="sans-serif" font-size="12"'

Cells = Sequence[Mapping[str, Any]]


def write_plots(page: Path, cells: Cells) -> str:
    """Write the pictures into a folder beside the page; return the Markdown that shows them."""
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, title, picture in _pictures(cells):
        (folder / name).write_text(picture)
        lines += [f"![{title}]({folder.name}/{name})", ""]
    return "\n".join(lines)


def _pictures(cells: Cells) -> Iterator[tuple[str, str, str]]:
    """Yield file name, title and document of each picture."""
    for question in _BARS:
        ratios = _ratios(cells, question)
        if ratios:
            title = f"{question}: time of a peer divided by ours, per case"
            yield f"{question.replace(' ', '-')}.svg", title, bars(title, ratios)
    for table in ("lineitem", "documents"):
        series = _latencies(cells, table)
        if series:
            title = f"take of sorted rows of {table}: ms by number of rows"
            chart = LineChart(title, "rows", "ms", series, y_is_logarithmic=True)
            yield f"latency-{table}.svg", title, chart.to_svg()


def _ratios(cells: Cells, question: str) -> dict[str, dict[str, float]]:
    """Return ratios by case and peer."""
    medians: dict[str, dict[str, float]] = {}
    for cell in cells:
        if cell["question"] == question and cell["median"]:
            medians.setdefault(cell["shape"], {})[cell["peer"]] = cell["median"]
    return {
        case: {peer: time / found["pilum"] for peer, time in found.items() if peer != "pilum"}
        for case, found in medians.items()
        if "pilum" in found and len(found) > 1
    }


def _latencies(cells: Cells, table: str) -> list[Series]:
    points: dict[str, list[tuple[float, float]]] = {}
    for cell in cells:
        for count in COUNTS:
            case = f"{table}, {count:,} row{'s' if count > 1 else ''}"
            if (cell["question"], cell["shape"]) == ("take sorted", case) and cell["median"]:
                points.setdefault(cell["peer"], []).append((count, cell["median"] * 1e3))
    return [Series(peer, sorted(found)) for peer, found in points.items()]


def bars(title: str, ratios: Mapping[str, Mapping[str, float]]) -> str:
    """Draw a bar per case and peer on a logarithmic axis; the line is at 1, as fast as we are."""
    peers = list(dict.fromkeys(peer for found in ratios.values() for peer in found))
    values = [ratio for found in ratios.values() for ratio in found.values()]
    low, high = math.log(min(0.8, *values)), math.log(max(1.25, *values))

    def across(ratio: float) -> float:
        return _LEFT + (math.log(ratio) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    step = len(peers) * _BAR + _GAP
    height = _TOP + len(ratios) * step + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {_FONT}>',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        _text(_WIDTH / 2, 20, title, "middle"),
    ]
    for number, (case, found) in enumerate(ratios.items()):
        top = _TOP + number * step
        parts.append(_text(_LEFT - 8, top + (step - _GAP) / 2 + 4, case, "end"))
        for peer, ratio in found.items():
            place = peers.index(peer)
            start, stop = sorted((across(1), across(ratio)))
            y, color = top + place * _BAR, _COLORS[1 + place % 3]
            parts.append(
                f'<rect x="{start:.1f}" y="{y}" width="{stop - start:.1f}" height="{_BAR - 1}" '
                f'fill="{color}"/>'
            )
            parts.append(_text(across(max(ratio, 1)) + 4, y + 8, f"{ratio:.2f}", "start", color, 9))
    one = across(1)
    parts.append(f'<line x1="{one:.1f}" y1="{_TOP - 6}" x2="{one:.1f}" y2="{height - 24}" ')
    parts.append('stroke="black"/>')
    for place, peer in enumerate(peers):
        parts.append(_text(_LEFT + 110 * place, height - 8, peer, "start", _COLORS[1 + place % 3]))
    return "\n".join([*parts, "</svg>\n"])


def _text(x: float, y: float, text: str, anchor: str, color: str = "black", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}" '
        f'font-size="{size}">{escape(text)}</text>'
    )
