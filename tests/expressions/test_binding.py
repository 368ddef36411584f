"""What a filter reads, which types it takes, and how it is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pilum.errors import ColumnNotFoundError, FilterError
from pilum.expressions import bind, bind_projection, bind_ranges, scope_of
from pilum.expressions.filter import SqlFilter
from pilum.expressions.nodes import Compare

SCHEMA = pa.schema(
    [
        ("a", pa.int32()),
        ("Upper", pa.int32()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
        ("items", pa.list_(pa.int32())),
        ("st", pa.struct([("x", pa.int32()), ("dot.ted", pa.int32())])),
    ]
)


@pytest.mark.parametrize(
    ("condition", "columns"),
    [
        ("a > 1 AND (s = 'x' OR a < 0)", ("a", "s")),
        ("st.x = 1", ("st.x",)),
        ("st['x'] = 1", ("st.x",)),
        ("st.x = 1 OR st IS NULL", ("st",)),
        ("st.`dot.ted` = 1", ("st",)),
        ("upper = 1", ("Upper",)),
        ("_rowid < 5 AND _rowaddr > 0", ("_rowid", "_rowaddr")),
        ("1 = 1", ()),
        ("array_length(items) = 2", ("items",)),
    ],
)
def test_a_filter_reads_only_what_it_names(condition: str, columns: tuple[str, ...]) -> None:
    assert bind(condition, SCHEMA).columns == columns


@pytest.mark.parametrize(
    ("condition", "named"),
    [
        ("nope = 1", "'nope'; the columns are a, Upper"),
        ("`upper` = 1", "'upper'"),
        ("st.y = 1", "'y'; it has x"),
        ("a.x = 1", "not a struct"),
        ("items.item = 1", "not a struct"),
    ],
)
def test_an_unknown_column_is_named_with_the_known_ones(condition: str, named: str) -> None:
    with pytest.raises(ColumnNotFoundError, match=named):
        bind(condition, SCHEMA)


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("a = '1'", "int32 does not compare with string"),
        ("a = cast(10000000 as date)", "'29349-01-26'"),
        ("s = 1", "string does not compare with int64"),
        ("b = 1", "bool does not compare with int64"),
        ("s > X'00'", "does not compare"),
        ("d > 'yesterday'", "'yesterday' cannot be parsed as date32"),
        ("st = st", "compare their members"),
        ("a + 1", "not boolean"),
        ("NULL", "not boolean"),
        ("a AND b", "take conditions, not int32"),
        ("a LIKE '1'", "LIKE takes text"),
        ("s LIKE s", "must be a constant"),
        ("s + 1 = 2", "'\\+' takes numbers, not string"),
        ("nofunction(a) = 1", "no function 'nofunction'; the functions are abs"),
        ("lower(a) = '1'", "lower takes text, not int32"),
        ("lower() = '1'", "does not take 0 arguments"),
        ("starts_with(s, s)", "a text constant"),
        ("cast(d AS smallint) = 1", "cannot cast date32"),
        ("1 / 0 = 1", "divide by zero"),
        ("a IN (1, 'x')", "does not compare"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_read(condition: str, reason: str) -> None:
    with pytest.raises(FilterError, match=reason):
        bind(condition, SCHEMA)


def test_a_name_that_differs_in_case_only_must_be_unambiguous() -> None:
    schema = pa.schema([("Ab", pa.int32()), ("aB", pa.int32())])
    assert bind("Ab = 1", schema).columns == ("Ab",)
    with pytest.raises(ColumnNotFoundError, match="ambiguous: Ab, aB"):
        bind("ab = 1", schema)


@pytest.mark.parametrize("condition", ["a IN (1, 2) AND s LIKE 'x%'", pc.field("a") > 1])
def test_a_bound_filter_travels_to_another_process(condition: str | pc.Expression) -> None:
    batch = pa.RecordBatch.from_pydict(
        {"a": pa.array([1, 2, 3], pa.int32()), "s": ["x", "xy", "x"]}
    )
    bound = bind(condition, batch.schema)
    again = pickle.loads(pickle.dumps(bound))
    assert again.columns == bound.columns
    assert again.mask(batch) == bound.mask(batch)


@pytest.mark.parametrize(
    ("text", "arrow"),
    [
        ("a", pa.int32()),
        ("a * 2", pa.int64()),
        ("a / 2.0", pa.float64()),
        ("st.x", pa.int32()),
        ("lower(s)", pa.string()),
        ("a > 1", pa.bool_()),
        ("cast(a AS tinyint)", pa.int8()),
        ("'x'", pa.string()),
    ],
)
def test_a_projection_knows_its_type(text: str, arrow: pa.DataType) -> None:
    assert bind_projection(text, SCHEMA).field.type == arrow


def test_a_projection_of_a_constant_has_a_value_for_each_row() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1, 2, 3]})
    assert bind_projection("7", batch.schema).evaluate(batch).to_pylist() == [7, 7, 7]


def test_ranges_bind_as_their_sql_does() -> None:
    schema = pa.schema([("n", pa.uint64()), ("m", pa.int8())])
    batch = pa.record_batch({"n": [0, 3, 4, None, 9], "m": [1, 1, -1, 1, 1]}, schema=schema)
    found = bind_ranges({"n": range(3, 9), "m": range(2)}, schema)
    same = bind("n >= 3 AND n < 9 AND m >= 0 AND m < 2", schema)
    assert found.columns == same.columns
    assert found.mask(batch).to_pylist() == same.mask(batch).to_pylist()
    with pytest.raises(ColumnNotFoundError, match="gone"):
        bind_ranges({"gone": range(1)}, schema)


@pytest.mark.parametrize("condition", ["a > 1 AND s LIKE 'x%'", "a = 1", pc.field("a") > 1])
def test_a_scope_binds_a_filter_once(condition: str | pc.Expression) -> None:
    scope = scope_of(SCHEMA)
    again = condition if isinstance(condition, str) else pc.field("a") > 1
    assert scope.bind(again) is scope.bind(condition)


def test_expressions_with_constants_of_other_types_are_not_mixed_up() -> None:
    scope = scope_of(SCHEMA)
    numbers = [pa.scalar(2, pa.int8()), pa.scalar(2, pa.float64())]
    one, other = (scope.bind(pc.field("f") > pc.scalar(number)) for number in numbers)
    assert one is not other


@pytest.mark.parametrize("moment", ["now()", "NOW()", "current_timestamp", "current_timestamp()"])
def test_the_present_moment_is_that_of_each_request(moment: str) -> None:
    scope = scope_of(pa.schema([("at", pa.timestamp("us", "UTC"))]))
    assert scope.bind(f"at > {moment}") is not scope.bind(f"at > {moment}")


def test_the_columns_of_an_expression_are_found_among_similar_names() -> None:
    schema = pa.schema([(name, pa.int32()) for name in ("a", "ab", "abc", "and", "x y", "ä.b")])
    expression = (pc.field("ab") > 1) & (pc.field("x y") < 2) & (pc.field("ä.b") == 1)
    assert bind(expression, schema).columns == ("ab", "x y", "ä.b")


@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("is_signed", [True, False])
def test_constants_after_a_column_are_those_before_it(width: int, is_signed: bool) -> None:
    name = f"{'int' if is_signed else 'uint'}{width}"
    schema = pa.schema({"c": pa.from_numpy_dtype(name), "s": pa.string(), "l": pa.large_string()})
    limits = np.iinfo(name)
    numbers = {0, -1, 7, 300, 1 << 40, int(limits.min), int(limits.max)}
    for number in numbers | {int(limits.min) - 1, int(limits.max) + 1}:
        after, before = bind(f"c < {number}", schema), bind(f"{number} > c", schema)
        assert isinstance(after, SqlFilter)
        assert isinstance(before, SqlFilter)
        if not limits.min <= number <= limits.max:
            every = pa.record_batch({"c": pa.array([limits.min, limits.max, None], name)})
            is_less = number > limits.max
            assert after.mask(every).to_pylist() == [is_less, is_less, False]
            assert before.mask(every) == after.mask(every)
            continue
        assert isinstance(after.node, Compare)
        assert isinstance(before.node, Compare)
        assert (after.node.left, after.node.right) == (before.node.right, before.node.left)
    for text in ("s = 'é'", "l = 'é'"):
        [column, constant] = text.split(" = ")
        mirrored = bind(f"{constant} = {column}", schema)
        node, other = (one.implied for one in (bind(text, schema), mirrored))
        assert isinstance(node, Compare)
        assert isinstance(other, Compare)
        assert (node.left, node.right) == (other.right, other.left)
