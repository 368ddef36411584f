"""DROP BRANCH [IF EXISTS] name ON [TABLE] table.

The versions of the branch are deleted, with their files. Result: branch, if one was deleted.
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


class DropBranch(exp.Expression):
    """A DROP BRANCH statement, with the name as `this`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "table": True, "exists": False}


def parse(words: Words) -> DropBranch | None:
    """Parse the statement; return None if it is another one."""
    if not words.take("DROP", "BRANCH"):
        return None
    exists = words.take("IF", "EXISTS")
    name = words.name()
    words.need("ON")
    words.take("TABLE")
    return DropBranch(this=name, table=words.table(), exists=exists)


def run(call: Call) -> DataFrame:
    """Delete a branch."""
    args = call.tree.args
    branches, name = call.dataset(call.target(args["table"])).branches, args["this"].name
    if args["exists"] and name not in branches.list():
        return call.rows([], "branch string")
    with located(args["this"]):
        branches.delete(name)
    return call.rows([(name,)], "branch string")


RULE = Rule(DropBranch, run, parse=parse)
