"""What legacy files would lose is refused, by name of the column."""

from __future__ import annotations

import pyarrow as pa
import pytest
from container.files import MemorySink
from container.legacy.files import read_legacy, write_legacy

from pilum.container.legacy.batches import Grouping
from pilum.container.legacy.writer import LegacyWriter
from pilum.errors import InvalidInputError, SchemaMismatchError, UnsupportedTypeError
from pilum.format.schema import Schema


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, None]),
        pa.array([True, None]),
        pa.array([None], pa.binary(2)),
        pa.array([[1], None]),
        pa.array([[1, None]]),
        pa.array([{"x": 1}, None]),
        pa.array([{"x": None}], pa.struct([("x", pa.int8())])),
        pa.array([[1, None]], pa.list_(pa.int8(), 2)),
        pa.array([None], pa.list_(pa.int8(), 2)),
        pa.array([[{"x": None}]], pa.list_(pa.struct([("x", pa.date32())]))),
    ],
)
def test_nulls_that_would_be_lost(array: pa.Array) -> None:
    with pytest.raises(InvalidInputError, match=r"column 'c[a-z.]*': .* files of version 2\.1"):
        write_legacy(pa.table({"c": array}))


@pytest.mark.parametrize("array", [pa.array([""]), pa.array([b"", b"x"]), pa.array([[""]])])
def test_empty_strings_that_would_be_nulls(array: pa.Array) -> None:
    with pytest.raises(
        InvalidInputError, match="1 empty values, which legacy files return as nulls"
    ):
        write_legacy(pa.table({"c": array}))


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", None]),
        pa.array([["a", None], []]),
        pa.array([{"x": None}], pa.struct([("x", pa.string())])),
        pa.nulls(3),
        pa.array([[None]], pa.list_(pa.null())),
    ],
)
def test_nulls_that_are_kept(array: pa.Array) -> None:
    table = pa.table({"c": array})
    assert read_legacy(write_legacy(table)) == table


def test_empty_strings_are_kept_where_there_are_no_nulls() -> None:
    schema = pa.schema([pa.field("c", pa.string(), nullable=False)])
    table = pa.table({"c": ["", "x", ""]}, schema=schema)
    assert read_legacy(write_legacy(table)) == table
    with pytest.raises(InvalidInputError, match="column 'c' is not nullable, but has 1 nulls"):
        write_legacy(pa.Table.from_arrays([pa.array([None], pa.string())], schema=schema))


@pytest.mark.parametrize(
    "kind", [pa.struct([]), pa.list_(pa.struct([])), pa.struct([("x", pa.struct([]))])]
)
def test_types_that_there_are_none_of(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedTypeError, match=r"column 'c[a-z.]*': legacy files cannot store"):
        write_legacy(pa.table({"c": pa.array([], kind)}))


def test_a_file_needs_rows_and_the_announced_columns() -> None:
    with pytest.raises(InvalidInputError, match="at least one row"):
        write_legacy(pa.table({"c": pa.array([], pa.int8())}))
    other = pa.table({"c": [1.5]})
    writer = LegacyWriter(
        MemorySink(), Schema.from_arrow(pa.schema({"c": pa.int8()})), Grouping(1024)
    )
    with pytest.raises(SchemaMismatchError, match="type double; expected int8"):
        writer.write_batch(other.to_batches()[0])
