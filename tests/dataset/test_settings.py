"""Config and metadata of a table, its schema and its fields (S2.1, S2.9)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum import LanceDataset, LanceOperation
from pilum.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from pilum.table.model.features import Feature

SCHEMA = pa.schema(
    [
        pa.field("a", pa.int64(), metadata={"unit": "m"}),
        pa.field("s", pa.struct([pa.field("x y", pa.list_(pa.struct([("z", pa.int8())])))])),
    ],
    metadata={"made by": "hand"},
)
TABLE = pa.table({"a": [1, 2], "s": [{"x y": [{"z": 3}]}, None]}, SCHEMA)


@pytest.fixture
def dataset(tmp_path: Path) -> LanceDataset:
    return pilum.write_dataset(TABLE, tmp_path / "t")


def reopened(dataset: LanceDataset) -> LanceDataset:
    found = pilum.dataset(dataset.uri)
    assert found.version == dataset.version
    assert found.to_table().equals(TABLE)
    return found


def test_settings_of_the_table(dataset: LanceDataset) -> None:
    assert dataset.update_config({"a": "1", "b": "2"}) == {"a": "1", "b": "2"}
    assert dataset.update_config({"a": None, "c": "3", "no": None}) == {"b": "2", "c": "3"}
    assert reopened(dataset).config() == {"b": "2", "c": "3"}
    assert dataset.update_config({"d": "", "e": None}, replace=True) == {"d": ""}
    assert dataset.update_config({}) == {"d": ""}
    dataset.delete_config_keys(["d", "no"])
    assert (dataset.version, reopened(dataset).config()) == (6, {})
    assert dataset.checkout_version(3).config() == {"b": "2", "c": "3"}


def test_the_flag_follows_the_settings(dataset: LanceDataset) -> None:
    def flags() -> tuple[int, int]:
        manifest = dataset.snapshot.manifest
        return manifest.reader_flags, manifest.writer_flags

    assert flags() == (0, 0)
    dataset.update_config({"a": "1"})
    assert flags() == (0, Feature.TABLE_CONFIG)
    dataset.insert(TABLE)
    assert flags() == (0, Feature.TABLE_CONFIG)
    dataset.update_config({}, replace=True)
    assert flags() == (0, 0)


def test_notes_and_metadata_of_the_schema(dataset: LanceDataset) -> None:
    assert dataset.update_metadata({"who": "ß💧"}) == {"who": "ß💧"}
    assert dataset.update_schema_metadata({"k": "v"}) == {"made by": "hand", "k": "v"}
    assert dataset.update_metadata({"x": "y"}, replace=True) == {"x": "y"}
    assert dataset.schema.metadata == {b"made by": b"hand", b"k": b"v"}
    assert dataset.update_schema_metadata({"made by": None}) == {"k": "v"}
    assert dataset.update_schema_metadata({}, replace=True) == {}
    found = reopened(dataset)
    assert (found.metadata, found.schema.metadata) == ({"x": "y"}, None)


def test_metadata_of_fields(dataset: LanceDataset) -> None:
    dataset.update_field_metadata({"a": {"k": "v"}, "s.x y": {"of": "list"}, "s": {}})
    assert dataset.schema.field("a").metadata == {b"unit": b"m", b"k": b"v"}
    member = dataset.schema.field("s").type.field(0)
    assert member.metadata == {b"of": b"list"}
    dataset.update_field_metadata({"s.`x y`.item.z": {"deep": "1"}, "a": {"unit": None}})
    dataset.update_field_metadata({"`s`.`x y`": {"only": "this", "not": None}}, replace=True)
    found = reopened(dataset).schema
    assert found.field("a").metadata == {b"k": b"v"}
    member = found.field("s").type.field(0)
    assert member.metadata == {b"only": b"this"}
    assert member.type.value_type.field(0).metadata == {b"deep": b"1"}


def test_encodings_of_later_rows(dataset: LanceDataset) -> None:
    """Metadata that steer the writer hold from then on."""
    dataset.update_field_metadata({"a": {"lance-encoding:compression": "none"}})
    dataset.insert(TABLE)
    assert dataset.to_table()["a"].to_pylist() == [1, 2, 1, 2]


def test_deprecated_names(dataset: LanceDataset) -> None:
    with pytest.deprecated_call(match="update_schema_metadata"):
        dataset.replace_schema_metadata({"k": "v"})
    with pytest.deprecated_call(match="update_field_metadata"):
        dataset.replace_field_metadata("a", {"k": "w"})
    assert dataset.schema_metadata == {"k": "v"}
    assert dataset.schema.field("a").metadata == {b"k": b"w"}


def test_by_hand(dataset: LanceDataset) -> None:
    update = LanceOperation.UpdateMap
    operation = LanceOperation.UpdateConfig(
        update({"c": "1"}), update({"n": "2"}), update({"s": "3"}, replace=True), {0: update({})}
    )
    found = LanceDataset.commit(dataset, operation, read_version=1)
    assert (found.config(), found.metadata, found.schema_metadata) == (
        {"c": "1"},
        {"n": "2"},
        {"s": "3"},
    )
    bad = LanceOperation.UpdateConfig(field_metadata_updates={99: update({"k": "v"})})
    with pytest.raises(InvalidInputError, match=r"no fields \[99\]"):
        LanceDataset.commit(dataset, bad, read_version=2)
    assert dataset.latest_version == 2


@pytest.mark.parametrize("values", [{"a": 1}, {1: "a"}, {"a": "\ud800"}, ["a"], "ab", None])
def test_what_is_no_text(dataset: LanceDataset, values: Any) -> None:
    for call in (
        dataset.update_config,
        dataset.update_metadata,
        dataset.update_schema_metadata,
        lambda values: dataset.update_field_metadata({"a": values}),
    ):
        with pytest.raises(InvalidInputError):
            call(values)
    for keys in ("ab", [1], {"a": 1}.values()):
        with pytest.raises(InvalidInputError):
            dataset.delete_config_keys(keys)  # type: ignore[arg-type]
    assert dataset.latest_version == 1


@pytest.mark.parametrize("path", ["no", "", "s.no", "s.x y.z", "A", "s..x y", "a.", "`a", "s`a`"])
def test_fields_that_are_not_there(dataset: LanceDataset, path: str) -> None:
    with pytest.raises(ColumnNotFoundError, match="no field"):
        dataset.update_field_metadata({path: {"k": "v"}})


@pytest.mark.parametrize(
    ("path", "metadata"),
    [
        ("s", {"lance-encoding:packed": "true"}),
        ("s", {"packed": "true"}),
        ("b", {"lance-encoding:blob": "true"}),
    ],
)
def test_stored_values_stay_readable(tmp_path: Path, path: str, metadata: dict[str, Any]) -> None:
    table = pa.table(
        {"s": [{"x": 1, "y": 2}], "b": pa.array([b"bytes"], pa.large_binary())},
    )
    dataset = pilum.write_dataset(table, tmp_path / "t")
    with pytest.raises(InvalidInputError, match="read in another way"):
        dataset.update_field_metadata({path: metadata})
    assert pilum.dataset(tmp_path / "t").to_table().equals(table)


def test_the_key_of_a_table_stays(tmp_path: Path) -> None:
    key = "lance-schema:unenforced-primary-key"
    field = pa.field("a", pa.int64(), False, metadata={key: "true"})
    dataset = pilum.write_dataset(pa.table({"a": [1]}, pa.schema([field])), tmp_path / "t")
    dataset.update_field_metadata({"a": {"k": "v"}})
    changes: list[dict[str, str | None]] = [
        {key: None},
        {key: "false"},
        {f"{key}:position": "1"},
    ]
    for values in changes:
        with pytest.raises(InvalidInputError, match="key of a table"):
            dataset.update_field_metadata({"a": values})


def test_what_can_become_a_key(dataset: LanceDataset, tmp_path: Path) -> None:
    """What the reference would refuse to open is not written."""
    key = "lance-schema:unenforced-primary-key"
    with pytest.raises(InvalidInputError, match="must not be nullable"):
        dataset.update_field_metadata({"a": {key: "true"}})
    with pytest.raises(UnsupportedFeatureError, match="clustering"):
        dataset.update_field_metadata({"a": {"lance-schema:unenforced-clustering-key": "1"}})
    schema = pa.schema([pa.field("a", pa.int64(), False)])
    other = pilum.write_dataset(pa.table({"a": [1]}, schema), tmp_path / "other")
    other.update_field_metadata({"a": {key: "true"}})
    assert other.lance_schema.stored.field("a").metadata == {key: "true"}


def test_who_comes_later_does_not_undo(dataset: LanceDataset) -> None:
    mine, other = pilum.dataset(dataset.uri), pilum.dataset(dataset.uri)
    other.update_config({"a": "other"})
    other.update_schema_metadata({"k": "other"})
    with pytest.raises(CommitConflictError, match="a key of the config") as caught:
        mine.update_config({"a": None})
    assert not caught.value.retryable
    with pytest.raises(CommitConflictError, match="the metadata of the schema"):
        mine.update_schema_metadata({"j": "mine"})
    with pytest.raises(CommitConflictError, match="the metadata"):
        LanceDataset.commit(mine, LanceOperation.Restore(1), read_version=1)
    mine.update_config({"b": "mine"})
    assert mine.config() == {"a": "other", "b": "mine"}
    assert mine.schema_metadata == {"made by": "hand", "k": "other"}
    pilum.write_dataset(TABLE, dataset.uri, mode="overwrite")
    with pytest.raises(CommitConflictError, match="overwrite of version 5"):
        mine.update_field_metadata({"a": {"k": "v"}})
    assert mine.update_config({"c": "late"}) == {"a": "other", "b": "mine", "c": "late"}


def test_writers_at_the_same_moment(dataset: LanceDataset) -> None:
    """Of those who set one key one wins; those who set others all do."""
    won: list[str] = []
    lost: list[Exception] = []

    def update(number: int) -> None:
        handle = pilum.dataset(dataset.uri, version=1)
        handle.update_config({f"own {number}": "x"})
        handle = handle.checkout_version(1)
        try:
            handle.update_config({"shared": str(number)})
            won.append(str(number))
        except CommitConflictError as error:
            lost.append(error)

    threads = [Thread(target=update, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 4)
    own = {f"own {number}": "x" for number in range(5)}
    assert pilum.dataset(dataset.uri).config() == {**own, "shared": won[0]}


def test_a_stale_handle_changes_settings_although_versions_since_are_gone(tmp_path: Path) -> None:
    data = pilum.write_dataset(TABLE, tmp_path / "t")
    data.update_config({"a": "1", "b": "1"})
    stale = [data.checkout_version(data.version) for _ in range(8)]
    data.update_config({"b": "2"})
    data.update_field_metadata({"a": {"unit": "cm"}})
    data.insert(TABLE)
    data.cleanup_old_versions(timedelta(0))
    assert [found["version"] for found in data.versions()] == [5]
    changes: list[Callable[[LanceDataset], object]] = [
        lambda one: one.update_config({"b": "3"}),
        lambda one: one.update_config({"a": "3"}, replace=True),
        lambda one: one.update_field_metadata({"a": {"unit": "km"}}),
        lambda one: one.delete("a = 1"),
    ]
    for lost in changes:
        with pytest.raises(CommitConflictError, match="version 3 is gone"):
            lost(stale.pop())
    stale.pop().update_config({"a": "3"})
    stale.pop().update_metadata({"note": "x"})
    stale.pop().update_field_metadata({"s": {"is": "a struct"}})
    stale.pop().insert(TABLE)
    found = pilum.dataset(tmp_path / "t")
    assert found.config() == {"a": "3", "b": "2"}
    assert found.metadata == {"note": "x"}
    assert found.schema.field("a").metadata == {b"unit": b"cm"}
    assert found.schema.field("s").metadata == {b"is": b"a struct"}
    assert found.count_rows() == 6


def test_a_stale_append_does_not_follow_an_overwrite_that_is_gone(tmp_path: Path) -> None:
    stale = pilum.write_dataset(TABLE, tmp_path / "t")
    pilum.write_dataset(TABLE.slice(1), tmp_path / "t", mode="overwrite")
    data = pilum.dataset(tmp_path / "t")
    data.update_config({"a": "1"})
    data.cleanup_old_versions(timedelta(0))
    with pytest.raises(CommitConflictError, match="version 2 is gone"):
        stale.insert(TABLE)
    assert pilum.dataset(tmp_path / "t").count_rows() == 1
