"""SHOW BRANCHES [FROM | IN | ON] table.

Result: branch, parent_branch (null for the main branch), parent_version, created_at.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.spark.statements.grammar import Rule, Words

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]

_SCHEMA = "branch string, parent_branch string, parent_version bigint, created_at timestamp"


class ShowBranches(exp.Expression):
    """A SHOW BRANCHES statement, with the table as `this`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


def parse(words: Words) -> ShowBranches | None:
    """Parse the statement; return None if it is another one."""
    return ShowBranches(this=words.shown_table()) if words.take("SHOW", "BRANCHES") else None


def run(call: Call) -> DataFrame:
    """List the branches of a table."""
    branches = call.dataset(call.target(call.tree.this)).branches.list_ordered()
    rows = [
        (
            name,
            one["parent_branch"],
            one["parent_version"],
            datetime.fromtimestamp(one["create_at"], UTC),
        )
        for name, one in branches
    ]
    return call.rows(rows, _SCHEMA)


RULE = Rule(ShowBranches, run, parse=parse)
