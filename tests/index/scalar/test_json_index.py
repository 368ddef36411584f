"""JSON indices answer as a loop over the values at their path does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from index.scalar.folders import Folders, moved
from index.scalar.strategies import rows_of

from pilum.errors import (
    CorruptFileError,
    InvalidInputError,
    UnsupportedFeatureError,
    UnsupportedTypeError,
)
from pilum.index.base import Part
from pilum.index.queries import AtPath, Between, IsIn, IsNull, Query
from pilum.index.registry import index_type
from pilum.index.scalar.json_index import JSON_INDEX, steps_of
from pilum.kernels.reference_json import binary_json

_VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]),
    pa.float64(): st.sampled_from([1.5, -2.0, 0.25, 1e300]),
    pa.string(): st.text("ab", max_size=2),
    pa.bool_(): st.booleans(),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(str(tmp_path_factory.mktemp("indices")))


def _column(documents: list[Any]) -> pa.Array:
    """Return documents as stored; None is a null."""
    stored = [None if one is None else binary_json(json.dumps(one)) for one in documents]
    return pa.array(stored, pa.large_binary())


@st.composite
def _documents(draw: st.DrawFn) -> tuple[pa.DataType, list[Any], list[Any]]:
    """Draw a type, documents, and the values of their member x; some have none."""
    kind = draw(st.sampled_from(list(_VALUES)))
    values = draw(st.lists(st.none() | _VALUES[kind], max_size=20))
    absent = st.sampled_from([None, {"y": 1}, {"x": None}, 5, ["x"], {}])
    documents = [draw(absent) if value is None else {"a": [], "x": value} for value in values]
    return kind, documents, values


@given(data=st.data(), drawn=_documents(), target=st.sampled_from(["btree", "BITMAP"]))
def test_searches(
    folders: Folders,
    data: st.DataObject,
    drawn: tuple[pa.DataType, list[Any], list[Any]],
    target: str,
) -> None:
    """Equal values, ranges and absent values; other paths and types are not answered."""
    kind, documents, values = drawn
    index = folders.built(JSON_INDEX, _column(documents), path="x", target_index_type=target)
    wanted = data.draw(st.lists(_VALUES[kind], min_size=2, max_size=3))
    low, high = min(wanted), max(wanted)
    expected: list[tuple[Query, list[int]]] = [
        (IsNull(), [i for i, one in enumerate(values) if one is None]),
        (IsIn(pa.array(wanted, kind)), [i for i, one in enumerate(values) if one in wanted]),
        (
            Between(pa.scalar(low, kind), pa.scalar(high, kind)),
            [i for i, one in enumerate(values) if one is not None and low <= one <= high],
        ),
    ]
    known = kind if any(one is not None for one in values) else pa.string()
    for query, rows in expected if known == kind else expected[:1]:
        answer = index.search(AtPath(("x",), known, query))
        assert answer.is_exact
        assert answer.rows.listed.tolist() == rows
        assert index.estimate(AtPath(("x",), known, query)) is not None
        for other in (query, AtPath(("y",), known, query), AtPath(("x",), pa.int8(), query)):
            assert index.search(other) is None
            assert index.estimate(other) is None


def test_merge(folders: Folders) -> None:
    """Segments and new rows are merged; their types must agree."""
    old = folders.built(
        JSON_INDEX,
        _column([{"x": 3}, {"x": 1}, None]),
        path="x",
        target_index_type="btree",
        target_index_parameters='{"zone_size": 2}',
    )
    assert old.statistics()["num_pages"] == 2
    writer = folders.new()
    rows = rows_of(_column([{"x": 2}, {}]), [7, 8])
    details = JSON_INDEX.merge([Part(old, moved({0}, 100))], rows, writer)
    assert JSON_INDEX.described(details) == {"path": "x", "target_details": {}}
    new = JSON_INDEX.open(writer.written(), details, 0)
    found = new.search(AtPath(("x",), pa.int64(), Between(None, None)))
    assert found is not None
    assert found.rows.listed.tolist() == [7, 101]
    assert found.nulls.listed.tolist() == [8, 102]
    with pytest.raises(InvalidInputError, match="text"):
        JSON_INDEX.merge([Part(old)], rows_of(_column([{"x": "2"}])), folders.new())
    texts = folders.built(JSON_INDEX, _column([{}]), path="x", target_index_type="btree")
    with pytest.raises(InvalidInputError, match="create it again"):
        JSON_INDEX.merge([Part(old), Part(texts)], None, folders.new())


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("x", ("x",)),
        ("$.x.y", ("x", "y")),
        (".x[12].y", ("x", 12, "y")),
        ("$[\"x y\"]['z']", ("x y", "z")),
        ('$."x y"', ("x y",)),
        ("[3]", (3,)),
        *((path, None) for path in ("", "$", "$x", "x y", "$.*", "x-y", '"x"', "$..x", "x[*]")),
    ],
)
def test_paths(path: str, steps: tuple[int | str, ...] | None) -> None:
    """Members and items in the notations of JSONPath."""
    assert steps_of(path) == steps


def test_nested_values(folders: Folders) -> None:
    """A path leads through objects and arrays; what is no scalar is refused."""
    documents = _column([None, {"a": [{"b": 1}]}, {"a": [[], {"b": 2}]}, {"a": {"b": 3}}])
    index = folders.built(JSON_INDEX, documents[1:], path="$.a[0].b", target_index_type="BITMAP")
    query = AtPath(("a", 0, "b"), pa.int64(), IsNull())
    assert index.search(query).rows.listed.tolist() == [1, 2]
    with pytest.raises(InvalidInputError, match="array or object"):
        folders.built(JSON_INDEX, documents, path="a", target_index_type="BITMAP")
    mixed = _column([{"a": 1.5}, {"a": 2}])
    index = folders.built(JSON_INDEX, mixed, path="a", target_index_type="BITMAP")
    query = AtPath(("a",), pa.float64(), IsIn(pa.array([2.0])))
    assert index.search(query).rows.listed.tolist() == [1]
    with pytest.raises(InvalidInputError, match="number"):
        folders.built(JSON_INDEX, mixed[::-1], path="a", target_index_type="BITMAP")


def test_damage(folders: Folders) -> None:
    """Damaged documents and details are errors; an unknown type of index is unsupported."""
    documents = pa.array([None, b"\x40\0\0\1"], pa.large_binary())
    parameters = JSON_INDEX.parameters({"path": "x", "target_index_type": "btree"}, documents.type)
    rows = replace(rows_of(documents), are_json=True)
    with pytest.raises(CorruptFileError, match="row 1"):
        JSON_INDEX.train(rows, parameters, folders.new())
    with pytest.raises(CorruptFileError):
        JSON_INDEX.open(folders.new().written(), b"\xff", 0)
    with pytest.raises(UnsupportedFeatureError):
        JSON_INDEX.open(folders.new().written(), b"", 0)
    assert JSON_INDEX.described(b"") == {"path": "", "target_details": {}}


def test_what_cannot_be() -> None:
    """Types and parameters that are refused; the registry has the type."""
    assert index_type("json") is JSON_INDEX
    with pytest.raises(UnsupportedTypeError, match="'a'"):
        JSON_INDEX.require_supported("a", pa.string())
    right = {"path": "x", "target_index_type": "btree"}
    assert JSON_INDEX.parameters(right, pa.large_binary()).steps == ("x",)
    for wrong in (
        {"path": "x"},
        {"target_index_type": "btree"},
        {**right, "path": "$.*"},
        {**right, "target_index_type": "INVERTED"},
        {**right, "zone_size": 3},
        {**right, "target_index_parameters": "{"},
        {**right, "target_index_parameters": '{"zone_size": 0}'},
    ):
        with pytest.raises(InvalidInputError):
            JSON_INDEX.parameters(wrong, pa.large_binary())
