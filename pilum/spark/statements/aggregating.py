"""Aggregation pushdown for queries of one table: tasks aggregate, and Spark runs the rest.

    SELECT k, sum(x) / count(*) AS mean FROM t WHERE y > 3 GROUP BY k HAVING max(z) < 9

    SELECT k, CAST(sum(p0) AS bigint) / coalesce(sum(p1), 0) AS mean FROM partials
           GROUP BY k HAVING CAST(max(p2) AS double) < 9

This requires aggregates that tasks support, groups by columns, and conditions that the scan
evaluates as Spark does. All other queries read rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import TokenType, exp

from pilum.spark.aggregates.partials import Call
from pilum.spark.aggregates.source import Request
from pilum.spark.statements.pushdown import Needs, Resolve, plain_value, pushable, resolver
from pilum.spark.statements.references import Statement

__all__ = ["AggregateQuery"]

_CLAUSES = {"kind", "expressions", "from", "from_", "where", "group", "having", "order", "limit"}
# Functions as spelled in the text, and their nodes as named by the parser.
_KEYS = {
    "avg": "avg",
    "count": "count",
    "count_if": "countif",
    "max": "max",
    "min": "min",
    "sum": "sum",
}
_NOT_ALONE = (exp.Window, exp.Distinct, exp.Filter, exp.WithinGroup, exp.Subquery, exp.Star)
_BEHIND_WHERE = frozenset(
    {TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT}
)


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
        places = {place: finals[call] for place, call in self.calls.items()}
        where = _where(self.statement)
        if where is not None:
            # The WHERE clause is removed: the scan evaluates it.
            inside = range(*where)
            places = {place: text for place, text in places.items() if place[0] not in inside}
            places[where] = ""
        return self.statement.rewritten({one.start: name}, others=places)


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
    by_place = {_place(node): node for node in nodes}
    known: dict[tuple[int, int], Call | None] = {}
    for words in _spans(statement):
        place = (int(words[0].start), int(words[-1].end) + 1)
        node = next((by_place[at] for at in by_place if at in range(*place)), None)
        known[place] = _count(words) if node is None else _call(words[0], node, schema, resolve)
    found = {place: call for place, call in known.items() if call is not None}
    return found if len(found) == len(known) == len(nodes) else {}


def _place(node: Any) -> int:
    """Return the position of the first column of a call; -1 if it has none."""
    columns = node.find_all(exp.Column)
    starts = [part.meta.get("start", -1) for column in columns for part in column.parts]
    return min(starts, default=-1)


def _spans(statement: Statement) -> Iterator[list[Any]]:
    """Yield the tokens of each call, from the name to the closing parenthesis."""
    words = statement.tokens
    for number in range(len(words) - 1):
        is_call = words[number + 1].token_type is TokenType.L_PAREN
        if is_call and words[number].text.lower() in _KEYS:
            yield words[number : statement.closing(number + 1) + 1]


def _count(words: list[Any]) -> Call | None:
    """Return the call for `count(*)` or an equivalent; None for anything else."""
    name, *inner = (word.text.upper() for word in words)
    return Call("count", None) if name == "COUNT" and inner[1:-1] in (["*"], ["1"]) else None


def _call(name: Any, node: Any, schema: pa.Schema, resolve: Resolve) -> Call | None:
    """Return the call of a function of one value that tasks compute as Spark does."""
    function = name.text.lower()
    if node.key != _KEYS[function] or node.expressions or any(node.find_all(exp.Star)):
        return None
    is_condition = function == "count_if"
    value = (pushable if is_condition else plain_value)(node.this, schema, resolve)
    if value is None or "`.`" in value:
        return None
    return Call("count", f"nullif({value}, false)") if is_condition else Call(function, value)


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


def _where(statement: Statement) -> tuple[int, int] | None:
    """Return the text range from WHERE to the next clause."""
    start = None
    for word in statement.outer_tokens:
        if word.token_type is TokenType.WHERE:
            start = int(word.start)
        elif start is not None and word.token_type in _BEHIND_WHERE:
            return start, int(word.start)
    return None if start is None else (start, len(statement.text))
