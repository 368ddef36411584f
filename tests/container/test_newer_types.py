"""Maps and fixed-size lists of structs, which files have since version 2.2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from container.files import MemorySource, read_rows, read_table, write_table
from hypothesis import given
from hypothesis import strategies as st

from pilum.container.fields import Leaf, LeafFieldReader
from pilum.container.reader import FileReader
from pilum.encodings.base import StoredPage
from pilum.errors import (
    CorruptFileError,
    InvalidInputError,
    UnsupportedFormatError,
    UnsupportedTypeError,
)
from pilum.format.paths import elements_per_row
from pilum.format.pb import file_pb2
from pilum.format.rows import RowRanges
from pilum.format.schema import Schema
from pilum.format.version import FileVersion

NEW = FileVersion.V2_2
POINT = pa.struct([("x", pa.int32()), ("s", pa.string())])
PAIRS = pa.list_(POINT, 2)
WORDS = pa.map_(pa.string(), pa.int32())
DEEP = pa.list_(pa.struct([("f", PAIRS), ("y", pa.list_(pa.int8(), 3))]), 3)


def point(i: int) -> Any:
    return None if i % 5 == 0 else {"x": i, "s": None if i % 3 == 0 else f"s{i}"}


def pair(i: int) -> Any:
    return None if i % 4 == 3 else [point(i), point(i + 1)]


def words(i: int) -> Any:
    return None if i % 4 == 3 else [(f"w{k}", None if k == 2 else i) for k in range(i % 4)]


COLUMNS: dict[str, pa.Array] = {
    "pairs": pa.array([pair(i) for i in range(50)], PAIRS),
    "pairs in a struct": pa.array(
        [None if i % 7 == 1 else {"a": i, "f": pair(i)} for i in range(50)],
        pa.struct([("a", pa.int8()), ("f", PAIRS)]),
    ),
    "triples of pairs": pa.array(
        [
            None if i % 6 == 2 else [{"f": pair(i), "y": [i, None, 3]}, None, {"f": pair(i + 3)}]
            for i in range(50)
        ],
        DEEP,
    ),
    "maps": pa.array([words(i) for i in range(50)], WORDS),
    "maps of lists": pa.array(
        [None if i % 9 == 1 else [("a", [i, None]), ("b", None), ("c", [])] for i in range(50)],
        pa.map_(pa.string(), pa.list_(pa.int64())),
    ),
    "maps of maps": pa.array(
        [[(i, words(i)), (i + 1, words(i + 1))] for i in range(50)], pa.map_(pa.int8(), WORDS)
    ),
    "maps from structs": pa.array(
        [[({"x": i, "s": "a"}, i)] if i % 3 else None for i in range(50)],
        pa.map_(POINT, pa.int8()),
    ),
    "lists of maps": pa.array(
        [[words(i), words(i + 2)] if i % 3 else None for i in range(50)], pa.list_(WORDS)
    ),
    "maps in structs": pa.array(
        [{"m": words(i), "n": i} if i % 5 else None for i in range(50)],
        pa.struct([("m", WORDS), ("n", pa.int32())]),
    ),
}


def written(array: pa.Array) -> FileReader:
    data, _ = write_table(pa.table({"c": array}), version=NEW)
    return FileReader.open(MemorySource(data))


@pytest.mark.parametrize("name", COLUMNS)
@given(rows=st.sets(st.integers(0, 39), min_size=1), start=st.integers(0, 10))
def test_there_and_back(name: str, rows: set[int], start: int) -> None:
    array = COLUMNS[name].slice(start, 40)
    reader = written(array)
    found = read_rows(reader, RowRanges.of((0, 40)))["c"]
    assert found.type == array.type
    assert found.to_pylist() == array.to_pylist()
    wanted = sorted(rows)
    some = read_rows(reader, RowRanges.of_rows(np.array(wanted, dtype=np.int64)))["c"]
    assert some.to_pylist() == [array[row].as_py() for row in wanted]


def test_pages_count_elements_and_begin_at_rows() -> None:
    rows = 700_000
    items = pa.StructArray.from_arrays([pa.array(np.arange(2 * rows))], ["x"])
    array = pa.FixedSizeListArray.from_arrays(items, 2)
    data, _ = write_table(pa.table({"c": array}), version=NEW)
    reader = FileReader.open(MemorySource(data))
    [column] = reader.columns([0])
    assert (column.elements, column.num_rows, column.num_pages) == (2, rows, 2)
    pages: list[StoredPage] = [stored for stored, _ in column.entries]
    assert sum(page.num_rows for page in pages) == 2 * rows
    cut = int(column.row_bounds[1])
    assert pages[0].num_rows == 2 * cut
    found = read_rows(reader, RowRanges.of((cut - 1, cut + 1), (rows - 1, rows)))["c"]
    assert found.to_pylist() == array.take([cut - 1, cut, rows - 1]).to_pylist()
    message = file_pb2.ColumnMetadata.FromString(_metadata_of(reader, data))
    assert [page.priority for page in message.pages] == [0, cut]


def _metadata_of(reader: FileReader, data: bytes) -> bytes:
    position, size = reader.end.column_table[0]
    return data[position : position + size]


def test_content_below_null_lists_is_not_seen() -> None:
    items = pa.array([{"x": i, "s": "a"} for i in range(6)], POINT)
    mask = pa.array([False, True, False])
    array = pa.FixedSizeListArray.from_arrays(items, type=PAIRS, mask=mask)
    assert read_table(write_table(pa.table({"c": array}), version=NEW)[0])["c"].to_pylist() == [
        [{"x": 0, "s": "a"}, {"x": 1, "s": "a"}],
        None,
        [{"x": 4, "s": "a"}, {"x": 5, "s": "a"}],
    ]


@pytest.mark.parametrize("array", [COLUMNS["pairs"], COLUMNS["maps in structs"]], ids=["l", "m"])
def test_older_files_do_not_have_them(array: pa.Array) -> None:
    with pytest.raises(UnsupportedTypeError, match=r"version 2\.2.*data_storage_version='2\.2'"):
        write_table(pa.table({"c": array}), version=FileVersion.V2_1)


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(PAIRS),
        pa.map_(pa.string(), PAIRS),
        pa.list_(pa.struct([("m", WORDS)]), 2),
        pa.list_(pa.struct([("l", pa.list_(pa.int8()))]), 2),
    ],
    ids=str,
)
def test_lists_around_and_in_them_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedTypeError, match=r"column 'c.*no file version can store"):
        write_table(pa.table({"c": pa.nulls(3, kind)}), version=NEW)


@pytest.mark.parametrize(
    "entries", [[{"key": "a", "value": 1}, None], [{"key": None, "value": 1}]], ids=str
)
def test_null_keys_and_entries_are_damage(entries: list[Any]) -> None:
    """Arrow ends the process when it is handed such a map."""
    pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.int32())]))
    reader = written(pa.array([entries], pairs))
    [field] = Schema.from_arrow(pa.schema([("c", WORDS)])).fields
    columns = dict(zip([leaf.id for leaf in field.leaves()], reader.columns([0, 1]), strict=True))
    leaves = {leaf: Leaf(reader, column) for leaf, column in columns.items()}
    [segment] = LeafFieldReader(field, leaves, 1).segments(RowRanges.of((0, 1)))
    with pytest.raises(CorruptFileError, match="entries of map 'c'"):
        segment.read()


def test_required_values_below_them() -> None:
    strict = pa.map_(pa.string(), pa.field("value", pa.int8(), nullable=False))
    with pytest.raises(InvalidInputError, match=r"c\.entries\.value"):
        write_table(pa.table({"c": pa.array([[("a", None)]], strict)}), version=NEW)
    item = pa.struct([pa.field("x", pa.int8(), nullable=False)])
    array = pa.array([[{"x": None}]], pa.list_(item, 1))
    with pytest.raises(InvalidInputError, match=r"c\.item\.x"):
        write_table(pa.table({"c": array}), version=NEW)


def schema_of(*fields: tuple[int, int, str, str]) -> Schema:
    return Schema.from_proto(
        [
            file_pb2.Field(id=id, parent_id=parent, name=name, logical_type=kind, nullable=True)
            for id, parent, name, kind in fields
        ]
    )


@pytest.mark.parametrize(
    "fields",
    [
        [(0, -1, "m", "map")],
        [(0, -1, "m", "map"), (1, 0, "entries", "int8")],
        [(0, -1, "m", "map"), (1, 0, "entries", "struct"), (2, 1, "key", "int8")],
        [(0, -1, "f", "fixed_size_list:struct:2")],
        [(0, -1, "f", "fixed_size_list:struct:0"), (1, 0, "item", "struct")],
        [(0, -1, "f", "fixed_size_list:struct:x"), (1, 0, "item", "struct")],
    ],
)
def test_malformed_fields_are_damage(fields: list[tuple[int, int, str, str]]) -> None:
    with pytest.raises(CorruptFileError):
        schema_of(*fields)


def test_what_no_reader_can_tell_apart_is_refused() -> None:
    schema = schema_of(
        (0, -1, "l", "list"),
        (1, 0, "item", "fixed_size_list:struct:2"),
        (2, 1, "item", "struct"),
        (3, 2, "x", "int8"),
    )
    with pytest.raises(UnsupportedFormatError, match=r"'l'.*within lists"):
        elements_per_row(next(schema.fields[0].leaf_paths()))


def test_sizes_beyond_all_bounds_are_damage() -> None:
    size = "fixed_size_list:struct:2000000"
    schema = schema_of(
        (0, -1, "f", size),
        (1, 0, "item", "struct"),
        (2, 1, "g", size),
        (3, 2, "item", "struct"),
        (4, 3, "x", "int8"),
    )
    with pytest.raises(CorruptFileError, match="elements per row"):
        elements_per_row(next(schema.fields[0].leaf_paths()))


def test_a_page_of_half_a_row_is_damage() -> None:
    data, _ = write_table(
        pa.table({"c": pa.array([[{"x": 1}] * 3], pa.list_(pa.struct([("x", pa.int8())]), 3))}),
        version=NEW,
    )
    damaged = data.replace(b"fixed_size_list:struct:3", b"fixed_size_list:struct:2")
    with pytest.raises(CorruptFileError, match="not 2 elements per row"):
        read_table(damaged)
