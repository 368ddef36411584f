"""Commits by hand: detached ones, several at once, every operation, and reading them back."""

from __future__ import annotations

import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum import LanceDataset, LanceOperation, Transaction
from pilum.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    PilumError,
    VersionNotFoundError,
)
from pilum.fragment import write_fragments


@pytest.fixture
def dataset(tmp_path: Path) -> LanceDataset:
    """Versions 1, 2 and 3 with rows up to their number."""
    for number in (1, 2, 3):
        found = pilum.write_dataset(
            {"a": [number]}, tmp_path / "t", mode="append", commit_message=f"row {number}"
        )
    return found


def values(dataset: LanceDataset) -> list[int]:
    return sorted(dataset.to_table()["a"].to_pylist())


def append(dataset: LanceDataset, value: int) -> LanceOperation.Append:
    return LanceOperation.Append(write_fragments({"a": [value]}, dataset))


def files(dataset: LanceDataset) -> set[Path]:
    return {path for path in Path(dataset.uri).rglob("*") if path.is_file()}


def test_a_detached_version_is_no_part_of_history(dataset: LanceDataset) -> None:
    first = LanceDataset.commit(dataset, append(dataset, 8), read_version=2, detached=True)
    assert first.version >= 1 << 63
    assert values(first) == [1, 2, 8]
    assert first.get_version()["metadata"]["total_rows"] == "3"
    second = LanceDataset.commit(
        first, LanceOperation.Delete([], [0], "a = 1"), read_version=first.version, detached=True
    )
    assert values(second) == [2, 8]
    assert dataset.latest_version == 3
    assert [entry["version"] for entry in dataset.versions()] == [1, 2, 3]
    assert values(pilum.dataset(dataset.uri, second.version)) == [2, 8]
    assert values(pickle.loads(pickle.dumps(second))) == [2, 8]
    operations = [one and type(one.operation).__name__ for one in second.get_transactions(3)]
    assert operations == ["Delete", "Append", "Append"]
    dataset.insert({"a": [4]})
    assert (dataset.version, values(dataset)) == (4, [1, 2, 3, 4])
    for read_version in (1, 2):  # nothing conflicts
        other = LanceOperation.Overwrite(dataset.lance_schema, [])
        LanceDataset.commit(dataset, other, read_version=read_version, detached=True)


def test_a_detached_version_needs_a_table_with_new_names(tmp_path: Path) -> None:
    overwrite = LanceOperation.Overwrite(pa.schema([("a", pa.int64())]), [])
    with pytest.raises(DatasetNotFoundError):
        LanceDataset.commit(tmp_path / "new", overwrite, detached=True)
    assert not (tmp_path / "new").exists()
    old = pilum.write_dataset({"a": [1]}, tmp_path / "t", enable_v2_manifest_paths=False)
    operation = append(old, 2)
    before = files(old)
    with pytest.raises(InvalidInputError, match="migrate_manifest_paths_v2"):
        LanceDataset.commit(old, operation, read_version=1, detached=True)
    with pytest.raises(VersionNotFoundError):
        LanceDataset.commit(old, operation, read_version=7, detached=True)
    assert files(old) == before
    old.migrate_manifest_paths_v2()
    assert values(LanceDataset.commit(old, operation, read_version=1, detached=True)) == [1, 2]


def test_history_does_not_go_on_from_a_detached_version(dataset: LanceDataset) -> None:
    detached = LanceDataset.commit(dataset, append(dataset, 8), read_version=3, detached=True)
    before = dataset.latest_version
    calls: list[Any] = [
        lambda: LanceDataset.commit(detached, append(dataset, 9), read_version=detached.version),
        lambda: detached.delete("a = 1"),
        lambda: detached.update_config({"a": "b"}),
        lambda: detached.create_branch("dev"),
        lambda: detached.shallow_clone(f"{dataset.uri}-2", detached.version),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError):
            call()
    assert dataset.latest_version == before
    detached.restore()
    assert (detached.version, values(detached)) == (4, [1, 2, 3, 8])


