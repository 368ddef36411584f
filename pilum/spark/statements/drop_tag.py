"""DROP TAG [IF EXISTS] name ON [TABLE] table.

The version is not deleted. Result: tag, if one was deleted.
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


class DropTag(exp.Expression):
    """A DROP TAG statement, with the name as `this`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "table": True, "exists": False}


def parse(words: Words) -> DropTag | None:
    """Parse the statement; return None if it is another one."""
    if not words.take("DROP", "TAG"):
        return None
    exists = words.take("IF", "EXISTS")
    name = words.name()
    words.need("ON")
    words.take("TABLE")
    return DropTag(this=name, table=words.table(), exists=exists)


def run(call: Call) -> DataFrame:
    """Delete a tag."""
    args = call.tree.args
    tags, name = call.dataset(call.target(args["table"])).tags, args["this"].name
    if args["exists"] and name not in tags.list():
        return call.rows([], "tag string")
    with located(args["this"]):
        tags.delete(name)
    return call.rows([(name,)], "tag string")


RULE = Rule(DropTag, run, parse=parse)
