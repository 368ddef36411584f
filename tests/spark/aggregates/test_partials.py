"""Partial aggregates of batches, without a session."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as st

from pilum.errors import (
    ColumnNotFoundError,
    FilterError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from pilum.spark.aggregates.partials import Call
from pilum.spark.aggregates.source import Planned, Request

NAN = float("nan")


def partials(
    data: dict[str, pa.Array], *calls: str, keys: tuple[str, ...] = ()
) -> list[tuple[Any, ...]]:
    """The rows that a task would give for a batch."""
    batch = pa.record_batch(data)
    request = Request(keys, tuple(map(Call.parse, calls)))
    planned = Planned.of(Request.from_json(request.to_json()), batch.schema)
    found = planned.bound.of(batch)
    assert found.schema == planned.bound.schema
    return [tuple(row.values()) for row in found.to_pylist()]


def test_nulls_count_for_nothing() -> None:
    data = {"x": pa.array([3, None, 4], pa.int16()), "s": pa.array([None, "b", "a"])}
    found = partials(data, "count(*)", "count(x)", "sum(x)", "min(s)", "max(s)", "avg(x)")
    assert found == [(3, 2, Decimal(7), "a", "b", 7.0, 2)]
    none = {"x": pa.array([None], pa.float64())}
    assert partials(none, "sum(x)", "max(x)", "count(x)") == [(None, None, 0)]


def test_sums_that_int64_does_not_hold() -> None:
    top = 2**63 - 1
    data = {"x": pa.array([top, top, -5]), "u": pa.array([2**64 - 1] * 3, pa.uint64())}
    assert partials(data, "sum(x)", "sum(u)", "avg(x)") == [
        (Decimal(2 * top - 5), Decimal(3 * (2**64 - 1)), float(2 * top - 5), 3)
    ]
    assert partials(data, "sum(x)", keys=("x % 2",)) == [(1, Decimal(2 * top)), (-1, Decimal(-5))]


def test_nan_is_above_all_numbers() -> None:
    data = {"x": pa.array([1.0, NAN, None, 2.0], pa.float32()), "k": pa.array([0, 0, 1, 1])}
    ((low, high),) = partials(data, "min(x)", "max(x)")
    assert low == 1.0
    assert math.isnan(high)
    first, second = partials(data, "max(x)", keys=("k",))
    assert math.isnan(first[1])
    assert second == (1, 2.0)


def test_signaling_nans_hide_no_value() -> None:
    """Arrow forgets what came before such a NaN."""
    values = np.array([5.0, -9.0, 0.0, 7.0])
    values.view(np.uint64)[2] = 0x7FF0000000000001
    assert partials({"x": pa.array(values)}, "min(x)") == [(-9.0,)]


def test_groups_of_null_are_groups() -> None:
    data = {"k": pa.array(["a", None, "a", None]), "b": pa.array([True, False, None, True])}
    assert partials(data, "count(b)", "max(b)", keys=("k",)) == [("a", 1, True), (None, 2, True)]
    assert partials(data, "count(*)", keys=("k", "b")) == [
        ("a", True, 1),
        (None, False, 1),
        ("a", None, 1),
        (None, True, 1),
    ]


def test_arguments_are_expressions() -> None:
    data = {"price": pa.array([1.5, 2.0]), "n": pa.array([2, 3]), "s": pa.array(["é", "abc"])}
    found = partials(data, "sum(price * n)", " SUM ( length(s) ) ", "count(nullif(n, 3))")
    assert found == [(9.0, Decimal(4), 1)]


def test_sums_of_decimals_keep_their_scale() -> None:
    data = {"d": pa.array([Decimal("1.25"), Decimal("2.50")], pa.decimal128(6, 2))}
    assert partials(data, "sum(d)", "max(d)") == [(Decimal("3.75"), Decimal("2.50"))]
    assert Call("sum", "d").result(st.DecimalType(6, 2)) == st.DecimalType(16, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("x", InvalidInputError, "expected a call"),
        ("median(x)", UnsupportedFeatureError, "known are count, sum, min, max, avg"),
        ("sum(s)", UnsupportedFeatureError, r"sum\(s\): not of string"),
        ("sum(d)", UnsupportedFeatureError, "more than 28 digits"),
        ("max(l)", UnsupportedFeatureError, "not of array"),
        ("count(distinct x)", FilterError, None),
        ("sum(x) + sum(x)", FilterError, None),
        ("sum(*)", FilterError, None),
        ("sum(y)", ColumnNotFoundError, "y"),
    ],
)
def test_what_cannot_be_aggregated(call: str, error: type[Exception], message: str | None) -> None:
    data = {
        "x": pa.array([1]),
        "s": pa.array([""]),
        "d": pa.array([Decimal(1)], pa.decimal128(30, 2)),
        "l": pa.array([[1]]),
    }
    with pytest.raises(error, match=message):
        partials(data, call)
    with pytest.raises(UnsupportedFeatureError, match="groups by"):
        partials(data, "count(*)", keys=("l",))
