"""What a filter cannot match; that it is never wrong, against the filter itself."""

from __future__ import annotations

import math
import struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.expressions import bind
from pilum.expressions.filter import SqlFilter
from pilum.expressions.prune import Zones

SCHEMA = pa.schema(
    {"i": pa.int32(), "f": pa.float64(), "s": pa.string(), "b": pa.bool_(), "u": pa.int64()}
)
NUMBERS = st.integers(-3, 3)
NEGATIVE_NAN = struct.unpack("<d", bytes.fromhex("000000000000f8ff"))[0]
FLOATS = st.sampled_from([NEGATIVE_NAN, -math.inf, -1.0, -0.0, 0.0, 0.5, 1.0, math.inf, math.nan])
TEXTS = st.sampled_from(["", "a", "ab", "b", "ba", "c"])
VALUES = {"i": NUMBERS, "f": FLOATS, "s": TEXTS, "b": st.booleans(), "u": NUMBERS}
OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


def literal(value: object) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, float) and not math.isfinite(value):
        sign = "-" if math.copysign(1, value) < 0 else ""
        return f"{sign}CAST('{abs(value)}' AS double)"
    return str(value)


def conditions() -> st.SearchStrategy[str]:
    return st.sampled_from(list(VALUES)).flatmap(_conditions_on)


def _conditions_on(name: str) -> st.SearchStrategy[str]:
    values = VALUES[name].map(literal)
    kinds = [
        st.builds(lambda operator, value: f"{name} {operator} {value}", OPERATORS, values),
        st.builds(lambda operator, value: f"{value} {operator} {name}", OPERATORS, values),
        st.lists(values, min_size=1, max_size=3).map(lambda v: f"{name} IN ({', '.join(v)})"),
        st.just(f"{name} IS NULL"),
        st.just(f"{name} IS NOT NULL"),
        st.just(f"{name} = NULL"),
    ]
    if name == "b":
        kinds += [st.just("b"), st.just("b IS TRUE"), st.just("b IS FALSE")]
    if name == "s":
        patterns = ["s LIKE 'a%'", "s LIKE 'b%a'", "s LIKE ''", "starts_with(s, 'b')"]
        kinds.append(st.sampled_from(patterns))
    return st.one_of(kinds)


def filters() -> st.SearchStrategy[str]:
    return st.recursive(
        conditions(),
        lambda inner: st.one_of(
            st.builds(lambda a, b: f"({a} AND {b})", inner, inner),
            st.builds(lambda a, b: f"({a} OR {b})", inner, inner),
            st.builds(lambda a: f"(NOT {a})", inner),
            st.builds(lambda a: f"(({a}) IS NOT TRUE)", inner),
        ),
        max_leaves=5,
    )


def columns() -> st.SearchStrategy[dict[str, list[object]]]:
    """A few rows in one zone."""
    return st.integers(1, 3).flatmap(
        lambda size: st.fixed_dictionaries(
            {
                name: st.lists(st.none() | values, min_size=size, max_size=size)
                for name, values in VALUES.items()
            }
        )
    )


def zones_of(column: pa.Array, *, counts_nan: bool) -> Zones:
    """The tightest that can be said about one zone."""
    values = column.drop_null()
    may_be_nan = None
    if pa.types.is_floating(values.type):
        has_nan = pc.any(pc.is_nan(values)).as_py() or False
        may_be_nan = np.array([has_nan]) if counts_nan else None
        values = values.filter(pc.invert(pc.is_nan(values)))
    ends = pc.min_max(values)
    return Zones(
        np.array([0, len(column)]),
        pa.array([ends["min"].as_py()], column.type),
        pa.array([ends["max"].as_py()], column.type),
        np.array([column.null_count > 0]),
        np.array([column.null_count < len(column)]),
        may_be_nan,
    )


