"""INSERT INTO | OVERWRITE [TABLE] table [(column, …) | BY NAME] query.

    INSERT INTO orders (id, price) VALUES (1, 2.5)
    INSERT INTO orders BY NAME SELECT 2.5 AS price, 1 AS id
    INSERT OVERWRITE orders SELECT * FROM new

Columns that are not named get nulls. The rows are written with one commit. OVERWRITE replaces all
rows; the schema of the table stays. Result: version, the new one. A table of Spark gets rows of
pilum's tables likewise, by Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from sqlglot import exp

from pilum.distributed import Mode
from pilum.errors import InvalidInputError
from pilum.spark.frames import write
from pilum.spark.names import quoted
from pilum.spark.statements.expressions import known_column
from pilum.spark.statements.grammar import Rule
from pilum.spark.statements.places import at
from pilum.spark.types import to_spark

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]

_KNOWN = {"this", "expression", "overwrite", "by_name", "with", "with_"}


def run(call: Call) -> DataFrame:
    """Write the rows of a query."""
    tree, target = call.tree, call.tree.this
    has_list = isinstance(target, exp.Schema)
    node = target.this if has_list else target
    if call.statement.reference_to(node) is None:  # a table of Spark
        return call.query()
    one = call.target(node)
    call.require(_KNOWN)
    call.require({"this", "db", "catalog"}, one.node)
    table = to_spark(call.dataset(one).schema)
    frame = call.query(tree.args.get("with_") or tree.args.get("with"), tree.expression)
    names = table.names
    if tree.args.get("by_name"):
        names = [known_column(exp.to_identifier(name), names) for name in frame.columns]
    elif has_list:
        names = [known_column(identifier, names) for identifier in target.expressions]
    if len(frame.columns) != len(names):
        raise InvalidInputError(f"{at(tree)}: {len(frame.columns)} values for the columns {names}")
    mode: Mode = "overwrite" if tree.args.get("overwrite") else "append"
    return call.report(version=_write(call, one, frame.toDF(*names), table, mode))


def _write(call: Call, one: Any, frame: DataFrame, table: Any, mode: Mode) -> int:
    """Cast the columns to the types of the table and write them."""
    names = frame.columns
    if mode == "overwrite":
        for name in set(table.names).difference(names):
            frame = frame.withColumn(name, sf.lit(None))
        names = table.names
    cast = [
        sf.col(quoted(name)).cast(table[name].dataType).alias(name, metadata=table[name].metadata)
        for name in names
    ]
    options = call.options(one.place)
    return write(frame.select(*cast), one.uri, mode=mode, storage_options=options)


RULE = Rule(exp.Insert, run)
