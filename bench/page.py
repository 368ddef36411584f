"""The results as the page docs/bench.md; its first two tables stand in the README, too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bench.encodings import row_of
from bench.goals import slower, verdicts
from bench.questions import QUESTIONS
from bench.rounds import CALLS_OF_TURN, SECONDS_OF_TURN
from bench.tables import HEAD, rows_of

__all__ = ["page"]

_HEAD = """# Measured

`make bench` compares pilum with its peers in one process: they take turns, files are in the page
cache, and each answer is compared with the source table before anything is timed. The columns have
{rows:,} rows, the wide ones fewer (see `bench/shapes.py`). Numbers are medians. ÷ is a peer's
median divided by ours: above 1, pilum is faster, smaller or leaner. Absolute times depend on the
machine and mean little. `make bench ARGS="--page docs/bench.md"` writes this page.

A turn repeats takes, filters, counts, orders and openings {calls} times, or until {ms:g} ms have
passed. All libraries get the same calls. Scans and writes have turns of one call.
"""
_FIRSTS = """The first call of each turn comes right after those of other libraries, so that its
code and data are no longer in the caches of the processor. Geometric means of these calls alone,
where both libraries have turns of several calls:
"""
_MEASURED = """

Measured on {date}: {cores} cores ({processor}), {system}, Python {python}.
"""
_ENCODINGS = """GB/s of Arrow bytes on one core, one page in memory: from its stored bytes to Arrow
and back, beside copying the Arrow bytes from memory to memory (`python -m bench.encodings`).
"""
_GOALS = """Geometric means of pylance's median divided by ours, over all cases, and the same for
Vortex in our place. `bench/goals.py` says which cases count.
"""
_SLOWER = """## Slower than a peer

