"""What notebooks show of datasets, fragments, schemas, scans, versions and explanations."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa

import pilum

_HOSTILE = '<img src=x onerror="alert(1)">'
_MOST_CHARACTERS = 20_000


class _Checker(HTMLParser):
    """Collects tags, and checks that each one is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(html: str) -> str:
    checker = _Checker()
    checker.feed(html)
    assert checker.open == []
    assert not checker.seen & {"img", "script", "style"}  # a style would apply to the whole page
    assert len(html) < _MOST_CHARACTERS
    return html


def test_objects_have_a_form_for_notebooks(tmp_path: Path) -> None:
    rows = pa.table({_HOSTILE: range(10), "plain": [{"x": 1}] * 10})
    dataset = pilum.write_dataset(rows, tmp_path / "t")
    dataset.insert(rows)
    dataset.delete("plain.x > 1 OR plain.x = 0")
    dataset.delete(f"`{_HOSTILE}` = 3")
    shown = checked(dataset._repr_html_())
    assert ">18<" in shown
    assert "&lt;img src=x" in shown
    fragment = checked(dataset.get_fragments()[0]._repr_html_())
    assert "Fragment 0" in fragment
    assert "deleted" in fragment
    assert "plain.x" in checked(dataset.lance_schema._repr_html_())
    scan = checked(dataset.scanner(filter="plain.x = 1", limit=3)._repr_html_())
    assert "filter on plain" in scan
    assert "&lt;img src=x" in checked(pilum.explain(dataset)._repr_html_())
    versions = dataset.versions()
    assert versions == list(versions)
    assert "version 2: 20 rows" in checked(versions._repr_html_())  # type: ignore[attr-defined]


def test_wide_and_long_tables_have_small_forms(tmp_path: Path) -> None:
    wide = pa.table({f"column {at}": [at] for at in range(500)})
    dataset = pilum.write_dataset(wide, tmp_path / "wide")
    assert "and 460 more" in checked(dataset._repr_html_())
    assert len(pilum.explain(dataset)._repr_html_()) < 3 * _MOST_CHARACTERS
