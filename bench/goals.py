"""What is to be reached: how many times faster, smaller or leaner than pylance.

A figure is the geometric mean, over all cases of some questions, of pylance's median divided by
ours. Where a library could not answer a case, the case does not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["GOALS", "Goal", "Verdict", "slower", "verdicts"]

_OURS, _MEASURE, _BEST = "pilum", "pylance", "vortex"

Cell = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Goal:
    """A number to reach.

    Attributes:
        name: As in the table.
        ratio: The goal.
        questions: Names of the questions whose cases count.
    """

    name: str
    ratio: float
    questions: tuple[str, ...]


GOALS = (
    Goal("scan", 4.5, ("scan",)),
    Goal("one core", 3.0, ("scan on one core",)),
    Goal("take", 4.0, ("take 1", "take 100", "take 1000")),
    Goal("filter", 9.0, ("filter", "count")),
    Goal("write", 2.2, ("write",)),
    Goal("write without fsync", 2.2, ("write without fsync",)),
    Goal("size", 1.15, ("size",)),
    Goal("size if preferred", 1.25, ("size if preferred",)),
    Goal("open", 2.4, ("open",)),
    Goal("cold", 1.6, ("cold scan", "cold take 100")),
    Goal("memory", 1.5, ("scan memory", "write memory", "stream memory")),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a goal.

    Attributes:
        goal: The goal.
        figure: Our ratio; None if nothing was measured.
        best: The ratio of Vortex; None if it was not measured.
    """

    goal: Goal
    figure: float | None
    best: float | None

    @property
    def cells(self) -> list[str]:
        """The row of the table."""
        verdict = "–"
        if self.figure is not None:
            verdict = "reached" if self.figure >= self.goal.ratio else "missed"
        ratios = (_text(self.figure), verdict, _text(self.best))
        return [self.goal.name, f"{self.goal.ratio:g}", *ratios]


def verdicts(cells: Sequence[Cell]) -> list[Verdict]:
    """Compare the cells of one file version with the goals."""
    medians = _medians(cells)
    return [
        Verdict(goal, _mean(medians, goal, _OURS), _mean(medians, goal, _BEST)) for goal in GOALS
    ]


def slower(cells: Sequence[Cell]) -> list[list[str]]:
    """Return the cases in which we are slower than pylance or Vortex: the worst one first."""
    medians, rows = _medians(cells), []
    for (question, case), answers in medians.items():
        ours = answers.get(_OURS)
        for peer in (_MEASURE, _BEST):
            theirs = answers.get(peer)
            if ours and theirs and theirs < ours:
                rows.append((theirs / ours, question, case, peer))
    return [[question, case, peer, f"{ratio:.2f}"] for ratio, question, case, peer in sorted(rows)]


def _medians(cells: Iterable[Cell]) -> dict[tuple[str, str], dict[str, float | None]]:
    found: dict[tuple[str, str], dict[str, float | None]] = {}
    for cell in cells:
        found.setdefault((cell["question"], cell["shape"]), {})[cell["peer"]] = cell["median"]
    return found


def _mean(
    medians: Mapping[tuple[str, str], Mapping[str, float | None]], goal: Goal, peer: str
) -> float | None:
    logs = []
    for (question, _), answers in medians.items():
        theirs, ours = answers.get(_MEASURE), answers.get(peer)
        if question in goal.questions and theirs and ours:
            logs.append(math.log(theirs / ours))
    return math.exp(sum(logs) / len(logs)) if logs else None


def _text(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}"
