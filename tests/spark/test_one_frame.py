"""One frame in many queries: each answer is that of its own conditions alone.

Spark plans the partitions of a frame once, or anew for each query that filters, and gives what it
planned last to all queries of the frame. So what one query left out would be missing in others.
The answers are computed from the rows in plain Python.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from spark.helpers import PUSHDOWN, filters_in_spark, since, write_table

import pilum.spark

COLUMNS = ("id", "q", "name")
ROWS: list[tuple[Any, ...]] = [
    (id, None if id % 11 == 0 else id * 7 % 100, f"n{id % 5}") for id in range(120)
]
Bag = Counter[tuple[Any, ...]]


class Asked(NamedTuple):
    """A query of one frame, and what it answers to the rows of the table."""

    name: str
    ask: Callable[[DataFrame], DataFrame]
    answer: Callable[[], Iterable[tuple[Any, ...]]]


def kept(keep: Callable[[Any, Any, Any], Any]) -> list[tuple[Any, ...]]:
    return [row for row in ROWS if keep(*row)]


def totals(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(len(rows), sum(q for _, q, _ in rows if q is not None))]


def over_view(frame: DataFrame, text: str) -> DataFrame:
    frame.createOrReplaceTempView("one_frame")
    return frame.sparkSession.sql(text)


def high(_: int, q: int | None, __: str) -> bool:
    return q is not None and q >= 80


def low(_: int, q: int | None, __: str) -> bool:
    return q is not None and q < 10


QUERIES = [
    Asked("all", lambda f: f.selectExpr("count(*)", "sum(q)"), lambda: totals(ROWS)),
    Asked("high", lambda f: f.where("q >= 80"), lambda: kept(high)),
    Asked(
        "sum of the low",
        lambda f: f.where("q < 10").selectExpr("count(*)", "sum(q)"),
        lambda: totals(kept(low)),
    ),
    Asked(
        "union of two conditions and none",
        lambda f: f.where("q >= 80").union(f.where("q < 10")).union(f),
        lambda: kept(high) + kept(low) + ROWS,
    ),
    Asked("nulls", lambda f: f.where("q IS NULL"), lambda: kept(lambda _, q, __: q is None)),
    Asked(
        "self-join, one side filtered",
        lambda f: (
            f.where("q >= 80")
            .alias("x")
            .join(f.alias("y"), sf.expr("x.id = y.id - 1"), "right")
            .selectExpr("x.id", "y.id AS next")
        ),
        lambda: [(id - 1 if id - 1 in {r[0] for r in kept(high)} else None, id) for id, *_ in ROWS],
    ),
    Asked(
        "self-join, both sides filtered",
        lambda f: (
            f.where("name = 'n1'")
            .alias("x")
            .join(f.where("id IN (1, 6, 7, 200)").alias("y"), "name", "full")
            .selectExpr("x.id", "y.id AS other")
        ),
        lambda: [
            *((id, other) for id, _, name in ROWS if name == "n1" for other in (1, 6)),
            (None, 7),
        ],
    ),
    Asked(
        "a view in subqueries",
        lambda f: over_view(
            f,
            "SELECT (SELECT count(*) FROM one_frame WHERE name LIKE 'n2%'), "
            "(SELECT count(*) FROM one_frame WHERE q < 10), count(*) FROM one_frame",
        ),
        lambda: [(24, len(kept(low)), 120)],
    ),
    Asked(
        "all but",
        lambda f: f.exceptAll(f.where("NOT (name = 'n3') AND id > 5")),
        lambda: kept(lambda id, _, name: name == "n3" or id <= 5),
    ),
    Asked(
        "in a subquery of itself",
        lambda f: over_view(
            f,
            "SELECT id FROM one_frame WHERE name IN "
            "(SELECT name FROM one_frame WHERE id = 3) AND q > 50",
        ),
        lambda: [(id,) for id, q, name in ROWS if name == "n3" and q is not None and q > 50],
    ),
    Asked("nothing", lambda f: f.where("id < 0"), list),
    Asked(
        "groups",
        lambda f: f.where("q <> 0").groupBy("name").count(),
        lambda: Counter(name for _, q, name in ROWS if q).items(),
    ),
]


@pytest.fixture
def table(uri: str) -> str:
    columns = zip(*ROWS, strict=True)
    data = pa.table({name: list(column) for name, column in zip(COLUMNS, columns, strict=True)})
    for start in (0, 50):  # a part of several files
        write_table(uri, data.slice(start, 50 + start * 2), "append" if start else "create")
    return uri


def bag(frame: DataFrame) -> Bag:
    return Counter(tuple(row) for row in frame.collect())


def ask_all(frame: DataFrame, queries: Iterable[Asked]) -> None:
    for query in queries:
        assert bag(query.ask(frame)) == Counter(query.answer()), query.name


@pytest.mark.usefixtures("pushdown")
def test_one_frame_answers_many_queries_in_any_order(spark: SparkSession, table: str) -> None:
    """Also where users have switched Spark's setting on, for other sources."""
    frame = spark.read.format("pilum").load(table)
    ask_all(frame, QUERIES)
    ask_all(frame, reversed(QUERIES))


