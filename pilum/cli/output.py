"""Print the results of commands: tables for people, or JSON on request.

Names and values of tables are printed without markup, and with control characters escaped. If the
output is not a terminal, lines are as long as their content.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from pilum.inspection.values import plain
from pilum.pictures.words import visible

__all__ = [
    "console",
    "note",
    "print_drawing",
    "print_grid",
    "print_json",
    "print_line",
    "say",
    "shown_json",
]

_CONTROLS = re.compile(r"[\x7f-\x9f]")
_ANY_WIDTH = 10_000
"""Columns of output that is not a terminal."""


def console() -> Console:
    """Return the console of standard output, as it is now."""
    is_terminal = sys.stdout.isatty()
    return Console(
        file=sys.stdout,
        width=None if is_terminal else _ANY_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )


def say(text: str) -> None:
    """Print one or more lines of text for people."""
    print("\n".join(visible(line) for line in text.split("\n")))


def note(text: str) -> None:
    """Print a remark that is not part of the result, on standard error."""
    print("\n".join(visible(line) for line in f"pilum: {text}".split("\n")), file=sys.stderr)


def print_grid(
    names: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[str] = ()
) -> None:
    """Print a table without lines; the columns of `numbers` are aligned to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    right = set(numbers)
    for name in names:
        table.add_column(
            Text(visible(name)), justify="right" if name in right else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(visible(_cell(value))) for value in row))
    print_drawing(table)


def print_drawing(drawing: RenderableType) -> None:
    """Print something that rich draws, without spaces at the ends of lines."""
    printer = console()
    with printer.capture() as drawn:
        printer.print(drawing)
    print("\n".join(line.rstrip() for line in drawn.get().splitlines()))


def _cell(value: object) -> str:
    """Return a value as a cell of a table: numbers with separators, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return str(value)


def print_json(facts: Any) -> None:
    """Print facts as one JSON document."""
    print(shown_json(json.dumps(plain(facts), indent=2, ensure_ascii=False)))


def print_line(facts: Any) -> None:
    """Print facts as JSON in one line, and flush it, as commands do that go on."""
    print(shown_json(json.dumps(plain(facts), ensure_ascii=False)), flush=True)


def shown_json(text: str) -> str:
    """Return JSON in which those control characters are escaped, too, that JSON allows."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
