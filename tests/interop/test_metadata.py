"""What is not values: names, metadata, extension types, nullability."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from interop.comparison import assert_same

import pilum
from pilum.errors import UnsupportedTypeError

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")
bfloat16_array = pytest.importorskip("lance.arrow").bfloat16_array

pytestmark = pytest.mark.reference

LIBRARIES = pytest.mark.parametrize(
    ("writer", "reader"), [(pilum, lance), (lance, pilum), (pilum, pilum)], ids=["wr", "rw", "ww"]
)


def written(writer: Any, table: pa.Table, path: Path, mode: str = "create") -> None:
    writer.write_dataset(table, str(path), data_storage_version="2.1", mode=mode)


@LIBRARIES
def test_metadata_of_fields_and_schema(tmp_path: Path, writer: Any, reader: Any) -> None:
    inner = pa.field("x", pa.int32(), metadata={"deep": "ß"})
    item = pa.field("item", pa.int8(), False, metadata={"of": "an item"})
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), False, metadata={"unit": "m", "": "no key"}),
            pa.field("st", pa.struct([inner]), metadata={"empty": ""}),
            pa.field("l", pa.list_(item)),
        ],
        metadata={"who": "me", "💧": "x" * 5000},
    )
    table = pa.table([[1, 2], [{"x": 1}, None], [[1], []]], schema=schema)
    written(writer, table, tmp_path / "t")
    assert_same(reader.dataset(tmp_path / "t").to_table(), table)


@LIBRARIES
@pytest.mark.parametrize(
    "array",
    [
        pa.array([uuid.UUID(int=number).bytes for number in range(5)], pa.uuid()),
        pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1, None], pa.int8())),
    ],
    ids=lambda array: array.type.extension_name,
)
def test_extension_types(tmp_path: Path, writer: Any, reader: Any, array: pa.Array) -> None:
    """As themselves, or as what they are stored as with metadata that name them."""
    table = pa.table({"e": array})
    written(writer, table, tmp_path / "t")
    found = reader.dataset(tmp_path / "t").to_table()
    field, column = found.schema.field("e"), found["e"].combine_chunks()
    if not isinstance(column, pa.ExtensionArray):
        assert field.metadata[b"ARROW:extension:name"].decode() == array.type.extension_name
        column = pa.ExtensionArray.from_storage(array.type, column)
    assert column.type == array.type
    assert column.storage.equals(array.storage)


@LIBRARIES
def test_extension_types_whose_parameters_arrow_hides(
    tmp_path: Path, writer: Any, reader: Any
) -> None:
    storage = pa.array([[1, 2, 3, 4], [5, 6, 7, 8]], pa.list_(pa.float32(), 4))
    kind = pa.fixed_shape_tensor(pa.float32(), [2, 2])
    table = pa.table({"e": pa.ExtensionArray.from_storage(kind, storage)})
    written(writer, table, tmp_path / "t")
    assert pilum.dataset(tmp_path / "t").schema.field("e").metadata[
        b"ARROW:extension:metadata"
    ] == (b'{"shape":[2,2]}')
    found = reader.dataset(tmp_path / "t").to_table()
    again = reader.write_dataset(found, tmp_path / "again").to_table()
    assert again.column("e").cast(storage.type).chunk(0).equals(storage)


@LIBRARIES
def test_names(tmp_path: Path, writer: Any, reader: Any) -> None:
    names = ["", " ", "a b", "A", "a", "ä/💧", '"', "select", "n" * 500]
    members = pa.struct([(name, pa.int8()) for name in names])
    table = pa.table({name: pa.array([1, None]) for name in names if name}).append_column(
        "st", pa.array([dict.fromkeys(names, 1), None], members)
    )
    written(writer, table, tmp_path / "t")
    assert_same(reader.dataset(tmp_path / "t").to_table(), table)


@LIBRARIES
@pytest.mark.checklist("S1.4")
def test_two_hundred_columns(tmp_path: Path, writer: Any, reader: Any) -> None:
    table = pa.table({f"column {number}": pa.array([number, None]) for number in range(200)})
    written(writer, table, tmp_path / "t")
    found = reader.dataset(tmp_path / "t")
    assert_same(found.to_table(), table)
    wanted = ["column 150", "column 3"]
    assert_same(found.to_table(columns=wanted), table.select(wanted))


@LIBRARIES
def test_views_come_back_as_plain_strings(tmp_path: Path, writer: Any, reader: Any) -> None:
    views = {"s": pa.string_view(), "b": pa.binary_view(), "l": pa.list_(pa.string_view())}
    plain = {"s": pa.string(), "b": pa.binary(), "l": pa.list_(pa.string())}
    rows = {"s": ["x", None, "y" * 20], "b": [b"", b"z" * 30, None], "l": [["a"], None, ["b" * 99]]}
    table = pa.table(rows, schema=pa.schema(list(views.items())))
    written(writer, table, tmp_path / "t")
    assert_same(
        reader.dataset(tmp_path / "t").to_table(), pa.table(rows, pa.schema(list(plain.items())))
    )


def test_json_is_refused(tmp_path: Path) -> None:
    """The reference stores it in a binary form that we do not have, and reads no other."""
    values = pa.array(['{"a": 1}', None, "[]"], pa.json_())
    nested = pa.ListArray.from_arrays(pa.array([0, 3], pa.int32()), values)
    for table in (pa.table({"j": values}), pa.table({"j": nested})):
        written(lance, table, tmp_path / "theirs", mode="overwrite")
        with pytest.raises(UnsupportedTypeError, match="JSON"):
            pilum.dataset(tmp_path / "theirs").to_table()
        with pytest.raises(UnsupportedTypeError, match=r"JSON.*as text"):
            written(pilum, table, tmp_path / "ours")


@LIBRARIES
def test_vectors_of_brain_floats(tmp_path: Path, writer: Any, reader: Any) -> None:
    """The reference names their items by the extension type, and has one for each of them."""
    values = bfloat16_array([1.0, None, 2.5, 4.0])
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(values, 2)})
    written(writer, table, tmp_path / "t")
    written(reader, table, tmp_path / "t", mode="append")
    found = reader.dataset(tmp_path / "t").to_table()["v"].combine_chunks().flatten()
    storage = found.storage if isinstance(found, pa.ExtensionArray) else found
    assert storage.equals(pa.concat_arrays([values.storage, values.storage]))
