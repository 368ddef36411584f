"""Queries of a frame, and what they read of its table; for Spark classic and Spark Connect."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import pilum
import pilum.spark
from pilum.spark import Reads

NAMES = ("id", "q", "name", "st", "f")
ALL = frozenset(NAMES)


class Asked(NamedTuple):
    """A query, and what is read for it: columns, parts of the filter, and who answers.

    `filters` and `answer` are those of Spark Connect, too, unless `connect` says otherwise.
    """

    name: str
    ask: Callable[[DataFrame], DataFrame]
    columns: frozenset[str]
    filters: tuple[str, ...] = ()
    answer: str = "rows"
    connect: tuple[frozenset[str], tuple[str, ...], str] | None = None


def asked(name: str, ask: Callable[[DataFrame], DataFrame], columns: str, *more: Any) -> Asked:
    return Asked(name, ask, frozenset(columns.split()), *more)


CASES = (
    asked("two columns", lambda t: t.select("name", t.q), "q name"),
    asked(
        "conditions",
        lambda t: t.where("q >= 3 AND st.x < 20").where((sf.col("f") > 1.5) | t.f.isNull()),
        " ".join(NAMES),
        ("(`q` >= 3)", "(`st`.`x` < 20)", "(`f` IS NULL)"),
    ),
    asked(
        "a part of a condition",
        lambda t: t.where("q < 4").where(sf.upper("name") == "N1").select(t["id"]),
        "id q name",
        ("(`q` < 4)",),
    ),
    asked(
        "new columns",
        lambda t: t.withColumn("q", t.q + 1).where("q = 2 AND id > 3").select("q"),
        "id q",
        ("(`id` > 3)",),
        "rows",
        (frozenset({"id", "q"}), (), "rows"),
    ),
    asked("renamed", lambda t: t.withColumnRenamed("q", "r").select("r", "id"), "id q"),
    asked(
        "groups",
        lambda t: (
            t.where("q > 1").groupBy("q").agg(sf.sum("id").alias("s"), sf.avg("f"), sf.count("*"))
        ),
        "id q f",
        ("(`q` > 1)",),
        "aggregates",
    ),
    asked(
        "around aggregates",
        lambda t: t.selectExpr(
            "round(sum(f), 2) AS r",
            "(max(q) + 1) * 2",
            "count(*) - 1 AS n",
            "count_if(q > 2)",
            "count_if(NOT (f < 3)) + count_if(q = 1)",
        ),
        "f q",
        (),
        "aggregates",
    ),
    asked("of groups", lambda t: t.groupBy("q").count().where("count > 8"), "q", (), "aggregates"),
    asked(
        "distinct",
        lambda t: t.select("q").distinct(),
        "q",
        (),
        "aggregates",
        (frozenset({"q"}), (), "rows"),
    ),
    asked("not plain", lambda t: t.groupBy("q").agg(sf.collect_set("name")), "q name"),
    asked(
        "the whole table",
        lambda t: t.dropDuplicates(["name"]).select(sf.count("*")),
        "name",
        (),
        "rows",
        (ALL, (), "rows"),
    ),
    asked(
        "joined",
        lambda t: t.join(t.sparkSession.range(5).toDF("k"), t.id == sf.col("k")).select("name"),
        "id name",
    ),
    asked(
        "with itself",
        lambda t: (
            t.alias("a")
            .join(t.alias("b"), sf.expr("a.id = b.q"))
            .select("a.name")
            .where("a.id < 9")
        ),
        "id q name",
    ),
    asked("by position", lambda t: t.select("id", "q").union(t.select("q", "id")), "id q"),
    asked("by chance", lambda t: t.where(sf.rand(7) < 0.5).select("id"), " ".join(NAMES)),
    asked(
        "all columns in an aggregate",
        lambda t: t.groupBy("q").agg(sf.max(sf.to_json(sf.struct("*")))),
        " ".join(NAMES),
    ),
    asked(
        "above a window",
        lambda t: (
            t.withColumn("r", sf.expr("count(*) OVER (PARTITION BY q)"))
            .where("id < 10")
            .select("r")
        ),
        "id q",
    ),
    asked("sorted", lambda t: t.orderBy(sf.desc("id")).limit(3).select("id"), "id"),
)

ON_CONNECT = {
    "above a window",
    "all columns in an aggregate",
    "conditions",
    "new columns",
    "groups",
    "around aggregates",
    "distinct",
    "with itself",
    "by position",
    "by chance",
    "sorted",
}
"""Queries whose messages differ; each costs a second."""


def make(uri: str) -> None:
    """Two files of 40 rows, with nulls, and some rows deleted."""
    rows = [
        {
            "id": number,
            "q": None if number % 11 == 0 else number % 5,
            "name": f"n{number % 3}",
            "st": {"x": number},
            "f": None if number % 7 == 0 else float("nan") if number % 13 == 0 else number / 4,
        }
        for number in range(40)
    ]
    types = [pa.int64(), pa.int32(), pa.string(), pa.struct([("x", pa.int64())]), pa.float64()]
    table = pa.Table.from_pylist(rows, pa.schema([*zip(NAMES, types, strict=True)]))
    pilum.write_dataset(table, uri, max_rows_per_file=20).delete("id IN (3, 21)")


class Noted(logging.Handler):
    """What the actions of frames read, as their log says."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[Reads] = []

    def emit(self, record: logging.LogRecord) -> None:
        assert isinstance(record.args, tuple)
        (one,) = record.args
        assert isinstance(one, Reads)
        self.reads.append(one)

    def of(self, act: Callable[[], Any]) -> tuple[Any, list[Reads]]:
        """Return the result of an action, and what it read."""
        logger = logging.getLogger("pilum.spark.reads")
        logger.addHandler(self)
        logger.setLevel(logging.INFO)
        self.reads = []
        try:
            return act(), self.reads
        finally:
            logger.removeHandler(self)
            logger.setLevel(logging.NOTSET)


def check(spark: SparkSession, uri: str, case: Asked) -> None:
    """Compares the rows with those of a plain frame, and what was read with what is expected."""
    is_connect = not hasattr(spark, "_jvm")
    frame = case.ask(pilum.spark.table(spark, uri))
    rows, reads = Noted().of(frame.collect)
    plain = case.ask(pilum.spark.read(spark, uri))
    assert Counter(map(repr, rows)) == Counter(map(repr, plain.collect())), case.name
    assert frame.schema == plain.schema, case.name
    expected = (case.columns, case.filters, case.answer)
    columns, filters, answer = (case.connect or expected) if is_connect else expected
    assert frozenset[str]().union(*(one.columns for one in reads)) == columns, case.name
    assert {one.answer for one in reads} == {answer}, case.name
    text = " ".join(one.filter or "" for one in reads)
    assert all(part in text for part in filters), (case.name, text)
    assert any(one.filter for one in reads) or not filters, case.name
    assert any(one.reason for one in reads) == (case.name == "by chance")
