"""Filters that every library is asked, each in its own language.

(Term("l_shipdate", ">=", date(1994, 1, 1)), Term("l_quantity", "<", Decimal("24.00")))

SQL      l_shipdate >= DATE '1994-01-01' AND l_quantity < CAST('24.00' AS DECIMAL(15, 2))
Arrow    (pc.field("l_shipdate") >= ...) & (pc.field("l_quantity") < ...)
Vortex   ve.and_(ve.column("l_shipdate") >= ..., ve.column("l_quantity") < ...)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Predicate", "Term", "to_arrow", "to_sql", "to_vortex"]

_PRECISION, _SCALE = 15, 2
"""Of every decimal constant, as the columns of TPC-H have it."""

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Term:
    """One condition on one column.

    Attributes:
        column: The name of a top-level column.
        operator: A comparison, "in", "like", "is null" or "is not null".
        value: A number, text, date or decimal; for "in", a tuple of them; for "like", a pattern;
            None for the others.
    """

    column: str
    operator: str
    value: Any = None


Predicate = tuple[Term, ...]
"""Terms that are all true of a row."""


def to_sql(predicate: Predicate) -> str:
    """Return the predicate as SQL of a filter."""
    return " AND ".join(map(_sql, predicate))


def _sql(term: Term) -> str:
    if term.value is None:
        return f"{term.column} {term.operator.upper()}"
    if isinstance(term.value, tuple):
        return f"{term.column} IN ({', '.join(map(_constant, term.value))})"
    return f"{term.column} {term.operator.upper()} {_constant(term.value)}"


def _constant(value: Any) -> str:
    if isinstance(value, Decimal):
        return f"CAST('{value}' AS DECIMAL({_PRECISION}, {_SCALE}))"
    if isinstance(value, date):
        return f"DATE '{value}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


def to_arrow(predicate: Predicate) -> pc.Expression:
    """Return the predicate as an expression of `pyarrow.compute`."""
    return reduce(operator.and_, map(_arrow, predicate))


def _arrow(term: Term) -> pc.Expression:
    column = pc.field(term.column)
    match term.operator:
        case "in":
            return column.isin(pa.array(term.value))
        case "like":
            return pc.match_like(column, term.value)
        case "is null":
            return column.is_null()
        case "is not null":
            return column.is_valid()
    value = term.value
    if isinstance(value, Decimal):
        value = pa.scalar(value, pa.decimal128(_PRECISION, _SCALE))
    return _COMPARE[term.operator](column, pc.scalar(value))


def to_vortex(predicate: Predicate) -> Any:
    """Return the predicate as an expression of Vortex."""
    import vortex.expr as ve

    return reduce(ve.and_, map(_vortex, predicate))


def _vortex(term: Term) -> Any:
    import vortex
    import vortex.expr as ve

    column = ve.column(term.column)
    match term.operator:
        case "in":
            return ve.in_list(column, list(term.value))
        case "like":
            return ve.like(column, term.value)
        case "is null":
            return ve.is_null(column)
        case "is not null":
            return ve.is_not_null(column)
    value = term.value
    if isinstance(value, Decimal):
        value = ve.literal(vortex.decimal(precision=_PRECISION, scale=_SCALE), value)
    elif isinstance(value, date):
        value = ve.literal(vortex.date("days"), value)
    return _COMPARE[term.operator](column, value)
