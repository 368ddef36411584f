"""SHOW VERSIONS [FROM | IN | ON] table.

Result: version, timestamp and metadata, such as the number of rows; oldest versions first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.spark.statements.grammar import Rule, Words

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]

_SCHEMA = "version bigint, timestamp timestamp, metadata map<string, string>"


class ShowVersions(exp.Expression):
    """A SHOW VERSIONS statement, with the table as `this`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


def parse(words: Words) -> ShowVersions | None:
    """Parse the statement; return None if it is another one."""
    return ShowVersions(this=words.shown_table()) if words.take("SHOW", "VERSIONS") else None


def run(call: Call) -> DataFrame:
    """List the versions of a table."""
    versions = call.dataset(call.target(call.tree.this)).versions()
    rows = [(one["version"], one["timestamp"].astimezone(), one["metadata"]) for one in versions]
    return call.rows(rows, _SCHEMA)


RULE = Rule(ShowVersions, run, parse=parse)
