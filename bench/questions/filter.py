"""How long do a filter and a count take, from a table that is open already and has no index?

The cases are those that users ask: a point, ranges of which few to all rows match, query 6 of
TPC-H, lists, patterns, nulls, decimals, and the first ten matches.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds

from bench.predicates import Predicate, Term, to_arrow
from bench.questions.base import Question, Subject, same, timed

__all__ = ["FILTER_QUESTIONS", "Case", "Count", "Filter"]


@dataclass(frozen=True, slots=True)
class Case:
    """A filter of one table.

    Attributes:
        name: As in the report.
        table: The name of the shape.
        predicate: The filter.
        columns: What is returned; None for all columns.
        limit: Maximum number of rows; None for all that match.
    """

    name: str
    table: str
    predicate: Predicate
    columns: tuple[str, ...] | None = None
    limit: int | None = None


_PRICES = ("l_extendedprice", "l_discount")
_LINE = ("l_orderkey", "l_quantity", "l_shipdate", "l_comment")
_FLIGHT = ("carrier", "flight", "dep_delay", "arr_delay")

CASES = (
    Case("point", "lineitem", (Term("l_orderkey", "=", 1287),)),
    Case("no match", "lineitem", (Term("l_orderkey", "=", -1),)),
    Case(
        "range, 0.1 %",
        "lineitem",
        (Term("l_partkey", ">=", 100), Term("l_partkey", "<", 133)),
        _LINE,
    ),
    Case("date, 15 %", "lineitem", (Term("l_shipdate", ">=", date(1997, 9, 1)),), _LINE),
    Case("decimal, 50 %", "lineitem", (Term("l_quantity", "<=", Decimal("25.00")),), _LINE),
    Case("decimal, 88 %", "lineitem", (Term("l_quantity", "<", Decimal("45.00")),), _LINE),
    Case("decimal, all", "lineitem", (Term("l_quantity", ">", Decimal("0.00")),), _LINE),
    Case("decimal point", "lineitem", (Term("l_extendedprice", "=", Decimal("33078.94")),)),
    Case(
        "TPC-H q6",
        "lineitem",
        (
            Term("l_shipdate", ">=", date(1994, 1, 1)),
            Term("l_shipdate", "<", date(1995, 1, 1)),
            Term("l_discount", ">=", Decimal("0.05")),
            Term("l_discount", "<=", Decimal("0.07")),
            Term("l_quantity", "<", Decimal("24.00")),
        ),
        _PRICES,
    ),
    Case("IN", "lineitem", (Term("l_shipmode", "in", ("AIR", "RAIL")),), _LINE),
    Case("LIKE contains", "lineitem", (Term("l_comment", "like", "%special%"),), _LINE),
    Case("LIKE starts with", "lineitem", (Term("l_comment", "like", "fur%"),), _LINE),
    Case("limit 10", "lineitem", (Term("l_returnflag", "=", "R"),), None, 10),
    Case("IS NULL", "flights", (Term("dep_time", "is null"),), _FLIGHT),
    Case("IS NOT NULL", "flights", (Term("arr_delay", "is not null"),), _FLIGHT),
    Case("delayed", "flights", (Term("carrier", "=", "UA"), Term("dep_delay", ">", 60)), _FLIGHT),
    Case("document", "documents", (Term("id", "=", 77),)),
    Case("text of documents", "documents", (Term("text", "like", "%wizards copper%"),), ("id",)),
)


class Filter(Question):
    """Read the rows that match."""

    name = "filter"
    rounds = 4
    in_all_versions = False
    is_repeated = True

    def __init__(self, asked: Case) -> None:
        self.case = asked.name
        self.shapes = frozenset({asked.table})
        self._asked = asked

    def check(self, subject: Subject) -> bool:
        asked, found = self._asked, self._answer(subject)
        rows = ds.dataset(subject.table).to_table(
            list(asked.columns or subject.table.column_names), filter=to_arrow(asked.predicate)
        )
        if asked.limit is None or rows.num_rows <= asked.limit:
            return same(found, rows)
        chosen = ds.dataset(found.cast(rows.schema))  # any of the rows that match
        matching = chosen.count_rows(filter=to_arrow(asked.predicate))
        return bool(found.num_rows == matching == asked.limit)

    def measure(self, subject: Subject, round_number: int) -> float:
        return timed(lambda: self._answer(subject))[0]

    def _answer(self, subject: Subject) -> pa.Table:
        asked = self._asked
        columns = None if asked.columns is None else list(asked.columns)
        return subject.peer.filter(subject.handle, asked.predicate, columns, asked.limit)


class Count(Question):
    """Count the rows that match."""

    name = "count"
    rounds = 4
    in_all_versions = False
    is_repeated = True

    def __init__(self, asked: Case) -> None:
        self.case = asked.name
        self.shapes = frozenset({asked.table})
        self._predicate = asked.predicate

    def check(self, subject: Subject) -> bool:
        expected = ds.dataset(subject.table).count_rows(filter=to_arrow(self._predicate))
        return subject.peer.count(subject.handle, self._predicate) == int(expected)

    def measure(self, subject: Subject, round_number: int) -> float:
        return timed(lambda: subject.peer.count(subject.handle, self._predicate))[0]


FILTER_QUESTIONS: tuple[Question, ...] = (
    *map(Filter, CASES),
    *(Count(case) for case in CASES if case.limit is None),
)
