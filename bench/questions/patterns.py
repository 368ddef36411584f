"""How does the latency of a take grow with the number of rows, and with how they lie?

sorted     distinct rows, ascending        12  70  71  903
shuffled   distinct rows, in any order     903  12  71  70
repeated   as many, but half of them       12  12  903  903
range      adjacent rows                   70  71  72  73
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.questions.base import Question, Subject, same, timed

__all__ = ["COUNTS", "PATTERN_QUESTIONS", "TakePattern"]

COUNTS = (1, 10, 100, 1000, 10_000)
_PATTERNS = ("sorted", "shuffled", "repeated", "range")
_TABLES = ("lineitem", "flights", "documents")
_MOST_DOCUMENTS = 1000


class TakePattern(Question):
    """Other rows in each round, the same ones for every library."""

    rounds = 4
    in_all_versions = False
    is_repeated = True

    def __init__(self, pattern: str, table: str, count: int) -> None:
        self.name = f"take {pattern}"
        self.case = f"{table}, {count:,} row{'s' if count > 1 else ''}"
        self.shapes = frozenset({table})
        self._pattern, self._count = pattern, count

    def check(self, subject: Subject) -> bool:
        rows = self._rows(subject, 0)
        return same(subject.peer.take(subject.handle, rows), subject.table.take(rows))

    def measure(self, subject: Subject, round_number: int) -> float:
        rows = self._rows(subject, round_number)
        return timed(lambda: subject.peer.take(subject.handle, rows))[0]

    def _rows(self, subject: Subject, round_number: int) -> NDArray[np.int64]:
        available = subject.table.num_rows
        count = min(self._count, available)
        random = np.random.default_rng(round_number)
        if self._pattern == "range":
            start = int(random.integers(0, available - count + 1))
            return np.arange(start, start + count, dtype=np.int64)
        drawn = random.choice(available, size=count, replace=False).astype(np.int64)
        if self._pattern == "repeated":
            return np.sort(drawn[np.arange(count) // 2])
        return drawn if self._pattern == "shuffled" else np.sort(drawn)


PATTERN_QUESTIONS: tuple[Question, ...] = tuple(
    TakePattern(pattern, table, count)
    for pattern in _PATTERNS
    for table in _TABLES
    for count in COUNTS
    if (table != "documents" or count <= _MOST_DOCUMENTS) and (count > 1 or pattern == "sorted")
)
