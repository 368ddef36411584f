"""What a question is: a name, a unit, and one number per library from one round."""

from __future__ import annotations

import gc
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pyarrow as pa

from bench.peers import Peer
from bench.shapes import Shape

__all__ = ["Question", "Subject", "copied", "same", "timed"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Subject:
    """One library with one shape, written to disk and opened.

    Attributes:
        peer: The library.
        shape: The shape, and `table` its values.
        table: What every result is compared with.
        path: Where the library wrote `table`.
        handle: What `peer.open(path)` gave.
        scratch: A folder for what a round makes.
    """

    peer: Peer
    shape: Shape
    table: pa.Table
    path: Path
    handle: Any
    scratch: Path


class Question(ABC):
    """Something to ask of every library.

    Attributes:
        name: As on the command line and in the report.
        case: Its row of the report; "" for the name of the shape.
        unit: "s" or "bytes"; less is better in both.
        rounds: How many rounds are worth it, as a multiple of what was asked for; 0 is one round.
        shapes: The shapes it is asked of; None means all.
        in_all_versions: Whether it is asked of each version of the file format, or the first only.
        is_repeated: Whether a turn may have several calls.
    """

    name: str
    case: str = ""
    unit: ClassVar[str] = "s"
    rounds: ClassVar[int] = 1
    shapes: frozenset[str] | None = None
    in_all_versions: ClassVar[bool] = True
    is_repeated: ClassVar[bool] = False

    @property
    def full_name(self) -> str:
        """The name with the case."""
        return f"{self.name}: {self.case}" if self.case else self.name

    @abstractmethod
    def check(self, subject: Subject) -> bool:
        """Whether the library's answer is right; asked once, before the first round."""

    @abstractmethod
    def measure(self, subject: Subject, round_number: int) -> float:
        """Answers once and returns seconds or bytes."""


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Runs `work` without the garbage collector; returns seconds of wall clock and the result."""
    gc.disable()
    try:
        start = time.perf_counter()
        result = work()
        return time.perf_counter() - start, result
    finally:
        gc.enable()


def copied(path: Path, folder: Path) -> Path:
    """Copy what a library wrote, to files that nothing has open; return the copy."""
    target = folder / "copy"
    if path.is_dir():
        return Path(shutil.copytree(path, target))
    return Path(shutil.copy(path, target))


def same(result: pa.Table, table: pa.Table) -> bool:
    """Whether two tables hold the same values, whatever the chunks and the kind of string."""
    return bool(result.cast(table.schema).equals(table))
