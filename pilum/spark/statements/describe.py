"""DESCRIBE [TABLE] [EXTENDED] table [VERSION AS OF n].

Result: col_name, data_type, comment, as Spark's; one row for each column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.errors import UnsupportedFeatureError
from pilum.spark.statements.comments import comment_of
from pilum.spark.statements.grammar import Rule
from pilum.spark.statements.places import at
from pilum.spark.types import to_spark

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]

_SCHEMA = "col_name string, data_type string, comment string"


def run(call: Call) -> DataFrame:
    """Describe the columns of a table."""
    one = call.statement.reference_to(call.tree.this)
    style = call.tree.args.get("style")
    if one is None or style not in {None, "EXTENDED"}:
        raise UnsupportedFeatureError(
            f"{at(call.tree)}: expected DESCRIBE [EXTENDED | HISTORY | DETAIL] and one table"
        )
    schema = call.opened(one).schema
    rows = [
        (field.name, field.dataType.simpleString(), comment_of(schema.field(field.name)))
        for field in to_spark(schema).fields
    ]
    if style is not None:
        config = call.dataset(one).config()
        rows += [("", "", None), ("# Table", "", None), ("Location", one.uri, None)]
        rows += [(key, value, None) for key, value in sorted(config.items())]
    return call.rows(rows, _SCHEMA)


RULE = Rule(exp.Describe, run)
