"""What the demo prints: its steps, with their times, and tables of pilum beside Parquet."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from rich.console import Console
from rich.table import Table

ROUNDS = 5

console = Console(highlight=False)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Says what is going on, and in the end how long it took."""
    started = time.perf_counter()
    with console.status(f"{what} …"):
        yield
    console.print(f"  {what:<50}{time.perf_counter() - started:8.2f} s")


class Report:
    """Questions with the times of both, shown in the end."""

    def __init__(self) -> None:
        self._table = _table("", "rows", "pilum", "Parquet", "ratio")

    def compare(
        self,
        question: str,
        ours: Callable[[], pa.Table],
        theirs: Callable[[], pa.Table],
        note: str = "",
    ) -> None:
        """Demands equal answers, then times both, taking turns."""
        with console.status(f"{question} …"):
            found, expected = ours(), theirs()
            require(found.equals(expected.select(found.schema.names).cast(found.schema)), question)
        self.time(question, found.num_rows, ours, theirs, note)

    def time(
        self,
        question: str,
        num_rows: int,
        ours: Callable[[], pa.Table],
        theirs: Callable[[], pa.Table],
        note: str = "",
    ) -> None:
        """Times both, taking turns."""
        with console.status(f"{question} …"):
            seconds = [(timed(ours), timed(theirs)) for _ in range(ROUNDS)]
        pilum_seconds, parquet_seconds = (min(times) for times in zip(*seconds, strict=True))
        self._table.add_row(
            question,
            f"{num_rows:,}",
            _milliseconds(pilum_seconds),
            f"{note} {_milliseconds(parquet_seconds)}".strip(),
            _ratio(parquet_seconds, pilum_seconds),
        )

    def size(self, what: str, lance_bytes: int, parquet_bytes: int) -> None:
        """Adds the sizes of both on disk."""
        sizes = _megabytes(lance_bytes), _megabytes(parquet_bytes)
        self._table.add_row(what, "", *sizes, _ratio(parquet_bytes, lance_bytes))

    def show(self) -> None:
        """Prints the table."""
        console.print(self._table)
        console.print(
            f"Answers are equal; times are the best of {ROUNDS}, files cached.", style="dim"
        )


class Files(Protocol):
    """Files that are written again where they change."""

    def modified(self) -> dict[Path, int]:
        """When each file was written."""


class Changes:
    """Changes, each made once, with the time and the bytes that both took."""

    def __init__(self, lance_path: str, parquet: Files) -> None:
        self._lance_path, self._parquet = lance_path, parquet
        self._table = _table("", "pilum", "Parquet", "ratio", "pilum wrote", "Parquet wrote")

    def compare(
        self,
        what: str,
        ours: Callable[[], object],
        theirs: Callable[[], object],
        parquet_bytes: Callable[[], int] | None = None,
    ) -> None:
        """Changes both; the bytes of Parquet are those of its files that changed, if not given."""
        with console.status(f"{what} …"):
            size, modified = size_of(self._lance_path), self._parquet.modified()
            pilum_seconds, parquet_seconds = timed(ours), timed(theirs)
        changed = {
            file for file, when in self._parquet.modified().items() if modified.get(file) != when
        }
        wrote = sum(file.stat().st_size for file in changed)
        self._table.add_row(
            what,
            _milliseconds(pilum_seconds),
            _milliseconds(parquet_seconds),
            _ratio(parquet_seconds, pilum_seconds),
            _megabytes(size_of(self._lance_path) - size),
            _megabytes(parquet_bytes() if parquet_bytes else wrote),
        )

    def show(self) -> None:
        """Prints the table."""
        console.print(self._table)
        console.print(
            "Each change was made once; pilum waits for the device and commits, Parquet does not. "
            "Both have the same rows in the end.",
            style="dim",
        )


def _table(*columns: str) -> Table:
    table = Table(*columns)
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms"


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB"


def _ratio(theirs: float, ours: float) -> str:
    return f"{theirs / ours:.1f} ×"


def timed(run: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def require(equal: bool, what: str) -> None:
    """Ends the demo where the two formats disagree."""
    if not equal:
        sys.exit(f"Lance and Parquet differ: {what}")


def size_of(path: str) -> int:
    """Bytes of all files below a folder."""
    return sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