def test_one_frame_answers_many_queries_as_spark_is(spark: SparkSession, table: str) -> None:
    pilum.spark.configure(spark)
    assert spark.conf.get(PUSHDOWN) == "false"
    ask_all(spark.read.format("pilum").load(table), QUERIES)


@pytest.mark.usefixtures("pushdown")
def test_other_frames_of_one_session_do_so_too(spark: SparkSession, table: str) -> None:
    """A schema of the user, a view of the source, what is cached, and a condition of its own."""
    given = spark.read.format("pilum").schema("id BIGINT, q BIGINT, name STRING").load(table)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING pilum OPTIONS (path '{table}')")
    for frame in (given, spark.table("v"), pilum.spark.read(spark, table)):
        ask_all(frame, QUERIES[1:3])
        ask_all(frame, QUERIES[:1])
    cached = spark.read.format("pilum").load(table).where("q >= 80").cache()
    ask_all(spark.read.format("pilum").load(table), QUERIES[:2])
    assert bag(cached) == Counter(kept(high))
    cached.unpersist()
    own = pilum.spark.read(spark, table, filter="q >= 80")
    assert own.where("id > 60").count() < own.count() == len(kept(high))
    assert bag(own) == Counter(kept(high))


@pytest.mark.usefixtures("pushdown")
def test_a_table_that_sql_names_twice(spark: SparkSession, table: str) -> None:
    text = """SELECT x.id, y.id FROM t x JOIN t y ON x.id = y.id - 1
              WHERE x.q >= 80 AND y.name = 'n2'
              UNION ALL SELECT count(*), sum(q) FROM t
              UNION ALL SELECT count(*), sum(q) FROM t WHERE q < 10"""
    ids = {row[0] for row in kept(high)}
    pairs = [(id - 1, id) for id, _, name in ROWS if name == "n2" and id - 1 in ids]
    expected = Counter([*pairs, *totals(ROWS), *totals(kept(low))])
    assert bag(pilum.spark.sql(spark, text, tables={"t": table})) == expected


@pytest.mark.usefixtures("pushdown")
def test_conditions_of_a_query_stay_with_spark(spark: SparkSession, table: str) -> None:
    frame = spark.read.format("pilum").load(table)
    assert filters_in_spark(frame.where("q >= 80"))
    assert not filters_in_spark(pilum.spark.read(spark, table, filter="q >= 80"))


@pytest.mark.usefixtures("pushdown")
@since(4, 1)
def test_frames_pushed_on_request_are_read_once(spark: SparkSession, table: str) -> None:
    """The option: its first query is right, and Spark does not filter again."""
    frame = spark.read.format("pilum").option("pushdown", "true").load(table).where("q >= 80")
    assert not filters_in_spark(frame)
    assert bag(frame) == Counter(kept(high))


@pytest.mark.usefixtures("pushdown")
def test_what_a_frame_reads_is_one_version(spark: SparkSession, table: str) -> None:
    """Also while others write between its queries."""
    frame = spark.read.format("pilum").load(table)
    ask_all(frame, QUERIES[:2])
    write_table(table, pa.table({"id": [500], "q": [99], "name": ["n0"]}), "append")
    ask_all(frame, QUERIES[:2])
    assert frame.sparkSession.read.format("pilum").load(table).count() == len(ROWS) + 1
