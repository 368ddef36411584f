"""Tables of the reference implementation: what it wrote we read, what we commit it reads."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pilum.errors import UnsupportedFeatureError, UnsupportedVersionError
from pilum.format.schema import Schema
from pilum.storage.local import LocalStore
from pilum.storage.open import open_store
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.overwrite import Overwrite
from pilum.table.commit.publish import commit
from pilum.table.commit.transaction import Transaction, find_commit, load_transaction
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.commit_handler import list_manifests
from pilum.table.versions.history import list_versions
from pilum.table.write.align import align, new_schema

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

DATA = pa.table(
    {
        "a": pa.array([1, 2, None], pa.int32()),
        "s": ["x", "y", None],
        "p": pa.array([{"x": 1, "y": [1.5]}, None, {"x": 2, "y": None}]),
        "v": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2)),
    },
    schema=pa.schema(
        [
            pa.field("a", pa.int32(), metadata={"unit": "m"}),
            pa.field("s", pa.string()),
            pa.field("p", pa.struct([("x", pa.int64()), ("y", pa.list_(pa.float64()))])),
            pa.field("v", pa.list_(pa.float32(), 2)),
        ],
        metadata={"who": "me"},
    ),
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.fixture
def store(path: str) -> LocalStore:
    """A table of two versions, written by the reference."""
    lance.write_dataset(DATA, path, data_storage_version="2.1")
    lance.write_dataset(DATA.slice(0, 2), path, mode="append")
    return LocalStore(path)


def fragments_of(store: LocalStore) -> tuple[Fragment, ...]:
    return tuple(
        replace(fragment, id=FragmentId(0))
        for fragment in Snapshot.latest(store).manifest.fragments
    )


@pytest.mark.checklist("S2.1")
def test_what_it_wrote_we_read(store: LocalStore, path: str) -> None:
    theirs, ours = lance.dataset(path), Snapshot.latest(store)
    assert ours.manifest.version == theirs.version
    assert ours.num_rows == theirs.count_rows()
    assert ours.schema.arrow.equals(theirs.schema, check_metadata=True)
    assert str(ours.manifest.data_version) == theirs.data_storage_version
    assert ours.manifest.writer_version == ("lance", lance.__version__)
    assert not ours.manifest.is_lossy
    for fragment, other in zip(ours.manifest.fragments, theirs.get_fragments(), strict=True):
        assert fragment.to_json() == other.metadata.to_json()
        assert Fragment.from_json(other.metadata.to_json()) == fragment


def test_we_number_the_fields_as_it_does(store: LocalStore) -> None:
    assert new_schema(DATA.schema) == Snapshot.latest(store).schema


def test_the_history_is_the_same(store: LocalStore, path: str) -> None:
    for ours, theirs in zip(list_versions(store), lance.dataset(path).versions(), strict=True):
        assert ours.version == theirs["version"]
        assert ours.metadata == theirs["metadata"]
        # The reference takes nanoseconds through a float.
        apart = ours.timestamp - theirs["timestamp"].astimezone(UTC)
        assert abs(apart) <= timedelta(microseconds=1)


def test_what_we_commit_it_reads(store: LocalStore, path: str) -> None:
    first, second = fragments_of(store)
    commit(store, Transaction(2, Append((first, second)), properties={"note": "x"}))
    theirs = lance.dataset(path)
    assert theirs.version == 3
    assert [fragment.fragment_id for fragment in theirs.get_fragments()] == [0, 1, 2, 3]
    assert theirs.to_table().num_rows == 10
    assert theirs.read_transaction(3).transaction_properties == {"note": "x"}
    assert theirs.schema.equals(DATA.schema, check_metadata=True)
    theirs.validate()


def test_tables_that_we_create_it_continues(store: LocalStore, tmp_path: Path) -> None:
    path = str(tmp_path / "other")
    commit(LocalStore(path), Transaction(0, Overwrite(new_schema(DATA.schema), (), {"k": "v"})))
    theirs = lance.dataset(path)
    assert theirs.schema.equals(DATA.schema, check_metadata=True)
    assert (theirs.data_storage_version, theirs.config()) == ("2.2", {"k": "v"})
    lance.write_dataset(DATA, path, mode="append")
    assert Snapshot.latest(LocalStore(path)).num_rows == 3


def test_overwriting_goes_on_with_ids_and_config(store: LocalStore, path: str) -> None:
    lance.dataset(path).update_config({"k": "v"})
    snapshot = Snapshot.latest(store)
    assert snapshot.manifest.writer_flags == 8
    commit(store, Transaction(3, Overwrite(snapshot.schema, fragments_of(store)[:1])))
    theirs = lance.dataset(path)
    assert [fragment.fragment_id for fragment in theirs.get_fragments()] == [2]
    assert theirs.config() == {"k": "v"}
    assert theirs.to_table() == DATA


def test_indices_survive_an_append_and_not_an_overwrite(store: LocalStore, path: str) -> None:
    lance.dataset(path).create_scalar_index("a", "BTREE")
    commit(store, Transaction(3, Append(fragments_of(store)[:1])))
    theirs = lance.dataset(path)
    assert [index.name for index in theirs.describe_indices()] == ["a_idx"]
    assert theirs.to_table(filter="a = 2").num_rows == 3
    lance.write_dataset(DATA, path, mode="append")
    lance.dataset(path).optimize.optimize_indices()
    assert lance.dataset(path).to_table(filter="a = 2").num_rows == 4
    latest = Snapshot.latest(store)
    commit(store, Transaction(latest.manifest.version, Overwrite(latest.schema, ())))
    assert not lance.dataset(path).describe_indices()


def test_both_commit_in_turns(store: LocalStore, path: str) -> None:
    (fragment, _) = fragments_of(store)
    for version in range(2, 8, 2):
        commit(store, Transaction(version, Append((fragment,))))
        lance.write_dataset(DATA, path, mode="append")
    assert Snapshot.latest(store).num_rows == lance.dataset(path).count_rows() == 23
    transactions = [
        load_transaction(store, name.version, name.path) for name in list_manifests(store)
    ]
    assert [item.operation.arm for item in transactions] == ["overwrite"] + ["append"] * 7
    assert find_commit(store, transactions[-1].uuid, 0) == 8


@pytest.mark.checklist("S2.9")
def test_it_sees_our_commit_as_a_conflict(store: LocalStore, path: str) -> None:
    stale = lance.dataset(path)
    commit(store, Transaction(2, Overwrite(Snapshot.latest(store).schema, ())))
    with pytest.raises(OSError, match="conflict"):
        lance.LanceDataset.commit(
            path,
            lance.LanceOperation.Append([stale.get_fragments()[0].metadata]),
            read_version=2,
        )


def require_refused(path: str, feature: str) -> None:
    store = open_store(path)
    with pytest.raises(UnsupportedFeatureError, match=feature):
        Snapshot.latest(store)
    latest = list_versions(store)[-1]
    assert latest.metadata == lance.dataset(path).versions()[-1]["metadata"]
    with pytest.raises(UnsupportedFeatureError, match=feature):
        commit(store, Transaction(latest.version, Append(())))


def test_files_of_another_version_cannot_be_added(path: str) -> None:
    lance.write_dataset(DATA.slice(0, 1), path, data_storage_version="2.0")
    store = LocalStore(path)
    snapshot = Snapshot.latest(store)
    assert snapshot.num_rows == 1
    other = replace(snapshot.manifest.fragments[0].files[0], minor=1)
    with pytest.raises(UnsupportedVersionError, match=r"2\.0"):
        commit(store, Transaction(1, Append((Fragment(FragmentId(0), (other,), 3),))))


@pytest.mark.parametrize(
    "data",
    [
        DATA.select(["v", "a"]),
        pa.table({"p": pa.array([{"y": [1.0]}])}),
        pa.table({"s": pa.array(["x"], pa.string_view())}),
        pa.table({"a": [1]}),
        pa.table({"z": [1]}),
        pa.table({"p": pa.array([{"x": 1, "z": 1}])}),
        pa.table({"v": pa.array([[1]], pa.list_(pa.float32(), 1))}),
    ],
    ids=lambda table: str(table.schema.field(0)),
)
def test_we_take_the_same_data(store: LocalStore, path: str, data: pa.Table) -> None:
    def accepts(act: Any) -> bool:
        try:
            act()
        except (OSError, ValueError):
            return False
        return True

    schema: Schema = Snapshot.latest(store).schema
    ours = accepts(lambda: align(data.schema, schema))
    assert ours == accepts(lambda: lance.write_dataset(data, path, mode="append"))


HISTORICAL = Path(os.environ.get("PILUM_HISTORICAL_TABLES", ""))


@pytest.mark.skipif(
    "PILUM_HISTORICAL_TABLES" not in os.environ, reason="PILUM_HISTORICAL_TABLES is not set"
)
@pytest.mark.parametrize(
    ("name", "version", "data_format", "num_rows"),
    [
        ("v0.15.0/v1_no_files.lance", 1, "0.1", 0),
        ("v0.15.0/v1_with_files.lance", 1, "0.1", 3),
        ("v0.15.0/v2_no_files.lance", 1, "2.1", 0),
        ("v0.15.0/v2_with_files.lance", 1, "2.0", 3),
        ("v0.16.0/wrong_data_version_can_fix.lance", 2, "2.0", 3),
        ("v0.16.0/wrong_data_version_no_fix.lance", 2, "0.1", 4),
        ("v0.20.0/old_btree_bitmap_indices.lance", 3, "2.0", 4),
        ("v0.27.1/pq_in_schema", 2, "2.0", 512),
    ],
)
def test_tables_of_old_releases(name: str, version: int, data_format: str, num_rows: int) -> None:
    store = open_store(HISTORICAL / name)
    snapshot = Snapshot.latest(store)
    assert snapshot.manifest.version == version
    assert snapshot.manifest.data_format == data_format
    assert snapshot.num_rows == num_rows == lance.dataset(store.uri).count_rows()
    assert snapshot.schema.arrow == lance.dataset(store.uri).schema
    for found in list_manifests(store):
        assert load_transaction(store, found.version, found.path).version == found.version


@pytest.mark.skipif(
    "PILUM_HISTORICAL_TABLES" not in os.environ, reason="PILUM_HISTORICAL_TABLES is not set"
)
@pytest.mark.parametrize("name", ["v0.7.5/with_deletions", "v0.8.0/migrated_from_v0.7.5"])
def test_old_tables_with_deletions_tell_their_history(name: str) -> None:
    store = open_store(HISTORICAL / name)
    versions = [info.version for info in list_versions(store)]
    assert versions == [info["version"] for info in lance.dataset(store.uri).versions()]
    (fragment, *_) = Snapshot.latest(store).manifest.fragments
    theirs = lance.dataset(store.uri).get_fragments()[0]
    assert (fragment.physical_rows, fragment.num_deleted_rows) == (100, 10)
    assert (theirs.physical_rows, theirs.num_deletions) == (100, 10)
