"""SELECT …, WITH … SELECT …, VALUES …, and other queries.

    query
    table            name [VERSION AS OF n | 'tag'] [TIMESTAMP AS OF 'time'] [AS alias]
    table function   nearest(…), search(…), changes(…)

Tables become frames of the columns and rows that the query needs; Spark runs the rest of the text.
A query that only aggregates one table is aggregated by the tasks that read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType
from sqlglot import exp

from pilum.errors import UnsupportedFeatureError, UnsupportedTypeError
from pilum.spark.aggregates.source import final, partial_frame
from pilum.spark.options import option_texts
from pilum.spark.statements.aggregating import AggregateQuery
from pilum.spark.statements.functions import table_functions
from pilum.spark.statements.grammar import Rule
from pilum.spark.statements.pushdown import needs_of

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]


def run(call: Call) -> DataFrame:
    """Return the rows of a query."""
    rows = call.query()
    return _aggregated(call, rows) or rows


def _aggregated(call: Call, rows: DataFrame) -> DataFrame | None:
    """Run a query with partial aggregates; return None if its rows have to be read.

    `rows` is the same result computed by reading rows, which gives its names and types.
    """
    if len(call.statement.references) != 1 or table_functions(call.statement):
        return None
    one = call.statement.references[0]
    found = call.opened(one)
    needs = needs_of(one, call.tree, found.columns)
    query = AggregateQuery.of(call.statement, needs, found.columns)
    if query is None:
        return None
    given = {"filter": needs.filter, "version": found.version}
    options = option_texts(found.uri, given, call.options(one.place))
    try:
        partials, planned = partial_frame(call.spark, query.request, options)
    except (UnsupportedFeatureError, UnsupportedTypeError):
        return None
    named = {f"k{number}": name for number, name in enumerate(query.keys)}
    finals = dict(zip(query.request.calls, final(query.request, planned), strict=True))
    text = query.rewritten("partials", finals)
    result = call.spark.sql(text, partials=partials.withColumnsRenamed(named))
    return result.toDF(*rows.columns) if _types(result) == _types(rows) else None


def _types(frame: DataFrame) -> list[DataType]:
    return [field.dataType for field in frame.schema]


RULE = Rule(exp.Query, run)
