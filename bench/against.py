"""Has pilum become slower? Two checkouts of it take turns, each in a process of its own.

    git worktree add ../before COMMIT && make -C ../before setup
    python -m bench.against ../before [--only PART] [--page docs/bench.md]

Only one process works at a time. Both draw the same rows and check each answer before it is timed.
A ratio is the median, over all rounds, of the earlier checkout's time divided by ours: above 1,
this checkout is faster.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.sections import put_section

__all__ = ["Row", "main"]

_ROOT = Path(__file__).parents[1]
_FILE_VERSION = "2.1"
"""Of all rows of the history, so that they stay comparable."""
_QUESTIONS = ("scan", "take 1", "take 100", "take 1000", "write")
_CHILD = """
import sys
ours, checkout = sys.argv[1:3]
sys.path.insert(0, ours)
import bench  # of this checkout, for both
sys.path[0] = checkout
import pilum
assert pilum.__file__.startswith(checkout + "/"), pilum.__file__
from bench.against import serve
serve()
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One task, measured in both checkouts.

    Attributes:
        task: A question about a shape, or an operation on a table.
        before: Seconds of the earlier checkout, one per round.
        after: Seconds of this checkout, one per round.
    """

    task: str
    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Median of the earlier checkout's time divided by ours, round by round."""
        pairs = zip(self.before, self.after, strict=True)
        return statistics.median(earlier / later for earlier, later in pairs)

    @property
    def cells(self) -> list[str]:
        """The row as text."""
        medians = (statistics.median(self.before), statistics.median(self.after))
        return [
            self.task,
            *(f"{seconds * 1e3:,.2f} ms" for seconds in medians),
            f"{self.ratio:.2f}",
        ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and report. Return 1 if a row is more than 3 % slower than before."""
    parser = argparse.ArgumentParser(prog="python -m bench.against", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("checkout", type=Path, help="another checkout, with its extension built")
    parser.add_argument("--only", action="append", default=[], metavar="PART", help="of a task")
    parser.add_argument("--rows", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=4.0, help="per task; default: %(default)s")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the section into that page")
    options = parser.parse_args(arguments)
    rows = []
    for row in _measured(options.checkout.resolve(), options.only, options.rows, options.seconds):
        print(" | ".join(row.cells), file=sys.stderr, flush=True)
        rows.append(row)
    table = Table("task", "before", "after", "÷")
    for row in rows:
        table.add_row(*row.cells)
    Console(width=120).print(table)
    if options.page:
        put_section(options.page, _section(options.checkout, rows))
    return int(any(row.ratio < 0.97 for row in rows))


def _measured(checkout: Path, parts: list[str], rows: int, seconds: float) -> Iterator[Row]:
    folders = (str(checkout), str(_ROOT))
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(_ROOT), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for folder in folders
    ]
    try:
        for task in _tasks(rows):
            if not parts or any(part in task for part in parts):
                yield _row(children, task, rows, seconds)
    finally:
        for child in children:
            child.communicate()  # closes the pipe, upon which the child ends


def _tasks(rows: int) -> list[str]:
    from bench.shapes import SHAPES

    questions = [f"{shape}: {question}" for shape in SHAPES for question in _QUESTIONS]
    return questions + [case.name(_sizes(rows)) for case in _cases()]


def _row(children: Sequence[subprocess.Popen[str]], task: str, rows: int, seconds: float) -> Row:
    for child in children:
        _ask(child, task, rows, 0)
    samples: tuple[list[float], list[float]] = ([], [])
    spent, number = 0.0, 0
    while number < 5 or (spent < seconds and number < 200):
        number += 1
        for turn in (0, 1) if number % 2 else (1, 0):
            taken = _ask(children[turn], task, rows, number)
            samples[turn].append(taken)
            spent += taken
    return Row(task, tuple(samples[0]), tuple(samples[1]))


def _ask(child: subprocess.Popen[str], task: str, rows: int, number: int) -> float:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(json.dumps([task, rows, number]) + "\n")
    child.stdin.flush()
    answer = json.loads(child.stdout.readline())
    if not isinstance(answer, float):
        raise SystemExit(f"{task}: {answer}")
    return answer


def serve() -> None:
    """Answer the requests of the parent until it closes the pipe; round 0 checks the answer."""
    worker = _Worker()
    try:
        for line in sys.stdin:
            task, rows, number = json.loads(line)
            try:
                answer: Any = worker.seconds(task, rows, number)
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
            print(json.dumps(answer), flush=True)
    finally:
        worker.clear()


class _Worker:
    """One checkout, with the table of the last task."""

    def __init__(self) -> None:
        self._name = ""
        self._folder: Path | None = None
        self._subject: Any = None

    def seconds(self, task: str, rows: int, number: int) -> float:
        """Work once."""
        shape, colon, question = task.rpartition(": ")
        if colon and question in _QUESTIONS:
            return self._answer(shape, question, rows, number)
        return self._work(task, _sizes(rows), number)

    def clear(self) -> None:
        """Remove the files of the last task."""
        if self._folder is not None:
            shutil.rmtree(self._folder)
        self._folder = None

    def _answer(self, shape: str, question: str, rows: int, number: int) -> float:
        from bench.peers.ours import Pilum
        from bench.questions import QUESTIONS
        from bench.rounds import prepare
        from bench.shapes import SHAPES

        if folder := self._new_folder(shape):
            made = SHAPES[shape]
            self._subject = prepare(Pilum(_FILE_VERSION), made, made.table(rows), folder)
        asked = QUESTIONS[question]
        if not number and not asked.check(self._subject):
            raise ValueError("wrong values")
        return asked.measure(self._subject, number) if number else 0.0

    def _work(self, name: str, sizes: Any, number: int) -> float:
        from bench.tables.run import work_once

        case = next(case for case in _cases() if case.name(sizes) == name)
        if folder := self._new_folder(name):
            case.prepare(folder / "table", sizes)
        assert self._folder is not None
        table, checked = self._folder / "table", None if number else sizes
        return work_once(case, "without fsync", table, self._folder, checked)

    def _new_folder(self, name: str) -> Path | None:
        if name == self._name:
            return None
        self.clear()
        self._name, self._folder = name, Path(tempfile.mkdtemp(prefix="bench-against-"))
        return self._folder


def _cases() -> Any:
    from bench.tables import CASES

    return CASES


def _sizes(rows: int) -> Any:
    from bench.tables import Sizes

    return Sizes(rows, max(rows // 1000, 10), max(rows // 1000, 10))


def _section(checkout: Path, rows: Sequence[Row]) -> str:
    before, after = (_commit(folder) for folder in (checkout, _ROOT))
    lines = [
        "## History",
        "",
        f"Commit {after} beside commit {before}: two processes that take turns",
        f"(`python -m bench.against`), file version {_FILE_VERSION}. ÷ is the median, over all",
        "rounds, of the earlier time divided by the later one: above 1, pilum became faster.",
        "",
        f"| task | {before} | {after} | ÷ |",
        "| --- | --: | --: | --: |",
        *(f"| {' | '.join(row.cells)} |" for row in rows),
        "",
    ]
    return "\n".join(lines)


def _commit(folder: Path) -> str:
    command = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
