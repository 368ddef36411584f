"""Data that cannot be written: one clear error, and not a file or folder more than before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from faults.helpers import listing, refused

import pilum
from pilum.errors import (
    DatasetAlreadyExistsError,
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedTypeError,
)

MODES = ("create", "append", "overwrite")


def _fixed_size_lists(item: pa.Array, size: int) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(item, size)


UNSUPPORTED = {
    "dictionary of list": pa.DictionaryArray.from_arrays([0, 1, 0], pa.array([[1], [2]])),
    "keys of a map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32(), keys_sorted=True)),
    "interval": pa.array([pa.MonthDayNano([1, 2, 3])]),
    "dense_union": pa.UnionArray.from_dense(
        pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]
    ),
    "sparse_union": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
    "run_end_encoded": pc.run_end_encode(pa.array([1, 1, 2])),
    "list_view": pa.array([[1]], pa.list_view(pa.int32())),
    "large_list_view": pa.array([[1]], pa.large_list_view(pa.int32())),
    "decimal32": pa.array([1], pa.int8()).cast(pa.decimal32(9, 0)),
    "decimal64": pa.array([1], pa.int8()).cast(pa.decimal64(18, 0)),
    "fixed_size_binary[0]": pa.array([b""], pa.binary(0)),
    "fixed_size_list": pa.array([[]], pa.list_(pa.int32(), 0)),
    "lists of string": _fixed_size_lists(pa.array(["x", "y"]), 2),
    "lists of fixed_size_list": _fixed_size_lists(_fixed_size_lists(pa.array([{"x": 1}]), 1), 1),
    "lists of list": _fixed_size_lists(pa.array([[1]]), 1),
    "lists of null": _fixed_size_lists(pa.nulls(2), 2),
}
WRAPPED: dict[str, Callable[[pa.Array], pa.Array]] = {
    "plain": lambda array: array,
    "empty": lambda array: array.slice(0, 0),
    "in a struct": lambda array: pa.StructArray.from_arrays([array], ["inner"]),
    "in a list": lambda array: pa.ListArray.from_arrays([0, len(array)], array),
}


@pytest.mark.parametrize("wrap", WRAPPED)
@pytest.mark.parametrize("name", UNSUPPORTED)
def test_types_that_the_format_does_not_hold(tmp_path: Path, name: str, wrap: str) -> None:
    array = WRAPPED[wrap](UNSUPPORTED[name])
    table = pa.table({"good": pa.array(range(len(array))), "odd": array})
    for mode in MODES:
        with refused(UnsupportedTypeError, name, "odd", within=tmp_path):
            pilum.write_dataset(table, tmp_path / "t", mode=mode)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_types_do_not_harm_a_table(tmp_path: Path, name: str) -> None:
    pilum.write_dataset(pa.table({"odd": [1]}), tmp_path / "t")
    table = pa.table({"odd": UNSUPPORTED[name]})
    with refused(SchemaMismatchError, "odd", within=tmp_path):
        pilum.write_dataset(table, tmp_path / "t", mode="append")
    with refused(UnsupportedTypeError, "odd", within=tmp_path):
        pilum.write_dataset(table, tmp_path / "t", mode="overwrite")


@pytest.mark.parametrize(
    "array",
    [
        pa.array([{}, None], pa.struct([])),
        pa.array([[{}]], pa.list_(pa.struct([]))),
        pa.StructArray.from_arrays(
            [pa.array([{}, {}], pa.struct([]))], ["x"], mask=pa.array([True, False])
        ),
    ],
    ids=lambda array: str(array.type),
)
def test_structs_without_members_that_would_lose_their_nulls(
    tmp_path: Path, array: pa.Array
) -> None:
    (tmp_path / "t" / "data").mkdir(parents=True)  # found when values come, not before
    with refused(UnsupportedTypeError, "without members", "'c", within=tmp_path):
        pilum.write_dataset({"c": array}, tmp_path / "t")


PACKED = {"lance-encoding:packed": "true"}
BLOB = {"lance-encoding:blob": "true"}
BLOB_V2 = {"ARROW:extension:name": "lance.blob.v2"}
SPECIAL = {
    "packed booleans": (pa.struct([("x", pa.bool_())]), PACKED, "'x'"),
    "packed lists": (pa.struct([("x", pa.list_(pa.int32()))]), PACKED, "'x'"),
    "packed structs": (pa.struct([("x", pa.struct([("y", pa.int32())]))]), PACKED, "'x'"),
    "packed nulls": (pa.struct([("x", pa.null())]), PACKED, "'x'"),
    "packed strings": (pa.struct([("x", pa.string())]), PACKED, "2.2"),
    "wide packed structs": (pa.struct([("x", pa.binary(256))]), PACKED, "256"),
    "blobs of binary": (pa.binary(), BLOB, "large_binary"),
    "blobs of text": (pa.large_string(), BLOB, "large_binary"),
    "a blob in a packed struct": (
        pa.struct([pa.field("x", pa.large_binary(), metadata=BLOB)]),
        PACKED,
        "blob",
    ),
    "blobs of version 2": (pilum.blob_field("b").type.storage_type, BLOB_V2, "2.2"),
}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("name", SPECIAL)
def test_storage_that_metadata_ask_for(tmp_path: Path, name: str, nested: bool) -> None:
    """Refused are fields that the reference could not read back."""
    kind, metadata, named = SPECIAL[name]
    field = pa.field("odd", kind, metadata=metadata)
    if nested:
        field = pa.field("outer", pa.struct([field]))
    table = pa.schema([field]).empty_table()
    for mode in MODES:
        with refused(UnsupportedTypeError, named, "odd", within=tmp_path):
            pilum.write_dataset(table, tmp_path / "t", mode=mode, data_storage_version="2.1")


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_members_of_packed_structs_that_are_null(tmp_path: Path, version: str) -> None:
    struct = pa.array([{"x": 1, "y": 2}, None, {"x": None, "y": 2}])
    field = pa.field("odd", struct.type, metadata=PACKED)
    table = pa.table([struct], schema=pa.schema([field]))
    with pytest.raises(UnsupportedTypeError, match="'x'"):
        pilum.write_dataset(table, tmp_path / "t", data_storage_version=version)


APPENDED: dict[str, tuple[pa.Table, str]] = {
    "another type": (pa.table({"a": ["x"], "s": ["x"]}), "'a'"),
    "a narrower type": (pa.table({"a": pa.array([1], pa.int32()), "s": ["x"]}), "'a'"),
    "an unknown column": (pa.table({"a": [1], "z": [1]}), "'z'"),
    "no required column": (pa.table({"s": ["x"]}), "'a'"),
    "nulls in a required column": (pa.table({"a": [1, None], "s": ["x", "y"]}), "'a'"),
    "an unknown member": (pa.table({"a": [1], "st": [{"x": 1, "z": 2}]}), "'st.z'"),
    "another item": (pa.table({"a": [1], "l": [[0.5]]}), "'l.item'"),
    "another dimension": (
        pa.table({"a": [1], "v": pa.array([[1.0]], pa.list_(pa.float32(), 1))}),
        "'v'",
    ),
    "nothing in common": (pa.table({"q": [1]}), "'q'"),
}


@pytest.mark.parametrize("what", APPENDED)
def test_an_append_that_does_not_fit(tmp_path: Path, what: str) -> None:
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), False),
            ("s", pa.string()),
            ("st", pa.struct([("x", pa.int64())])),
            ("l", pa.list_(pa.int64())),
            ("v", pa.list_(pa.float32(), 2)),
        ]
    )
    pilum.write_dataset(schema.empty_table(), tmp_path / "t")
    data, text = APPENDED[what]
    with refused(SchemaMismatchError, text, within=tmp_path):
        pilum.write_dataset(data, tmp_path / "t", mode="append")


def test_a_stream_that_goes_wrong_late(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), False), ("s", pa.string())])

    def produce() -> Iterator[pa.RecordBatch]:
        good = pa.record_batch([list(range(1000)), ["x"] * 1000], schema=schema)
        yield from [good] * 30
        nulls = pa.record_batch([pa.array([None] * 3, pa.int64()), ["x"] * 3], ["a", "s"])
        yield pa.RecordBatch.from_arrays(nulls.columns, schema=schema)

    pilum.write_dataset(schema.empty_table(), tmp_path / "t")
    for mode in ("append", "overwrite"):
        (tmp_path / "t" / "data").mkdir(exist_ok=True)
        with refused(SchemaMismatchError, "'a'", within=tmp_path):
            pilum.write_dataset(produce(), tmp_path / "t", mode=mode, max_rows_per_file=7000)


def test_a_source_that_fails(tmp_path: Path) -> None:
    """Its own error is given on, and nothing of the half is left."""

    def produce() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": list(range(5000))})
        raise ZeroDivisionError("the source")

    for mode in ("create", "append"):
        with pytest.raises(ZeroDivisionError, match="the source"):
            pilum.write_dataset(produce(), tmp_path / "t", mode=mode, max_rows_per_file=1000)
        assert not [name for name, data in listing(tmp_path).items() if data is not None]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (pa.schema([]), "column"),
        (pa.schema([("a", pa.int8()), ("a", pa.int8())]), "'a'"),
        (pa.schema([("a.b", pa.int8())]), "'a.b'"),
        (pa.schema([("_rowid", pa.uint64())]), "_rowid"),
        (pa.schema([("s", pa.struct([("x", pa.int8()), ("x", pa.int8())]))]), "'x'"),
    ],
)
def test_schemas_that_make_no_table(tmp_path: Path, schema: pa.Schema, text: str) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
    with refused(InvalidInputError, text, within=tmp_path):
        pilum.write_dataset(batch, tmp_path / "t")


def test_a_table_that_is_there_already(tmp_path: Path) -> None:
    pilum.write_dataset({"a": [1]}, tmp_path / "t")
    with refused(DatasetAlreadyExistsError, str(tmp_path / "t"), "append", within=tmp_path):
        pilum.write_dataset({"a": [1]}, tmp_path / "t")


def test_a_place_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidInputError, match="is a file, not a folder"):
        pilum.write_dataset({"a": [1]}, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "x"
