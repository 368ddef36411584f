"""Three-valued logic, the order of floats, and what is an error."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from pilum.errors import FilterError
from pilum.expressions import bind, bind_projection

NAN = math.copysign(float("nan"), 1)


def rows(condition: str, **columns: object) -> list[int]:
    batch = pa.RecordBatch.from_pydict(columns)
    mask = bind(condition, batch.schema).mask(batch)
    assert mask.null_count == 0
    return [row for row, wanted in enumerate(mask.to_pylist()) if wanted]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("t < '1970-01-01 00:00:10.5'", [0, 1]),
        ("t >= '1970-01-01 00:00:09.999'", [1, 2]),
        ("'1970-01-01 00:00:10.5' < t", [2]),
        ("t = '1970-01-01 00:00:10.5'", []),
        ("t <> '1970-01-01 00:00:10.5'", [0, 1, 2]),
        ("t IN ('1970-01-01 00:00:10', '1970-01-01 00:00:00.5')", [1]),
        ("t BETWEEN '1970-01-01 00:00:00.5' AND '1970-01-01 00:00:20'", [1, 2]),
        ("z <= '1970-01-01 01:00:10.5+01:00'", [0, 1]),
        ("h > '00:00:09.5'", [1, 2]),
    ],
)
def test_moments_are_compared_with_finer_ones(condition: str, expected: list[int]) -> None:
    seconds = [0, 10, 20, None]
    found = rows(
        condition,
        t=pa.array(seconds, pa.timestamp("s")),
        z=pa.array(seconds, pa.timestamp("s", "UTC")),
        h=pa.array(seconds, pa.time32("s")),
    )
    assert found == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a = 1", [0]),
        ("NOT a = 1", [1]),
        ("a <> NULL", []),
        ("a = 1 OR b", [0, 2]),
        ("a = 2 AND b", []),
        ("a IN (1, NULL)", [0]),
        ("a NOT IN (1, NULL)", []),
        ("a NOT IN (1)", [1]),
        ("b IS NOT TRUE", [1]),
        ("(a = 1) IS NULL", [2]),
        ("a IS DISTINCT FROM 1", [1, 2]),
        ("NOT (a IS DISTINCT FROM NULL)", [2]),
        ("coalesce(a, 7) = 7", [2]),
        ("nullif(a, 1) IS NULL", [0, 2]),
    ],
)
def test_null_is_unknown(condition: str, expected: list[int]) -> None:
    assert rows(condition, a=[1, 2, None], b=[True, None, True]) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("coalesce(a, CAST(s AS INT)) = 7", [2]),
        ("ifnull(a, CAST(s AS INT)) = 1", [0]),
        ("nvl(a, 10 / (a - 1)) = 2", [1]),
        ("coalesce(c, CAST(s AS DOUBLE), 5.0) = 5.0", [3]),
        ("coalesce(NULL, a, CAST(s AS INT)) IS NULL", [3]),
        ("coalesce(1, CAST(s AS INT)) = 1", [0, 1, 2, 3]),
        ("coalesce(CAST(NULL AS STRING), upper(s)) = 'X'", [0, 1]),
    ],
)
def test_a_replacement_is_evaluated_for_the_rows_that_need_it(
    condition: str, expected: list[int]
) -> None:
    """`CAST(s AS INT)` fails for the rows whose value is not null, as in the reference."""
    found = rows(
        condition,
        a=[1, 2, None, None],
        c=[0.5, 1.5, None, None],
        s=["x", "X", "7", None],
    )
    assert found == expected


def test_a_replacement_that_is_needed_may_fail() -> None:
    with pytest.raises(FilterError, match="cannot evaluate"):
        rows("coalesce(a, CAST(s AS INT)) = 7", a=[1, None], s=["7", "x"])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("f = f", [0, 1, 2, 4]),
        ("f <> f", []),
        ("f > 1e300", [0]),
        ("f > 0", [0]),
        ("f >= 0", [0, 1, 2]),
        ("f >= f", [0, 1, 2, 4]),
        ("f < 1", [1, 2, 4]),
        ("f < -1e300", [4]),
        ("f <= 0", [1, 2, 4]),
        ("f = 0", [1, 2]),
        ("f <> 0", [0, 4]),
        ("f < 0", [4]),
        ("f <> g", [1, 2]),
        ("f < g", [2]),
        ("f IN (-0.0)", [1, 2]),
        ("f IN (cast('NaN' AS double))", [0]),
        ("-f = cast('NaN' AS double)", [4]),
        ("nullif(f, 0) IS NULL", [1, 2, 3]),
        ("nullif(f, cast('NaN' AS double)) IS NULL", [0, 3]),
        ("f BETWEEN -5 AND 5", [1, 2]),
        ("f IN (0.0, 5)", [1, 2]),
        ("f = cast('NaN' AS double)", [0]),
        ("isnan(f)", [0, 4]),
    ],
)
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_floats_are_in_total_order_and_a_zero_constant_has_no_sign(
    condition: str, expected: list[int], kind: pa.DataType
) -> None:
    if pa.types.is_float16(kind) and "1e300" in condition:
        condition = condition.replace("1e300", "65500")
    f, g = [NAN, 0.0, -0.0, None, -NAN], [NAN, -0.0, 0.0, None, -NAN]
    assert rows(condition, f=pa.array(f, kind), g=pa.array(g, kind)) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("h = 0.1", [0]),
        ("h IN (0.1, 7)", [0]),
        ("h >= 0.1", [0, 2]),
        ("h < 70000", [0, 1]),
        ("h = 70000", []),
        ("h > 1e10", [2]),
    ],
)
def test_constants_beside_halves(condition: str, expected: list[int]) -> None:
    assert rows(condition, h=pa.array([0.1, -1.0, float("inf")], pa.float16())) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("i < 1.5", [0, 1]),
        ("i = 1.0", [1]),
        ("i = 1.5", []),
        ("i < 1000", [0, 1, 2]),
        ("u > -1", [0, 1, 2]),
        ("u = i", [1]),
        ("i IN (1.5, 1)", [1]),
        ("dec = 1.5", [1]),
        ("dec > 1.499", [1, 2]),
        ("dec + 1 = 2.5", [1]),
        ("dec * 2 = 3", [1]),
        ("u % 2 = 1", [1, 2]),
        ("u % -2 = 1", [1, 2]),
        ("u % 18446744073709551615 = 0", [0, 2]),
        ("u % 10 = 5", [2]),
        ("u % NULL = 0", []),
        ("wide = 9223372036854775807", [2]),
        ("wide > 9223372036854775806.5", [2]),
    ],
)
def test_numbers_of_different_types_compare_by_value(condition: str, expected: list[int]) -> None:
    found = rows(
        condition,
        i=pa.array([-128, 1, 127], pa.int8()),
        u=pa.array([0, 1, 2**64 - 1], pa.uint64()),
        dec=pa.array([Decimal("-2.25"), Decimal("1.50"), Decimal("3.00")], pa.decimal128(10, 2)),
        wide=[-(2**63), 0, 2**63 - 1],
    )
    assert found == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("d = '2024-02-29'", [0]),
        ("d >= date '2024-02-29'", [0, 1]),
        ("d = timestamp '2024-02-29 00:00:00'", [0]),
        ("ms >= timestamp '2024-02-29 00:00:00.000001'", [1]),
        ("ms = date '2024-02-29'", [0]),
        ("ms > '2024-02-29T12:00:00'", [1]),
        ("berlin = timestamp '2024-02-29 01:00:00'", [0]),
        ("berlin = timestamp '2024-02-29 00:00:00Z'", [0]),
        ("noon > '11:59:59'", [0, 1]),
        ("date_part('year', d) = 2024", [0]),
        ("cast(ms AS date) = d", [0, 1]),
        ("date_part('hour', d) = 0 AND date_part('nanosecond', d) = 0", [0, 1]),
    ],
)
def test_dates_and_times(condition: str, expected: list[int]) -> None:
    moments = [datetime.datetime(2024, 2, 29), datetime.datetime(2025, 1, 1, 18)]
    found = rows(
        condition,
        d=[moment.date() for moment in moments],
        ms=pa.array(moments, pa.timestamp("ms")),
        berlin=pa.array(moments, pa.timestamp("us", "Europe/Berlin")),
        noon=pa.array([datetime.time(12)] * 2, pa.time64("us")),
    )
    assert found == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("wide + 1 = 100000000000000000000000000000000000000", [0]),
        ("-wide > 0", [1]),
        ("wide - i < -2", [1]),
        ("long * wide = -4.5", [1]),
        ("wide / long < 0", [1]),
        ("wide < 100000000000000000000000000000000000000.5", [0, 1]),
    ],
)
def test_results_may_have_more_digits_than_a_decimal128(
    condition: str, expected: list[int]
) -> None:
    found = rows(
        condition,
        wide=pa.array([Decimal("9" * 38), Decimal(-3), None], pa.decimal128(38, 0)),
        long=pa.array([Decimal("1.5")] * 3, pa.decimal128(20, 2)),
        i=[-1, 1, 1],
    )
    assert found == expected


def test_integers_are_compared_with_numbers_beyond_38_digits() -> None:
    beyond = "9" * 50
    assert rows(f"i < {beyond}", i=[1, None]) == [0]
    assert rows(f"i IN (1, {beyond})", i=[1, 2]) == [0]
    with pytest.raises(FilterError, match="does not fit any type"):
        rows(f"i < {'9' * 80}", i=[1])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("t < '9999-12-31'", [0, 1]),
        ("t <= timestamp '2262-04-12 00:00:00'", [0, 1]),
        ("t >= date '9999-12-31'", []),
        ("'1600-01-01' < t", [0, 1]),
        ("t < '1600-01-01'", []),
        ("t = timestamp '9999-12-31 00:00:00'", []),
        ("t <> timestamp '9999-12-31 00:00:00'", [0, 1]),
        ("NOT t > '9999-12-31 00:00:00'", [0, 1]),
        ("t BETWEEN '0001-01-01' AND '9999-12-31'", [0, 1]),
        ("(t < '9999-12-31') IS NULL", [2]),
        ("z < '9999-12-31'", [0, 1]),
        ("z < '2300-01-01 00:00:00+01:00'", [0, 1]),
    ],
)
def test_nanoseconds_are_compared_with_moments_that_they_cannot_hold(
    condition: str, expected: list[int]
) -> None:
    ends = [-(2**63), 2**63 - 1, None]
    found = rows(
        condition,
        t=pa.array(ends, pa.timestamp("ns")),
        z=pa.array(ends, pa.timestamp("ns", "Asia/Tokyo")),
    )
    assert found == expected


@pytest.mark.parametrize("column", ["us", "zoned"])
def test_casts_to_larger_units_of_time_round_towards_zero(column: str) -> None:
    moments = [-1_500_000, -1, 1_999_999, None]
    columns = {
        "us": pa.array(moments, pa.timestamp("us")),
        "zoned": pa.array(moments, pa.timestamp("us", "UTC")),
    }
    assert rows(f"cast({column} AS timestamp(0)) = timestamp '1969-12-31 23:59:59'", **columns) == [
        0
    ]
    assert rows(f"cast({column} AS timestamp(0)) = timestamp '1970-01-01 00:00:00'", **columns) == [
        1
    ]
    assert rows(
        f"cast({column} AS timestamp(3)) = timestamp '1970-01-01 00:00:01.999'", **columns
    ) == [2]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (r"s LIKE '50\%'", [0]),
        ("s LIKE '50_'", [0, 1]),
        ("s LIKE 'x_y'", [2]),
        ("s ILIKE 'X%'", [2]),
        ("contains(s, '%')", [0]),
        ("regexp_match(s, '^5.[%x]$')", [0, 1]),
        ("regexp_match(s, '^5') IS NOT NULL", [0, 1]),
        ("regexp_match(s, '^5') IS NULL", [2, 3]),
        ("NOT regexp_match(s, '^5')", [2, 3]),
        ("NOT regexp_like(s, '^5')", [2]),
        ("replace(s, '', '-') = '-5-0-x-'", [1]),
        ("concat(s, NULL) = ''", [3]),
        ("concat(s, s) = '50x50x'", [1]),
        ("regexp_like(s, '^X', 'i')", [2]),
        ("length(s) = 3 AND starts_with(s, '5')", [0, 1]),
        ("s || '!' = '50%!'", [0]),
        ("upper(s) = '50X'", [1]),
        ("replace(s, '5', '') = '0x'", [1]),
    ],
)
def test_text(condition: str, expected: list[int]) -> None:
    assert rows(condition, s=["50%", "50x", "x\ny", None]) == expected


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("i8 + i8 > 0", "overflow"),
        ("10 / zero > 1", "divide by zero"),
        ("10 % zero > 1", "divide by zero"),
        ("cast(s AS int) = 1", "x"),
        ("cast(i8 AS tinyint unsigned) = 1", "range"),
        ("cast(nan AS int) = 1", "range|NaN|nan"),
        ("abs(least) > 0", "overflow"),
    ],
)
def test_a_value_that_fails_is_an_error_not_a_wrong_row(condition: str, reason: str) -> None:
    with pytest.raises(FilterError, match=reason):
        rows(
            condition,
            i8=pa.array([127, -1], pa.int8()),
            least=pa.array([-128, 0], pa.int8()),
            zero=[1, 0],
            s=["1", "x"],
            nan=[1.0, NAN],
        )


@pytest.mark.parametrize(
    "condition", ["regexp_match(s, 'a') = 'a'", "length(regexp_match(s, 'a')) = 1"]
)
def test_groups_of_a_match_are_refused(condition: str) -> None:
    with pytest.raises(FilterError, match="regexp_like"):
        rows(condition, s=["a"])


def test_lists_count_their_own_items() -> None:
    nested = pa.array([[[1, 2], [3]], [[]], [], None], pa.list_(pa.list_(pa.int64())))
    fixed = pa.array([[1, 2], [3, 4], None, [5, 6]], pa.list_(pa.int64(), 2))
    for name in ("cardinality", "array_length"):
        assert rows(f"{name}(n) = 2", n=nested) == [0]
        assert rows(f"{name}(n) = 1", n=nested) == [1]
        assert rows(f"{name}(n) = 0", n=nested) == [2]
        assert rows(f"{name}(n) = 2", n=fixed) == [0, 1, 3]


def test_a_guard_keeps_what_follows_from_failing() -> None:
    assert rows("x <> 0 AND 10 / x > 4", x=[0, 1, 2, 3, None]) == [1, 2]
    assert rows("x = 0 OR 10 / x > 4", x=[0, 1, 2, 3, None]) == [0, 1, 2]


def test_division_and_remainder_go_towards_zero() -> None:
    batch = pa.RecordBatch.from_pydict({"x": [7, -7], "f": [7.5, -7.5]})
    for text, expected in [
        ("x / 2", [3, -3]),
        ("x % 2", [1, -1]),
        ("x / 2.0", [3.5, -3.5]),
        ("f % 2", [1.5, -1.5]),
        ("cast(f AS int)", [7, -7]),
    ]:
        assert bind_projection(text, batch.schema).evaluate(batch).to_pylist() == expected, text


def test_members_of_structs_are_found_nested_or_flattened() -> None:
    table = pa.table({"st": [{"x": 1, "in": {"y": 2}}, None, {"x": None, "in": None}]})
    bound = bind("st.x = 1 AND st.`in`.y = 2", table.schema)
    nested = table.to_batches()[0]
    flat = pa.RecordBatch.from_pydict({"st.x": [1, None, None], "st.in.y": [2, None, None]})
    assert bound.columns == ("st.x", "st.in.y")
    assert bound.mask(nested).to_pylist() == bound.mask(flat).to_pylist() == [True, False, False]
    assert rows("st.x IS NULL", st=nested.column(0)) == [1, 2]


@pytest.mark.parametrize(
    "condition", ["n = 1", "n LIKE 'a'", "length(n) = 1", "n IN (1)", "n + 1 = 2", "NOT n = 'x'"]
)
def test_a_column_of_nulls_meets_everything_and_matches_nothing(condition: str) -> None:
    assert rows(condition, n=pa.nulls(3)) == []


def test_an_empty_batch_has_an_empty_mask() -> None:
    schema = pa.schema([("a", pa.int64())])
    batch = pa.RecordBatch.from_pylist([], schema)
    for condition in ("a = 1", "1 = 1", "a IN (1)", "a % 2 = 0"):
        assert len(bind(condition, schema).mask(batch)) == 0
