"""How long do some rows take, by number, from a table that is open already?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.questions.base import Question, Subject, same, timed

__all__ = ["Take"]


class Take(Question):
    """Random rows, other ones in each round, the same ones for every library."""

    rounds = 5
    is_repeated = True

    def __init__(self, count: int) -> None:
        self.name = f"take {count}"
        self.count = count

    def check(self, subject: Subject) -> bool:
        rows = self._rows(subject, 0)
        return same(subject.peer.take(subject.handle, rows), subject.table.take(rows))

    def measure(self, subject: Subject, round_number: int) -> float:
        rows = self._rows(subject, round_number)
        return timed(lambda: subject.peer.take(subject.handle, rows))[0]

    def _rows(self, subject: Subject, round_number: int) -> NDArray[np.int64]:
        available = subject.table.num_rows
        random = np.random.default_rng(round_number)
        drawn = random.choice(available, size=min(self.count, available), replace=False)
        return np.sort(drawn).astype(np.int64)