def test_old_names_are_migrated(tmp_path: Path) -> None:
    for value in (1, 2, 3):
        dataset = pilum.write_dataset(
            {"a": [value]}, tmp_path / "t", mode="append", enable_v2_manifest_paths=False
        )
    versions = tmp_path / "t" / "_versions"
    listed = dataset.versions()
    assert sorted(path.name for path in versions.glob("*.manifest")) == [
        f"{number}.manifest" for number in (1, 2, 3)
    ]
    dataset.create_branch("dev").insert({"a": [9]})
    dataset.migrate_manifest_paths_v2()
    after = sorted(path.name for path in versions.glob("*.manifest"))
    assert after == [f"{2**64 - 1 - number}.manifest" for number in (3, 2, 1)]
    assert dataset.versions() == listed
    dataset.migrate_manifest_paths_v2()
    dataset.insert({"a": [4]})
    assert (dataset.version, values(dataset)) == (4, [1, 2, 3, 4])


def test_a_migration_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    for value in (1, 2, 3):
        pilum.write_dataset(
            {"a": [value]}, tmp_path / "t", mode="append", enable_v2_manifest_paths=False
        )
    versions = tmp_path / "t" / "_versions"
    for number in (3, 2):
        data = (versions / f"{number}.manifest").read_bytes()
        (versions / f"{2**64 - 1 - number}.manifest").write_bytes(data)
    (versions / "3.manifest").unlink()  # of version 2 both names are there
    dataset = pilum.dataset(tmp_path / "t")
    assert [entry["version"] for entry in dataset.versions()] == [1, 2, 3]
    assert values(dataset.checkout_version(1)) == [1]
    dataset.insert({"a": [4]})
    dataset.migrate_manifest_paths_v2()
    assert not list(versions.glob("?.manifest"))
    assert values(pilum.dataset(tmp_path / "t")) == [1, 2, 3, 4]


def test_several_appends_become_one_version(dataset: LanceDataset) -> None:
    transactions = [
        Transaction(2, append(dataset, 4), transaction_properties={"a": "1", "b": "1"}),
        Transaction(3, append(dataset, 5), transaction_properties={"a": "2"}),
    ]
    found = LanceDataset.commit_batch(dataset, transactions)
    assert (found["dataset"].version, values(found["dataset"])) == (4, [1, 2, 3, 4, 5])
    assert found["merged"].transaction_properties == {"a": "2", "b": "1"}
    assert found["dataset"].read_transaction(4) == found["merged"]
    detached = LanceDataset.commit_batch(
        dataset,
        (Transaction(3, append(dataset, number)) for number in [6]),  # type: ignore[arg-type]
        detached=True,
    )
    assert values(detached["dataset"]) == [1, 2, 3, 6]
    for bad in ([], [Transaction(3, LanceOperation.Restore(1))], [append(dataset, 1)]):
        with pytest.raises(InvalidInputError, match="transactions"):
            LanceDataset.commit_batch(dataset, bad)  # type: ignore[arg-type]


def test_messages_and_properties_are_read_back(dataset: LanceDataset) -> None:
    found = [one and one.transaction_properties for one in dataset.get_transactions()]
    assert found == [{"__lance_commit_message": f"row {number}"} for number in (3, 2, 1)]
    LanceDataset.commit(dataset, append(dataset, 4), read_version=3, commit_message="by hand")
    dataset.insert({"a": [5]}, transaction_properties={"k": "v"}, commit_message="m")
    first, second = dataset.get_transactions(2)
    assert first
    assert first.transaction_properties == {"k": "v", "__lance_commit_message": "m"}
    assert second == dataset.read_transaction(4)
    assert second
    assert (second.read_version, second.transaction_properties) == (
        3,
        {"__lance_commit_message": "by hand"},
    )
    assert [one and one.read_version for one in dataset.checkout_version(2).get_transactions()] == [
        1,
        0,
    ]
    with pytest.raises(VersionNotFoundError):
        dataset.read_transaction(9)
    for bad in (0, -1, "1", None):
        with pytest.raises(InvalidInputError):
            dataset.read_transaction(bad)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError):
            dataset.get_transactions(bad)  # type: ignore[arg-type]


