"""Blobs of a table: what lies where, what is refused, and what damage ends in."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.dataset.base import publish
from pilum.dataset.write import Write, write_transaction
from pilum.errors import (
    CommitConflictError,
    CorruptFileError,
    InvalidInputError,
    NotFoundError,
    SchemaMismatchError,
    UnsupportedFormatError,
    UnsupportedTypeError,
)
from pilum.storage.local import LocalStore
from pilum.table.model.names import data_path, sidecar_beside
from pilum.table.write.sidecars import SidecarFiles, discard_file

PLAIN = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
LARGE = [b"a" * 70_000, b"b" * (5 << 20), b"c" * 80_000]


def table_of(values: list[Any], field: pa.Field = PLAIN) -> pa.Table:
    logical = isinstance(field.type, pa.BaseExtensionType)
    column = pilum.blob_array(values) if logical else pa.array(values, field.type)
    return pa.table([column], schema=pa.schema([field]))


def write(path: Path, values: list[Any], **options: Any) -> pilum.LanceDataset:
    options = {"data_storage_version": "2.2"} | options
    field = pilum.blob_field("b") if options["data_storage_version"] == "2.2" else PLAIN
    return pilum.write_dataset(table_of(values, field), path, **options)


def files_of(path: Path) -> list[str]:
    return sorted(
        str(file.relative_to(path)) for file in path.glob("data/**/*") if not file.is_dir()
    )


def sidecars_of(path: Path) -> list[Path]:
    return sorted((path / "data").glob("*/*.blob"))


def read(dataset: pilum.LanceDataset) -> list[bytes | None]:
    values: list[bytes | None] = dataset.to_table(blob_handling="all_binary")["b"].to_pylist()
    return values


def test_the_bits_of_a_number_name_a_sidecar() -> None:
    assert sidecar_beside(data_path("x.lance"), 1) == f"data/x/1{'0' * 31}.blob"
    assert sidecar_beside(data_path("x.lance"), 6) == f"data/x/011{'0' * 29}.blob"


def test_large_blobs_stand_beside_the_data_file(tmp_path: Path) -> None:
    dataset = write(tmp_path / "t", LARGE)
    packed, dedicated = sorted(sidecars_of(tmp_path / "t"), key=lambda file: file.stat().st_size)
    assert packed.read_bytes() == LARGE[0] + LARGE[2]
    assert dedicated.read_bytes() == LARGE[1]
    assert read(dataset) == LARGE


def test_blobs_take_the_room_of_a_descriptor_in_memory(tmp_path: Path) -> None:
    dataset = write(tmp_path / "t", LARGE * 3)
    assert dataset.to_table().nbytes < 1000
    assert sum(batch.num_rows for batch in dataset.to_batches()) == 9


def test_members_of_descriptors_are_columns(tmp_path: Path) -> None:
    dataset = write(tmp_path / "t", [*LARGE, None, b""])
    sizes = [*map(len, LARGE), None, 0]
    assert dataset.to_table(["b.size"])["b.size"].to_pylist() == sizes
    assert dataset.to_table({"kb": "b.size / 1000"}, filter="b.kind = 1").num_rows == 2
    with pytest.raises(InvalidInputError, match="size"):
        dataset.to_table(["b.size"], blob_handling="all_binary")


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_nothing_is_left_of_a_write_that_fails(
    tmp_path: Path, failure: type[BaseException]
) -> None:
    table = table_of(LARGE, pilum.blob_field("b"))

    def batches() -> Iterator[pa.RecordBatch]:
        yield from table.to_batches()
        yield from table.to_batches()
        raise failure

    with pytest.raises(failure):
        pilum.write_dataset(
            batches(), tmp_path / "t", data_storage_version="2.2", max_rows_per_file=2
        )
    assert files_of(tmp_path / "t") == []


def test_nothing_is_left_of_a_commit_that_fails(tmp_path: Path) -> None:
    write(tmp_path / "t", [b"x"])
    store = LocalStore(str(tmp_path / "t"), sync=False)
    table = table_of(LARGE, pilum.blob_field("b"))
    transaction = write_transaction(store, table, None, Write("append"))
    assert len(files_of(tmp_path / "t")) == 4
    pilum.write_dataset({"other": [1]}, tmp_path / "t", mode="overwrite")
    with pytest.raises(CommitConflictError):
        publish(store, transaction)
    assert sidecars_of(tmp_path / "t") == []
    assert len(files_of(tmp_path / "t")) == 2


def test_deleting_a_data_file_deletes_its_sidecars_only(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path), sync=False)
    for name in ("a.lance", "b.lance"):
        SidecarFiles(store, f"data/{name}", 100, allow_uris=False).dedicate(b"x")
    discard_file(store, data_path("a.lance"))
    assert files_of(tmp_path) == [sidecar_beside(data_path("b.lance"), 1)]


@pytest.mark.parametrize(
    ("field", "values", "version", "match"),
    [
        (PLAIN.with_type(pa.binary()), [b"x"], "2.1", "large_binary"),
        (PLAIN.with_type(pa.string()), ["x"], "2.2", "large_binary"),
        (PLAIN.with_type(pa.list_(PLAIN)), [[b"x"]], "2.1", "list"),
        (pilum.blob_field("b"), [b"x"], "2.1", "2.2"),
    ],
)
def test_blobs_that_files_cannot_hold(
    tmp_path: Path, field: pa.Field, values: list[Any], version: str, match: str
) -> None:
    with pytest.raises(UnsupportedTypeError, match=match):
        pilum.write_dataset(table_of(values, field), tmp_path, data_storage_version=version)
    assert files_of(tmp_path) == []


@pytest.mark.parametrize(
    ("data", "uri"), [([None], [None]), ([b"x"], ["file:///x"])], ids=["neither", "both"]
)
def test_a_blob_has_one_source(tmp_path: Path, data: list[Any], uri: list[Any]) -> None:
    columns = [pa.array(data, pa.large_binary()), pa.array(uri, pa.string())]
    struct = pa.StructArray.from_arrays(columns, names=["data", "uri"])
    field = pa.field("b", struct.type, metadata={"ARROW:extension:name": "lance.blob.v2"})
    table = pa.table([struct], schema=pa.schema([field]))
    with pytest.raises(InvalidInputError, match="either"):
        pilum.write_dataset(table, tmp_path, data_storage_version="2.2")


def test_a_struct_that_is_no_blob_does_not_fit(tmp_path: Path) -> None:
    write(tmp_path / "t", [b"x"])
    struct = pa.array([{"data": b"x", "other": 1}])
    with pytest.raises(SchemaMismatchError, match="blobs"):
        pilum.write_dataset(pa.table({"b": struct}), tmp_path / "t", mode="append")


def test_references_must_be_allowed_and_absolute(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="allow_external_blob_outside_bases"):
        write(tmp_path / "t", ["file:///x/y"])
    with pytest.raises(InvalidInputError, match="absolute"):
        write(tmp_path / "t", ["x/y"], allow_external_blob_outside_bases=True)
    with pytest.raises(InvalidInputError, match="absolute"):
        write(tmp_path / "t", ["x/y"], external_blob_mode="ingest")
    with pytest.raises(InvalidInputError, match="ingest"):
        write(
            tmp_path / "t",
            ["file:///x/y"],
            external_blob_mode="ingest",
            allow_external_blob_outside_bases=True,
        )


def test_ingested_references_are_stored(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    uri = (tmp_path / "x").as_uri()
    blobs = [b"in", uri, None, pilum.Blob.from_uri(uri, 2, 3)]
    dataset = write(tmp_path / "t", blobs, external_blob_mode="ingest")
    (tmp_path / "x").unlink()
    assert read(dataset) == [b"in", b"0123456789", None, b"234"]


def test_what_is_referred_to_may_be_gone_or_elsewhere(tmp_path: Path) -> None:
    blobs = [(tmp_path / "gone").as_uri(), "hdfs://bucket/key", b"here"]
    dataset = write(tmp_path / "t", blobs, allow_external_blob_outside_bases=True)
    with pytest.raises(NotFoundError):
        dataset.read_blobs("b", indices=[0])
    with pytest.raises(UnsupportedFormatError, match="hdfs"):
        dataset.read_blobs("b", indices=[1])
    assert dataset.read_blobs("b", indices=[2]) == [(2, b"here")]


def test_a_missing_or_short_sidecar_is_damage(tmp_path: Path) -> None:
    dataset = write(tmp_path / "t", LARGE)
    packed, dedicated = sorted(sidecars_of(tmp_path / "t"), key=lambda file: file.stat().st_size)
    packed.write_bytes(b"a" * 100)
    dedicated.unlink()
    for row in range(3):
        with pytest.raises(CorruptFileError, match=r"\.blob"):
            dataset.read_blobs("b", indices=[row])
    with pytest.raises(CorruptFileError, match=r"\.blob"):
        read(dataset)
    files = dataset.take_blobs("b", indices=[0, 1])
    for file in files:
        assert file is not None
        with pytest.raises(CorruptFileError):
            file.read()


def row_of(
    kind: int = 0, position: int = 0, size: int = 1, blob_id: int = 0, blob_uri: str = ""
) -> bytes:
    """A descriptor as it stands in a page."""
    uri = blob_uri.encode()
    head = struct.pack("<IBQQII", 25 + len(uri), kind, position, size, blob_id, len(uri))
    return head + uri


@pytest.mark.parametrize(
    "claim",
    [
        {"position": 2**63},
        {"position": 2**62, "size": 2**62},
        {"size": 2**64 - 1},
        {"size": 1 << 40},
        {"kind": 9},
        {"kind": 1, "blob_id": 77},
        {"kind": 3, "blob_id": 1, "blob_uri": "file:///xyz"},
        {"kind": 3, "blob_uri": "no absolute"},
        {"kind": 3, "blob_uri": "file://h/xy"},
    ],
)
def test_absurd_descriptors(tmp_path: Path, claim: dict[str, Any]) -> None:
    blob = pilum.Blob.from_uri("file:///abc", 0, 1) if "blob_uri" in claim else b"x"
    write(tmp_path / "t", [blob], allow_external_blob_outside_bases=True)
    honest = row_of(kind=3, blob_uri="file:///abc") if "blob_uri" in claim else row_of()
    (name,) = files_of(tmp_path / "t")
    data = (tmp_path / "t" / name).read_bytes()
    assert data.count(honest) == 1
    (tmp_path / "t" / name).write_bytes(data.replace(honest, row_of(**claim)))
    dataset = pilum.dataset(tmp_path / "t")
    with pytest.raises((CorruptFileError, UnsupportedFormatError)):
        read(dataset)
    with pytest.raises((CorruptFileError, UnsupportedFormatError)):
        dataset.read_blobs("b", indices=[0])


def test_few_bytes_are_not_many_blobs(tmp_path: Path) -> None:
    count, size = 200, 2000
    write(tmp_path / "t", [b"x"] * count)
    (name,) = files_of(tmp_path / "t")
    data = (tmp_path / "t" / name).read_bytes()
    for row in range(count):
        data = data.replace(row_of(position=64 * row), row_of(size=size), 1)
    (tmp_path / "t" / name).write_bytes(data)
    dataset = pilum.dataset(tmp_path / "t")
    assert set(dataset.to_table(["b.size"])["b.size"].to_pylist()) == {size}
    with pytest.raises(CorruptFileError, match="overlap"):
        read(dataset)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_columns_without_blobs_are_refused(tmp_path: Path, version: str) -> None:
    schema = pa.schema([pa.field("n", pa.int64()), PLAIN])
    table = pa.table([[1], [b"x"]], schema=schema)
    dataset = pilum.write_dataset(table, tmp_path, data_storage_version=version)
    for name in ("n", "nope", "b.data"):
        with pytest.raises(InvalidInputError, match=name.split(".")[0]):
            dataset.take_blobs(name, indices=[0])
    selections: list[dict[str, Any]] = [
        {},
        {"ids": [0], "indices": [0]},
        {"indices": [1]},
        {"addresses": [1 << 40]},
    ]
    for selection in selections:
        with pytest.raises(InvalidInputError):
            dataset.take_blobs("b", **selection)
    with pytest.raises(InvalidInputError, match="blob_handling"):
        dataset.to_table(blob_handling="nope")  # type: ignore[arg-type]
    assert dataset.take_blobs("b", indices=[]) == []
    assert dataset.read_blobs("b", ids=[0]) == dataset.read_blobs("b", addresses=[0]) == [(0, b"x")]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_descriptors_are_not_written_to_another_table(tmp_path: Path, version: str) -> None:
    dataset = write(tmp_path / "t", [b"a" * 70_000, None], data_storage_version=version)
    for source in (dataset, dataset.to_table(), dataset.scanner()):
        with pytest.raises(UnsupportedTypeError, match="of another table"):
            pilum.write_dataset(source, tmp_path / "copy")
    with pytest.raises(UnsupportedTypeError, match="of another table"):
        pilum.write_dataset(dataset, dataset, mode="overwrite")
    assert not (tmp_path / "copy").exists()
    copy = dataset.deep_clone(str(tmp_path / "copy"), dataset.version)
    assert [data for _, data in copy.read_blobs("b", indices=[0, 1])] == [b"a" * 70_000, None]
