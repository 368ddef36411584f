"""HTML for notebooks and pages: facts in a table, pictures below them; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pilum.pictures.words import visible

__all__ = ["card", "facts", "page", "table"]

_CELL = 'style="text-align:left;padding:2px 14px 2px 0;vertical-align:top;border:none"'
_NUMBER = 'style="text-align:right;padding:2px 14px 2px 0;vertical-align:top;border:none"'
_NAME = 'style="opacity:0.62;white-space:nowrap"'
_MOST_ROWS = 40

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<style>body{{font-family:system-ui,sans-serif;margin:2rem auto;max-width:920px;padding:0 1rem}}
</style></head><body>{body}</body></html>
"""


def page(title: str, body: str) -> str:
    """Return a page of its own, light or dark as the reader prefers; the body is HTML."""
    return _PAGE.format(title=_text(title), body=body)


def card(title: str, *parts: str) -> str:
    """Return a title with parts below it, which are HTML."""
    return f'<div style="max-width:900px"><b>{_text(title)}</b>{"".join(parts)}</div>'


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Return names and values in two columns."""
    rows = (
        f'<tr style="background:none"><td {_CELL}><span {_NAME}>{_text(name)}</span></td>'
        f"<td {_CELL}>{_text(value)}</td></tr>"
        for name, value in pairs
    )
    return f'<table style="border:none;margin:4px 0">{"".join(rows)}</table>'


def table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table with a head; of more than 40 rows, the first are shown."""
    head = "".join(f"<th {_CELL}>{_text(name)}</th>" for name in names)
    body = "".join(
        f'<tr style="background:none">{"".join(map(_cell, row))}</tr>' for row in rows[:_MOST_ROWS]
    )
    more = len(rows) - _MOST_ROWS
    note = f'<div style="opacity:0.62">and {more:,} more</div>' if more > 0 else ""
    return (
        f'<table style="border:none;margin:4px 0"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>{note}"
    )


def _cell(value: object) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    text = f"{value:,}" if is_number else _text(value)
    return f"<td {_NUMBER if is_number else _CELL}>{text}</td>"


def _text(value: object) -> str:
    return escape(visible("" if value is None else str(value)))