@given(
    rows=columns(),
    text=filters(),
    known=st.sets(st.sampled_from(list(VALUES))),
    counts_nan=st.booleans(),
)
def test_a_zone_that_is_left_out_holds_no_match(
    rows: dict[str, list[object]], text: str, known: set[str], counts_nan: bool
) -> None:
    """S2.11; and all rows match of a zone that need not be tested."""
    batch = pa.RecordBatch.from_pydict(rows, SCHEMA)
    bound = bind(text, SCHEMA)
    assert isinstance(bound, SqlFilter)
    zones: dict[tuple[str, ...], Zones] = {
        (name,): zones_of(batch[name], counts_nan=counts_nan) for name in known
    }
    found = bound.matching(zones, 1)
    assert found.may.tolist() == bound.may_match(zones, 1).tolist()
    if not found.may[0]:
        assert bound.mask(batch).true_count == 0
    if found.must[0]:
        assert bound.mask(batch).true_count == batch.num_rows
    elif found.may[0]:
        assert bound.without(found.are_sure).mask(batch) == bound.mask(batch)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i > 10", [False, True, False]),
        ("10 < i", [False, True, False]),
        ("i = 5", [True, True, False]),
        ("i = 0", [False, False, False]),
        ("i <> 5", [True, True, False]),
        ("NOT i <= 12", [False, False, False]),
        ("i < 1 OR i > 12", [False, False, False]),
        ("i > 10 AND i < 11", [False, True, False]),
        ("i IN (0, 10, 20)", [False, True, False]),
        ("i IS NULL", [False, True, True]),
        ("i IS NOT NULL", [True, True, False]),
        ("i = NULL", [False, False, False]),
        ("i + 1 > 100", [True, True, True]),
        ("(i > 10) IS TRUE", [False, True, False]),
        ("u > 10 AND i > 10", [False, True, False]),
        ("u > 10 OR i > 10", [True, True, True]),
    ],
)
def test_what_is_left_out(text: str, expected: list[bool]) -> None:
    """S2.11: zones of [1, 9], [5, 12] with nulls, and one of nulls alone."""
    zones = Zones(
        np.array([0, 10, 20, 30]),
        pa.array([1, 5, None], pa.int32()),
        pa.array([9, 12, None], pa.int32()),
        np.array([False, True, True]),
        np.array([True, True, False]),
    )
    bound = bind(text, SCHEMA)
    assert bound.may_match({("i",): zones}, 3).tolist() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i < 10", [True, False, False]),
        ("i <= 12", [True, False, False]),
        ("i IS NULL", [False, False, True]),
        ("i IS NOT NULL", [True, False, False]),
        ("i IS NULL OR i < 13", [True, False, False]),
        ("NOT i > 9", [True, False, False]),
        ("(i < 13) IS TRUE", [True, False, False]),
        ("true", [True, True, True]),
        ("i < 10 AND u = 1", [False, False, False]),
        ("s LIKE 'a%'", [True, False, False]),
        ("s LIKE 'a%b'", [False, False, False]),
        ("f < 3", [False, True, False]),
    ],
)
def test_zones_of_which_all_rows_match(text: str, expected: list[bool]) -> None:
    """Zones as above; of texts from 'aa' to 'ab'; of numbers, where the first zone has a NaN."""
    bounds = np.array([0, 10, 20, 30])
    yes, no = np.array([True] * 3), np.array([False] * 3)
    some = np.array([False, True, True])
    numbers = pa.array([1, 5, None], pa.int32()), pa.array([9, 12, None], pa.int32())
    zones: dict[tuple[str, ...], Zones] = {
        ("i",): Zones(bounds, *numbers, some, np.array([True, True, False])),
        ("s",): Zones(bounds, pa.array(["aa"] * 3), pa.array(["ab", "b", None]), no, yes),
        ("f",): Zones(
            bounds, pa.array([1.0] * 3), pa.array([2.0, 2.0, 3.0]), no, yes,
            np.array([True, False, False]),
        ),
    }  # fmt: skip
    bound = bind(text, SCHEMA)
    assert bound.matching(zones, 3).must.tolist() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f > 5", True),
        ("f < 1", True),
        ("f = 3", False),
        ("f = 1", True),
        ("f <> 1", True),
        ("f BETWEEN 3 AND 5", False),
        ("f BETWEEN -5 AND 0", False),
        ("f >= 1 AND f < 1.5", True),
        ("f > 2 AND f < CAST('inf' AS double)", False),
        ("f > 2 AND f < CAST('nan' AS double)", True),
        ("f = CAST('nan' AS double)", True),
        ("f IN (3, 0.5)", False),
        ("NOT (f >= 1 AND f <= 2)", True),
        ("f <> 1 AND g > 5 AND g < 6", False),
    ],
)
def test_nan_is_outside_of_all_bounds(text: str, expected: bool) -> None:
    """S2.11: zones of [1, 2]; a NaN may be above or below."""
    zones = Zones(
        np.array([0, 2]), pa.array([1.0]), pa.array([2.0]), np.array([False]), np.array([True])
    )
    bound = bind(text, pa.schema({"f": pa.float64(), "g": pa.float64()}))
    assert bound.may_match({("f",): zones, ("g",): zones}, 1).tolist() == [expected], text
