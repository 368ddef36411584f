"""Page maps: the model, and its drawings as text and as SVG."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from pilum.pictures.page_map import Box, ColumnPages, Encoding, PageMap, encoding_of, runs
from pilum.pictures.page_map_svg import page_map_svg

_SVG = "{http://www.w3.org/2000/svg}"


def column(name: str, *sizes: int, encoding: Encoding = Encoding.PLAIN) -> ColumnPages:
    boxes = [Box(10 * at, 10, size, encoding, "flat(32)") for at, size in enumerate(sizes)]
    return ColumnPages(name, "int32", boxes, 2 * sum(sizes))


PICTURE = PageMap(
    "a <file>",
    [
        column("wide & long", 1000, 500, 500),
        column("narrow", 100, encoding=Encoding.BIT_PACKED),
        column("empty", 0, encoding=Encoding.CONSTANT),
    ],
)


@pytest.mark.parametrize(
    ("layout", "encoding", "dictionary", "wanted"),
    [
        ("mini-block", "inline_bitpacking(64)", "", Encoding.BIT_PACKED),
        ("mini-block", "inline_bitpacking(32)", "4 values as flat(32)", Encoding.DICTIONARY),
        ("mini-block", "fsst(variable(flat(32)))", "", Encoding.SYMBOLS),
        ("mini-block", "general(zstd, flat(32))", "", Encoding.COMPRESSED),
        ("mini-block", "rle(flat(32), inline_bitpacking(8))", "", Encoding.RUN_LENGTH),
        ("full-zip", "fixed_size_list(16, flat(32))", "", Encoding.PLAIN),
        ("constant", "one value", "", Encoding.CONSTANT),
        ("blob, full-zip", "flat(8)", "", Encoding.BLOB),
        ("array", "something(new)", "", Encoding.PLAIN),
    ],
)
def test_the_outermost_encoding_names_the_kind(
    layout: str, encoding: str, dictionary: str, wanted: Encoding
) -> None:
    assert encoding_of(layout, encoding, dictionary) is wanted


def test_small_pages_of_one_kind_are_joined() -> None:
    pages = column("many", *[1] * 1000, 50, *[1] * 10)
    found = list(runs(pages, 100))
    assert len(found) <= 1060 / 100 + 2
    assert sum(len(run.boxes) for run in found) == 1011
    assert [run.start_bytes for run in found] == [
        sum(one.size_bytes for one in found[:at]) for at in range(len(found))
    ]
    mixed = ColumnPages(
        "mixed", "int8", [Box(at, 1, 1, [*Encoding][at % 2], "") for at in range(4)]
    )
    assert len(list(runs(mixed, 100))) == 4


def test_boxes_are_to_scale() -> None:
    root = ET.fromstring(page_map_svg(PICTURE))
    boxes = [one for one in root.iter(f"{_SVG}rect") if one.find(f"{_SVG}title") is not None]
    widths = [float(one.attrib["width"]) for one in boxes]
    assert widths[0] == pytest.approx(2 * widths[1], rel=0.02)
    assert widths[1] == pytest.approx(widths[2])
    assert widths[3] == pytest.approx(widths[0] / 10, rel=0.05)
    titles = [one.findtext(f"{_SVG}title") for one in boxes]
    assert titles[1] == "page 1, rows 10 to 19, 500 B: flat(32)"
    texts = {text.text for text in root.iter(f"{_SVG}text")}
    assert {"a <file>", "wide & long", "2.0 KiB", "2.0× smaller", "plain", "bit-packed"} <= texts


def test_as_a_part_of_a_page_it_has_no_ground() -> None:
    assert "pilum-ground" in page_map_svg(PICTURE)
    part = page_map_svg(PICTURE, has_ground=False)
    assert "pilum-ground" not in part
    assert "<style" not in part


def test_of_very_many_columns_the_largest_are_drawn() -> None:
    wide = PageMap("wide", [column(f"column {at}", at + 1) for at in range(1000)])
    drawn = page_map_svg(wide)
    assert len(drawn) < 60_000
    assert "column 999" in drawn
    assert "column 7<" not in drawn
    assert "960 more columns" in drawn


def test_no_columns_are_a_picture_too() -> None:
    ET.fromstring(page_map_svg(PageMap("nothing", [])))


@pytest.mark.parametrize("has_colors", [True, False])
def test_text_has_a_bar_per_column(has_colors: bool) -> None:
    pytest.importorskip("rich")
    from rich.console import Console

    from pilum.pictures.page_map_text import page_map_text

    console = Console(width=100, force_terminal=has_colors, color_system=None)
    with console.capture() as drawn:
        console.print(page_map_text(PICTURE, 100, has_colors=has_colors))
    title, wide, narrow, empty, _, legend = drawn.get().splitlines()
    assert title.strip() == "a <file>"
    if not has_colors:
        lengths = [line.lower().count(mark) for line, mark in ((wide[11:], "p"), (narrow[6:], "b"))]
        assert lengths[0] == pytest.approx(20 * lengths[1], rel=0.3)
        assert wide[13] == "p"
        assert "P" in wide
        assert empty[13] == "c"
    assert "bit-packed" in legend
