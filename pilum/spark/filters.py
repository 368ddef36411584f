"""Translation of Spark's pushed filters to scan filters.

    GreaterThan(("a",), 5)                ->  `a` > 5
    In(("s", "x"), [1, 2])                ->  `s`.`x` IN (1, 2)
    Not(EqualTo(("name",), "O'Hara"))     ->  NOT (`name` = 'O''Hara')

A filter is translated only if it means the same on both sides, because Spark does not evaluate a
pushed filter again. Among others, these are left to Spark: binary, decimal and interval literals,
`IN` with a null under `NOT`, and patterns that contain wildcards.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import datasource as ds

from pilum.spark.literals import comparison, literal

__all__ = ["split", "translate"]

_COMPARISONS: dict[type[ds.Filter], str] = {
    ds.EqualTo: "=",
    ds.EqualNullSafe: "=",
    ds.LessThan: "<",
    ds.LessThanOrEqual: "<=",
    ds.GreaterThan: ">",
    ds.GreaterThanOrEqual: ">=",
}
_PATTERNS: dict[type[ds.Filter], str] = {
    ds.StringStartsWith: "{}%",
    ds.StringEndsWith: "%{}",
    ds.StringContains: "%{}%",
}


def split(filters: list[ds.Filter], schema: pa.Schema) -> tuple[str | None, list[ds.Filter]]:
    """Translate the supported filters of a conjunction.

    The result is a filter for the scan (None for none at all), and the filters left to Spark.
    """
    texts, rest = [], []
    for condition in filters:
        text = translate(condition, schema)
        if text is None:
            rest.append(condition)
        else:
            texts.append(text)
    return " AND ".join(texts) or None, rest


def translate(condition: ds.Filter, schema: pa.Schema) -> str | None:
    """Translate one filter to SQL; None if the SQL would not mean exactly the same.

    The text is a closed term: it can be combined with AND, or negated in parentheses.
    """
    if isinstance(condition, ds.Not):
        return _negate(condition.child, schema)
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    arrow = _type_of(attribute, schema)
    if arrow is None:
        return None
    return _translate(condition, ".".join(f"`{name}`" for name in attribute), arrow)


def _negate(child: ds.Filter, schema: pa.Schema) -> str | None:
    if isinstance(child, ds.In) and None in child.value:
        return None
    text = translate(child, schema)
    return None if text is None else f"(NOT {text})"


def _type_of(attribute: tuple[str, ...], schema: pa.Schema) -> pa.DataType | None:
    """Return the type at a path of names; None if it does not exist or cannot be written in SQL."""
    if not attribute or any("`" in name or "." in name for name in attribute):
        return None
    members: Any = schema
    for name in attribute[:-1]:
        index = members.get_field_index(name)
        if index < 0 or not pt.is_struct(members.field(index).type):
            return None
        members = members.field(index).type
    index = members.get_field_index(attribute[-1])
    return None if index < 0 else members.field(index).type


def _translate(condition: ds.Filter, column: str, arrow: pa.DataType) -> str | None:
    if isinstance(condition, ds.IsNull):
        return f"({column} IS NULL)"
    if isinstance(condition, ds.IsNotNull):
        return f"({column} IS NOT NULL)"
    if isinstance(condition, ds.In):
        return _membership(condition, column, arrow)
    if type(condition) in _PATTERNS:
        return _pattern(condition, column, arrow)
    if type(condition) in _COMPARISONS:
        return _comparison(condition, column, arrow)
    return None


def _comparison(condition: Any, column: str, arrow: pa.DataType) -> str | None:
    operator = _COMPARISONS[type(condition)]
    text = literal(condition.value, arrow)
    if text is None:
        return None
    if isinstance(condition, ds.EqualNullSafe):
        return f"({column} IS NOT NULL AND {column} = {text})"
    return comparison(column, operator, text, arrow)


def _membership(condition: ds.In, column: str, arrow: pa.DataType) -> str | None:
    literals = [literal(value, arrow) for value in condition.value if value is not None]
    if not literals or None in literals:
        return None
    return f"({column} IN ({', '.join(text for text in literals if text)}))"


def _pattern(condition: Any, column: str, arrow: pa.DataType) -> str | None:
    text = literal(_PATTERNS[type(condition)].format(condition.value), arrow)
    if text is None or any(wildcard in condition.value for wildcard in "%_\\"):
        return None
    return f"({column} LIKE {text})"
