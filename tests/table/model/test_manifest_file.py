"""The bytes of a manifest file."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedFormatError
from pilum.format.fields import Field, FieldId
from pilum.format.pb import table_pb2, transaction_pb2
from pilum.format.schema import Schema
from pilum.storage.local import LocalStore
from pilum.table.commit.operations.overwrite import Overwrite
from pilum.table.commit.transaction import Transaction
from pilum.table.model.fragment import DataFile, Fragment, FragmentId
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest import Manifest, WriterVersion
from pilum.table.model.manifest_file import (
    encode_manifest_file,
    load_manifest,
    load_manifest_and_transaction,
)

UUID = "f0d59673-0123-4567-89ab-cdef01234567"
PATH = "010011110000001100001001afdac142db8e2281c1ecb04650.lance"
SCHEMA = Schema((Field("a", FieldId(0), "int32", metadata={}),), {})
FRAGMENT = Fragment(FragmentId(0), (DataFile(PATH, (FieldId(0),), (0,), 2, 2, size_bytes=342),), 5)
SMALLEST = Manifest(
    schema=SCHEMA,
    fragments=Fragments([FRAGMENT]),
    version=1,
    timestamp_ns=1_700_000_000_987_654_321,
    data_format="2.2",
    max_fragment_id=0,
    transaction_file=f"0-{UUID}.txn",
    writer_version=WriterVersion("lance", "14.0.2"),
)
TRANSACTION = Transaction(0, Overwrite(SCHEMA, (FRAGMENT,)), uuid=UUID)


def golden() -> bytes:
    """The smallest manifest of the reference, written down byte by byte."""
    field = bytes.fromhex("0a19 120161 20ffffffffffffffffff01 2a05696e743332 3001 3801")
    fragment = (
        b"\x12\x47\x0a\x38" + PATH.encode() + bytes.fromhex("120100 1a0100 2002 2802 30d602 2005")
    )
    overwrite = b"\x0a\x4b" + fragment + b"\x12\x19" + field[2:]
    transaction = b"\x12\x24" + UUID.encode() + b"\xb2\x06\x68" + overwrite
    manifest = (
        field
        + b"\x12\x4b"
        + fragment
        + bytes.fromhex("1801 3a0c 0880e2cfaa06 10b1d1f9d603 5800")
        + b"\x62\x2a"
        + f"0-{UUID}.txn".encode()
        + b"\x6a\x0f\x0a\x05lance\x12\x0614.0.2"
        + b"\x7a\x0c\x0a\x05lance\x12\x032.2"
        + b"\xb8\x01\x00"
    )
    return (
        struct.pack("<I", len(transaction))
        + transaction
        + struct.pack("<I", len(manifest))
        + manifest
        + struct.pack("<QHH4s", 4 + len(transaction), 0, 2, b"LANC")
    )


def load(folder: Path, data: bytes) -> Manifest:
    store = LocalStore(str(folder), sync=False)
    store.put("manifest", data)
    return load_manifest(store, "manifest")


@pytest.mark.checklist("S2.1")
def test_the_smallest_manifest_has_the_bytes_of_the_reference() -> None:
    data = encode_manifest_file(SMALLEST, TRANSACTION.to_bytes())
    assert data == golden()
    assert len(data) == 369


@pytest.mark.checklist("S2.1")
def test_a_number_beyond_its_range_is_not_written() -> None:
    """The highest id of a damaged manifest leaves none for new fragments."""
    with pytest.raises(InvalidInputError, match="version 1 cannot be written: no number is left"):
        encode_manifest_file(replace(SMALLEST, max_fragment_id=2**32), b"")


def test_it_reads_back(tmp_path: Path) -> None:
    assert load(tmp_path, golden()) == SMALLEST


def test_the_transaction_is_inside(tmp_path: Path) -> None:
    load(tmp_path, golden())
    _, message = load_manifest_and_transaction(LocalStore(str(tmp_path)), "manifest")
    assert message is not None
    assert message.SerializeToString() == TRANSACTION.to_bytes()


def test_the_old_place_of_the_transaction_is_known(tmp_path: Path) -> None:
    old = golden().replace(b"\xb8\x01\x00", b"\xa8\x01\x00")
    load(tmp_path, old)
    _, message = load_manifest_and_transaction(LocalStore(str(tmp_path)), "manifest")
    assert message is not None
    assert message.uuid == UUID


def test_a_transaction_that_is_too_long_stays_outside(tmp_path: Path) -> None:
    data = encode_manifest_file(SMALLEST, bytes((20 << 20) + 1))
    assert len(data) < 1000
    load(tmp_path, data)
    assert load_manifest_and_transaction(LocalStore(str(tmp_path)), "manifest")[1] is None


def test_an_unreadable_transaction_does_not_hide_the_table(tmp_path: Path) -> None:
    assert load(tmp_path, encode_manifest_file(SMALLEST, b"\xff" * 50)) == SMALLEST


def test_bytes_before_the_sections_are_allowed(tmp_path: Path) -> None:
    message = SMALLEST.fragments.encoded() + SMALLEST.to_proto().SerializeToString()
    data = b"dictionary" + struct.pack("<I", len(message)) + message
    data += struct.pack("<QHH4s", 10, 9, 9, b"LANC")
    assert load(tmp_path, data) == SMALLEST


@given(
    num_fragments=st.integers(0, 900),
    flags=st.integers(0, 2**64 - 1),
    max_fragment_id=st.none() | st.integers(5000, 2**32 - 1),
    config=st.dictionaries(st.text(), st.text(), max_size=3),
    branch=st.none() | st.text(),
    names=st.lists(st.text(), max_size=3),
    timestamp_ns=st.integers(0, 2**62),
)
def test_whatever_a_manifest_says_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    num_fragments: int,
    flags: int,
    max_fragment_id: int | None,
    config: dict[str, str],
    branch: str | None,
    names: list[str],
    timestamp_ns: int,
) -> None:
    indices = [table_pb2.IndexMetadata(name=name, fields=[0]) for name in names]
    manifest = Manifest(
        schema=SCHEMA,
        fragments=Fragments(
            Fragment(FragmentId(number), FRAGMENT.files, number) for number in range(num_fragments)
        ),
        version=7,
        timestamp_ns=timestamp_ns,
        max_fragment_id=max_fragment_id,
        config=config,
        table_metadata=config,
        reader_flags=flags,
        writer_flags=flags // 2,
        branch=branch,
        index_section=table_pb2.IndexSection(indices=indices).SerializeToString(),
    )
    folder = tmp_path_factory.mktemp("manifest")
    assert load(folder, encode_manifest_file(manifest, TRANSACTION.to_bytes())) == manifest


@pytest.mark.parametrize("end", range(len(golden())))
def test_every_truncation_is_damage(tmp_path: Path, end: int) -> None:
    with pytest.raises(CorruptFileError) as caught:
        load(tmp_path, golden()[:end])
    assert "manifest" in str(caught.value)


@given(position=st.integers(0, len(golden()) - 1), value=st.integers(0, 255))
def test_a_changed_byte_is_damage_or_another_manifest(
    tmp_path_factory: pytest.TempPathFactory, position: int, value: int
) -> None:
    data = bytearray(golden())
    data[position] = value
    with suppress(CorruptFileError, UnsupportedFormatError):
        load(tmp_path_factory.mktemp("changed"), bytes(data))


@given(st.binary(max_size=300))
def test_noise_is_damage(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    with pytest.raises(CorruptFileError):
        load(tmp_path_factory.mktemp("noise"), data + struct.pack("<QHH4s", 2**63, 0, 2, b"LANC"))


def test_transactions_are_read_as_they_are_written() -> None:
    message = transaction_pb2.Transaction.FromString(TRANSACTION.to_bytes())
    assert message.WhichOneof("operation") == "overwrite"
    assert message.overwrite.fragments[0].physical_rows == 5
