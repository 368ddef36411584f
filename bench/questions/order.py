"""How long does it take to read the first ten rows of an order, from an open table without index?

Parquet and Vortex cannot sort. For them, the column is read, Arrow chooses the rows, and these are
taken, as their users do it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from bench.questions.base import Question, Subject, same, timed

__all__ = ["ORDER_QUESTIONS"]

_COUNT = 10


@dataclass(frozen=True, slots=True)
class _Order:
    name: str
    table: str
    column: str
    is_ascending: bool


_ORDERS = (
    _Order("largest key", "lineitem", "l_orderkey", is_ascending=False),
    _Order("largest price", "lineitem", "l_extendedprice", is_ascending=False),
    _Order("first text", "lineitem", "l_comment", is_ascending=True),
)


class FirstRows(Question):
    """Read the first rows of an order, with all columns."""

    name = "order"
    rounds = 4
    in_all_versions = False
    is_repeated = True

    def __init__(self, asked: _Order) -> None:
        self.case = asked.name
        self.shapes = frozenset({asked.table})
        self._asked = asked

    def check(self, subject: Subject) -> bool:
        asked, found = self._asked, self._answer(subject)
        direction = "ascending" if asked.is_ascending else "descending"
        order = pc.sort_indices(subject.table, sort_keys=[(asked.column, direction)])
        first = subject.table.take(order[:_COUNT])
        return found.num_rows == _COUNT and same(
            found.select([asked.column]), first.select([asked.column])
        )

    def measure(self, subject: Subject, round_number: int) -> float:
        return timed(lambda: self._answer(subject))[0]

    def _answer(self, subject: Subject) -> pa.Table:
        asked = self._asked
        return subject.peer.first_rows(subject.handle, asked.column, asked.is_ascending, _COUNT)


ORDER_QUESTIONS: tuple[Question, ...] = tuple(map(FirstRows, _ORDERS))
