"""Line charts, as text for a terminal and as SVG for a page.

1.00 ┤                     o──────o
0.95 ┤            o────────┘
0.90 ┤     o──────┘
     └──────┬──────────────┬────────
           0.1            1.0   ms
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pilum.pictures.theme import svg_document, text_at

__all__ = ["LineChart", "Series"]

_MARKS = "ox+*#@%&"
_COLORS = ("#3465a4", "#cc4b37", "#4e9a06", "#75507b", "#c17d11", "#06989a", "#888a85", "#b5a642")
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 28, 36, 48
_NUM_TICKS = 5


@dataclass(frozen=True)
class Series:
    """Points of a chart that belong together.

    Attributes:
        name: Name in the legend.
        points: Pairs of x and y, in the order in which a line connects them.
    """

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class LineChart:
    """A chart of one or more series, with a logarithmic x axis.

    Attributes:
        title: Text above the chart.
        x_name: Name of the x axis, whose values are above 0.
        y_name: Name of the y axis.
        series: The series; all together have at least one point.
        y_is_logarithmic: Whether the y axis is logarithmic too; its values are then above 0.
    """

    title: str
    x_name: str
    y_name: str
    series: Sequence[Series]
    y_is_logarithmic: bool = False

    def to_text(self, width: int = 64, height: int = 16) -> str:
        """Return lines of text; each point has a mark.

        Args:
            width: Number of columns for points.
            height: Number of lines for points.
        """
        x_axis, y_axis = self._axes()
        cells = [[" "] * width for _ in range(height)]
        for number, one in enumerate(self.series):
            for x, y in one.points:
                row = height - 1 - round(y_axis.share(y) * (height - 1))
                cells[row][round(x_axis.share(x) * (width - 1))] = _MARKS[number % len(_MARKS)]
        labels = [""] * height
        for share in (0.0, 0.5, 1.0):
            labels[height - 1 - round(share * (height - 1))] = _short(y_axis.value(share))
        margin = max(map(len, labels))
        lines = [self.title, f"{self.y_name}"]
        for label, marks in zip(labels, cells, strict=True):
            lines.append(f"{label:>{margin}} ┤{''.join(marks)}".rstrip())
        first, last = _short(x_axis.value(0)), f"{_short(x_axis.value(1))} {self.x_name}"
        lines.append(f"{'':{margin}} └{'─' * width}")
        lines.append(f"{'':{margin}}  {first}{last:>{max(width - len(first), len(last) + 1)}}")
        legend = (f"{_MARKS[n % len(_MARKS)]} {one.name}" for n, one in enumerate(self.series))
        return "\n".join([*lines, "  ".join(legend)])

    def to_svg(self, width: int = 640, height: int = 400) -> str:
        """Return an SVG document.

        Args:
            width: Width in pixels.
            height: Height in pixels.
        """
        x_axis, y_axis = self._axes()

        def across(x: float) -> float:
            return _LEFT + x_axis.share(x) * (width - _LEFT - _RIGHT)

        def down(y: float) -> float:
            return height - _BOTTOM - y_axis.share(y) * (height - _TOP - _BOTTOM)

        parts = [
            text_at(width / 2, 20, self.title, 14, anchor="middle", is_bold=True),
            text_at((_LEFT + width - _RIGHT) / 2, height - 10, self.x_name, anchor="middle"),
            text_at(8, _TOP - 10, self.y_name),
        ]
        for share in (number / (_NUM_TICKS - 1) for number in range(_NUM_TICKS)):
            x, y = x_axis.value(share), y_axis.value(share)
            parts.append(_line(_LEFT, down(y), width - _RIGHT, down(y)))
            parts.append(text_at(_LEFT - 6, down(y) + 4, _short(y), anchor="end"))
            parts.append(_line(across(x), _TOP, across(x), height - _BOTTOM))
            parts.append(text_at(across(x), height - _BOTTOM + 16, _short(x), anchor="middle"))
        for number, one in enumerate(self.series):
            color = _COLORS[number % len(_COLORS)]
            places = [(across(x), down(y)) for x, y in one.points]
            joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            parts.append(f'<polyline points="{joined}" fill="none" stroke="{color}"/>')
            parts.extend(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in places
            )
            y = height - _BOTTOM - 12 - 16 * (len(self.series) - 1 - number)
            parts.append(text_at(width - _RIGHT - 8, y, one.name, anchor="end", color=color))
        return svg_document(width, height, parts, self.title, has_ground=True)

    def _axes(self) -> tuple[_LogAxis, _Axis | _LogAxis]:
        points = [point for one in self.series for point in one.points]
        kind = _LogAxis if self.y_is_logarithmic else _Axis
        return _LogAxis.over(x for x, _ in points), kind.over(y for _, y in points)


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float

    @classmethod
    def over(cls, values: Iterable[float]) -> _Axis:
        found = list(values)
        low, high = min(found), max(found)
        return cls(low, high) if high > low else cls(low - 0.5, high + 0.5)

    def share(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)

    def value(self, share: float) -> float:
        return self.low + share * (self.high - self.low)


@dataclass(frozen=True)
class _LogAxis:
    logs: _Axis

    @classmethod
    def over(cls, values: Iterable[float]) -> _LogAxis:
        return cls(_Axis.over(map(math.log10, values)))

    def share(self, value: float) -> float:
        return self.logs.share(math.log10(value))

    def value(self, share: float) -> float:
        return float(10.0 ** self.logs.value(share))


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        'stroke="currentColor" opacity="0.18"/>'
    )
