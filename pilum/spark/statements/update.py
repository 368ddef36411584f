"""UPDATE table [AS alias] SET column = value, … [WHERE condition].

    UPDATE orders SET price = price * 2, name = upper(name) WHERE shop = 3

Values and conditions use the SQL of pilum's filters. Result: num_rows_updated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.errors import UnsupportedFeatureError
from pilum.spark import rows
from pilum.spark.statements.expressions import known_column, plain_text
from pilum.spark.statements.grammar import Rule
from pilum.spark.statements.places import at

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]


def run(call: Call) -> DataFrame:
    """Update the rows that fulfil the condition."""
    one = call.target(call.tree.this)
    call.require({"this", "expressions", "where"})
    columns, values = call.columns(one), {}
    for pair in call.tree.expressions:
        names = [part.name for part in pair.left.parts]
        if len(names) == 2 and names[0].lower() == one.alias.lower():
            names = names[1:]
        if len(names) > 1:
            raise UnsupportedFeatureError(f"{at(pair)}: members of structs cannot be set alone")
        values[known_column(pair.left.this, columns)] = plain_text(pair.right, one.alias, columns)
    where, options = call.condition(one), call.options(one.place)
    return call.report(**rows.update(call.spark, one.uri, values, where, storage_options=options))


RULE = Rule(exp.Update, run)
