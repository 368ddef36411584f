"""Execute the text of `pilum.spark.sql`.

text ──parse──▶ tree ──a rule of the registry──▶ frame of its result
  └── no table of pilum ──▶ Spark
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from pilum.errors import UnsupportedFeatureError
from pilum.spark.catalog import Names
from pilum.spark.statements import create_table, show_tables
from pilum.spark.statements.call import Call
from pilum.spark.statements.functions import table_functions
from pilum.spark.statements.parsing import parsed
from pilum.spark.statements.places import at, shown
from pilum.spark.statements.references import Statement
from pilum.spark.statements.registry import STATEMENTS

__all__ = ["carry_out"]


def carry_out(
    spark: SparkSession, text: str, tables: Mapping[str, str], access: dict[str, str]
) -> DataFrame:
    """Execute a statement for `pilum.spark.sql`, which documents the arguments."""
    with shown(text):
        statement = parsed(text, Names.of(spark, tables))
        if statement is None or not _is_ours(statement):
            return spark.sql(text)
        call = Call(spark, statement, access)
        rule = next((rule for rule in STATEMENTS if rule.is_for(statement.tree)), None)
        if rule is None:
            word = statement.text.split(maxsplit=1)[0].upper()
            raise UnsupportedFeatureError(
                f"{at(statement.tree)}: {word} is no statement for tables of pilum; "
                "`help(pilum.spark.sql)` lists them"
            )
        return rule.run(call)


def _is_ours(statement: Statement) -> bool:
    tree = statement.tree
    if isinstance(tree, show_tables.ShowTables) or statement.references:
        return True
    is_new = isinstance(tree, exp.Create) and create_table.is_for_pilum(tree)
    return is_new or bool(table_functions(statement))
