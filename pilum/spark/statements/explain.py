"""EXPLAIN [EXTENDED | FORMATTED | COST | CODEGEN] query.

Spark explains its plan of the query, whose tables are frames of the needed columns and rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.spark.statements.grammar import Rule, Words

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]

_STYLES = ("EXTENDED", "FORMATTED", "COST", "CODEGEN")


class Explain(exp.Expression):
    """An EXPLAIN statement, with the query as `this`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


def parse(words: Words) -> Explain | None:
    """Parse the statement; return None if it is another one."""
    if not words.take("EXPLAIN"):
        return None
    for style in _STYLES:
        words.take(style)
    query = words.query()
    return None if query is None else Explain(this=query)


def run(call: Call) -> DataFrame:
    """Return the plan, as Spark does."""
    return call.query()


RULE = Rule(Explain, run, parse=parse)