[Where the time goes](where-time-goes.md) has the profiles of these cases, and what was tried.
"""
_TABLES = """Opening tables and changing them (`python -m bench.tables`). Libraries take turns,
on copies of the same table. pilum waits for the device before a commit is visible, pylance does
not, so pilum is measured without, too. Memory is the peak of a process of its own.
"""
_BESIDE = ("scan", "take 1", "take 100", "take 1000", "write", "size")


def page(document: Mapping[str, Any], pictures: str = "") -> str:
    """The page for what `report.document_of` gives, and the Markdown of its pictures."""
    versions = list(dict.fromkeys(cell["file_version"] for cell in document["cells"]))
    numbers = _Numbers(document, versions[0])
    settings = {**document["settings"], "calls": CALLS_OF_TURN, "ms": SECONDS_OF_TURN * 1e3}
    head = _HEAD.format(**settings)
    head += _MEASURED.format(date=document["date"][:10], **document["machine"])
    parts = [head, _libraries(document), "## In short\n", numbers.summary(), numbers.beside()]
    parts += ["### First calls\n", _FIRSTS, numbers.firsts()]
    parts += ["## Goals\n", _GOALS, numbers.goals(), _SLOWER, numbers.slower()]
    parts += [f"## Pictures\n\n{pictures}"] if pictures else []
    parts += [f"## {q.capitalize()}\n\n{numbers.question(q)}" for q in numbers.questions]
    for version in versions[1:]:
        other = _Numbers(document, version)
        parts += [f"## File version {version}\n", other.summary(), other.beside()]
    if document["encodings"]:
        parts.append(_encodings(document["encodings"]))
    if document.get("tables"):
        parts.append(f"## Tables\n\n{_TABLES}\n{_table(HEAD, rows_of(document['tables']))}")
    return "\n".join(parts)


def _encodings(speeds: Sequence[Mapping[str, Any]]) -> str:
    head = ["page", "decode", "÷ copy", "encode", "÷ copy", "copy", "stored / raw"]
    rows = [[speed["case"], *row_of(speed)] for speed in speeds]
    return f"## Encodings\n\n{_ENCODINGS}\n{_table(head, rows)}"


def _libraries(document: Mapping[str, Any]) -> str:
    rows = [[name, peer["version"], peer["settings"]] for name, peer in document["peers"].items()]
    return _table(["Library", "Version", "Settings"], rows, left=3)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    rule = ["---"] * left + ["--:"] * (len(head) - left)
    lines = [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]
    return "\n".join(lines) + "\n"


class _Numbers:
    """Medians by question, column and library, in files of one version."""

    def __init__(self, document: Mapping[str, Any], file_version: str) -> None:
        cells = [cell for cell in document["cells"] if cell["file_version"] == file_version]
        asked = {cell["peer"] for cell in cells}
        self._base, *self._others = (peer for peer in document["peers"] if peer in asked)
        self._cells = {(c["question"], c["shape"], c["peer"]): c for c in cells}
        names = [question.name for question in QUESTIONS.values()]
        self.questions = sorted({c["question"] for c in cells}, key=names.index)
        self._all = cells

    def goals(self) -> str:
        """Goal, figure and verdict."""
        rows = [verdict.cells for verdict in verdicts(self._all)]
        return _table(["", "goal", "figure", "verdict", "Vortex"], rows)

    def slower(self) -> str:
        """Every case in which pylance or Vortex is faster, smaller or leaner."""
        rows = slower(self._all)
        return _table(["question", "case", "peer", "÷"], rows, left=3) if rows else "None.\n"

    def summary(self) -> str:
        """Geometric means over the columns."""
        return self._means(self.questions, "median")

    def firsts(self) -> str:
        """Geometric means of the first calls of turns."""
        asked = [
            question
            for question in self.questions
            if any(cell["first"] for cell in self._all if cell["question"] == question)
        ]
        return self._means(asked, "first")

    def _means(self, questions: Sequence[str], figure: str) -> str:
        rows = [
            [question, *(_ratio(self._mean(question, peer, figure)) for peer in self._others)]
            for question in questions
        ]
        return _table(["geometric mean", *(f"÷ {peer}" for peer in self._others)], rows)

    def beside(self) -> str:
        """The first peer column by column."""
        asked = [question for question in _BESIDE if question in self.questions]
        shapes = self._shapes(asked[0]) if asked else []
        rows = [
            [shape, *(_ratio(self._quotient(q, shape, self._others[0])) for q in asked)]
            for shape in shapes
        ]
        return _table([f"÷ {self._others[0]}", *asked], rows)

    def question(self, question: str) -> str:
        """All figures of one question."""
        head = ["column", self._base]
        for peer in self._others:
            head += [peer, "÷"]
        rows = []
        for shape in self._shapes(question):
            row = [shape, self._quantity(question, shape, self._base)]
            for peer in self._others:
                quotient = self._quotient(question, shape, peer)
                row += [self._quantity(question, shape, peer), _ratio(quotient)]
            rows.append(row)
        return _table(head, rows)

    def _shapes(self, question: str) -> list[str]:
        return [shape for q, shape, peer in self._cells if q == question and peer == self._base]

    def _quotient(
        self, question: str, shape: str, peer: str, figure: str = "median"
    ) -> float | None:
        ours = self._cells[question, shape, self._base][figure]
        theirs = self._cells[question, shape, peer][figure]
        return theirs / ours if ours and theirs else None

    def _mean(self, question: str, peer: str, figure: str) -> float | None:
        shapes = self._shapes(question)
        ratios = [self._quotient(question, shape, peer, figure) for shape in shapes]
        logs = [math.log(ratio) for ratio in ratios if ratio]
        return math.exp(sum(logs) / len(logs)) if logs else None

    def _quantity(self, question: str, shape: str, peer: str) -> str:
        cell = self._cells[question, shape, peer]
        if cell["median"] is None:
            return "–"
        if cell["unit"] == "s":
            return f"{cell['median'] * 1e3:,.2f} ms"
        return f"{cell['median'] / 1e6:,.2f} MB"


def _ratio(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}"
