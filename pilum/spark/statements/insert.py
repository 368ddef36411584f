"""INSERT INTO | OVERWRITE [TABLE] table [clauses] query.

    PARTITION (column = value, …)
    (column, …) | BY NAME
    REPLACE WHERE condition

    INSERT INTO orders (id, price) VALUES (1, 2.5)
    INSERT INTO orders BY NAME SELECT 2.5 AS price, 1 AS id
    INSERT INTO orders PARTITION (shop = 3) SELECT id, price FROM new
    INSERT INTO orders REPLACE WHERE day = DATE '2026-01-31' SELECT * FROM new
    INSERT OVERWRITE orders SELECT * FROM new
    INSERT OVERWRITE orders PARTITION (shop = 3) SELECT id, price FROM new

Columns that are not named get nulls. The rows are written with one commit. OVERWRITE replaces all
rows; the schema of the table stays. A table has no partitions: the values of PARTITION fill their
columns, and OVERWRITE then replaces the rows that have these values. A column of PARTITION without
a value is refused. Result: version, the new one; num_deleted_rows and num_inserted_rows if only
some of the rows are replaced. A table of Spark gets rows of pilum's tables likewise, by Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType
from sqlglot import exp

from pilum.distributed import Mode
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.spark.frames import write
from pilum.spark.names import quoted
from pilum.spark.replacing import replace_where
from pilum.spark.statements.expressions import known_column
from pilum.spark.statements.grammar import Rule
from pilum.spark.statements.places import at
from pilum.spark.types import to_spark

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call
    from pilum.spark.statements.references import Reference

__all__ = ["RULE"]

_KNOWN = {"this", "expression", "overwrite", "by_name", "with", "with_", "where"}


@dataclass(frozen=True)
class _Insert:
    """The target of the rows: a table, its columns, and the equations of PARTITION by column."""

    call: Call
    one: Reference
    table: StructType
    fixed: dict[str, Any]

    def names(self, frame: DataFrame) -> list[str]:
        """Return the columns of the table that the columns of a query are for."""
        tree, table = self.call.tree, self.table.names
        if tree.args.get("by_name"):
            names = [known_column(exp.to_identifier(name), table) for name in frame.columns]
        elif isinstance(tree.this, exp.Schema):
            names = [known_column(identifier, table) for identifier in tree.this.expressions]
        else:
            names = [name for name in table if name not in self.fixed]
        if twice := sorted(self.fixed.keys() & set(names)):
            raise InvalidInputError(f"{at(tree)}: PARTITION already sets {', '.join(twice)}")
        if len(frame.columns) != len(names):
            raise InvalidInputError(
                f"{at(tree)}: {len(frame.columns)} values for the columns {names}"
            )
        return names

    def rows(self, *, with_all: bool) -> DataFrame:
        """Return the rows to write; columns that are not named are nulls, or missing."""
        tree = self.call.tree
        frame = self.call.query(tree.args.get("with_") or tree.args.get("with"), tree.expression)
        names = self.names(frame)
        values = {name: sf.col(quoted(name)) for name in names}
        values |= {name: sf.expr(node.right.sql("spark")) for name, node in self.fixed.items()}
        written = self.table.names if with_all else [*values]
        nothing = sf.lit(None)
        cast = [self._typed(name, values.get(name, nothing)) for name in written]
        return frame.toDF(*names).select(*cast)

    def condition(self) -> str | None:
        """Return the condition of the rows that are replaced; None if none are, or all."""
        where = self.call.tree.args.get("where")
        if where is not None and (self.fixed or self.call.tree.args.get("overwrite")):
            raise UnsupportedFeatureError(
                f"{at(where)}: REPLACE WHERE goes with INSERT INTO, without PARTITION"
            )
        if where is not None:
            return self.call.checked(self.one, where)
        if not self.call.tree.args.get("overwrite") or not self.fixed:
            return None
        return self.call.checked(self.one, exp.and_(*map(_test, self.fixed.values())))

    def _typed(self, name: str, value: Column) -> Column:
        field = self.table[name]
        return value.cast(field.dataType).alias(name, metadata=field.metadata)


def run(call: Call) -> DataFrame:
    """Write the rows of a query."""
    tree, target = call.tree, call.tree.this
    node = target.this if isinstance(target, exp.Schema) else target
    if call.statement.reference_to(node) is None:  # a table of Spark
        return call.query()
    one = call.target(node)
    call.require(_KNOWN)
    call.require({"this", "db", "catalog", "partition"}, one.node)
    table = to_spark(call.dataset(one).schema)
    insert = _Insert(call, one, table, _fixed(node, table.names))
    options, where = call.options(one.place), insert.condition()
    if where is not None:
        rows = insert.rows(with_all=True)
        return call.report(**replace_where(rows, one.uri, where, storage_options=options))
    mode: Mode = "overwrite" if tree.args.get("overwrite") else "append"
    rows = insert.rows(with_all=mode == "overwrite")
    return call.report(version=write(rows, one.uri, mode=mode, storage_options=options))


def _fixed(node: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the columns of the clause PARTITION with their equations."""
    clause = node.args.get("partition")
    found: dict[str, Any] = {}
    for one in clause.expressions if clause else ():
        if not isinstance(one, exp.EQ) or not isinstance(one.left, exp.Column):
            raise UnsupportedFeatureError(
                f"{at(one)}: a table has no partitions: give each column of PARTITION a value, as "
                "in (shop = 3), or leave it to the query"
            )
        if one.right.find(exp.Column, exp.Query, exp.AggFunc) is not None:
            raise InvalidInputError(f"{at(one)}: a value of PARTITION is a constant")
        name = known_column(one.left, names)
        if name in found:
            raise InvalidInputError(f"{at(one)}: PARTITION sets {name!r} twice")
        found[name] = one
    return found


def _test(equation: Any) -> Any:
    """Return the condition that a column has a value of PARTITION, which may be null."""
    if isinstance(equation.right, exp.Null):
        return exp.Is(this=equation.left.copy(), expression=exp.Null())
    return equation.copy()


RULE = Rule(exp.Insert, run)
