"""What is known of an Arrow expression is true wherever Arrow's result is."""

from __future__ import annotations

import datetime
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pilum
from pilum.expressions.arrow_nodes import implied_by
from pilum.expressions.arrow_tree import ArrowCall, ArrowField, ArrowValue, arrow_tree
from pilum.expressions.evaluate import evaluate, to_array
from pilum.expressions.nodes import And, Constant, Expression, IsTruth, Not, Opaque, Or, walk

NAN = float("nan")
ROWS = pa.table(
    {
        "i": pa.array([None, -3, 0, 5, 5, 127, 7, 1], pa.int8()),
        "u": pa.array([0, 1, None, 2**64 - 1, 2, 3, 4, 2**63], pa.uint64()),
        "f": pa.array(np.array([0.0, -0.0, NAN, -NAN, 1.5, -1.5, np.inf, 0.1]), pa.float64()),
        "h": pa.array(np.array([0.1, 2, NAN, -0.0, 1.5, 0, 0, 0], np.float32)),
        "s": ["a", None, "", "ab", "a%", "b\\", "ä", "Ab"],
        "l": pa.array(["a", "b", None, "ab", "", "x", "y", "z"], pa.large_string()),
        "b": [True, False, None, True, False, None, True, False],
        "d": pa.array([0, 1, 2, None, 4, 5, 6, 7], pa.date32()),
        "t": pa.array([0, 1, 2, None, 4, 5, 6, 10**6], pa.timestamp("us")),
        "st": [{"x": 1}, None, {"x": None}, {"x": 4}, {"x": 1}, {"x": 9}, {"x": 1}, {"x": 2}],
        "c": pa.array(["a", "b", None, "a", "b", "a", "c", "a"]).dictionary_encode(),
    }
)
_COLUMNS = [pc.field(name) for name in ROWS.column_names if name != "st"]
_COLUMNS += [pc.field("st", "x")]
_VALUES: list[Any] = [
    *(
        0,
        5,
        -3,
        127,
        128,
        pa.scalar(2**63, pa.uint64()),
        0.0,
        -0.0,
        0.1,
        1.5,
        NAN,
        "a",
        "ab",
        "",
        True,
        b"a",
    ),
    datetime.date(1970, 1, 3),
    pa.scalar(2, pa.timestamp("us")),
    pa.scalar(2000, pa.timestamp("ns")),
    pa.scalar(2, pa.timestamp("us", "UTC")),
    pa.scalar(0.1, pa.float32()),
    pa.scalar(None, pa.int32()),
    None,
]
_COMPARED = [pc.equal, pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal]
_TEXTS = [pc.starts_with, pc.ends_with, pc.match_substring, pc.match_like]
_SETS: list[list[Any]] = [[], [5, None], [0, 127], ["a", None], ["ab", ""], [0.0, 1.5], [NAN]]


def _compared(drawn: tuple[Any, pc.Expression, Any, bool]) -> pc.Expression:
    function, column, value, turned = drawn
    sides = (pc.scalar(value), column) if turned else (column, pc.scalar(value))
    return function(*sides)


_column = st.sampled_from(_COLUMNS)
_LEAVES = st.one_of(
    st.tuples(st.sampled_from(_COMPARED), _column, st.sampled_from(_VALUES), st.booleans()).map(
        _compared
    ),
    st.tuples(_column, st.sampled_from(_SETS)).map(lambda drawn: drawn[0].isin(drawn[1])),
    _column.map(lambda column: column.is_null()),
    _column.map(lambda column: column.is_null(nan_is_null=True)),
    _column.map(lambda column: column.is_valid()),
    st.tuples(
        st.sampled_from(_TEXTS),
        st.sampled_from([pc.field("s"), pc.field("l")]),
        st.sampled_from(["", "a", "a%", "%b", "b\\", "_"]),
        st.booleans(),
    ).map(lambda drawn: drawn[0](drawn[1], drawn[2], ignore_case=drawn[3])),
    st.just(pc.field("b")),
    st.just(pc.field("i") + 1 > 5),
)
EXPRESSIONS = st.recursive(
    _LEAVES,
    lambda parts: st.one_of(
        st.tuples(parts, parts).map(lambda two: two[0] & two[1]),
        st.tuples(parts, parts).map(lambda two: two[0] | two[1]),
        parts.map(lambda part: ~part),
    ),
    max_leaves=4,
)


