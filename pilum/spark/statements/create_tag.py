"""CREATE [OR REPLACE] TAG [IF NOT EXISTS] name ON [TABLE] table [VERSION AS OF … | TIMESTAMP …].

Without a version, the tag refers to the latest one. Result: tag, version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.errors import InvalidInputError
from pilum.spark.statements.grammar import Rule, Words
from pilum.spark.statements.places import at, located

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]

_SCHEMA = "tag string, version bigint"


class CreateTag(exp.Expression):
    """A CREATE TAG statement, with the name as `this`."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "table": True,
        "replace": False,
        "exists": False,
        "at": False,
    }


def parse(words: Words) -> CreateTag | None:
    """Parse the statement; return None if it is another one."""
    replace = words.take("CREATE", "OR", "REPLACE", "TAG")
    if not replace and not words.take("CREATE", "TAG"):
        return None
    exists = words.take("IF", "NOT", "EXISTS")
    name = words.name()
    words.need("ON")
    words.take("TABLE")
    table = words.table()
    return CreateTag(this=name, table=table, replace=replace, exists=exists, at=words.version())


def run(call: Call) -> DataFrame:
    """Create a tag, or move it."""
    args = call.tree.args
    name, one = args["this"].name, call.target(args["table"])
    if args["replace"] and args["exists"]:
        raise InvalidInputError(
            f"{at(args['this'])}: OR REPLACE and IF NOT EXISTS exclude each other"
        )
    version = call.version(one, args["at"])
    tags = call.dataset(one).tags
    with located(args["this"]):
        known = name in tags.list()
        if not known:
            tags.create(name, version)
        elif not args["exists"]:
            (tags.update if args["replace"] else tags.create)(name, version)
    return call.rows([(name, tags.get_version(name))], _SCHEMA)


RULE = Rule(CreateTag, run, parse=parse)
