"""Runs the cases: every library works on copies of the same table, and they take turns."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from bench.questions.base import timed
from bench.questions.memory import mark_peak, peak
from bench.tables.base import NO_SYNC, Case, Sizes

__all__ = ["Operation", "measure", "rows_of", "table_of", "work_and_print", "work_once"]

_LIBRARIES: dict[str, tuple[str, dict[str, str] | None]] = {
    "pilum": ("pilum", None),
    "without fsync": ("pilum", NO_SYNC),
    "pylance": ("lance", None),
}
_SECONDS = 3.0


@dataclass(slots=True)
class Operation:
    """What a case took, seconds (or bytes of memory) by library; None where it was not right.

    Attributes:
        name: As in the report.
        unit: "s" or "bytes".
        samples: Of each library.
        problems: Of libraries whose answer was wrong, or that raised.
    """

    name: str
    unit: str = "s"
    samples: dict[str, list[float]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    def median(self, library: str) -> float | None:
        """Of the samples, None if there are none."""
        samples = self.samples.get(library)
        return median(samples) if samples else None


def measure(case: Case, sizes: Sizes) -> list[Operation]:
    """The times of a case, and its peak memory if it is one to ask that of."""
    folder = Path(tempfile.mkdtemp(prefix="bench-tables-"))
    try:
        table = folder / "table"
        case.prepare(table, sizes)
        operations = [_times(case, table, folder, sizes)]
        if case.has_memory:
            operations.append(_memory(case, table, folder, sizes))
        return operations
    finally:
        shutil.rmtree(folder)


def _times(case: Case, table: Path, folder: Path, sizes: Sizes) -> Operation:
    operation = Operation(case.name(sizes))
    # Reading is the same with and without.
    for name in _LIBRARIES if case.changes else ("pilum", "pylance"):
        try:
            work_once(case, name, table, folder, sizes)
        except Exception as error:
            operation.problems[name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        else:
            operation.samples[name] = []
    spent = 0.0
    for number in range(case.rounds):
        if number >= 3 and spent > _SECONDS:
            break
        names = list(operation.samples)
        turn = number % len(names) if names else 0
        for name in names[turn:] + names[:turn]:
            seconds = work_once(case, name, table, folder, None)
            operation.samples[name].append(seconds)
            spent += seconds
    return operation


def work_once(case: Case, name: str, table: Path, folder: Path, checked: Sizes | None) -> float:
    """Work once, and check the result if sizes are given; return the seconds."""
    module, options = _LIBRARIES[name]
    lance = importlib.import_module(module)
    path = _copy(table, folder / "copy") if case.changes else table
    try:
        subject = case.before(lance, path, options)
        seconds, result = timed(lambda: case.work(lance, subject, path, options))
        if checked and not case.check(result, lance.dataset(str(path)), checked):
            raise ValueError("wrong values")
        return seconds
    finally:
        if case.changes:
            shutil.rmtree(path)


def _copy(table: Path, path: Path) -> Path:
    """A table with the same data files, which nobody changes."""
    linked = table / "data"

    def copied(source: str, target: str) -> str:
        if Path(source).is_relative_to(linked):
            os.link(source, target)
        else:
            shutil.copy2(source, target)
        return target

    shutil.copytree(table, path, copy_function=copied)
    return path


def _memory(case: Case, table: Path, folder: Path, sizes: Sizes) -> Operation:
    operation = Operation(f"memory: {case.name(sizes)}", "bytes")
    for name in _LIBRARIES:
        path = _copy(table, folder / "copy")
        try:
            answer = subprocess.run(
                [sys.executable, "-m", "bench.tables", "--peak", name, case.name(sizes), str(path)],
                check=True,
                capture_output=True,
                text=True,
                cwd=Path(__file__).parents[2],
            )
            operation.samples[name] = [float(answer.stdout.split()[-1])]
        except subprocess.CalledProcessError as error:
            operation.problems[name] = error.stderr.splitlines()[-1][:200]
        finally:
            shutil.rmtree(path)
    return operation


def work_and_print(case: Case, name: str, path: Path) -> None:
    """The child: does the work once and prints its peak, bytes."""
    module, options = _LIBRARIES[name]
    lance = importlib.import_module(module)
    subject = case.before(lance, path, options)
    before = mark_peak()
    case.work(lance, subject, path, options)
    print(max(0, peak() - before))


def rows_of(operations: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Lines of a report, from operations as dictionaries."""
    rows = []
    for operation in operations:
        found = Operation(**operation)
        ours, quick, theirs = (found.median(name) for name in _LIBRARIES)
        quantities = [_quantity(number, found.unit) for number in (ours, quick, theirs)]
        ratios = [_ratio(theirs, number) for number in (ours, quick)]
        rows.append([found.name, *quantities, *ratios])
    return rows


def table_of(operations: Sequence[Operation], head: Sequence[str]) -> Table:
    """The report for eyes."""
    table = Table(title="tables", title_justify="left", title_style="bold")
    for index, name in enumerate(head):
        table.add_column(name, justify="right" if index else "left")
    for row in rows_of([asdict(operation) for operation in operations]):
        table.add_row(*row)
    return table


def _quantity(number: float | None, unit: str) -> str:
    if number is None:
        return "–"
    return f"{number * 1e3:,.2f} ms" if unit == "s" else f"{number / 1e6:,.1f} MB"


def _ratio(theirs: float | None, ours: float | None) -> str:
    return f"{theirs / ours:.2f}" if theirs and ours else "–"
