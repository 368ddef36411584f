"""SHOW INDEXES [FROM | IN | ON] table.

Result: name, type, columns, num_segments, num_rows_indexed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.spark.statements.grammar import Rule, Words

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]

_SCHEMA = (
    "name string, type string, columns array<string>, num_segments bigint, num_rows_indexed bigint"
)


class ShowIndexes(exp.Expression):
    """A SHOW INDEXES statement, with the table as `this`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


def parse(words: Words) -> ShowIndexes | None:
    """Parse the statement; return None if it is another one."""
    return ShowIndexes(this=words.shown_table()) if words.take("SHOW", "INDEXES") else None


def run(call: Call) -> DataFrame:
    """List the indices of a table."""
    indices = call.dataset(call.target(call.tree.this)).describe_indices()
    rows = [
        (one.name, one.index_type, list(one.field_names), len(one.segments), one.num_rows_indexed)
        for one in indices
    ]
    return call.rows(rows, _SCHEMA)


RULE = Rule(ShowIndexes, run, parse=parse)
