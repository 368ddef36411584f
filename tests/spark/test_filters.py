from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some
from pyspark.sql import SparkSession
from pyspark.sql import datasource as ds
from spark.helpers import filters_in_spark, write_table

from pilum.expressions import bind
from pilum.spark.filters import translate

SCHEMA = pa.schema(
    {
        "i": pa.int32(),
        "u": pa.uint64(),
        "f": pa.float32(),
        "d": pa.float64(),
        "b": pa.bool_(),
        "s": pa.large_string(),
        "day": pa.date32(),
        "ts": pa.timestamp("us", "UTC"),
        "fine": pa.timestamp("ns"),
        "blob": pa.binary(),
        "st": pa.struct([("x", pa.int64()), ("dotted.name", pa.int64())]),
    }
)
NOON = datetime.datetime(2026, 1, 2, 12, 0, 0, 5, tzinfo=datetime.UTC)

TRANSLATED = [
    (ds.GreaterThan(("i",), 5), "(`i` > 5)"),
    (ds.EqualTo(("u",), Decimal(2**64 - 1)), f"(`u` = {2**64 - 1})"),
    (ds.LessThanOrEqual(("d",), 0.1), "(`d` <= 0.1 AND NOT isnan(`d`))"),
    (ds.EqualNullSafe(("b",), True), "(`b` IS NOT NULL AND `b` = TRUE)"),
    (ds.Not(ds.EqualTo(("s",), "O'Hara")), "(NOT (`s` = 'O''Hara'))"),
    (ds.EqualTo(("day",), datetime.date(2026, 1, 2)), "(`day` = DATE '2026-01-02')"),
    (ds.LessThan(("ts",), NOON), "(`ts` < TIMESTAMP '2026-01-02 12:00:00.000005+00:00')"),
    (ds.In(("st", "x"), (1, None, 2)), "(`st`.`x` IN (1, 2))"),
    (ds.IsNull(("blob",)), "(`blob` IS NULL)"),
    (ds.StringStartsWith(("s",), "a"), "(`s` LIKE 'a%')"),
    (ds.StringEndsWith(("s",), "a"), "(`s` LIKE '%a')"),
    (ds.StringContains(("s",), "a"), "(`s` LIKE '%a%')"),
]
LEFT_TO_SPARK = [
    ds.EqualTo(("f",), 0.1),  # no float32 is 0.1
    ds.EqualTo(("d",), float("nan")),
    ds.Not(ds.In(("i",), (1, None))),
    ds.In(("i",), ()),
    ds.StringContains(("s",), "50%"),
    ds.EqualTo(("blob",), b"x"),
    ds.EqualTo(("fine",), datetime.datetime(2026, 1, 2)),
    ds.EqualTo(("st",), {"x": 1}),
    ds.EqualTo(("st", "dotted.name"), 1),
    ds.EqualTo(("st", "gone"), 1),
    ds.EqualTo(("i", "x"), 1),
    ds.IsNull(("gone",)),
]


@pytest.mark.parametrize(("condition", "text"), TRANSLATED, ids=lambda value: str(value)[:40])
def test_what_means_the_same_is_translated(condition: ds.Filter, text: str) -> None:
    assert translate(condition, SCHEMA) == text
    assert bind(text, SCHEMA).columns


@pytest.mark.parametrize("condition", LEFT_TO_SPARK, ids=str)
def test_all_else_is_left_to_spark(condition: ds.Filter) -> None:
    assert translate(condition, SCHEMA) is None


@given(some.text(max_size=6))
def test_every_text_survives_as_a_literal(text: str) -> None:
    batch = pa.record_batch({"s": pa.array([text, text + "'", None], pa.large_string())})
    condition = translate(ds.EqualTo(("s",), text), SCHEMA)
    assert condition is not None
    assert bind(condition, SCHEMA).mask(batch).to_pylist() == [True, False, False]


CONDITIONS = [
    "i IN (1, 5, NULL) AND i <=> 5",
    "NOT (i IN (1, 5)) AND NOT (i <=> 3)",
    "d > 1.0D AND f >= 1.5F",
    "NOT (d >= 1.0D) AND d <> -1.5D",
    "d < 1.0D",
    "NOT (f <= 0.5F)",
    "d > -2.5D",
    "d = 0.0D",
    "s LIKE '%''%' AND s = 'it''s'",
    "s > 'a' AND s <> 'a%b' AND NOT (s LIKE '%b')",
    "NOT b AND day >= DATE '2026-01-02'",
    "ts < TIMESTAMP '2026-01-02 12:00:00.000005'",
    "ts = TIMESTAMP '2026-01-02 12:00:00.000005' AND st.x = 2",
    "st.x IS NULL",
]
NOT_PUSHED = ["i % 2 = 1", "s LIKE 'a\\\\%b'", "i > 3 OR b"]

# What dividing zero by zero gives on most machines.
NEGATIVE_NAN = math.copysign(float("nan"), -1)


def rows() -> pa.Table:
    columns: dict[str, list[Any]] = {
        "i": [0, 1, 2, 3, 4, 5, None, 7],
        "f": [1.5, float("nan"), None, 0.1, -1.5, 2.5, float("inf"), NEGATIVE_NAN],
        "d": [1.0, float("nan"), None, -0.0, 0.0, 2.5, float("-inf"), NEGATIVE_NAN],
        "b": [True, False, None, True, False, None, True, True],
        "s": ["a%b", "it's", None, "ab", "ä", "", "b", "c"],
        "day": [datetime.date(2026, 1, day) for day in range(1, 7)] + [None, None],
        "ts": [NOON, NOON - datetime.timedelta(microseconds=1), None, NOON, NOON, NOON, NOON, None],
        "st": [{"x": 1}, {"x": 2}, {"x": None}, None, {"x": 2}, {"x": 3}, {"x": 4}, None],
    }
    number = pa.field("number", pa.int64())
    schema = pa.schema([number, *(SCHEMA.field(name) for name in columns if name != "st")])
    schema = schema.append(pa.field("st", pa.struct([("x", pa.int64())])))
    return pa.table({"number": range(8), **columns}, schema=schema)


@pytest.mark.usefixtures("pushdown")
def test_pushed_filters_keep_the_rows_that_spark_keeps(spark: SparkSession, uri: str) -> None:
    write_table(uri, rows())
    everything = CONDITIONS + NOT_PUSHED
    # Over a local copy that no source ever sees, all conditions in one job.
    table = spark.read.format("pilum").load(uri)
    local = spark.createDataFrame(table.collect(), table.schema)
    judged = local.selectExpr("number", *(f"({text}) AS c{n}" for n, text in enumerate(everything)))
    verdicts = judged.collect()
    for place, condition in enumerate(everything):
        expected = sorted(row.number for row in verdicts if row[f"c{place}"])
        frame = spark.read.format("pilum").option("pushdown", "true").load(uri).where(condition)
        assert sorted(row.number for row in frame.collect()) == expected, condition
        assert filters_in_spark(frame) == (condition in NOT_PUSHED), condition
