"""Which layers of a nested field each leaf supplies: no layer is decoded twice."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum.container.fields import LeafFieldReader

POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])
TWO = [{"x": 1, "y": "a"}, {"x": None, "y": None}]


@pytest.mark.parametrize(
    ("kind", "rows", "expected"),
    [
        (POINT, [*TWO, None], [2, 1]),
        (pa.list_(POINT), [TWO, None, [], [None]], [3, 1]),
        (pa.struct([("p", POINT), ("q", pa.int8())]), [{"p": TWO[0]}, None, {"q": 3}], [3, 1, 1]),
        (
            pa.struct([("q", pa.int8()), ("ps", pa.list_(POINT))]),
            [{"q": 1, "ps": TWO}, None, {"q": 2, "ps": []}, {"ps": [None]}],
            [2, 3, 1],
        ),
        (pa.map_(pa.string(), pa.list_(POINT)), [[("k", TWO)], None, [], [("l", None)]], [3, 3, 1]),
    ],
    ids=str,
)
def test_a_leaf_supplies_the_layers_that_no_other_has(
    tmp_path: Path, kind: pa.DataType, rows: list[object], expected: list[int]
) -> None:
    table = pa.table({"a": pa.array(rows, kind)})
    dataset = pilum.write_dataset(table, tmp_path / "t", data_storage_version="2.2")
    assert dataset.to_table() == table
    snapshot = dataset._snapshot
    [fragment] = snapshot.manifest.fragments
    [field] = snapshot.schema.fields
    reader = snapshot.reader(fragment).field(field)
    assert isinstance(reader, LeafFieldReader)
    assert reader.num_layers == expected
