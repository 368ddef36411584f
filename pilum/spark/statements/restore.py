"""RESTORE [TABLE] table TO VERSION AS OF n | 'tag' | TIMESTAMP AS OF 'time'.

    RESTORE orders TO VERSION AS OF 12

The rows, columns and config of the old version become a new version. Result: version, the new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.spark.statements.grammar import Rule, Words

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]


class Restore(exp.Expression):
    """A RESTORE statement, with the table as `this` and the clause of the version."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "to": True}


def parse(words: Words) -> Restore | None:
    """Parse the statement; return None if it is another one."""
    if not words.take("RESTORE"):
        return None
    words.take("TABLE")
    table = words.table()
    words.need("TO")
    version = words.version()
    if version is None:
        words.refuse("VERSION AS OF or TIMESTAMP AS OF")
    return Restore(this=table, to=version)


def run(call: Call) -> DataFrame:
    """Restore a version as the newest one."""
    one = call.target(call.tree.this)
    version = call.version(one, call.tree.args["to"])
    table = call.dataset(one).checkout_version(version)
    table.restore()
    return call.report(version=table.version)


RULE = Rule(Restore, run, parse=parse)
