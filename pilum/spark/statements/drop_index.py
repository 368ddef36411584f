"""DROP INDEX [IF EXISTS] name ON [TABLE] table.

Result: version, the latest one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.spark.statements.grammar import Rule, Words
from pilum.spark.statements.places import located

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]


class DropIndex(exp.Expression):
    """A DROP INDEX statement, with the name as `this`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "table": True, "exists": False}


def parse(words: Words) -> DropIndex | None:
    """Parse the statement; return None if it is another one."""
    if not words.take("DROP", "INDEX"):
        return None
    exists = words.take("IF", "EXISTS")
    name = words.name()
    words.need("ON")
    words.take("TABLE")
    return DropIndex(this=name, table=words.table(), exists=exists)


def run(call: Call) -> DataFrame:
    """Drop an index."""
    args = call.tree.args
    table, name = call.dataset(call.target(args["table"])), args["this"].name
    known = {found["name"] for found in table.list_indices()}
    if name in known or not args["exists"]:
        with located(args["this"]):
            table.drop_index(name)
    return call.report(version=table.version)


RULE = Rule(DropIndex, run, parse=parse)
