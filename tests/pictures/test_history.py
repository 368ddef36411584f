"""Histories as SVG."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest

from pilum.pictures.history import Change, History, Step
from pilum.pictures.history_svg import history_svg

_SVG = "{http://www.w3.org/2000/svg}"
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def history(*rows: int, tag: str = "") -> History:
    steps = [
        Step(at + 1, count, Change.ADDED, "append", _BEGIN + timedelta(days=at), tag, "<why>")
        for at, count in enumerate(rows)
    ]
    return History("orders", steps)


def bars(picture: History) -> list[ET.Element]:
    root = ET.fromstring(history_svg(picture))
    return [one for one in root.iter(f"{_SVG}rect") if one.find(f"{_SVG}title") is not None]


def test_bars_are_as_high_as_the_table_has_rows() -> None:
    heights = [float(one.attrib["height"]) for one in bars(history(100, 200, 50))]
    assert heights[1] == pytest.approx(2 * heights[0])
    assert heights[2] == pytest.approx(heights[0] / 2)


def test_texts_are_escaped_and_tags_shown() -> None:
    drawn = history_svg(history(1, tag="v&1"))
    assert "v&amp;1" in drawn
    assert "&lt;why&gt;" in drawn
    assert "rows added" in drawn


def test_a_long_history_is_cut_and_an_empty_one_drawn() -> None:
    drawn = bars(history(*range(1, 501)))
    assert len(drawn) == 200
    titles = [one.findtext(f"{_SVG}title") or "" for one in drawn]
    assert titles[-1].startswith("version 500:")
    assert bars(history()) == []
