"""Tables of the oldest writers, with a copy of the newest manifest at the root (S3.1, S3.2)."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Thread

import pytest

import pilum
from pilum import LanceDataset
from pilum.errors import CorruptFileError, DatasetAlreadyExistsError, VersionNotFoundError
from pilum.storage.local import LocalStore
from pilum.table.model.manifest_file import load_message

COPIES = pytest.mark.parametrize("copy", ["_latest.manifest", "latest.manifest"])

pytestmark = pytest.mark.checklist("S3.1")


def make(path: Path, copy: str, *, has_history: bool) -> LanceDataset:
    """A table of two versions with rows 1 and 2."""
    for value in (1, 2):
        pilum.write_dataset({"a": [value]}, path, mode="append", enable_v2_manifest_paths=False)
    shutil.copy(path / "_versions" / "2.manifest", path / copy)
    if not has_history:
        shutil.rmtree(path / "_versions")
    return pilum.dataset(path)


def values(dataset: LanceDataset) -> list[int]:
    return sorted(dataset.to_table()["a"].to_pylist())


def copied_version(path: Path, copy: str) -> int:
    return int(load_message(LocalStore(str(path)), copy).version)


def history(path: Path) -> list[str]:
    return sorted(entry.name for entry in (path / "_versions").glob("*.manifest"))


@COPIES
@pytest.mark.checklist("S3.2")
def test_a_copy_without_history_is_a_table_of_one_version(tmp_path: Path, copy: str) -> None:
    path = tmp_path / "t"
    dataset = make(path, copy, has_history=False)
    assert (dataset.version, dataset.latest_version, values(dataset)) == (2, 2, [1, 2])
    assert [entry["version"] for entry in dataset.versions()] == [2]
    assert values(pilum.dataset(path, 2)) == [1, 2]
    assert values(pilum.dataset(path, asof=dataset.versions()[0]["timestamp"])) == [1, 2]
    with pytest.raises(VersionNotFoundError, match="it has 2 to 2"):
        pilum.dataset(path, 1)
    with pytest.raises(DatasetAlreadyExistsError):
        pilum.write_dataset({"a": [1]}, path)
    transaction = dataset.read_transaction(2)
    assert transaction
    assert transaction.read_version == 1
    report = dataset.verify()
    assert report.is_valid
    assert [fault.path for fault in report.orphaned if "data" in fault.path] == []
    dataset.tags.create("old")
    assert values(dataset.shallow_clone(tmp_path / "clone", "old")) == [1, 2]
    assert not (path / "_versions").exists()


@COPIES
@pytest.mark.parametrize("has_history", [False, True])
@pytest.mark.checklist("S3.2")
def test_commits_keep_the_copy_up_to_date(tmp_path: Path, copy: str, has_history: bool) -> None:
    path = tmp_path / "t"
    dataset = make(path, copy, has_history=has_history)
    dataset.insert({"a": [3]})
    assert (dataset.version, copied_version(path, copy)) == (3, 3)
    assert (path / copy).read_bytes() == (path / "_versions" / "3.manifest").read_bytes()
    dataset.delete("a = 1")
    assert (values(dataset), copied_version(path, copy)) == ([2, 3], 4)
    kept = ["2.manifest", "3.manifest", "4.manifest"]
    assert history(path) == (["1.manifest", *kept] if has_history else kept)
    assert values(dataset.checkout_version(2)) == [1, 2]
    shutil.rmtree(path / "_versions")
    assert (pilum.dataset(path).version, values(pilum.dataset(path))) == (4, [2, 3])


def test_the_history_counts_where_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = make(path, "_latest.manifest", has_history=True)
    (path / "_latest.manifest").write_bytes(b"old or damaged")
    assert values(pilum.dataset(path)) == [1, 2]
    dataset.insert({"a": [3]})
    assert copied_version(path, "_latest.manifest") == 3
    shutil.rmtree(path / "_versions")
    (path / "_latest.manifest").write_bytes(b"damaged")
    with pytest.raises(CorruptFileError, match=r"_latest\.manifest"):
        pilum.dataset(path)


def test_tables_without_a_copy_get_none(tmp_path: Path) -> None:
    path = tmp_path / "t"
    pilum.write_dataset({"a": [1]}, path, enable_v2_manifest_paths=False).insert({"a": [2]})
    assert sorted(entry.name for entry in path.iterdir()) == ["_transactions", "_versions", "data"]


def test_of_many_commits_the_copy_is_the_last(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path, "_latest.manifest", has_history=False)

    def append(value: int) -> None:
        pilum.write_dataset({"a": [value]}, path, mode="append")

    threads = [Thread(target=append, args=(value,)) for value in range(3, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    dataset = pilum.dataset(path)
    assert (dataset.version, values(dataset)) == (8, list(range(1, 9)))
    assert copied_version(path, "_latest.manifest") == 8


@pytest.mark.parametrize("has_history", [False, True])
def test_migration_leaves_no_copy(tmp_path: Path, has_history: bool) -> None:
    path = tmp_path / "t"
    dataset = make(path, "_latest.manifest", has_history=has_history)
    dataset.migrate_manifest_paths_v2()
    assert not (path / "_latest.manifest").exists()
    assert str(2**64 - 3) + ".manifest" in history(path)
    dataset.insert({"a": [3]})
    assert values(pilum.dataset(path)) == [1, 2, 3]
    assert values(pilum.dataset(path, 2)) == [1, 2]


def test_cleanup_takes_nothing_from_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = make(path, "_latest.manifest", has_history=False)
    dataset.cleanup_old_versions(older_than=None, retain_versions=1, delete_unverified=True)
    assert values(pilum.dataset(path)) == [1, 2]
