"""Queries of aggregates: which ones tasks carry out, and that their results are Spark's."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pilum
import pilum.spark
from pilum.spark.statements.aggregating import AggregateQuery
from pilum.spark.statements.parsing import parsed
from pilum.spark.statements.pushdown import needs_of

SCHEMA = pa.schema(
    [("a", pa.int32()), ("b", pa.float64()), ("K", pa.string()), ("s", pa.struct([("x", "int8")]))]
)


def query(text: str) -> AggregateQuery | None:
    """What becomes of a text about the table t."""
    statement = parsed(text, {"t": "/t"})
    assert statement is not None
    needs = needs_of(statement.references[0], statement.tree, SCHEMA)
    return AggregateQuery.of(statement, needs, SCHEMA)


def test_the_text_around_the_aggregates_stays() -> None:
    text = (
        "SELECT x.k, round(SUM( x.A ) / count(*), 2) AS m, 'a{b}' /* c */ FROM t AS x "
        "WHERE a > 3 AND length(k) < 2 GROUP BY x.k HAVING max(b) < 9 ORDER BY m, count(*) LIMIT 3"
    )
    found = query(text)
    assert found is not None
    assert found.keys == ("K",)
    assert [str(call) for call in found.request.calls] == ["sum(`a`)", "count(*)", "max(`b`)"]
    finals = {call: f"<{call.function}>" for call in found.request.calls}
    assert found.rewritten("parts", finals) == (
        "SELECT x.k, round(<sum> / <count>, 2) AS m, 'a{{b}}' /* c */ FROM {parts} AS x "
        " GROUP BY x.k HAVING <max> < 9 ORDER BY m, <count> LIMIT 3"
    )


def test_a_table_keeps_its_name() -> None:
    found = query("SELECT sum(t.a) FROM t WHERE b IS NULL")
    assert found is not None
    assert found.rewritten("p", dict.fromkeys(found.request.calls, "?")) == (
        "SELECT ? FROM {p} AS `t` "
    )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM t",
        "SELECT DISTINCT sum(a) FROM t",
        "SELECT count(DISTINCT a) FROM t",
        "SELECT sum(a) FILTER (WHERE b > 1) FROM t",
        "SELECT sum(a) OVER () FROM t",
        "SELECT sum(a + 1) FROM t",
        "SELECT sum(s.x) FROM t",
        "SELECT sum(a), median(b) FROM t",
        "SELECT sum(a), max(b, 2) FROM t",
        "SELECT sum(max(a)) FROM t",
        "SELECT count(a, b) FROM t",
        "SELECT sum(a), any_value(b) FROM t",
        "SELECT b, sum(a) FROM t",
        "SELECT b + 1, sum(a) FROM t GROUP BY b + 1",
        "SELECT b, sum(a) FROM t GROUP BY 1",
        "SELECT b, sum(a) FROM t GROUP BY ALL",
        "SELECT b, sum(a) FROM t GROUP BY ROLLUP (b)",
        "SELECT sum(a) FROM t WHERE rand() > 0.5",
        "SELECT sum(a) FROM t WHERE a > 1 AND upper(K) = 'X'",
        "SELECT sum(a) FROM t, t AS u",
        "SELECT sum(a) FROM (SELECT a FROM t)",
        "SELECT sum(a) FROM t WHERE a > (SELECT 1)",
        "SELECT (SELECT 1), sum(a) FROM t",
        "SELECT sum(a) AS b FROM t HAVING b > 3",
        "SELECT sum(a) FROM t TABLESAMPLE (1 ROWS)",
        "SELECT sum(a) FROM t UNION ALL SELECT sum(a) FROM t",
        "WITH c AS (SELECT 1) SELECT sum(a) FROM t",
        "SELECT /*+ COALESCE(1) */ sum(a) FROM t",
        "SELECT sum(_rowid) FROM t",
    ],
)
def test_rows_cross_for_other_queries(text: str) -> None:
    assert query(text) is None


def test_results_are_those_of_spark(spark: SparkSession, uri: str) -> None:
    rows = [
        {"a": n % 100, "b": None if n % 7 == 0 else n / 8, "K": "xyz"[n % 3], "s": {"x": n % 5}}
        for n in range(3000)
    ]
    pilum.write_dataset(pa.Table.from_pylist(rows, SCHEMA), uri, max_rows_per_file=1000)
    spark.read.format("pilum").load(uri).createOrReplaceTempView("rows_of_t")
    for text, is_aggregated in {
        "SELECT count(*), count(b), sum(a), avg(a) FROM t WHERE a % 3 = 1 OR k = 'x'": True,
        "SELECT k, sum(b) / count(1) m, min(a) FROM t GROUP BY t.k HAVING max(b) > 3 ORDER BY m "
        "LIMIT 2": True,
        "SELECT sum(a) FROM t WHERE a > 1000": True,
        "SELECT sum(length(k)), count_if(a % 3 = 0), count_if(b > 4) FROM t": True,
        "SELECT sum(a % 7), max(length(k)) FROM t WHERE k IN ('x', 'z')": True,
        "SELECT count(*), count_if(k NOT LIKE 'y%') FROM t WHERE k NOT LIKE 'x%'": True,
        "SELECT s, sum(a) FROM t GROUP BY s ORDER BY s": False,
        "SELECT sum(k) FROM t WHERE k > 'z'": False,
    }.items():
        ours = pilum.spark.sql(spark, text, tables={"t": uri})
        theirs = spark.sql(text.replace("FROM t", "FROM rows_of_t t"))
        plan = str(ours._jdf.queryExecution().toString())
        assert ("pilum-aggregates" in plan) == is_aggregated, text
        assert ours.columns == theirs.columns
        assert ours.collect() == theirs.collect()
