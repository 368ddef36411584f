"""Functions of lists, dates and times: the same values as the reference implementation."""

from __future__ import annotations

from datetime import date, datetime
from itertools import product
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pilum
from pilum.errors import FilterError
from pilum.expressions import bind, bind_projection

LISTS = [[1, 2, 3], [], None, [None, 1], [2, 2], [None], [5, -1]]
FLOATS = [[1.0, float("nan")], [], None, [None, -0.0], [0.0], [None], [2.5]]
TEXTS = [["a", "b"], [], None, [None, "a"], ["", ""], [None], ["x", "a"]]
PAIRS = [[1, 2], [3, 4], None, [5, None], [2, 2], [1, 1], [0, 0]]
MOMENTS = [0, 86400000001, None, -1, 1600000000123456, 5, 951782400000000]
ROWS = pa.table(
    {
        "i": pa.array([1, 2, None, 3, 2, 5, -1], pa.int64()),
        "s": pa.array(["a", "b", None, "", "ab", "x", "abc"]),
        "l": pa.array(LISTS, pa.list_(pa.int32())),
        "g": pa.array(LISTS, pa.large_list(pa.int64())),
        "f": pa.array(FLOATS, pa.list_(pa.float64())),
        "t": pa.array(TEXTS, pa.list_(pa.string())),
        "p": pa.array(PAIRS, pa.list_(pa.int64(), 2)),
        "at": pa.array(MOMENTS, pa.timestamp("us")),
        "d": pa.array([0.0, 1.5, None, -1.25, 1e9 + 0.123456789, 2.7, -0.5]),
        "day": pa.array([0, 1, None, -1, 18000, 365, 11016], pa.date32()),
    }
)
OF_LISTS = [
    template.format(column=column)
    for column, template in product(
        "lgp",
        [
            "array_has({column}, 1)",
            "array_has({column}, i)",
            "array_contains({column}, 2.0)",
            "list_has({column}, 1.5)",
            "array_has({column}, null)",
            "array_has_any({column}, [1, 5])",
            "array_has_any({column}, [])",
            "array_has_any({column}, make_array(7, 8))",
            "array_has_any({column}, {column})",
            "array_has_all({column}, [1, 2])",
            "array_has_all({column}, [2, 2])",
            "array_has_all({column}, [])",
            "array_has_all({column}, {column})",
            "arrays_overlap({column}, [1])",
            "{column}[1]",
            "{column}[0]",
            "{column}[-1]",
            "{column}[9]",
            "{column}[i]",
            "empty({column})",
            "array_position({column}, 2)",
            "array_position({column}, i)",
            "array_position({column}, null)",
            "{column} < {column}",
            "{column} = l",
            "{column} is distinct from l",
            "{column} > [1, 2]",
            "{column} <= [2, 9]",
        ],
    )
]
OTHERS = [
    "array_has(f, 0.0)",
    "array_has(f, -0.0)",
    "array_has(f, 1)",
    "array_has_any(f, [0.0])",
    "array_has_any(f, [0, 2.5])",
    "array_has(t, 'a')",
    "array_has(t, s)",
    "array_has_any(t, ['a', 'x'])",
    "array_has_all(t, ['a', 'b'])",
    "t[2]",
    "make_array(i, 2)",
    "array_has([1, 2, 3], i)",
    "array_position([1, 2], i)",
    "list_indexof(t, 'a')",
    "array_position(f, 0.0)",
    "f = [0.0]",
    "f >= [-0.0]",
    "t <> ['a', 'b']",
    "t between ['a'] and ['x']",
    "array_has_any(g, [1, null])",
    "array_has_all(g, [null])",
    "array_has_any(g, make_array(i, 1))",
    "array_has_all(g, make_array(i, 1))",
    "to_timestamp(i)",
    "to_timestamp(at)",
    "to_timestamp_seconds(at)",
    "to_timestamp_millis(i)",
    "to_timestamp_micros(i)",
    "to_timestamp_nanos(at)",
    "to_date(i)",
    "to_date(at)",
    *(
        f"date_trunc('{part}', at)"
        for part in (
            "microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month",
            "quarter", "YEAR",
        )
    ),
    "date_trunc('month', day)",
    *(
        f"date_part('{part}', at)"
        for part in (
            "second", "millisecond", "microsecond", "nanosecond", "week", "dow", "isodow", "epoch",
            "isoyear",
        )
    ),
    "date_part('epoch', day)",
    "to_timestamp(d)",
    "to_timestamp(cast(d as float))",
    "to_timestamp_seconds(d)",
    "to_timestamp_millis(d)",
    "to_timestamp_micros(d)",
    "to_timestamp_nanos(d)",
]  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("lists") / "t"
    lance.write_dataset(ROWS, found)
    return found


def test_values_are_those_of_the_reference(path: Path) -> None:
    ours, theirs = pilum.dataset(path), lance.dataset(path)
    for expression in [*OF_LISTS, *OTHERS]:
        columns = {"i": "i", "x": expression}
        expected = theirs.to_table(columns=columns)["x"]
        found = ours.to_table(columns=columns)["x"]
        assert repr(found.to_pylist()) == repr(expected.to_pylist()), expression
        assert found.type == expected.type, expression