def _with(node: Expression, value: bool) -> Expression:
    """Return a node with a constant in the place of each opaque part."""
    match node:
        case Opaque():
            return Constant(pa.scalar(value))
        case And(operands=operands) | Or(operands=operands):
            return replace(node, operands=tuple(_with(one, value) for one in operands))
        case Not(operand=operand):
            return Not(_with(operand, not value))
        case IsTruth(operand=operand):
            return replace(node, operand=_with(operand, value))
    return node


@given(EXPRESSIONS)
@example(pc.field("f") < 5)
@example(~(pc.field("f") < 5))
@example(pc.field("s").isin(["a", None]) | ~pc.field("i").isin([5]))
def test_what_is_implied(expression: pc.Expression) -> None:
    """It is true where Arrow's result is; without opaque parts, both are the same."""
    try:
        expected = _by_arrow(expression)
    except pa.ArrowException:  # it does not bind, or fails on a value
        return
    node = implied_by(expression, ROWS.schema)
    [batch] = ROWS.to_batches()
    found = to_array(evaluate(_with(node, True), batch), batch.num_rows)
    assert pc.all(found.filter(pc.fill_null(expected, False)), min_count=0).as_py() is True
    if not any(isinstance(below, Opaque) for below in walk(node)):
        assert found.to_pylist() == expected.to_pylist()


def _by_arrow(expression: pc.Expression) -> pa.Array:
    import pyarrow.acero as acero

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(ROWS))
    options = acero.ProjectNodeOptions([expression], ["mask"])
    plan = acero.Declaration("project", options, inputs=[source])
    return plan.to_table(use_threads=False).column(0).combine_chunks()


def test_parts_are_known() -> None:
    """The usual conditions are translated, and are not opaque."""
    known = [
        pc.field("i") == 5,
        (pc.field("i") > 0) & (pc.field("u") <= 3),
        pc.field("s").isin(["a"]),
        ~pc.field("st", "x").is_null(),
        pc.starts_with(pc.field("s"), "a"),
        pc.field("d") == datetime.date(1970, 1, 3),
        pc.field("c") == "a",
        pc.field("b"),
    ]
    for expression in known:
        node = implied_by(expression, ROWS.schema)
        assert not any(isinstance(below, Opaque) for below in walk(node)), expression
    too_large = pc.field("u").isin([-1, 3])  # not cast to the type of the column
    for expression in (pc.field(0) == 5, too_large, pc.field("i") + 1 == 5, pc.field("i") == 1.5):
        assert implied_by(expression, ROWS.schema) == Opaque()


def test_trees() -> None:
    """Trees have names, values and options."""
    tree = arrow_tree((pc.field("a") == 5) & pc.field("s", "x").is_null(nan_is_null=True))
    assert isinstance(tree, ArrowCall)
    equal, test = tree.arguments
    assert equal == ArrowCall("equal", (ArrowField(("a",)), ArrowValue(pa.scalar(5))), {})
    assert isinstance(test, ArrowCall)
    assert test.arguments == (ArrowField(("s", "x")),)
    assert test.options["nan_is_null"].as_py() is True
    assert arrow_tree(pc.field(0) == 5) is None


def test_unreadable_trees() -> None:
    """Another pickled form than the known one has no tree."""

    class Other:
        def __reduce__(self) -> Any:
            return None, (pa.py_buffer(struct.pack("<q", 5) * 4),)

    assert arrow_tree(Other()) is None


@pytest.mark.parametrize("fast", [False, True])
def test_filters_use_indices(tmp_path: Path, fast: bool) -> None:
    """A scan with such a filter finds the rows that Arrow finds."""
    count = 5000
    rows = pa.table(
        {
            "i": pa.array([None if n % 7 == 0 else n * 37 % count for n in range(count)]),
            "s": [f"t{n % 500}" for n in range(count)],
            "f": np.random.default_rng(1).normal(size=count),
        }
    )
    dataset = pilum.write_dataset(rows, tmp_path / "t", max_rows_per_file=2000)
    for column, kind in (("i", "BTREE"), ("s", "BITMAP"), ("f", "BTREE")):
        dataset.create_scalar_index(column, kind)
    i, s, f = (pc.field(name) for name in "isf")
    for filter in (i == 77, (i > 50) & (i < 60), s.isin(["t3", None]), ~i.is_valid(), f > 2.5):
        for one in (filter, filter & (f < 1), filter | (s == "t9"), ~(~filter)):
            scanner = dataset.scanner(filter=one, fast_search=fast)
            assert scanner.to_table().equals(rows.filter(one))
    if fast:
        assert "@i_idx(BTree)" in dataset.scanner(filter=i == 77, fast_search=True).explain_plan()
    assert dataset.count_rows(filter=i == 78) == rows.filter(i == 78).num_rows