def test_every_operation_is_read_back_and_committed_again(dataset: LanceDataset) -> None:
    copy = dataset.deep_clone(f"{dataset.uri}-copy", 3)
    dataset.add_columns({"b": "a + 1"})
    dataset.alter_columns({"path": "b", "name": "c"})
    dataset.drop_columns(["c"])
    dataset.update({"a": "a + 10"}, where="a = 1")
    dataset.delete("a = 2")
    dataset.optimize.compact_files()
    dataset.update_config({"x": "y", "z": None})
    dataset.update_field_metadata({"a": {"unit": "m"}})
    dataset.checkout_version(3).restore()
    dataset.checkout_latest()
    for version in range(4, dataset.version + 1):
        transaction = dataset.read_transaction(version)
        assert transaction
        kind = type(transaction.operation)
        if kind is LanceOperation.BaseOperation:  # ids were reserved
            with pytest.raises(InvalidInputError, match="operation"):
                LanceDataset.commit(copy, transaction)
            continue
        names = {path.name for path in Path(copy.uri, "data").iterdir()}
        for path in Path(dataset.uri, "data").iterdir():
            if path.name not in names:
                (Path(copy.uri, "data") / path.name).write_bytes(path.read_bytes())
        for path in Path(dataset.uri, "_deletions").glob("*"):
            target = Path(copy.uri, "_deletions", path.name)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(path.read_bytes())
        transaction.read_version = copy.latest_version
        transaction.uuid = Transaction(0, transaction.operation).uuid
        copy = LanceDataset.commit(copy, transaction)
        expected = dataset.checkout_version(version)
        assert copy.to_table().equals(expected.to_table()), kind
        assert copy.config() == expected.config()
        assert copy.lance_schema == expected.lance_schema


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (LanceOperation.Clone(True, None, 1, "x", None), InvalidInputError),
        (LanceOperation.Project("a"), InvalidInputError),  # type: ignore[arg-type]
        (LanceOperation.Merge([], "a"), InvalidInputError),
        (LanceOperation.Rewrite([], ["x"]), InvalidInputError),  # type: ignore[list-item]
        (LanceOperation.CreateIndex(["x"], []), InvalidInputError),  # type: ignore[list-item]
        (LanceOperation.BaseOperation(), InvalidInputError),
        ("append", InvalidInputError),
    ],
)
def test_operations_that_are_refused(
    dataset: LanceDataset, operation: Any, error: type[PilumError]
) -> None:
    before = files(dataset)
    with pytest.raises(error):
        LanceDataset.commit(dataset, operation, read_version=3)
    assert files(dataset) == before


def test_a_restore_needs_no_read_version(dataset: LanceDataset) -> None:
    found = LanceDataset.commit(dataset, LanceOperation.Restore(1))
    assert (found.version, values(found)) == (4, [1])
    with pytest.raises(InvalidInputError, match="read_version"):
        LanceDataset.commit(dataset, append(dataset, 9))


def test_a_timeout_that_makes_no_sense(dataset: LanceDataset) -> None:
    operation = append(dataset, 9)
    for timeout in (30, timedelta(seconds=-1)):
        with pytest.raises(InvalidInputError, match="commit_timeout"):
            LanceDataset.commit(dataset, operation, read_version=3, commit_timeout=timeout)  # type: ignore[arg-type]
    for limit in (None, timedelta(0)):
        LanceDataset.commit(dataset, operation, read_version=3, commit_timeout=limit)
        operation = append(dataset, 9)
    assert dataset.latest_version == 5
