"""Sections of a Markdown page that are written by several benches, each without the others.

# Measured
## In short            the main bench writes the page with all of its own sections
## Larger than memory  written by `bench.scale` alone; the main bench keeps it
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

__all__ = ["put_section", "with_sections_of"]

_OTHERS = frozenset({"Spark", "Larger than memory", "Indices", "Vectors", "History"})
"""Titles of sections that the main bench does not write."""

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


def put_section(path: Path, section: str) -> None:
    """Replaces a section of a page, or adds it as the last one.

    Args:
        path: The page; it must exist.
        section: Begins with its heading, `## …`.
    """
    title = _title(section)
    parts = _parts(path.read_text())
    if title in map(_title, parts[1:]):
        parts = [parts[0], *(section if _title(part) == title else part for part in parts[1:])]
    else:
        parts.append(section)
    path.write_text(_joined(parts))


def with_sections_of(old: Path, page: str) -> str:
    """A page with the sections of other benches that its older form has, behind its own.

    Args:
        old: The older form; need not exist.
        page: The page.
    """
    if not old.exists():
        return page
    parts = _parts(page)
    others = [part for part in _parts(old.read_text())[1:] if _title(part) in _OTHERS]
    return _joined([*parts, *others])


def _parts(page: str) -> list[str]:
    """What stands before the first heading, then a text per section."""
    starts = [0, *(found.start() for found in _HEADING.finditer(page)), len(page)]
    return [page[start:stop] for start, stop in pairwise(starts)]


def _title(section: str) -> str:
    found = _HEADING.match(section)
    return found[1] if found else ""


def _joined(parts: list[str]) -> str:
    return "\n".join(part.rstrip() + "\n" for part in parts)
