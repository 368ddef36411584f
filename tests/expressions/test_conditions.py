"""Sets of values of a column: they contain a value if Arrow says that the filter is true for it."""

from __future__ import annotations

import datetime
import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilum.blocks import BitBlock, FixedBlock, StringBlock, block_of
from pilum.expressions import bind
from pilum.expressions.conditions import (
    AllOf,
    AnyOf,
    ColumnMask,
    column_masks,
    split_filter,
)
from pilum.expressions.filter import SqlFilter
from pilum.expressions.nodes import And
from pilum.kernels import Condition

NEGATIVE_NAN = struct.unpack("<d", bytes.fromhex("000000000000f8ff"))[0]
FLOATS = [NEGATIVE_NAN, -math.inf, -1.5, -0.0, 0.0, 0.5, 1.0, math.inf, math.nan]
TEXTS = [
    "",
    "a",
    "ab",
    "aba",
    "abab",
    "b",
    "ba",
    "a%b",
    "\xe9",
    "b" * 70,
    "aK\n",
    "A\u212a",
    "\u017fB",
]
DAYS = [datetime.date(1969, 12, 31), datetime.date(1970, 1, 1), datetime.date(2020, 2, 29)]
CENTS = [Decimal("-99999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("0.07"), Decimal("12.30")]

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [-128, -3, -1, 0, 1, 2, 5, 127]),
    "u8": (pa.uint8(), [0, 1, 2, 5, 254, 255]),
    "i16": (pa.int16(), [-(2**15), -1, 0, 1, 300, 2**15 - 1]),
    "u32": (pa.uint32(), [0, 1, 70_000, 2**32 - 1]),
    "i64": (pa.int64(), [-(2**63), -1, 0, 1, 2**40, 2**63 - 1]),
    "u64": (pa.uint64(), [0, 1, 2**63 - 1]),
    "f32": (pa.float32(), FLOATS),
    "f64": (pa.float64(), FLOATS),
    "b": (pa.bool_(), [False, True]),
    "s": (pa.string(), TEXTS),
    "ls": (pa.large_string(), TEXTS),
    "day": (pa.date32(), DAYS),
    "dec": (pa.decimal128(7, 2), CENTS),
}
OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
PATTERNS = ["", "%", "a", "a%", "%a", "%ab%", "a%b", "%a%b%", "%ba%ab%", "ab%ab", "%\xe9", "\\%"]
FOLDED = ["a_", "b__", "a%_%b", "a_a%", "\\_%", "aK%", "AK_", "aK", "sB", "AB%aB", "A\\%B%", "a%_"]
BETWEEN = ["1.5", "-0.5", "-128.5", "254.75", "300", "-40000", "1e30", "-99999999999999999999.5"]
"""Numbers that some type of integers cannot hold."""


def literal(value: Any) -> str:
    match value:
        case str():
            return f"'{value}'"
        case float() if not math.isfinite(value):
            sign = "-" if math.copysign(1, value) < 0 else ""
            return f"{sign}CAST('{abs(value)}' AS double)"
        case datetime.date():
            return f"date '{value}'"
    return str(value)


@st.composite
def conditions(draw: st.DrawFn, name: str, depth: int = 2) -> str:
    """A condition on one column, in SQL."""
    inner = conditions(name, depth - 1)
    kinds = ["compare", "in", "null", *(["and", "or", "not", "truth"] if depth else [])]
    kinds += ["like"] if name in ("s", "ls") else ["bare"] if name == "b" else []
    values = st.sampled_from(VALUES[name][1]).map(literal)
    compared = values | st.sampled_from(BETWEEN) if name[0] in "iu" else values
    match draw(st.sampled_from(kinds)):
        case "compare":
            return f"{name} {draw(OPERATORS)} {draw(compared)}"
        case "in":
            items = [*draw(st.lists(values, min_size=1, max_size=12)), *draw(st.sampled_from(NULL))]
            return f"{name} {draw(st.sampled_from(['', 'NOT ']))}IN ({', '.join(items)})"
        case "null":
            return f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
        case "like":
            operator = draw(st.sampled_from(["LIKE", "NOT LIKE", "ILIKE"]))
            patterns = FOLDED if operator == "ILIKE" else [*PATTERNS, *FOLDED]
            return f"{name} {operator} '{draw(st.sampled_from(patterns))}'"
        case "bare":
            return name
        case "not":
            return f"NOT ({draw(inner)})"
        case "truth":
            return f"({draw(inner)}) IS {draw(st.sampled_from(['TRUE', 'FALSE', 'NOT TRUE']))}"
        case operator:
            return f"(({draw(inner)}) {operator} ({draw(inner)}))"


NULL: list[list[str]] = [[], [], [], ["NULL"]]


