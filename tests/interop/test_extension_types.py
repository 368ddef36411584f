"""Extension types of Arrow come back as themselves, wherever columns are given."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from interop.comparison import assert_same

import pilum
from pilum.errors import CorruptFileError, SchemaMismatchError
from pilum.file import LanceFileReader, LanceFileWriter
from pilum.format.types import restored_schema, restored_table

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")
bfloat16_array = pytest.importorskip("lance.arrow").bfloat16_array

pytestmark = pytest.mark.reference

LIBRARIES = pytest.mark.parametrize(
    ("writer", "reader"), [(pilum, lance), (lance, pilum), (pilum, pilum)], ids=["wr", "rw", "ww"]
)
VERSIONS = pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])


class Metres(pa.ExtensionType):  # type: ignore[misc]
    """A type of the user's own, with a parameter."""

    def __init__(self, scale: str) -> None:
        self.scale = scale
        super().__init__(pa.int64(), "test.lengths")

    def __arrow_ext_serialize__(self) -> bytes:
        return self.scale.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Metres:
        return cls(serialized.decode())


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    pa.register_extension_type(Metres(""))
    yield
    pa.unregister_extension_type("test.lengths")


def lengths(scale: str = "µ") -> pa.Array:
    return pa.ExtensionArray.from_storage(Metres(scale), pa.array([10, None, 30], pa.int64()))


def columns() -> dict[str, pa.Array]:
    """Of every kind of place that a type can stand in."""
    make = pa.ExtensionArray.from_storage
    ids = [None, *(uuid.UUID(int=number).bytes for number in (7, 8))]
    plain = {
        "uuid": make(pa.uuid(), pa.array(ids, pa.binary(16))),
        "bool8": make(pa.bool8(), pa.array([0, 1, None], pa.int8())),
        "tensor": make(
            pa.fixed_shape_tensor(pa.float32(), [2, 2]),
            pa.array([[1, 2, 3, 4], None, [5, 6, 7, 8]], pa.list_(pa.float32(), 4)),
        ),
        "opaque": make(pa.opaque(pa.string(), "name", "vendor"), pa.array(["a", None, "b"])),
        "own": lengths(),
        "bfloat16": bfloat16_array([1.0, None, 2.5]),
    }
    named = [pa.field(name, array.type) for name, array in plain.items()]
    structs = pa.StructArray.from_arrays(list(plain.values()), fields=named)
    offsets = pa.array([0, 1, 1, 3], pa.int32())
    lists = {f"list of {name}": pa.ListArray.from_arrays(offsets, plain[name]) for name in plain}
    deep = {"structs": structs, "list of structs": pa.ListArray.from_arrays(offsets, structs)}
    return plain | lists | deep


@LIBRARIES
@VERSIONS
def test_everywhere(tmp_path: Path, writer: Any, reader: Any, version: str) -> None:
    table = pa.table(columns())
    writer.write_dataset(table, tmp_path / "t", data_storage_version=version)
    dataset = reader.dataset(tmp_path / "t")
    assert dataset.schema.equals(table.schema)
    assert dataset.scanner().projected_schema.equals(table.schema)
    assert_same(dataset.to_table(), table)
    assert_same(pa.Table.from_batches(dataset.to_batches()), table)
    assert_same(dataset.scanner().to_reader().read_all(), table)
    assert_same(dataset.take([2, 0]), table.take([2, 0]))
    assert_same(dataset.head(2), table.slice(0, 2))
    fragment = dataset.get_fragments()[0]
    assert fragment.schema.equals(table.schema)
    assert_same(fragment.to_table(), table)
    assert_same(fragment.take([1]), table.take([1]))


@LIBRARIES
def test_members_and_computed_columns(tmp_path: Path, writer: Any, reader: Any) -> None:
    table = pa.table(columns())
    writer.write_dataset(table, tmp_path / "t")
    dataset = reader.dataset(tmp_path / "t")
    assert dataset.to_table(columns=["structs.own"]).schema.types == [Metres("µ")]
    wanted = {"renamed": "own", "member": "structs.uuid", "more": "own + 1"}
    for found in (dataset.to_table(columns=wanted), dataset.take([0, 1, 2], columns=wanted)):
        assert found.schema.types == [Metres("µ"), pa.uuid(), pa.int64()]
        assert found["renamed"].combine_chunks().equals(table["own"].combine_chunks())
        assert found["more"].to_pylist() == [11, None, 31]


