"""Values that paths select in JSON documents: those of the reference."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pilum
from pilum import kernels
from pilum.errors import FilterError
from pilum.expressions.json_path import parse_path

DOCUMENTS = [
    ('{"x": 5, "s": "a", "a": [1, "two", null, {"y": 2.5}, [1]], "t": true, "n": null, '
    '"o": {"k": "v", "d.e": 1}}'),
    '{"x": [1, 2, 3]}', "[1, 2, 3]", "7", '"text"', "null", "{}", None, '{"x": null}',
    '{"x": {"y": [{"z": 1}, {"z": "q"}]}}', '{"a": []}',
    '{"a": ["two", "2", 2, 2.0, true, "true"]}', '{"x": "2", "x y": {"b c": 1}}', "[[1, 2], [3]]",
    '[{"y": 1, "x": [1, 2]}]', '{"a": [[5], [6]], "b": {"c": [[7]]}}', '["null", null, "", 1e20]',
]  # fmt: skip
PATHS = [
    "$", "", "x", "$.x", " $.x ", "$:x", "$.n", "$.a[0]", "$.a[*]", "$.x.y[*].z", "$[1]", '$["x"]',
    '$."x y"', '$["x y"]["b c"]', '$."o"."d.e"', "$.*", "$.*.c", "$.a[last]", "$.a[last - 1]",
    "$[0 to 1]", "$.a[1, last]", "$[0,0,2]", "$[*]", "$[*][*]", "$[0].y", "$.a.b", "$.x[2 to 1]",
    "$.x[last - 9]", "$.é", "b.c", "[0][1]", "$.a[5]", "$.a[+1]", "$[1 to last]", "$.a[*][0]",
]  # fmt: skip
WANTED = ["'two'", "'2'", "2", "2.0", "true", "'null'", "'[1]'", "'{\"y\":2.5}'", "''", "1e20"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("json") / "t"
    # The reference never ends at a range of items of an array without items.
    texts = pa.array([one for one in DOCUMENTS if one != '{"a": []}'], pa.json_())
    lance.write_dataset(pa.table({"j": texts}), found, data_storage_version="2.2")
    return found


def test_values_are_those_of_the_reference(path: Path) -> None:
    calls = [
        f"{name}(j, '{one}')"
        for name in ("json_extract", "json_exists", "json_array_length")
        for one in PATHS
    ]
    calls += [f"json_array_contains(j, '$.a', {wanted})" for wanted in WANTED if wanted != "1e20"]
    calls += ["json_array_contains(j, '$[*]', '1')", "json_array_contains(j, '$', '1e+20')"]
    calls += [f"json_get(j, {member})" for member in ("'x'", "'a'", "'$.x'", "0", "'0'", "9")]
    calls += ["json_get(json_get(j, 'a'), 0)", "json_get_string(json_get(j, 'o'), 'k')"]
    calls += [f"{name}(j, null)" for name in ("json_extract", "json_exists", "json_get")]
    calls += ["json_get_int(j, null)", "json_array_contains(j, '$.a', null)"]
    columns = {f"c{number}": call for number, call in enumerate(calls)}
    expected = lance.dataset(path).to_table(columns=columns)
    found = pilum.dataset(path).to_table(columns=columns)
    for name, call in columns.items():
        assert found[name].to_pylist() == expected[name].to_pylist(), call
        assert found[name].type == expected[name].type, call


@pytest.mark.parametrize(
    ("filter", "rows"),
    [
        ("json_extract(j, '$.x') = '5'", [0]),
        ("json_exists(j, '$.x.y')", [9]),
        ("not json_exists(j, '$.x') and j is not null", [2, 3, 4, 5, 6, 10, 12, 13, 14, 15]),
        ("json_array_length(j, '$.a') > 4", [0, 10]),
        ("json_array_contains(j, '$.a', 'two')", [0, 10]),
        ("json_array_contains(j, '$', 3) and json_array_length(j, '$') = 3", [2]),
        ("json_get_int(json_get(j, 'o'), 'd.e') = 1", [0]),
    ],
)
def test_filters(path: Path, filter: str, rows: list[int]) -> None:
    for dataset in (pilum.dataset(path), lance.dataset(path)):
        found = dataset.to_table(columns=[], filter=filter, with_row_id=True)
        assert found["_rowid"].to_pylist() == rows


def test_ranges_of_no_items() -> None:
    ends = np.array([0, 2], np.int64)
    empty = kernels.encode_json(ends, np.frombuffer(b"[]", np.uint8), None)
    for text in ("$[0 to 1]", "$[last]", "$[*]", "$[last - 1 to last]"):
        found, _, _ = kernels.json_select(*empty, None, list(parse_path("json_extract", text)))
        assert not found.any()


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        ("json_exists(j, '$.a[?(@ > 1)]')", "cannot be parsed at '\\[\\?"),
        ("json_exists(j, '$.a ? (@ > 1)')", "conditions are not supported"),
        ("json_exists(j, '$.**')", r"'\*\*' are not supported"),
        ("json_exists(j, '$..a')", "cannot be parsed at '..a'"),
        ("json_exists(j, '$.')", "cannot be parsed"),
        ("json_exists(j, '$[a]')", "cannot be parsed"),
        ("json_exists(j, '$[0')", "cannot be parsed"),
        ("json_exists(j, '$a')", "cannot be parsed"),
        ("json_exists(j, '$.a-b')", "cannot be parsed"),
        ("json_exists(j, j)", "a text constant"),
        ("json_array_length(j)", "does not take 1"),
        ("json_array_contains(j, '$', j)", "as a constant"),
        ("json_extract('{}', '$') = ''", "takes JSON"),
    ],
)
def test_refused(path: Path, filter: str, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        pilum.dataset(path).to_table(filter=filter)


_SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "2", '"'])
_NESTED = st.recursive(
    _SCALARS,
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.sampled_from("ab"), one),
    max_leaves=8,
)
_STEPS = st.lists(
    st.sampled_from(["a", "b", ("members",), ("items",)])
    | st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=2),
    max_size=3,
)


@given(st.lists(st.none() | _NESTED, max_size=4), _STEPS, _SCALARS.map(json.dumps))
def test_the_kernels_agree_with_plain_python(
    values: list[object], path: list[object], wanted: str
) -> None:
    texts = [json.dumps(value, sort_keys=True, separators=(",", ":")).encode() for value in values]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    documents = kernels.encode_json(ends, np.frombuffer(b"".join(texts), np.uint8), None)
    selected = [_follow([value], path) for value in values]
    found, offsets, data = kernels.json_select(*documents, None, path)  # type: ignore[arg-type]
    assert found.tolist() == [bool(one) for one in selected]
    bits = np.packbits(found, bitorder="little")
    offsets, data = kernels.decode_json(offsets, data, bits)
    for row, one in enumerate(selected):
        text = data[offsets[row] : offsets[row + 1]].tobytes().decode()
        assert not one or json.loads(text) == (one[0] if len(one) == 1 else one)
    lengths = kernels.json_array_lengths(*documents, None, path)  # type: ignore[arg-type]
    first = [len(one[0]) if one and isinstance(one[0], list) else 0 for one in selected]
    assert lengths.tolist() == [
        length if one else -1 for length, one in zip(first, selected, strict=True)
    ]
    has = kernels.json_array_contains(*documents, None, path, wanted)  # type: ignore[arg-type]
    assert has.tolist() == [any(_has(one, wanted) for one in each) for each in selected]


def _follow(values: list[object], path: list[object]) -> list[object]:
    for step in path:
        values = [below for value in values for below in _below(value, step)]
    return values


def _below(value: object, step: object) -> list[object]:
    if step == ("items",):
        return value if isinstance(value, list) else [value]
    if step == ("members",):
        return [value[key] for key in sorted(value)] if isinstance(value, dict) else []
    if isinstance(step, str):
        return [value[step]] if isinstance(value, dict) and step in value else []
    assert isinstance(step, list)
    if not isinstance(value, list):
        return []
    ends = [[one + len(value) if one < 0 else one for one in span] for span in step]
    return [item for low, high in ends for n, item in enumerate(value) if low <= n <= high]


def _has(value: object, wanted: str) -> bool:
    items = value if isinstance(value, list) else []
    texts = [json.dumps(one, sort_keys=True, separators=(",", ":")) for one in items]
    return wanted in texts or wanted in [one for one in items if isinstance(one, str)]
