"""CREATE [OR REPLACE] TEMPORARY VIEW name AS query.

    CREATE OR REPLACE TEMPORARY VIEW cheap AS SELECT * FROM orders WHERE price < 3

The view is one of Spark's, of the versions of this moment. Other views of tables are refused,
because Spark could not read the tables later. Result: no rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.errors import UnsupportedFeatureError
from pilum.spark.statements.grammar import Rule
from pilum.spark.statements.places import at

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]


def run(call: Call) -> DataFrame:
    """Create a temporary view of a query."""
    tree = call.tree
    properties = getattr(tree.args.get("properties"), "expressions", ())
    is_temporary = [type(one) for one in properties] == [exp.TemporaryProperty]
    if not is_temporary or isinstance(tree.this, exp.Schema) or len(tree.this.parts) > 1:
        raise UnsupportedFeatureError(
            f"{at(tree)}: of tables, only CREATE [OR REPLACE] TEMPORARY VIEW name AS … is possible"
        )
    frame = call.query(tree.args.get("with_") or tree.args.get("with"), tree.expression)
    if tree.args.get("replace"):
        frame.createOrReplaceTempView(tree.this.name)
    else:
        frame.createTempView(tree.this.name)
    return call.rows([], "name string")


RULE = Rule(exp.Create, run, kind="VIEW")