@LIBRARIES
def test_filters_see_storage(tmp_path: Path, writer: Any, reader: Any) -> None:
    table = pa.table(columns())
    writer.write_dataset(table, tmp_path / "t")
    dataset = reader.dataset(tmp_path / "t")
    eighth = f"uuid = X'{uuid.UUID(int=8).hex}'"
    for condition, rows in (("own > 10", [2]), (eighth, [2]), ("structs.own = 10", [0])):
        assert_same(dataset.to_table(filter=condition), table.take(rows))
    if reader is pilum:  # the reference leaves such columns out of what Arrow's filters can name
        assert_same(dataset.to_table(filter=pc.field("own") < 20), table.take([0]))


@LIBRARIES
@VERSIONS
def test_arrays_of_the_type_are_appended(
    tmp_path: Path, writer: Any, reader: Any, version: str
) -> None:
    table = pa.table(columns())
    writer.write_dataset(table, tmp_path / "t", data_storage_version=version)
    again = writer.dataset(tmp_path / "t").to_table()
    reader.write_dataset(again, tmp_path / "t", mode="append")
    assert_same(reader.dataset(tmp_path / "t").to_table(), pa.concat_tables([table, table]))


def test_storage_is_appended(tmp_path: Path) -> None:
    """The reference refuses this at the top level; Spark has nothing but storage."""
    pilum.write_dataset(pa.table({"own": lengths()}), tmp_path / "t")
    pilum.write_dataset(pa.table({"own": [40]}), tmp_path / "t", mode="append")
    found = lance.dataset(tmp_path / "t").to_table()["own"]
    assert found.type == Metres("µ")
    assert found.to_pylist() == [10, None, 30, 40]


@pytest.mark.parametrize("library", [pilum, lance], ids=["ours", "reference"])
@pytest.mark.parametrize(
    ("table", "added"),
    [
        (lengths, lambda: lengths("k")),
        (lengths, lambda: pa.array([1, 2, 3], pa.opaque(pa.int64(), "a", "b"))),
        (lambda: lengths().storage, lengths),
    ],
    ids=["parameter", "type", "none"],
)
def test_another_type_is_refused(
    tmp_path: Path, library: Any, table: Callable[[], pa.Array], added: Callable[[], pa.Array]
) -> None:
    library.write_dataset(pa.table({"a": table()}), tmp_path / "t")
    with pytest.raises(SchemaMismatchError if library is pilum else OSError, match="extension"):
        library.write_dataset(pa.table({"a": added()}), tmp_path / "t", mode="append")


@LIBRARIES
def test_single_files(tmp_path: Path, writer: Any, reader: Any) -> None:
    libraries = {pilum: (LanceFileReader, LanceFileWriter)}
    files = pytest.importorskip("lance.file")
    libraries[lance] = (files.LanceFileReader, files.LanceFileWriter)
    table, path = pa.table(columns()), str(tmp_path / "f.lance")
    with libraries[writer][1](path) as file:
        file.write_batch(table)
    opened = libraries[reader][0](path)
    assert opened.metadata().schema.equals(table.schema)
    assert_same(opened.read_all().to_table(), table)
    assert_same(opened.take_rows([1, 2]).to_table(), table.take([1, 2]))
    batches = list(opened.read_all(batch_size=2).to_batches())
    assert_same(pa.Table.from_batches(batches), table)


def test_types_that_nobody_registered(tmp_path: Path) -> None:
    table = pa.table({"own": lengths(), "n": pa.nulls(3)})
    pilum.write_dataset(table, tmp_path / "t")
    pa.unregister_extension_type("test.lengths")
    try:
        field = pilum.dataset(tmp_path / "t").to_table().schema.field("own")
    finally:
        pa.register_extension_type(Metres(""))
    assert field.type == pa.int64()
    assert field.metadata == {
        b"ARROW:extension:name": b"test.lengths",
        b"ARROW:extension:metadata": "µ".encode(),
    }


def test_a_type_that_contradicts_its_storage() -> None:
    metadata = {"ARROW:extension:name": "arrow.uuid", "ARROW:extension:metadata": ""}
    schema = pa.schema([pa.field("a", pa.int32(), metadata=metadata)])
    with pytest.raises(CorruptFileError, match=r"column 'a'.*Uuid"):
        restored_schema(schema)


def test_a_table_without_such_types_is_given_as_it_is() -> None:
    table = pa.table({"n": pa.chunked_array([[1], [2]])})
    assert restored_table(table) is table


@LIBRARIES
def test_vectors_of_brain_floats(tmp_path: Path, writer: Any, reader: Any) -> None:
    """The reference names their items by the extension type, and has one for each of them."""
    values = bfloat16_array([1.0, None, 2.5, 4.0])
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(values, 2)})
    writer.write_dataset(table, tmp_path / "t")
    reader.write_dataset(reader.dataset(tmp_path / "t").to_table(), tmp_path / "t", mode="append")
    found = reader.dataset(tmp_path / "t").to_table()
    assert_same(found, pa.concat_tables([table, table]))
