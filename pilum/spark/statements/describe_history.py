"""DESCRIBE HISTORY table [LIMIT n].

Result: version, timestamp, operation (null if its transaction was not kept) and properties of the
transaction; newest versions first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.spark.statements.grammar import Rule, Words

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]

_SCHEMA = "version bigint, timestamp timestamp, operation string, properties map<string, string>"


class DescribeHistory(exp.Expression):
    """A DESCRIBE HISTORY statement, with the table as `this`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "limit": False}


def parse(words: Words) -> DescribeHistory | None:
    """Parse the statement; return None if it is another one."""
    if not (words.take("DESCRIBE", "HISTORY") or words.take("DESC", "HISTORY")):
        return None
    table = words.table()
    return DescribeHistory(this=table, limit=words.number() if words.take("LIMIT") else None)


def run(call: Call) -> DataFrame:
    """List the versions of a table with their operations."""
    table = call.dataset(call.target(call.tree.this))
    versions = table.versions()[::-1][: call.tree.args["limit"]]
    return call.rows([_row(table, one) for one in versions], _SCHEMA)


def _row(table: Any, version: Any) -> tuple[Any, ...]:
    found = table.read_transaction(version["version"])
    time = version["timestamp"].astimezone()
    if found is None:
        return version["version"], time, None, {}
    properties = dict(found.transaction_properties or {})
    return version["version"], time, type(found.operation).__name__, properties


RULE = Rule(DescribeHistory, run, parse=parse)
