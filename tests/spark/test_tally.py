"""Summaries of micro-batches: the same for the same rows in any order, and for no others."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.spark.tally import Tally

COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int64(), st.integers(-5, 5)),
    "byte": (pa.int8(), st.integers(-5, 5)),
    "double": (pa.float64(), st.sampled_from([0.0, 1.5, -2.5, 1e300, float("inf")])),
    "float": (pa.float32(), st.sampled_from([0.0, 1.5, -2.5])),
    "bool": (pa.bool_(), st.booleans()),
    "time": (pa.timestamp("us", "UTC"), st.integers(0, 9)),
    "decimal": (pa.decimal128(30, 2), st.integers(-3, 3).map(lambda one: Decimal(10**20 * one))),
    "text": (pa.string(), st.text("ab", max_size=20)),
    "bytes": (pa.binary(), st.binary(max_size=9)),
    "list": (pa.list_(pa.int64()), st.lists(st.none() | st.integers(0, 3), max_size=3)),
    "struct": (
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
        st.fixed_dictionaries({"x": st.none() | st.integers(0, 2), "y": st.text("ab", max_size=9)}),
    ),
    "map": (
        pa.map_(pa.string(), pa.int64()),
        st.dictionaries(st.text("ab", max_size=3), st.integers(0, 3)).map(lambda d: [*d.items()]),
    ),
    "void": (pa.null(), st.none()),
}


def content(*batches: pa.RecordBatch) -> str:
    tally = Tally()
    assert list(tally.watch(batches)) == list(batches)
    return tally.content


def batch(values: Iterable[Any], kind: pa.DataType) -> pa.RecordBatch:
    return pa.record_batch({"c": pa.array(list(values), kind)})


@pytest.mark.parametrize("name", COLUMNS)
@given(data=st.data())
def test_a_summary_depends_on_the_rows_only(name: str, data: st.DataObject) -> None:
    kind, values = COLUMNS[name]
    rows = data.draw(st.lists(st.none() | values, max_size=8))
    expected = content(batch(rows, kind))
    turned, middle = rows[::-1], len(rows) // 2
    whole = batch(turned, kind)
    assert content(whole.slice(0, middle), whole.slice(middle)) == expected
    parts = [Tally(), Tally()]
    for tally, part in zip(parts, (turned[:middle], turned[middle:]), strict=True):
        list(tally.watch([batch(part, kind)]))
    assert Tally.total(parts).content == expected


@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "void"])
@given(data=st.data())
def test_other_rows_have_another_summary(name: str, data: st.DataObject) -> None:
    kind, values = COLUMNS[name]
    rows = data.draw(st.lists(st.none() | values, min_size=1, max_size=4))
    other = data.draw(st.none() | values)
    where = data.draw(st.integers(0, len(rows) - 1))
    changed = [*rows[:where], other, *rows[where + 1 :]]
    same = pa.array(rows, kind)[where] == pa.array([other], kind)[0]
    equal = content(batch(rows, kind)) == content(batch(changed, kind))
    assert equal == same


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.list_(pa.struct([("x", pa.list_(pa.int64()))]))], ids=str
)
def test_items_in_another_order_are_others(kind: pa.DataType) -> None:
    rows: list[list[Any]] = [[1, 0], [0, 1], [None, 1], [1, None]]
    if pa.types.is_struct(kind.value_type):
        rows = [[{"x": row}] for row in rows] + [[{"x": [1]}, {"x": [0]}], [{"x": [0]}, {"x": [1]}]]
    assert len({content(batch([row], kind)) for row in rows}) == len(rows)


def test_a_byte_in_the_middle_of_a_long_text_counts() -> None:
    one, other = "x" * 50 + "a" + "x" * 50, "x" * 50 + "b" + "x" * 50
    assert content(batch([one], pa.string())) != content(batch([other], pa.string()))


def test_values_of_another_column_are_others() -> None:
    one = pa.record_batch({"a": [1], "b": [2]})
    other = pa.record_batch({"a": [2], "b": [1]})
    assert content(one) != content(other)
    assert content(one) != content(one.slice(0, 0))


def test_sums_of_floats_in_another_order_are_the_same() -> None:
    one, other = 0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1
    assert one != other
    assert content(batch([one], pa.float64())) == content(batch([other], pa.float64()))
