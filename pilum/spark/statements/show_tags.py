"""SHOW TAGS [FROM | IN | ON] table.

Result: tag, version, branch (null for the main branch), created_at; newest versions first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.spark.statements.grammar import Rule, Words

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]

_SCHEMA = "tag string, version bigint, branch string, created_at timestamp"


class ShowTags(exp.Expression):
    """A SHOW TAGS statement, with the table as `this`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


def parse(words: Words) -> ShowTags | None:
    """Parse the statement; return None if it is another one."""
    return ShowTags(this=words.shown_table()) if words.take("SHOW", "TAGS") else None


def run(call: Call) -> DataFrame:
    """List the tags of a table."""
    tags = call.dataset(call.target(call.tree.this)).tags.list_ordered()
    rows = [(name, tag["version"], tag["branch"], tag["created_at"]) for name, tag in tags]
    return call.rows(rows, _SCHEMA)


RULE = Rule(ShowTags, run, parse=parse)
