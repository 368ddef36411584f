"""Floats of every kind are compared, ordered and skipped as the reference does.

NaN with both signs and with other payloads, both zeros, both infinities and subnormals, in all
widths, in several files, with and without statistics.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pilum
from pilum.dataset import ColumnOrdering

lance: Any = pytest.importorskip("lance", reason="the reference is not installed")

NAN = "CAST('nan' AS double)"
INF = "CAST('inf' AS double)"
BITS = {
    "h": (np.uint16, np.float16, 0x7E00, 0x7C00),
    "g": (np.uint32, np.float32, 0x7FC0_0000, 0x7F80_0000),
    "f": (np.uint64, np.float64, 0x7FF8_0000_0000_0000, 0x7FF0_0000_0000_0000),
}
"""Of each width: the first quiet NaN and infinity, as bits."""


def values_of(name: str) -> pa.Array:
    """Every kind of value in the order of the total order, and null."""
    bits, floats, nan, infinity = BITS[name]
    sign = 1 << (8 * np.dtype(bits).itemsize - 1)
    tiny = 3
    magnitudes = [0, tiny, infinity, nan, nan + 1]
    special = np.array([sign + one for one in reversed(magnitudes)] + magnitudes, bits)
    plain = np.array([-2.5, -1, -0.5, 0.5, 1, 2.5], floats).view(bits)
    values = np.concatenate([special, plain]).view(floats)
    found = pa.array(values)
    return pa.concat_arrays([found, pa.nulls(1, found.type)])


NUM_VALUES = len(values_of("f"))


@cache
def table(version: str) -> pa.Table:
    """All pairs of values of a column and its like, some rows per file."""
    first = np.repeat(np.arange(NUM_VALUES), NUM_VALUES)
    second = np.tile(np.arange(NUM_VALUES), NUM_VALUES)
    columns: dict[str, Any] = {"id": np.arange(len(first))}
    for name in BITS:
        values = values_of(name)
        if version == "legacy":  # which knows no nulls of numbers
            values = values.fill_null(pa.scalar(7, values.type))
        columns[name] = values.take(pa.array(first))
        columns[f"{name}2"] = values.take(pa.array(second))
    return pa.table(columns)


Datasets = tuple[Any, Any]


@pytest.fixture(scope="module", params=["legacy", "2.1"])
def datasets(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Datasets:
    path = tmp_path_factory.mktemp("floats") / "t"
    lance.write_dataset(
        table(request.param),
        path,
        max_rows_per_file=NUM_VALUES * 3,
        max_rows_per_group=NUM_VALUES,
        data_storage_version=request.param,
    )
    return pilum.dataset(path), lance.dataset(str(path))


LITERALS = st.sampled_from(
    ["0", "0.0", "-0.0", "1", "-1", "0.5", "-2.5", "2.25", INF, f"-{INF}", NAN, f"-{NAN}", "NULL"]
)
FINITE = st.sampled_from(["0.0", "-0.0", "1.0", "-1.0", "0.5", "2.25", NAN])
OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


@st.composite
def predicates(draw: st.DrawFn, name: str) -> str:
    operand = draw(st.sampled_from([name, name, f"-{name}", f"{name} * 1", f"coalesce({name}, 1)"]))
    low, high = draw(LITERALS), draw(LITERALS)
    operator = draw(OPERATORS)
    return draw(
        st.sampled_from(
            [
                f"{operand} {operator} {low}",
                f"{low} {operator} {operand}",
                f"{name} {operator} {name}2",
                f"{operand} {operator} {name}2",
                f"{name} BETWEEN {low} AND {high}",
                f"{name} NOT BETWEEN {low} AND {high}",
                f"({name} IS DISTINCT FROM {low})",
                f"({name} IS DISTINCT FROM {name}2)",
                f"isnan({name})",
                f"{name} IS NULL",
                f"cast({name} AS double) {operator} {low}",
            ]
        )
    )


def lookups(name: str) -> st.SearchStrategy[str]:
    """Alone, as the reference simplifies several of them to conditions that are true for null."""
    items = st.lists(FINITE, min_size=1, max_size=5).map(", ".join)
    form = st.sampled_from(["{} IN ({})", "{} NOT IN ({})"])
    return st.builds(str.format, form, st.just(name), items)


def conditions(name: str) -> st.SearchStrategy[str]:
    return lookups(name) | st.recursive(
        predicates(name),
        lambda inner: st.one_of(
            st.builds("({} AND {})".format, inner, inner),
            st.builds("({} OR {})".format, inner, inner),
            st.builds("NOT ({})".format, inner),
        ),
        max_leaves=3,
    )


def ids(dataset: Any, condition: str) -> list[int]:
    found: list[int] = dataset.to_table(columns=["id"], filter=condition)["id"].to_pylist()
    return found


@pytest.mark.reference
@pytest.mark.parametrize("name", ["f", "g", "h"])
def test_the_same_rows_are_selected(datasets: Datasets, name: str) -> None:
    ours, reference = datasets

    @given(condition=conditions(name))
    @settings(max_examples=75)
    def check(condition: str) -> None:
        try:
            expected = ids(reference, condition)
        except (ValueError, OSError):  # refused
            return
        assert ids(ours, condition) == expected, condition

    check()


@pytest.mark.reference
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("name", ["f", "g"])
def test_rows_are_sorted_alike(datasets: Datasets, name: str, ascending: bool) -> None:
    ours, reference = datasets
    order = import_module("lance.dataset").ColumnOrdering(name, ascending=ascending)
    expected = reference.scanner(columns=[name], order_by=[order]).to_table()[name]
    own = ColumnOrdering(name, ascending=ascending)
    found = ours.scanner(columns=[name], order_by=[own]).to_table()[name]
    width = {"f": pa.int64(), "g": pa.int32()}[name]
    bits = [column.combine_chunks().view(width).to_pylist() for column in (found, expected)]
    assert bits[0] == bits[1]