def contained(condition: Condition, values: pa.Array) -> list[bool]:
    """Whether a set contains each value."""
    block = block_of(values)
    match block:
        case StringBlock():
            bits = condition.of_texts(block.offsets, block.data)
        case BitBlock():
            bits = condition.of_fixed(block.data, len(values))
        case FixedBlock():
            bits = condition.of_fixed(block.data, len(values))
        case _:
            raise AssertionError(block)
    found = np.unpackbits(bits, count=len(values), bitorder="little").astype(bool)
    return [bool(found[i]) if values[i].is_valid else condition.null for i in range(len(values))]


@pytest.mark.parametrize("name", VALUES)
@settings(max_examples=40)
@given(data=st.data())
def test_a_set_has_the_values_for_which_the_filter_is_true(name: str, data: st.DataObject) -> None:
    kind, known = VALUES[name]
    text = data.draw(conditions(name))
    values = pa.array([None, *known, *data.draw(st.lists(st.sampled_from(known)))], kind)
    bound = bind(text, pa.schema({name: kind}))
    assert isinstance(bound, SqlFilter)
    mask, rest = split_filter(bound.node)
    batch = pa.RecordBatch.from_arrays([values], [name])
    assert rest is None
    assert isinstance(mask, ColumnMask)
    expected = bound.mask(batch).to_pylist()
    assert contained(mask.condition, values) == expected
    assert SqlFilter((name,), mask.node).mask(batch).to_pylist() == expected


@pytest.mark.parametrize("count", [3, 9, 300, 5000])
@pytest.mark.parametrize("step", [1, 2, 1000, 2**45])
def test_sets_of_many_numbers(count: int, step: int) -> None:
    wanted = (np.arange(count) * step).astype(np.int64)
    condition = Condition.numbers_among("signed", 64, wanted.view(np.uint8))
    values = np.concatenate([wanted, wanted + 1, wanted - 1, -wanted, [2**63 - 1, -(2**63)]])
    for own, expected in (
        (condition, np.isin(values, wanted)),
        (~condition, ~np.isin(values, wanted)),
    ):
        bits = own.of_fixed(values.view(np.uint8), len(values))
        found = np.unpackbits(bits, count=len(values), bitorder="little").astype(bool)
        assert (found == expected).all()


def split(text: str) -> tuple[Any, Any]:
    schema = pa.schema({name: kind for name, (kind, _) in VALUES.items()})
    bound = bind(text, schema)
    assert isinstance(bound, SqlFilter)
    return split_filter(bound.node)


def test_conditions_on_one_column_become_one_set() -> None:
    mask, rest = split("i8 > 1 AND s = 'a' AND i8 < 5 AND NOT (s = 'b' OR u8 = 3)")
    assert isinstance(mask, AllOf)
    assert [part.path for part in column_masks(mask)] == [("i8",), ("u8",), ("s",)]
    assert rest is None


def test_what_needs_several_columns_or_a_function_is_left() -> None:
    mask, rest = split("i8 + u8 = 3 AND i8 = 1 AND (s = 'a' OR upper(s) = 'B')")
    assert isinstance(mask, ColumnMask)
    assert mask.path == ("i8",)
    assert SqlFilter((), rest).node == rest
    mask, rest = split("s = 'a' OR i8 + u8 = 3")
    assert mask is None
    assert rest is not None


def test_what_is_left_may_imply_sets() -> None:
    mask, rest = split("(i8 = 1 AND upper(s) = 'B') OR NOT (i8 < 9 OR i8 + u8 = 3)")
    assert isinstance(mask, ColumnMask)
    expected = pa.array([1, 2, 9, 10], pa.int8())
    assert contained(mask.condition, expected) == [True, False, True, True]
    assert rest is not None
    mask, rest = split("(i8 = 1 AND upper(s) = 'B') IS NOT TRUE")
    assert mask is None
    assert rest is not None


def test_columns_without_pages_are_left() -> None:
    bound = bind("i8 = 1 AND u8 = 2", pa.schema({"i8": pa.int8(), "u8": pa.uint8()}))
    assert isinstance(bound, SqlFilter)
    mask, rest = split_filter(bound.node, {("u8",)})
    assert isinstance(mask, ColumnMask)
    assert mask.path == ("i8",)
    assert isinstance(bound.node, And)
    assert rest == bound.node.operands[1]
    assert split_filter(bound.node, {("u8",), ("i8",)}) == (None, bound.node)


def test_a_choice_between_columns_is_a_tree() -> None:
    mask, rest = split("i8 = 1 AND f64 > 0 OR s LIKE 'a%'")
    assert rest is None
    assert isinstance(mask, AnyOf)
    assert {part.path for part in column_masks(mask)} == {("i8",), ("f64",), ("s",)}


@pytest.mark.parametrize(
    "text",
    [
        "s LIKE '%a_'",
        "s ILIKE '%a'",
        "s ILIKE 'a\xe9%'",
        "CAST(i8 AS text) = '1'",
        "i8 = u8",
        "true",
        "i8 + 1 = 1.5",
    ],
)
def test_other_conditions_have_no_set(text: str) -> None:
    mask, rest = split(text)
    assert mask is None
    assert rest is not None
