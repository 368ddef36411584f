"""Aggregation pushdown for queries of one table: tasks aggregate, and Spark runs the rest.

    SELECT k, sum(x) / count(*) AS mean FROM t WHERE y > 3 GROUP BY k HAVING max(z) < 9

    SELECT k, CAST(sum(p0) AS bigint) / coalesce(sum(p1), 0) AS mean FROM partials
           GROUP BY k HAVING CAST(max(p2) AS double) < 9

This requires aggregates that tasks support, groups by columns, and conditions that the scan
evaluates as Spark does. All other queries read rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from pilum.spark.aggregates.partials import Call
from pilum.spark.aggregates.source import Request
from pilum.spark.statements.places import SPAN, span
from pilum.spark.statements.pushdown import Needs, Resolve, plain_value, pushable, resolver

if TYPE_CHECKING:
    from pilum.spark.statements.references import Statement

__all__ = ["AggregateQuery", "call_of"]

_CLAUSES = {"kind", "expressions", "from", "from_", "where", "group", "having", "order", "limit"}
# Nodes of functions, as named by the parser.
_FUNCTIONS = frozenset({"avg", "count", "max", "min", "sum"})
_OF_CALLS = {"this", "big_int"}  # the parser notes that counts are of 64 bits
_NOT_ALONE = (exp.Window, exp.Distinct, exp.Filter, exp.WithinGroup, exp.Subquery, exp.Star)


@dataclass(frozen=True)
class AggregateQuery:
    """A query whose aggregates tasks can compute.

    The statement names one table; `calls` are by their position in the text.
    """

    statement: Statement
    keys: tuple[str, ...]
    calls: Mapping[tuple[int, int], Call]

    @classmethod
    def of(cls, statement: Statement, needs: Needs, schema: pa.Schema) -> AggregateQuery | None:
        """Analyze a statement; return None if its rows must be passed to Spark."""
        if not (_is_simple(statement) and needs.is_exact):
            return None
        tree, one = statement.tree, statement.references[0]
        resolve = resolver(one, tree, schema)
        keys = _keys(tree, resolve)
        calls = _calls(statement, schema, resolve)
        if keys is None or not calls or not _covers(tree, keys, resolve):
            return None
        return cls(statement, keys, calls)

    @property
    def request(self) -> Request:
        """Return the request to the tasks, with each call once."""
        quoted = tuple(f"`{name}`" for name in self.keys)
        return Request(quoted, tuple(dict.fromkeys(self.calls.values())))

    def rewritten(self, name: str, finals: Mapping[Call, str]) -> str:
        """Return the text for `spark.sql(text, **frames)`, rewritten for partial aggregates.

        `name` is the parameter for the frame of partials; `finals` is the SQL that replaces each
        call.
        """
        one = self.statement.references[0]
        places = {place: _braced(finals[call]) for place, call in self.calls.items()}
        where = self.statement.tree.args.get("where")
        if where is not None:
            # The WHERE clause is removed: the scan evaluates it.
            first, after = span(where)
            places = {
                place: text for place, text in places.items() if place[0] not in range(first, after)
            }
            places[first, after] = ""
        places[one.start, one.stop] = f"{{{name}}}{one.added_alias}"
        return self.statement.rewritten(places)


def _is_simple(statement: Statement) -> bool:
    tree = statement.tree
    if not isinstance(tree, exp.Select) or len(statement.references) != 1:
        return False
    if {key for key, value in tree.args.items() if value} - _CLAUSES:
        return False
    group = tree.args.get("group")
    if group and {key for key, value in group.args.items() if value} - {"expressions"}:
        return False
    source = statement.references[0].node.parent
    is_alone = isinstance(source, exp.From) and source.parent is tree
    return is_alone and len(list(tree.find_all(exp.Select))) == 1 and not _has_others(tree)


def _has_others(tree: Any) -> bool:
    return any(
        not (isinstance(node, exp.Star) and isinstance(node.parent, exp.Count))
        for node in tree.find_all(*_NOT_ALONE)
    )


def _keys(tree: Any, resolve: Resolve) -> tuple[str, ...] | None:
    group = tree.args.get("group")
    paths = [
        resolve(node) if isinstance(node, exp.Column) else None
        for node in (group.expressions if group else ())
    ]
    names = tuple(path[0] for path in paths if path and len(path) == 1)
    return names if len(names) == len(paths) == len(set(names)) and _plain(names) else None


def _plain(names: tuple[str, ...]) -> bool:
    """Return whether names can be quoted, and do not collide with those of partials."""
    return not any("`" in name or (name[:1] == "p" and name[1:].isdigit()) for name in names)


def _calls(
    statement: Statement, schema: pa.Schema, resolve: Resolve
) -> dict[tuple[int, int], Call]:
    """Return the aggregates of a text by their positions; empty if one is not supported."""
    nodes = list(statement.tree.find_all(exp.AggFunc))
    found = {node.meta.get(SPAN): call_of(node, schema, resolve) for node in nodes}
    calls = {place: call for place, call in found.items() if place and call}
    return dict(sorted(calls.items())) if len(calls) == len(nodes) else {}


def call_of(node: Any, schema: pa.Schema, resolve: Resolve) -> Call | None:
    """Return the call of a function of one value that tasks compute as Spark does."""
    if {name for name, part in node.args.items() if part} - _OF_CALLS:
        return None
    if isinstance(node, exp.CountIf):
        condition = pushable(node.this, schema, resolve)
        return None if condition is None else Call("count", f"nullif({condition}, false)")
    if node.key not in _FUNCTIONS:
        return None
    if isinstance(node, exp.Count) and _is_any_row(node.this):
        return Call("count", None)
    value = plain_value(node.this, schema, resolve)
    return None if value is None or "`.`" in value else Call(node.key, value)


def _is_any_row(node: Any) -> bool:
    """Return whether an argument is `*` or 1."""
    return isinstance(node, exp.Star) or (isinstance(node, exp.Literal) and node.name == "1")


def _covers(tree: Any, keys: tuple[str, ...], resolve: Resolve) -> bool:
    """Return whether all columns outside of aggregates and WHERE are keys or result names."""
    aliases = {node.alias.lower() for node in tree.expressions if node.alias}
    for column in tree.find_all(exp.Column):
        if column.find_ancestor(exp.Where, exp.AggFunc):
            continue
        path = resolve(column)
        is_key = path is not None and len(path) == 1 and path[0] in keys
        is_result = not column.table and column.name.lower() in aliases
        if not (is_key or (is_result and column.find_ancestor(exp.Order))):
            return False
    return True


def _braced(text: str) -> str:
    """Return a text for a format string of Spark."""
    return text.replace("{", "{{").replace("}", "}}")
