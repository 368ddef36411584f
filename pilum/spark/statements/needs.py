"""Projection and predicate of each table in a query: the columns and rows that it needs.

    SELECT t.a, count(*) FROM lance.`/t` t JOIN u ON t.k = u.k WHERE t.b > 3 OR t.b < 0 GROUP BY 1
                                   columns a, k, b      rows with  b > 3 OR b < 0

Columns are found by their names alone: a column is read if any word of the query is its name. This
may read a column too many, but never one too few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from pilum.format.meta_columns import META_COLUMNS
from pilum.spark.statements.conditions import Resolve, pushable
from pilum.spark.statements.references import Reference

__all__ = ["Needs", "needs_of", "resolver"]

_WIDENING = {"RIGHT", "FULL"}


@dataclass(frozen=True)
class Needs:
    """The columns and rows to read from a table.

    Attributes:
        columns: Columns in the order of the table; may be empty.
        filter: A condition in pilum's SQL that all needed rows fulfil; None for all rows.
        is_exact: Whether the filter is the whole condition of the query.
    """

    columns: tuple[str, ...]
    filter: str | None
    is_exact: bool


def needs_of(reference: Reference, tree: Any, schema: pa.Schema) -> Needs:
    """Return the columns and rows of a table that a query needs.

    Args:
        reference: The table.
        tree: The statement, or its query.
        schema: Columns of the table.
    """
    words = {one.name.lower() for one in tree.find_all(exp.Identifier)}
    own = tuple(schema.names)
    columns = own if _has_star(reference, tree) else [n for n in own if n.lower() in words]
    meta = [name for name in META_COLUMNS if name in words and name not in own]
    return Needs((*columns, *meta), *_filter(reference, schema))


def _has_star(reference: Reference, tree: Any) -> bool:
    """Return whether all columns are selected by a `*`, or in a way that names none."""
    node = reference.node
    select = node.parent_select
    if not isinstance(select, exp.Select) or node.args.get("pivots"):
        return True
    if any(join.method.upper() == "NATURAL" for join in select.args.get("joins") or ()):
        return True
    return any(_covers(star, reference, select) for star in tree.find_all(exp.Star))


def _covers(star: Any, reference: Reference, select: Any) -> bool:
    if isinstance(star.parent, exp.Count):
        return False
    if isinstance(star.parent, exp.Column) and star.parent.table:
        return bool(star.parent.table.lower() == reference.alias.lower()) or not reference.alias
    return star.parent_select is select


def _filter(reference: Reference, schema: pa.Schema) -> tuple[str | None, bool]:
    """Return the part of the condition that the scan can evaluate, and whether it is all of it."""
    select = reference.node.parent_select
    if not isinstance(select, exp.Select) or not _is_kept(reference, select):
        return None, False
    where = select.args.get("where")
    if where is None:
        return None, True
    resolve = resolver(reference, select, schema)
    terms = [pushable(term, schema, resolve) for term in _terms(where.this)]
    return " AND ".join(term for term in terms if term) or None, None not in terms


def _terms(node: Any) -> Iterator[Any]:
    """Yield the terms of a conjunction."""
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from _terms(node.left)
        yield from _terms(node.right)
    else:
        yield node


def _is_kept(reference: Reference, select: Any) -> bool:
    """Return whether a table row that fails WHERE cannot affect any row of the result."""
    node: Any = reference.node
    if node.args.get("sample") or node.args.get("pivots") or select.args.get("sample"):
        return False
    joins = select.args.get("joins") or []
    if any(join.side.upper() in _WIDENING for join in joins):
        return False
    if isinstance(node.parent, exp.From):
        return node.parent.parent is select
    join = node.parent
    is_inner = isinstance(join, exp.Join) and not join.side and join.kind in {"", "INNER", "CROSS"}
    return is_inner and join.parent is select


def resolver(reference: Reference, select: Any, schema: pa.Schema) -> Resolve:
    """Return a function that resolves the columns of a query that belong to a table.

    Args:
        reference: The table.
        select: The query.
        schema: Columns of the table.
    """
    by_name: dict[str, list[str]] = {}
    for name in schema.names:
        by_name.setdefault(name.lower(), []).append(name)
    is_alone = not (select.args.get("joins") or select.args.get("laterals"))
    alias = reference.alias.lower()

    def resolve(column: exp.Column) -> tuple[str, ...] | None:
        names = [part.name for part in column.parts]
        if alias and len(names) > 1 and names[0].lower() == alias and alias not in by_name:
            names = names[1:]
        elif not is_alone:
            return None
        found = by_name.get(names[0].lower(), [])
        return (found[0], *names[1:]) if len(found) == 1 else None

    return resolve
