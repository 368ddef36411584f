"""SHOW TBLPROPERTIES [FROM | IN | ON] table.

Result: key, value, as Spark's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.spark.statements.grammar import Rule, Words

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]

_SCHEMA = "key string, value string"


class ShowTableProperties(exp.Expression):
    """A SHOW TBLPROPERTIES statement, with the table as `this`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


def parse(words: Words) -> ShowTableProperties | None:
    """Parse the statement; return None if it is another one."""
    return (
        ShowTableProperties(this=words.shown_table())
        if words.take("SHOW", "TBLPROPERTIES")
        else None
    )


def run(call: Call) -> DataFrame:
    """List the config of a table."""
    rows = sorted(call.dataset(call.target(call.tree.this)).config().items())
    return call.rows(rows, _SCHEMA)


RULE = Rule(ShowTableProperties, run, parse=parse)
