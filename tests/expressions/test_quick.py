"""Simple filters mean the same with and without sqlglot."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.expressions import bind
from pilum.expressions.nodes import InSet
from pilum.expressions.parse import parse
from pilum.expressions.quick import quick_parse

_NAMES = st.sampled_from(
    ["a", "Key", "_rowid", "date", "not", "null", "x", "in", "id2", "é", "`in`", "`a b`", "`a.b`",
     "`a``b`", "`a`.b", "``"]
)  # fmt: skip
_LITERALS = st.sampled_from(
    ["1", "-7", "0", "999999999999999999", "12345678901234567890", "'a'", "''", "'it''s'", "'é b'",
     "1.5", "true", "null", '"a"', "x'00'", r"'\'", "'%'", "- 1"]
)  # fmt: skip
_OPERATORS = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">=", " is ", " like ", "=="])
_COMPARED = st.builds("{}{}{}".format, _NAMES, _OPERATORS, _LITERALS)
_IN = st.builds(
    lambda name, items: f"{name} IN ({' , '.join(items)})",
    _NAMES,
    st.lists(_LITERALS, min_size=1, max_size=3),
)
_CALLED = st.builds(
    "{}({}, {})".format,
    st.sampled_from(
        ["contains", "Starts_With", "array_has", "array_has_any", "lower", "regexp_like"]
    ),
    _NAMES,
    _LITERALS | st.lists(_LITERALS, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
)
_RELATED = st.builds(
    "{}({}, {}({}))".format,
    st.sampled_from(["st_within", "ST_Intersects", "st_distance", "st_x"]),
    _NAMES,
    st.sampled_from(["st_geomfromtext", "ST_GeomFromText", "st_geomfromwkb"]),
    _LITERALS,
)
_FILTERS = st.lists(_COMPARED | _IN | _CALLED | _RELATED, min_size=1, max_size=3).flatmap(
    lambda terms: st.sampled_from([" and ", " AND ", "  and\n", " or "]).map(
        lambda word: word.join(terms)
    )
)


@given(_FILTERS)
def test_the_nodes_are_those_of_sqlglot(text: str) -> None:
    quick = quick_parse(text)
    if quick is not None:
        assert quick == parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "id = 5",
        " id>=-5 AND name<'x' ",
        "id in (1,2 , 3)",
        "s IN ('a', '')",
        "a!=''",
        "s Like 'a%' and b = 1",
        "contains( s,'a b' )",
        "ARRAY_HAS_ANY(l, [ 'a','b' ]) and a > 1",
        "array_has(l,-5)",
        "array_has_all(l, [1, 2])",
        "`group` >= 7 AND `Group by`<8 and contains(`in`, 'a')",
        "`in` in (1)",
        "ST_Within( g , st_geomfromtext('POINT(1 2)')) AND a = 1",
    ],
)
def test_simple_filters_are_parsed_quickly(text: str) -> None:
    assert quick_parse(text) == parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a = 1 or b = 2",
        "a = 1 and",
        "a = 1 b = 2",
        "a = 'it''s'",
        "alike 'a'",
        "a like 5",
        "lower(s)",
        "contains(s, 'a') = true",
        "array_has_any(l, [])",
        "array_has_any(l, [1, 'a'])",
        "st_distance(g, st_geomfromtext('POINT(1 2)')) < 5",
        "st_within(st_geomfromtext('POINT(1 2)'), g)",
    ],
)
def test_others_are_left_to_sqlglot(text: str) -> None:
    assert quick_parse(text) is None


def test_a_lookup_does_not_import_sqlglot() -> None:
    code = (
        "import sys, pyarrow as pa; from pilum.expressions import bind; "
        "bind('id = 5', pa.schema({'id': pa.int64()})); assert 'sqlglot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_long_lists_keep_the_values_that_the_type_can_hold() -> None:
    schema = pa.schema({"i": pa.int8(), "u": pa.uint64(), "s": pa.string()})
    for text, values in [
        ("i in (1, 300, -128, -129)", [1, -128]),
        ("u in (-1, 5)", [5]),
        ("s in ('a', 'é', '')", ["a", "é", ""]),
    ]:
        bound = bind(text, schema)
        node = bound.node  # type: ignore[attr-defined]
        assert isinstance(node, InSet)
        assert node.values.to_pylist() == values
