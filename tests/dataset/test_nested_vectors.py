"""Vectors of vectors in tables of several fragments: every operation gives the items of its rows.

Columns of small fragments are read together and are then slices of one array, which Arrow filters
wrongly unless they begin at zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pilum

VECTORS = pa.list_(pa.list_(pa.int32(), 2), 2)
SHAPES = {
    "vectors": VECTORS,
    "of three levels": pa.list_(VECTORS, 1),
    "of booleans": pa.list_(pa.list_(pa.bool_(), 3), 2),
    "in structs": pa.struct([("v", VECTORS), ("s", pa.string())]),
    "in lists": pa.list_(VECTORS),
}
PER_FILE = 3
ROWS = 12


def value(kind: pa.DataType, numbers: Iterator[int]) -> Any:
    if pa.types.is_struct(kind):
        return {field.name: value(field.type, numbers) for field in kind}
    if pa.types.is_nested(kind):
        size = kind.list_size if pa.types.is_fixed_size_list(kind) else 2
        return [value(kind.value_type, numbers) for _ in range(size)]
    number = next(numbers)
    if pa.types.is_boolean(kind):
        return number % 3 == 0
    return str(number) if pa.types.is_string(kind) else number


def rows_of(kind: pa.DataType, null_rows: tuple[int, ...]) -> list[Any]:
    numbers = itertools.count()
    values = [value(kind, numbers) for _ in range(ROWS)]
    return [None if row in null_rows else one for row, one in enumerate(values)]


@pytest.fixture(params=itertools.product(SHAPES, ["2.1", "2.2"]), ids=" ".join)
def made(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Any, list[Any]]:
    name, version = request.param
    kind = SHAPES[name]
    values = rows_of(kind, (4,))
    table = pa.table({"id": range(ROWS), "a": pa.array(values, kind)})
    ds = pilum.write_dataset(
        table, tmp_path / "t", max_rows_per_file=PER_FILE, data_storage_version=version
    )
    return ds, values


def test_reading(made: tuple[Any, list[Any]]) -> None:
    ds, values = made
    odd = [one for row, one in enumerate(values) if row % 2]
    reads = {
        "a IS NOT NULL": [one for one in values if one is not None],
        "id % 2 = 1": odd,
        "id % 2 = 1 AND a IS NOT NULL": [one for one in odd if one is not None],
        "id > 100": [],
    }
    for condition, expected in reads.items():
        assert ds.to_table(filter=condition)["a"].to_pylist() == expected, condition
        batches = ds.to_batches(filter=condition, batch_size=2)
        assert [one for batch in batches for one in batch["a"].to_pylist()] == expected
        sorted_ = ds.scanner(filter=condition, order_by=["id"], offset=1).to_table()
        assert sorted_["a"].to_pylist() == expected[1:], condition
    rows = [11, 0, 4, 7, 7]
    assert ds.take(rows)["a"].to_pylist() == [values[row] for row in rows]


def test_what_is_given_may_be_filtered_by_arrow(made: tuple[Any, list[Any]]) -> None:
    """Batches and chunks begin at zero, so that what users do with them is right, too."""
    ds, values = made
    expected = [one for row, one in enumerate(values) if row % 2]
    table = ds.to_table()
    found = [
        batch["a"].filter(pc.equal(pc.bit_wise_and(batch["id"], 1), 1)).to_pylist()
        for batch in table.to_batches()
    ]
    assert [one for part in found for one in part] == expected
    batches = [
        batch.filter(pc.equal(pc.bit_wise_and(batch["id"], 1), 1))
        for batch in ds.to_batches(batch_size=2)
    ]
    assert [one for batch in batches for one in batch["a"].to_pylist()] == expected


def test_changing(made: tuple[Any, list[Any]]) -> None:
    ds, values = made
    ds.delete("id % 4 = 0 AND a IS NOT NULL")
    ds.update({"id": "id + 100"}, where="id % 4 = 1")
    source = pa.table({"id": [2, 6, 300], "a": pa.array(values[9:12], ds.schema.field("a").type)})
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(source.slice(1))
    expected = {row: one for row, one in enumerate(values) if row % 4 or one is None}
    expected = {row + 100 if row % 4 == 1 else row: one for row, one in expected.items()}
    expected |= {6: values[10], 300: values[11]}
    found = pilum.dataset(ds.uri).to_table().to_pylist()
    assert {row["id"]: row["a"] for row in found} == expected
    ds.optimize.compact_files()
    found = pilum.dataset(ds.uri).to_table(filter="a IS NOT NULL").to_pylist()
    present = {row: one for row, one in expected.items() if one is not None}
    assert {row["id"]: row["a"] for row in found} == present
