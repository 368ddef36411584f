"""The refused cells of the matrix, as they stand in `refused.json`, and the page made of them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

from matrix.axes import KINDS, NULLS, SETTINGS, SHAPES, SIZES, VERSIONS
from matrix.pairs import covering
from matrix.running import DIRECTIONS, Cell, Ended, Run

__all__ = ["FILE", "PAGE", "Record", "page_of", "plain_runs", "varied_runs"]

FILE = Path(__file__).with_name("refused.json")
PAGE = Path(__file__).parents[2] / "docs" / "format" / "matrix.md"

_KEY = tuple[str, str, str, str]


def plain_runs() -> list[Run]:
    """Every kind in every version with every pattern of nulls: what the page shows."""
    return [Run(version, nulls, "random", 100) for version in VERSIONS for nulls in NULLS]


def varied_runs() -> list[Run]:
    """Pairs of all axes, in an order in which every beginning is a fair sample."""
    axes = {
        "version": VERSIONS,
        "nulls": NULLS,
        "shape": tuple(SHAPES),
        "size": SIZES,
        "settings": tuple(SETTINGS),
    }
    return [Run(**row) for row in covering(axes)]


class Record:
    """Who refuses which cell of the plain runs.

    Attributes:
        refused: Ends by version, kind, direction and pattern of nulls; all others went well.
    """

    def __init__(self, refused: dict[_KEY, Ended]) -> None:
        self.refused = refused

    @classmethod
    def of(cls, ends: Iterable[tuple[Cell, Ended]]) -> Record:
        """Keeps what was refused."""
        return cls({_key(cell): ended for cell, ended in ends if ended.who})

    @classmethod
    def load(cls) -> Record:
        """Reads the file."""
        rows = json.loads(FILE.read_text()) if FILE.exists() else []
        return cls(
            {
                (version, kind, direction, pattern): Ended(who, text)
                for version, kind, direction, nulls, who, text in rows
                for pattern in nulls.split()
            }
        )

    def save(self) -> None:
        """Writes the file and the page."""
        rows = []
        for version, kind, direction in product(VERSIONS, KINDS, DIRECTIONS):
            patterns = defaultdict(list)
            for nulls in NULLS:
                if ended := self.refused.get((version, kind, direction, nulls)):
                    patterns[ended].append(nulls)
            for ended, nulls_of in patterns.items():
                row = [version, kind, direction, " ".join(nulls_of), ended.who, ended.text]
                rows.append(json.dumps(row, ensure_ascii=False))
        FILE.write_text("[\n" + ",\n".join(rows) + "\n]\n")
        PAGE.write_text(page_of(self))

    def ended(self, cell: Cell) -> Ended:
        """How the plain cell with the same kind, version, direction and nulls ended."""
        return self.refused.get(_key(cell), Ended())


def _key(cell: Cell) -> _KEY:
    return cell.run.version, cell.kind, cell.direction, cell.run.nulls


_HEAD = """\
# What is read and written

Written by `make matrix`; a test checks that it is up to date. Each cell has three signs. The first
is for what pilum wrote and the reference implementation (pylance 14.0.2) read, the second for what
the reference wrote and pilum read, the third for what pilum wrote and read itself.

✓ means that all values came back, bit by bit, by scans, ranges and takes: with no nulls, some nulls
and only nulls, and with nulls at the outer or inner levels only. ✗ means that one side refused or
changed them, and ◐ that this is so for some of these patterns. The numbers refer to the list of the
libraries that refused, and of their errors, below.

The tests run these cells and a sample of the whole matrix. The matrix crosses the types with
shapes of values ({shapes}), numbers of rows ({sizes}) and settings of fields ({settings}), any
two of them together: {runs} combinations for each of {kinds} types.
"""


def page_of(record: Record) -> str:
    """The page, in Markdown."""
    notes = _Notes()
    lines = [f"| Type | {' | '.join(VERSIONS)} |", "|---" * (len(VERSIONS) + 1) + "|"]
    for kind in KINDS:
        cells = [
            " ".join(_sign(record, kind, version, direction, notes) for direction in DIRECTIONS)
            for version in VERSIONS
        ]
        lines.append(f"| {_escaped(kind)} | {' | '.join(cells)} |")
    head = _HEAD.format(
        shapes=", ".join(SHAPES),
        sizes=", ".join(map(str, SIZES)),
        settings=", ".join(f"`{name}`" for name in SETTINGS),
        runs=len(varied_runs()),
        kinds=len(KINDS),
    )
    return "\n".join([head, *lines, "", "## Refused", "", *notes.lines()]) + "\n"


def _escaped(text: str) -> str:
    return "".join(f"\\{char}" if char in "<>[]|*_" else char for char in text)


def _sign(record: Record, kind: str, version: str, direction: str, notes: _Notes) -> str:
    ends = {
        nulls: record.refused[version, kind, direction, nulls]
        for nulls in NULLS
        if (version, kind, direction, nulls) in record.refused
    }
    if not ends:
        return "✓"
    sign = "✗" if len(ends) == len(NULLS) else "◐"
    numbers = sorted({notes.number(ended, kind, nulls) for nulls, ended in ends.items()})
    return sign + ",".join(map(str, numbers))


class _Notes:
    """What was said, once each, with the patterns of nulls that it was said for."""

    def __init__(self) -> None:
        self._numbers: dict[Ended, int] = {}
        self._nulls: dict[Ended, set[str]] = defaultdict(set)

    def number(self, ended: Ended, kind: str, nulls: str) -> int:
        text = ended.text.replace(kind, "…").replace(str(KINDS[kind].type), "…")
        general = Ended(ended.who, text)
        self._nulls[general].add(nulls)
        return self._numbers.setdefault(general, len(self._numbers) + 1)

    def lines(self) -> Iterator[str]:
        for ended, number in self._numbers.items():
            nulls = self._nulls[ended]
            when = (
                ""
                if len(nulls) == len(NULLS)
                else f" (nulls: {', '.join(n for n in NULLS if n in nulls)})"
            )
            yield f"{number}. **{ended.who}**{when}: `{ended.text.replace('`', chr(39))}`"
