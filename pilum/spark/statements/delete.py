"""DELETE FROM table [AS alias] [WHERE condition].

    DELETE FROM orders WHERE price IS NULL OR shop = 3

The condition uses the SQL of pilum's filters. Result: num_deleted_rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.spark import rows
from pilum.spark.statements.grammar import Rule

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]


def run(call: Call) -> DataFrame:
    """Delete the rows that fulfil the condition; all rows without one."""
    one = call.target(call.tree.this)
    call.require({"this", "where"})
    where, options = call.condition(one) or "true", call.options(one.place)
    return call.report(**rows.delete(call.spark, one.uri, where, storage_options=options))


RULE = Rule(exp.Delete, run)