@pytest.mark.parametrize(
    ("filter", "rows"),
    [
        ("array_has(l, 1)", [0, 3]),
        ("not array_has(l, 1)", [1, 4, 5, 6]),
        ("l[1] = 1", [0]),
        ("l[-1] is null and i is not null", [1, 5]),
        ("array_has_any(t, ['x', 'b']) and i > 0", [0]),
        ("at >= to_timestamp('2020-09-13T12:26:40Z')", [4]),
        ("at < to_timestamp(86400)", [0, 3, 5]),
        ("date_trunc('year', at) = timestamp '2000-01-01'", [6]),
        ("day = to_date('1970-01-02')", [1]),
        ("at < now() and day < current_date", [0, 1, 3, 4, 5, 6]),
        ("at < current_timestamp and now() > at and day < today()", [0, 1, 3, 4, 5, 6]),
        ("l = [1, 2, 3]", [0]),
        ("l in ([1, 2, 3], [2, 2])", [0, 4]),
        ("l > [1] and l < [2, 3]", [0, 4]),
        ("not (l = g)", []),
        ("l = null", []),
        ("array_position(t, 'a') = 2", [3, 6]),
    ],
)
def test_filters(path: Path, filter: str, rows: list[int]) -> None:
    for dataset in (pilum.dataset(path), lance.dataset(path)):
        found = dataset.to_table(filter=filter, with_row_id=True)
        assert found["_rowid"].to_pylist() == rows


@given(
    st.lists(st.none() | st.lists(st.none() | st.integers(-2, 2), max_size=3), max_size=6),
    st.lists(st.none() | st.integers(-2, 2), min_size=1, max_size=4),
)
def test_any_and_all_are_those_of_sets(
    lists: list[list[int | None] | None], wanted: list[int | None]
) -> None:
    schema = pa.schema({"l": pa.list_(pa.int8())})
    batch = pa.record_batch([pa.array(lists, schema.field(0).type)], schema=schema)
    text = ", ".join("null" if one is None else str(one) for one in wanted)
    for name, expected in [
        ("any", [None if one is None else bool({*one} & {*wanted}) for one in lists]),
        ("all", [None if one is None else {*one} >= {*wanted} for one in lists]),
    ]:
        bound = bind_projection(f"array_has_{name}(l, [{text}])", schema)
        assert bound.evaluate(batch).to_pylist() == expected


def test_constants_are_evaluated_once() -> None:
    schema = pa.schema({"i": pa.int64()})
    for text, value in [
        ("array_has([1, 2], 2)", True),
        ("array_has_any([1, 2], [3])", False),
        ("array_has_all([1, 2], [2, 1])", True),
        ("[1, 2][2]", 2),
        ("to_date('2020-01-02')", date(2020, 1, 2)),
        ("to_timestamp_seconds('2020-01-02T03:04:05.9')", datetime(2020, 1, 2, 3, 4, 5)),
    ]:
        bound = bind_projection(text, schema)
        assert bound.columns == ()
        assert bound.evaluate(pa.record_batch([pa.array([7])], schema=schema))[0].as_py() == value


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        ("array_has(l, 'x')", "does not compare"),
        ("array_has(i, 1)", "takes a list"),
        ("l[1:2] = 1", "slices"),
        ("l = ['x']", "does not compare"),
        ("l = 1", "does not compare"),
        ("array_position(l, 1, 1) = 1", "does not take 3"),
        ("now(1) > at", "does not take 1"),
        ("l['x'] = 1", "not a struct"),
        ("l[1.5] = 1", "takes an integer"),
        ("to_timestamp('tomorrow') > at", "tomorrow"),
        ("date_trunc('age', at) > at", "expected one of"),
    ],
)
def test_refused(filter: str, message: str) -> None:
    with pytest.raises((FilterError, pilum.errors.ColumnNotFoundError), match=message):
        bind(filter, ROWS.schema)


@given(
    st.lists(st.none() | st.lists(st.none() | st.integers(-2, 2), max_size=3), max_size=6),
    st.lists(st.none() | st.integers(-2, 2), max_size=3),
)
def test_lists_are_ordered_as_those_of_python(
    lists: list[list[int | None] | None], other: list[int | None]
) -> None:
    """Of Python: with a number that is less than all others in place of null."""
    schema = pa.schema({"l": pa.list_(pa.int8()), "o": pa.large_list(pa.int64())})
    arrays = [pa.array(lists, schema.types[0]), pa.array([other] * len(lists), schema.types[1])]
    batch = pa.record_batch(arrays, schema=schema)

    def keyed(one: list[int | None]) -> list[int]:
        return [-9 if item is None else item for item in one]

    for text, expected in [
        ("l < o", [None if one is None else keyed(one) < keyed(other) for one in lists]),
        ("l >= o", [None if one is None else keyed(one) >= keyed(other) for one in lists]),
        ("o = l", [None if one is None else one == other for one in lists]),
        ("l is distinct from o", [one != other for one in lists]),
    ]:
        assert bind_projection(text, schema).evaluate(batch).to_pylist() == expected


def test_floats_that_no_timestamp_has_are_refused() -> None:
    schema = pa.schema({"f": pa.float64()})
    batch = pa.record_batch([pa.array([1e18, float("nan")])], schema=schema)
    with pytest.raises(FilterError, match="truncated"):
        bind_projection("to_timestamp(f)", schema).evaluate(batch[:1])
    with pytest.raises(FilterError, match="nan"):
        bind_projection("to_timestamp(f)", schema).evaluate(batch[1:])


def test_a_column_named_as_a_function_without_parentheses_is_the_column() -> None:
    schema = pa.schema({"current_date": pa.int64()})
    assert bind("current_date = 1", schema).columns == ("current_date",)
