"""Blobs written ahead of their rows: descriptors, the files they lead to, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.blob import BlobDescriptor, BlobDescriptorArrayBuilder
from pilum.errors import (
    InvalidInputError,
    UnsupportedFeatureError,
    UnsupportedTypeError,
)
from pilum.file import LanceFileReader, LanceFileSession
from pilum.format.blobs import BlobKind

FIELD = BlobDescriptorArrayBuilder("b").field
EMPTY = dict.fromkeys((member.name for member in FIELD.type), None)
LARGEST = 2**64 - 1


@pytest.fixture
def session(tmp_path: Path) -> LanceFileSession:
    return LanceFileSession(tmp_path)


def rows(**members: Any) -> pa.Array:
    return pa.array([None, EMPTY | members], FIELD.type)


def write(session: LanceFileSession, column: pa.Array, version: str = "2.2") -> None:
    with session.open_writer("f.lance", version=version) as file:
        file.write_batch(pa.record_batch([column], schema=pa.schema([FIELD])))


def packed(blob_id: int, position: int, size: int) -> dict[str, Any]:
    return EMPTY | {"kind": 1, "blob_id": blob_id, "blob_size": size, "position": position}


PAYLOADS = {
    "binary": pa.array([b"ab", None, b"", b"cde"]),
    "large": pa.array([b"ab", None, b"", b"cde"], pa.large_binary()),
    "view": pa.array([b"ab", None, b"", b"cde"], pa.binary_view()),
    "slice": pa.array([b"before", b"ab", None, b"", b"cde", b"behind"]).slice(1, 4),
    "chunks": pa.chunked_array([[b"ab", None], [], [b"", b"cde"]], pa.binary()),
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_packed_file_holds_payloads_one_behind_the_other(
    session: LanceFileSession, name: str
) -> None:
    writer = session.open_packed_blob_writer("data/f.lance", 6)
    writer.write_blob(memoryview(b"first"))
    writer.write_blobs(PAYLOADS[name])
    writer.write_blob(bytearray(b"x"))
    assert not session.contains(writer.path)
    column = writer.finish_array("b")
    assert writer.path == f"data/f/011{'0' * 29}.blob"
    assert session.read_range(writer.path, 0, 11) == b"firstabcdex"
    assert column.to_pylist() == [
        packed(6, 0, 5),
        packed(6, 5, 2),
        None,
        packed(6, 7, 0),
        packed(6, 7, 3),
        packed(6, 10, 1),
    ]
    assert (writer.field, writer.field.metadata) == (FIELD, FIELD.metadata)


def test_items_of_one_size_are_payloads(session: LanceFileSession) -> None:
    writer = session.open_packed_blob_writer("f.lance", 1)
    writer.write_blobs(pa.array([b"abc", None, b"def"], pa.binary(3)))
    assert [item.size for item in writer.finish()] == [3, 0, 3]
    assert session.read_range(writer.path, 0, 6) == b"abcdef"


def test_descriptors_of_a_packed_file(session: LanceFileSession) -> None:
    writer = session.open_packed_blob_writer("f.lance", 2)
    writer.write_blobs(pa.array([b"ab", None]))
    found = writer.finish()
    assert found == [BlobDescriptor(BlobKind.PACKED, 2, 0, 2), BlobDescriptor()]
    assert pickle.loads(pickle.dumps(found)) == found
    with pytest.raises(InvalidInputError, match="finish_array"):
        _ = writer.field


def test_a_packed_file_of_nothing(session: LanceFileSession) -> None:
    writer = session.open_packed_blob_writer("f.lance", 1)
    assert len(writer.finish_array("b")) == 0
    assert session.contains(writer.path)


def test_a_dedicated_file_holds_one_payload(session: LanceFileSession) -> None:
    writer = session.open_dedicated_blob_writer("data/f.lance", 2)
    writer.write(b"one ")
    writer.write(b"payload")
    assert (writer.blob_id, writer.finish()) == (2, BlobDescriptor(BlobKind.DEDICATED, 2, 0, 11))
    assert session.read_range(writer.path, 0, 11) == b"one payload"


def test_a_finished_writer_takes_nothing(session: LanceFileSession) -> None:
    writer = session.open_packed_blob_writer("f.lance", 1)
    writer.finish()
    dedicated = session.open_dedicated_blob_writer("f.lance", 2)
    dedicated.finish()
    again: list[Callable[[], Any]] = [
        lambda: writer.finish(),
        lambda: writer.finish_array("b"),
        lambda: writer.write_blob(b"a"),
        lambda: writer.write_blobs(pa.array([None], pa.binary())),
        lambda: dedicated.finish(),
        lambda: dedicated.write(b"a"),
    ]
    for call in again:
        with pytest.raises(InvalidInputError, match="is finished"):
            call()


def test_a_writer_that_is_aborted_leaves_nothing(session: LanceFileSession) -> None:
    writer = session.open_packed_blob_writer("f.lance", 1)
    writer.write_blob(b"abc")
    writer.abort()
    assert session.list() == []
    with pytest.raises(InvalidInputError, match="is finished"):
        writer.finish()


@pytest.mark.parametrize("path", ["", ".lance", "data/.lance", "data/f", "f.txt"])
def test_files_beside_no_data_file_are_refused(session: LanceFileSession, path: str) -> None:
    for method in (session.open_packed_blob_writer, session.open_dedicated_blob_writer):
        with pytest.raises(InvalidInputError, match="not the path of a data file"):
            method(path, 1)


@pytest.mark.parametrize("number", [0, -1, 2**32, 1.5])
def test_numbers_that_name_no_file_are_refused(session: LanceFileSession, number: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: session.open_packed_blob_writer("f.lance", number),
        lambda: BlobDescriptor(BlobKind.PACKED, number, 0, 1),
        lambda: BlobDescriptorArrayBuilder("b").append_dedicated(number, 1),
        lambda: BlobDescriptorArrayBuilder("b").extend_packed(number, [0], [1]),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError, match="blob_id"):
            call()


def test_payloads_that_are_not_bytes_are_refused(session: LanceFileSession) -> None:
    writer = session.open_packed_blob_writer("f.lance", 1)
    for value in ("text", None, [1, 2]):
        with pytest.raises(TypeError):
            writer.write_blob(value)  # type: ignore[arg-type]
    for array in (pa.array(["text"]), [b"a"], pa.chunked_array([[1]])):
        with pytest.raises(InvalidInputError, match="expected an array of binary"):
            writer.write_blobs(array)
    assert writer.finish() == []


def test_a_column_of_all_kinds() -> None:
    builder = BlobDescriptorArrayBuilder("b")
    builder.append_null()
    builder.extend_packed(3, [0, 7], [5, LARGEST - 7])
    builder.append_inline(b"in")
    builder.append_dedicated(4, 9)
    builder.extend([BlobDescriptor(), BlobDescriptor(BlobKind.PACKED, 3, 1, 2)])
    builder.append(BlobDescriptor(BlobKind.DEDICATED, 5, 0, 0))
    column = builder.finish()
    assert column.type == builder.field.type
    assert column.to_pylist() == [
        None,
        packed(3, 0, 5),
        packed(3, 7, LARGEST - 7),
        EMPTY | {"kind": 0, "data": b"in"},
        EMPTY | {"kind": 2, "blob_id": 4, "blob_size": 9},
        None,
        packed(3, 1, 2),
        EMPTY | {"kind": 2, "blob_id": 5, "blob_size": 0},
    ]
    for call in (builder.finish, builder.append_null):
        with pytest.raises(InvalidInputError, match="'b' are finished"):
            call()


def test_descriptors_that_make_no_sense_are_refused() -> None:
    builder = BlobDescriptorArrayBuilder("b")
    with pytest.raises(InvalidInputError, match="1 offsets and 2 sizes"):
        builder.extend_packed(1, [0], [1, 2])
    for offsets, sizes in (([LARGEST], [1]), ([-1], [1]), ([0], [2**64])):
        with pytest.raises(InvalidInputError, match="64 bits"):
            builder.extend_packed(1, offsets, sizes)
    with pytest.raises(TypeError, match="found int"):
        builder.extend([BlobDescriptor(), 3])  # type: ignore[list-item]
    for arguments in (("../a.blob", 0, 3), ("a.blob", -1, 3), ("a.blob", LARGEST, 1)):
        with pytest.raises(InvalidInputError):
            builder.append_managed(*arguments)
    with pytest.raises(InvalidInputError, match="null"):
        BlobDescriptor(size=3)
    with pytest.raises(InvalidInputError, match="position"):
        BlobDescriptor(BlobKind.DEDICATED, 1, 2, 3)
    with pytest.raises(InvalidInputError, match="packed or dedicated"):
        BlobDescriptor(BlobKind.INLINE, 1, 2, 3)
    assert len(builder.finish()) == 0


def test_a_file_holds_what_descriptors_say(session: LanceFileSession, tmp_path: Path) -> None:
    builder = BlobDescriptorArrayBuilder("b")
    builder.extend_packed(3, [7, LARGEST - 5], [2, 5])
    builder.append_inline(b"in")
    builder.append_null()
    builder.append_dedicated(LARGEST >> 32, 9)
    builder.append_inline(b"")
    write(session, builder.finish())
    (column,) = LanceFileReader(tmp_path / "f.lance").read_all().to_table().columns
    found = [row and (row["kind"], row["blob_id"], row["size"]) for row in column.to_pylist()]
    assert found == [(1, 3, 2), (1, 3, 5), (0, 0, 2), None, (2, LARGEST >> 32, 9), (0, 0, 0)]
    places = [row["position"] for row in column.to_pylist() if row]
    assert places[:2] == [7, LARGEST - 5]
    assert session.read_range("f.lance", places[2], 2) == b"in"


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no kind": ({"blob_id": 1}, InvalidInputError, "kind 255"),
    "unknown": ({"kind": 9}, InvalidInputError, "kind 9"),
    "managed with a base": ({"kind": 5, "uri": "a"}, UnsupportedFeatureError, "managed in base"),
    "managed": ({"kind": 4, "uri": "a"}, UnsupportedFeatureError, "managed"),
    "a reference": ({"kind": 3, "uri": "file:///a"}, UnsupportedFeatureError, "external"),
    "no data": ({"kind": 0}, InvalidInputError, "no data"),
    "no size": ({"kind": 2, "blob_id": 1}, InvalidInputError, "no blob_size"),
    "no file": ({"kind": 2, "blob_size": 1}, InvalidInputError, "no blob_id"),
    "file 0": ({"kind": 2, "blob_id": 0, "blob_size": 1}, InvalidInputError, "no blob_id"),
    "no position": ({"kind": 1, "blob_id": 1, "blob_size": 1}, InvalidInputError, "no position"),
    "too far": (packed(1, LARGEST, 1), InvalidInputError, "64 bits"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rows_are_refused(session: LanceFileSession, name: str) -> None:
    members, error, text = WRONG[name]
    with pytest.raises(error, match=f"'b', row 1 of a batch: .*{text}"):
        write(session, rows(**members))
    assert session.list() == []


def test_descriptors_are_for_single_files_of_version_2_2(
    session: LanceFileSession, tmp_path: Path
) -> None:
    column = rows(**packed(1, 0, 3))
    with pytest.raises(UnsupportedTypeError, match=r"version 2\.2"):
        write(session, column, "2.1")
    plain = pa.record_batch([pilum.blob_array([b"a"])], schema=pa.schema([pilum.blob_field("b")]))
    with (
        pytest.raises(UnsupportedTypeError, match="BlobDescriptorArrayBuilder"),
        session.open_writer("f.lance") as file,
    ):
        file.write_batch(plain)
    # As batches: a stream would ask a registered type of that name, which may know other forms.
    batches = [pa.record_batch([column], schema=pa.schema([FIELD]))]
    with pytest.raises(UnsupportedTypeError, match=r"'b': .*open_writer"):
        pilum.write_dataset(batches, tmp_path / "t", data_storage_version="2.2")
    pilum.write_dataset([plain], tmp_path / "t")
    with pytest.raises(UnsupportedTypeError, match=r"'b': .*open_writer"):
        pilum.write_dataset(batches, tmp_path / "t", mode="append")


def test_nested_and_long_columns(session: LanceFileSession, tmp_path: Path) -> None:
    writer = session.open_packed_blob_writer("f.lance", 1)
    sizes = np.arange(70_000) % 5
    data = pa.array([b"x" * size for size in sizes.tolist()])
    writer.write_blobs(data)
    column = pa.StructArray.from_arrays([writer.finish_array("b")], fields=[FIELD])
    with session.open_writer("f.lance", version="2.2") as file:
        for start in range(0, 70_000, 9_999):
            file.write_batch(pa.record_batch({"s": column.slice(start, 9_999)}))
    found = LanceFileReader(tmp_path / "f.lance").read_all().to_table()["s"].combine_chunks()
    assert found.field("b").field("size").to_pylist() == sizes.tolist()
    assert found.field("b").field("position").to_pylist() == (np.cumsum(sizes) - sizes).tolist()
