"""SHOW TABLES [FROM | IN name] [[LIKE] 'pattern'].

    SHOW TABLES IN lake LIKE 'or*|us*'

Lists the tables of an attached namespace or file of names. Without FROM, the attached tables are
added to those that Spark lists. In a pattern, `*` is any text and `|` separates alternatives.
Result: namespace, tableName, isTemporary, as Spark's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.spark.statements.grammar import Rule, Words

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]

_SCHEMA = "namespace string, tableName string, isTemporary boolean"


class ShowTables(exp.Expression):
    """A SHOW TABLES statement: the parts of a name and a pattern, both optional."""

    arg_types: ClassVar[dict[str, bool]] = {"names": False, "pattern": False}


def parse(words: Words) -> ShowTables | None:
    """Parse the statement; return None if it is another one."""
    if not words.take("SHOW", "TABLES"):
        return None
    names: list[str] = []
    if words.take("FROM") or words.take("IN"):
        names = [part.name for part in words.table().parts]
    words.take("LIKE")
    return ShowTables(names=names, pattern=None if words.has_ended() else words.string())


def run(call: Call) -> DataFrame:
    """List tables."""
    names, attached = call.tree.args["names"], call.statement.names
    if not names:
        found = attached.tables.tables(())
        rows = [("", name, True) for name in found if _fits(name, call.tree.args["pattern"])]
        return call.spark.sql(call.statement.text).unionAll(call.rows(rows, _SCHEMA))
    first, *parents = names
    collection = attached.collections.get(first.lower())
    if collection is None:
        return call.spark.sql(call.statement.text)
    tables = collection.tables(parents)
    fitting = [name for name in tables if _fits(name, call.tree.args["pattern"])]
    return call.rows([(".".join(names), name, False) for name in fitting], _SCHEMA)


def _fits(name: str, pattern: str | None) -> bool:
    if pattern is None:
        return True
    words = [re.escape(part).replace(r"\*", ".*") for part in pattern.strip().split("|")]
    return any(re.fullmatch(word, name, re.IGNORECASE) for word in words)


RULE = Rule(ShowTables, run, parse=parse)
