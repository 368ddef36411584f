"""OPTIMIZE table [WHERE condition] [ZORDER BY (column, …)].

    OPTIMIZE orders                         compaction: small files become larger ones
    OPTIMIZE orders ZORDER BY (shop, day)   clustering: all rows are written in another order
    OPTIMIZE orders WHERE day > DATE '2026-01-31'

With a condition, only fragments that have rows that fulfil it are rewritten, as a whole.
Result: fragments_removed, fragments_added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.spark.jobs.clustering import cluster
from pilum.spark.jobs.upkeep import compact
from pilum.spark.statements.expressions import known_column
from pilum.spark.statements.grammar import Rule, Words

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]


class Optimize(exp.Expression):
    """An OPTIMIZE statement, its table as `this`, its condition and its order."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "where": False, "columns": False}


def parse(words: Words) -> Optimize | None:
    """Parse the statement; return None if it is another one."""
    if not words.take("OPTIMIZE"):
        return None
    table = words.table()
    where = words.where()
    columns = words.columns() if words.take("ZORDER", "BY") else None
    return Optimize(this=table, where=where, columns=columns)


def run(call: Call) -> DataFrame:
    """Compact or cluster a table."""
    one, columns = call.target(call.tree.this), call.tree.args.get("columns")
    options, where = call.options(one.place), call.condition(one)
    if columns:
        known = call.columns(one)
        names = [known_column(column, known) for column in columns]
        order: dict[str, Any] = {"zorder_by" if len(names) > 1 else "sort_by": names}
        done = cluster(call.spark, one.uri, **order, where=where, storage_options=options)
    else:
        done = compact(call.spark, one.uri, where=where, storage_options=options)
    return call.report(
        fragments_removed=done.fragments_removed, fragments_added=done.fragments_added
    )


RULE = Rule(Optimize, run, parse=parse)
