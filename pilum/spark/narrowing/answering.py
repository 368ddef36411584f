"""Aggregates of a leaf that tasks compute, and counts of rows that the metadata contains.

k                              k0
round(sum(x) / count(1), 2)    round(CAST(sum(p0) AS …) / coalesce(sum(p1), 0), 2)
└────────── results ─────┘     └────────── over the partials k0, p0, p1 of tasks ─┘

count(1), no condition         the number of rows of the version
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from sqlglot import exp

from pilum.errors import UnsupportedFeatureError, UnsupportedTypeError
from pilum.spark.aggregates.partials import Call
from pilum.spark.aggregates.source import Request, final, partial_frame
from pilum.spark.names import quoted
from pilum.spark.narrowing.deciding import Decision, expression, resolved
from pilum.spark.narrowing.leaves import Grouping, NameOf, Reads
from pilum.spark.statements.aggregating import call_of
from pilum.spark.statements.places import SPAN

__all__ = ["answer"]

_ROWS = Call("count", None)
# What may be around aggregates and keys; Spark evaluates it.
_PLAIN = (
    exp.Add,
    exp.Boolean,
    exp.Cast,
    exp.Coalesce,
    exp.DataType,
    exp.DataTypeParam,
    exp.Div,
    exp.Literal,
    exp.Mul,
    exp.Neg,
    exp.Paren,
    exp.Round,
    exp.Sub,
)

_OPPOSITE: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
}


@dataclass(frozen=True)
class _Result:
    """A text in which some ranges are calls of aggregates, or keys."""

    text: str
    parts: Mapping[tuple[int, int], Call | str]

    def written(self, names: Mapping[Call | str, str]) -> str:
        """Return the text with other names for its parts."""
        text = self.text
        for (first, after), part in sorted(self.parts.items(), reverse=True):
            text = text[:first] + names[part] + text[after:]
        return text


def answer(
    spark: SparkSession, decision: Decision, grouping: Grouping, name_of: NameOf
) -> tuple[DataFrame, Reads] | None:
    """Return a frame of the results of a grouping, in order; None if rows have to be read.

    The types of the results are those of Spark's functions, as far as they are known; the caller
    compares them.
    """
    planned = _planned(decision, grouping, name_of) if decision.is_exact else None
    if planned is None:
        return None
    keys, results = planned
    given = [part for one in results for part in one.parts.values() if isinstance(part, Call)]
    calls = tuple(dict.fromkeys(given)) or (_ROWS,)
    if not keys and calls == (_ROWS,) and decision.reads.filter is None:
        count: dict[Call | str, str] = {_ROWS: f"{decision.table.num_rows}L"}
        texts = [f"{one.written(count)} AS c{number}" for number, one in enumerate(results)]
        return spark.sql(f"SELECT {', '.join(texts)}"), replace(decision.reads, answer="metadata")
    request = Request(tuple(quoted(key) for key in keys), calls)
    try:
        partials, bound = partial_frame(spark, request, decision.texts)
    except (UnsupportedFeatureError, UnsupportedTypeError):
        return None
    names: dict[Call | str, str] = dict(zip(calls, final(request, bound), strict=True))
    names.update({key: f"k{number}" for number, key in enumerate(keys)})
    columns = [
        sf.expr(one.written(names)).alias(f"c{number}") for number, one in enumerate(results)
    ]
    groups = partials.groupBy(*(f"k{number}" for number in range(len(keys))))
    found = groups.agg(*columns).select(*(f"c{number}" for number in range(len(results))))
    return found, replace(decision.reads, answer="aggregates")


def _planned(
    decision: Decision, grouping: Grouping, name_of: NameOf
) -> tuple[list[str], list[_Result]] | None:
    """Return the columns to group by, and the results."""
    resolve = resolved(decision.columns, name_of)

    def column(node: Any) -> str | None:
        path = resolve(node) if isinstance(node, exp.Column) else None
        return path[0] if path is not None and len(path) == 1 and "`" not in path[0] else None

    def part(node: Any, keys: Sequence[str]) -> Call | str | None:
        if isinstance(node, exp.AggFunc):
            return call_of(_count_if(node) or node, decision.columns, resolve)
        name = column(node)
        return name if name in keys else None

    def result(text: str, keys: Sequence[str]) -> _Result | None:
        node = expression(text)
        if isinstance(node, exp.Alias):
            text, node = text[: node.args["alias"].meta["start"]], node.this
            text = text.rstrip().removesuffix("AS")
        places: dict[tuple[int, int], Call | str] = {}
        for one in _parts(node):
            found = part(one, keys)
            if found is None:
                return None
            places[_place(one)] = found
        return _Result(text, places)

    keys = [column(expression(text)) for text in grouping.keys]
    names = [name for name in keys if name is not None]
    if len(names) < len(keys) or len(set(names)) < len(names):
        return None
    results = [result(text, names) for text in grouping.results]
    known = [one for one in results if one is not None]
    return (names, known) if known and len(known) == len(results) else None


def _count_if(node: Any) -> exp.CountIf | None:
    """Return `count_if(x)`, which Spark's optimiser writes as `count(IF(NOT x, NULL, x))`."""
    value = _bare(node.this) if isinstance(node, exp.Count) and node.this else None
    if not isinstance(value, exp.If) or value.args.get("false") is None:
        return None
    test, nothing, found = (value.args[name] for name in ("this", "true", "false"))
    nothing = nothing.this if isinstance(nothing, exp.Cast) else nothing
    is_counted = isinstance(nothing, exp.Null) and test in _negations(found)
    return exp.CountIf(this=found) if is_counted else None


def _bare(node: Any) -> Any:
    """Return a copy of an expression without parentheses; its tree has their meaning."""
    found = node.unnest().copy()
    for paren in list(found.find_all(exp.Paren)):
        paren.replace(paren.this)
    return found


def _negations(node: Any) -> list[Any]:
    """Return the forms in which Spark writes the negation of a condition."""
    found: list[Any] = [exp.Not(this=node.copy())]
    if isinstance(node, exp.Not):
        found.append(node.this)
    if type(node) in _OPPOSITE:
        left, right = node.left.copy(), node.right.copy()
        found.append(_OPPOSITE[type(node)](this=left, expression=right))
    return found


def _parts(node: Any) -> Iterator[Any]:
    """Yield the aggregates and columns of a result, and what cannot be around them."""
    if not isinstance(node, _PLAIN):
        yield node
        return
    for one in node.iter_expressions():
        if not isinstance(one, exp.Identifier):
            yield from _parts(one)


def _place(node: Any) -> tuple[int, int]:
    if isinstance(node, exp.Column):
        return node.parts[0].meta["start"], node.parts[-1].meta["end"] + 1
    first, after = node.meta[SPAN]
    return first, after
