"""Who is measured when: libraries take turns within a round, so that all share the weather.

    round 1    pilum ||||||||||   pylance ||||||   parquet |   vortex ||||||||
    round 2    pylance ||||||   parquet |   vortex ||||||||   pilum ||||||||||

A turn has several calls if they are short, as users make them one after the other. The first call
after another library takes longer, as code and data that it needs are no longer in the caches of
the processor; it counts like the others, and medians of first calls are reported beside.

A cell is one question, one shape, one library. Before the first round each library must answer
right; one that cannot hold the shape, or answers wrong, is left out and the report says so.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from bench.peers import Peer
from bench.questions import Question, Subject
from bench.shapes import Shape

__all__ = ["CALLS_OF_TURN", "SECONDS_OF_TURN", "Cell", "Settings", "prepare", "run"]

CALLS_OF_TURN = 10
SECONDS_OF_TURN = 0.005
"""A turn that has taken so long gets no further call."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much to measure.

    Attributes:
        rows: Of the narrow shapes; wide ones have fewer (see `Shape.one_in`).
        repeat: Rounds per cell; 0 is one round, of questions that want more as well.
        seconds: After this long no further round of a cell is started (three are always made).
    """

    rows: int
    repeat: int
    seconds: float


@dataclass(slots=True)
class Cell:
    """What one library answered to one question about one shape, in files of some version.

    Attributes:
        samples: Seconds or bytes of all calls.
        firsts: Those of the first call of each turn.
        problem: Why the library was not measured; None if it was.
    """

    shape: str
    question: str
    peer: str
    unit: str
    file_version: str = ""
    samples: list[float] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)
    problem: str | None = None

    @property
    def median(self) -> float | None:
        """Median of the samples, seconds or bytes; None if there are none."""
        return statistics.median(self.samples) if self.samples else None

    @property
    def first(self) -> float | None:
        """Median of the first calls of turns; None if turns have one call."""
        has_others = len(self.firsts) < len(self.samples)
        return statistics.median(self.firsts) if has_others else None


def run(
    shapes: list[Shape],
    questions: list[Question],
    peers: list[Peer],
    settings: Settings,
    file_version: str = "",
) -> Iterator[Cell]:
    """Measures; yields the cells of one shape after the other.

    Args:
        shapes: What is written.
        questions: What is asked.
        peers: Who is asked.
        settings: How often, with how many rows.
        file_version: What the libraries write, for the cells.
    """
    for shape in shapes:
        asked = [q for q in questions if q.shapes is None or shape.name in q.shapes]
        if not asked:
            continue
        folder = Path(tempfile.mkdtemp(prefix="bench-"))
        try:
            for cell in _run_shape(shape, asked, peers, settings, folder):
                cell.file_version = file_version
                yield cell
        finally:
            shutil.rmtree(folder)


def _run_shape(
    shape: Shape, questions: list[Question], peers: list[Peer], settings: Settings, folder: Path
) -> Iterator[Cell]:
    table = shape.table(settings.rows)
    subjects: list[Subject] = []
    problems: dict[str, str] = {}
    for peer in peers:
        try:
            subjects.append(prepare(peer, shape, table, folder / peer.name))
        except Exception as error:
            problems[peer.name] = _say(error)
    for question in questions:
        cells = _ask(question, subjects, settings)
        for name, problem in problems.items():
            row = question.case or shape.name
            cells.append(Cell(row, question.name, name, question.unit, problem=problem))
        yield from cells


def prepare(peer: Peer, shape: Shape, table: pa.Table, folder: Path) -> Subject:
    """Write the table of a shape into a folder that does not exist yet, and open it."""
    scratch = folder / "scratch"
    scratch.mkdir(parents=True)
    path = folder / "table"
    peer.write(table, path)
    return Subject(peer, shape, table, path, peer.open(path), scratch)


def _ask(question: Question, subjects: list[Subject], settings: Settings) -> list[Cell]:
    cells, able = [], []
    for subject in subjects:
        cell = Cell(
            question.case or subject.shape.name, question.name, subject.peer.name, question.unit
        )
        cells.append(cell)
        try:
            cell.problem = None if question.check(subject) else "wrong values"
        except Exception as error:
            cell.problem = _say(error)
        if cell.problem is None:
            able.append((subject, cell))
    calls = CALLS_OF_TURN if question.is_repeated and settings.repeat else 1
    started = time.perf_counter()
    for number in range(max(1, settings.repeat * question.rounds)):
        if number >= 3 and time.perf_counter() - started > settings.seconds:
            break
        turn = number % len(able) if able else 0
        for subject, cell in able[turn:] + able[:turn]:
            samples = _turn(question, subject, number, calls)
            cell.samples += samples
            cell.firsts.append(samples[0])
    return cells


def _turn(question: Question, subject: Subject, number: int, calls: int) -> list[float]:
    """Ask one library until its turn is over; all libraries get the same calls, in their order."""
    samples: list[float] = []
    while not samples or (len(samples) < calls and sum(samples) < SECONDS_OF_TURN):
        samples.append(question.measure(subject, 1 + number * calls + len(samples)))
    return samples


def _say(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
