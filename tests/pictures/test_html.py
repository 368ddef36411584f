"""HTML for notebooks: every text is escaped."""

from __future__ import annotations

from html.parser import HTMLParser

from pilum.pictures.html import card, facts, page, table

_HOSTILE = '<script>alert("x")</script>\x1b[31m'


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)


def test_no_text_becomes_a_tag() -> None:
    made = card(_HOSTILE, facts([(_HOSTILE, _HOSTILE)]), table([_HOSTILE], [[_HOSTILE]]))
    found = _Tags()
    found.feed(page(_HOSTILE, made))
    assert "script" not in found.tags
    assert "\x1b" not in made


def test_long_tables_are_cut() -> None:
    made = table(["n"], [[at] for at in range(1000)])
    assert made.count("<tr") == 41
    assert "and 960 more" in made
