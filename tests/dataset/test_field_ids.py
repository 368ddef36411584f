"""Ids of fields in tables that never give one again, and primary keys (S2.3)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError
from pilum.storage.open import open_store
from pilum.table.model.features import Feature
from pilum.table.model.manifest_file import (
    encode_manifest_file,
    load_manifest_and_transaction,
    load_named,
)
from pilum.table.versions.commit_handler import list_manifests

KEY = {"lance-schema:unenforced-primary-key": "true"}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table whose ids went up to 9 already."""
    uri = str(tmp_path / "t")
    pilum.write_dataset(pa.table({"a": [1], "b": [2]}), uri)
    store = open_store(uri)
    (name,) = list_manifests(store)
    manifest = replace(load_named(store, name), max_allocated_field_id=9).with_flags()
    _, transaction = load_manifest_and_transaction(store, name.path)
    assert transaction is not None
    data = encode_manifest_file(manifest, transaction.SerializeToString())
    Path(uri, name.path).unlink()
    Path(uri, name.path).write_bytes(data)
    return uri


def ids(uri: str) -> tuple[list[int], int | None]:
    manifest = pilum.dataset(uri).snapshot.manifest
    assert manifest.writer_flags & Feature.NON_REUSABLE_FIELD_IDS
    assert not manifest.reader_flags & Feature.NON_REUSABLE_FIELD_IDS
    return [field.id for field in manifest.schema.walk()], manifest.max_allocated_field_id


def test_ids_are_never_given_again(uri: str) -> None:
    dataset = pilum.dataset(uri)
    dataset.add_columns(pa.field("c", pa.int8()))
    assert ids(uri) == ([0, 1, 10], 10)
    dataset.drop_columns(["c"])
    assert ids(uri) == ([0, 1], 10)
    dataset.alter_columns({"path": "a", "data_type": pa.int8()})
    assert ids(uri) == ([11, 1], 11)
    dataset.checkout_version(1).restore()
    assert ids(uri) == ([0, 1], 11)
    pilum.write_dataset(pa.table({"a": [1], "d": [[2]]}), uri, mode="overwrite")
    assert ids(uri) == ([12, 13, 14], 14)
    more = pa.table({"a": [2], "e": [3]})
    pilum.write_dataset(more, uri, mode="append", schema_mode="merge")
    assert ids(uri) == ([12, 13, 14, 15], 15)
    assert pilum.dataset(uri).to_table(["a", "e"]).to_pydict() == {"a": [1, 2], "e": [None, 3]}


def test_an_overwrite_by_hand_cannot_give_ids_again(uri: str) -> None:
    operation = pilum.LanceOperation.Overwrite(pa.schema([("a", pa.int8())]), [])
    with pytest.raises(InvalidInputError, match="field id 0 was used before"):
        pilum.LanceDataset.commit(uri, operation)


@pytest.mark.reference
def test_the_reference_goes_on_with_the_same_count(uri: str) -> None:
    lance = pytest.importorskip("lance", reason="the reference implementation is not installed")
    pilum.dataset(uri).add_columns({"c": "a"})
    lance.dataset(uri).drop_columns(["c"])
    lance.dataset(uri).add_columns({"d": "a"})
    assert ids(uri) == ([0, 1, 11], 11)
    pilum.dataset(uri).drop_columns(["d"])
    lance.write_dataset(pa.table({"a": [1]}), uri, mode="overwrite")
    assert ids(uri) == ([12], 12)
    pilum.write_dataset(pa.table({"a": [5]}), uri, mode="overwrite")
    assert ids(uri) == ([13], 13)
    assert lance.dataset(uri).to_table().to_pydict() == {"a": [5]}


def keyed(*, nullable: bool = False, key: dict[str, str] | None = None) -> pa.Table:
    field = pa.field("id", pa.int64(), nullable, metadata=KEY if key is None else key)
    return pa.table({"id": [1], "v": [2]}, pa.schema([field, pa.field("v", pa.int64())]))


def test_a_primary_key_is_never_null(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="'id' is in the primary key"):
        pilum.write_dataset(keyed(nullable=True), tmp_path / "no")
    assert not (tmp_path / "no").exists()
    dataset = pilum.write_dataset(keyed(), tmp_path / "t")
    cases: list[Any] = [
        lambda: dataset.alter_columns({"path": "id", "nullable": True}),
        lambda: dataset.add_columns(pa.field("more", pa.int64(), metadata=KEY)),
        lambda: pilum.write_dataset(keyed(nullable=True), dataset, mode="overwrite"),
    ]
    for case in cases:
        with pytest.raises(InvalidInputError, match="is in the primary key"):
            case()
    assert pilum.dataset(dataset.uri).version == 1


def test_a_primary_key_stays_what_it_is(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(keyed(), tmp_path / "t")
    with pytest.raises(InvalidInputError, match="cannot be changed"):
        dataset.update_field_metadata({"id": {next(iter(KEY)): None}})
    dataset.alter_columns({"path": "id", "name": "key"})
    dataset.alter_columns({"path": "key", "data_type": pa.int32()})
    assert dataset.lance_schema.stored.field("key").is_key
    dataset.drop_columns(["key"])
    assert not any(field.is_key for field in dataset.lance_schema.stored.fields)


@pytest.mark.parametrize("value", ["maybe", "false", ""])
def test_a_key_must_be_told_plainly(tmp_path: Path, value: str) -> None:
    dataset = pilum.write_dataset(keyed(key={}), tmp_path / "t")
    for name in (
        "lance-schema:unenforced-primary-key",
        "lance-schema:unenforced-primary-key:position",
    ):
        with pytest.raises(InvalidInputError, match="does not say whether it is in the key"):
            dataset.update_field_metadata({"id": {name: value}})
    dataset.update_field_metadata({"id": KEY})
    assert dataset.lance_schema.stored.field("id").is_key
