"""CREATE BRANCH [IF NOT EXISTS] name ON [TABLE] table [VERSION AS OF … | TIMESTAMP AS OF …].

Without a version, the branch starts at the latest one. No file is copied. Result: branch, version.
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

_SCHEMA = "branch string, version bigint"


class CreateBranch(exp.Expression):
    """A CREATE BRANCH statement, with the name as `this`."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "table": True,
        "exists": False,
        "at": False,
    }


def parse(words: Words) -> CreateBranch | None:
    """Parse the statement; return None if it is another one."""
    if not words.take("CREATE", "BRANCH"):
        return None
    exists = words.take("IF", "NOT", "EXISTS")
    name = words.name()
    words.need("ON")
    words.take("TABLE")
    return CreateBranch(this=name, table=words.table(), exists=exists, at=words.version())


def run(call: Call) -> DataFrame:
    """Create a branch."""
    args = call.tree.args
    name, one = args["this"].name, call.target(args["table"])
    table = call.dataset(one)
    known = table.branches.list()
    if args["exists"] and name in known:
        return call.rows([(name, known[name]["parent_version"])], _SCHEMA)
    version = call.version(one, args["at"])
    with located(args["this"]):
        table.create_branch(name, version)
    return call.rows([(name, version)], _SCHEMA)


RULE = Rule(CreateBranch, run, parse=parse)
