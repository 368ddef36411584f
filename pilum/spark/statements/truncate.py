"""TRUNCATE TABLE table.

Deletes all rows; older versions keep them. Result: num_deleted_rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.errors import UnsupportedFeatureError
from pilum.spark import rows
from pilum.spark.statements.grammar import Rule
from pilum.spark.statements.places import at

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]


def run(call: Call) -> DataFrame:
    """Delete all rows of a table."""
    call.require({"expressions"})
    if len(call.tree.expressions) != 1:
        raise UnsupportedFeatureError(f"{at(call.tree)}: TRUNCATE takes one table")
    one = call.target(call.tree.expressions[0])
    options = call.options(one.place)
    return call.report(**rows.delete(call.spark, one.uri, "true", storage_options=options))


RULE = Rule(exp.TruncateTable, run)
