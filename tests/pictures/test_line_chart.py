"""Charts as text and as SVG."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from pilum.pictures.line_chart import LineChart, Series

CHART = LineChart(
    "recall <of> v",
    "ms",
    "recall@10",
    [Series("a", [(0.1, 0.5), (1.0, 0.75), (10.0, 1.0)]), Series("b", [(0.1, 1.0)])],
)
_SVG = "{http://www.w3.org/2000/svg}"


def test_text_has_a_mark_per_point_where_it_belongs() -> None:
    lines = CHART.to_text(width=21, height=5).splitlines()
    assert lines[0] == "recall <of> v"
    plot = [line.split("┤", 1)[1] for line in lines if "┤" in line]
    assert len(plot) == 5
    assert [plot[0][:1], plot[0][20]] == ["x", "o"]  # the best recall; the slowest point
    assert plot[2][10] == "o"  # the middle of a logarithmic axis
    assert plot[4][0] == "o"
    assert lines[-1] == "o a  x b"
    assert "0.1" in lines[-2]
    assert lines[-2].endswith("10 ms")


def test_svg_has_a_line_per_series_within_its_frame() -> None:
    root = ET.fromstring(CHART.to_svg(width=500, height=300))
    lines = root.findall(f"{_SVG}polyline")
    assert len(lines) == 2
    points = [tuple(map(float, pair.split(","))) for pair in lines[0].attrib["points"].split()]
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)
    assert all(0 < x < 500 and 0 < y < 300 for x, y in points)
    texts = [text.text for text in root.findall(f"{_SVG}text")]
    assert {"recall <of> v", "ms", "recall@10", "a", "b"} <= set(texts)


@pytest.mark.parametrize("point", [(1.0, 0.5), (1e-6, 1.0)])
def test_one_point_is_a_chart(point: tuple[float, float]) -> None:
    chart = LineChart("t", "ms", "recall", [Series("only", [point])])
    assert chart.to_text().count("o") >= 1
    assert ET.fromstring(chart.to_svg()).find(f"{_SVG}circle") is not None
