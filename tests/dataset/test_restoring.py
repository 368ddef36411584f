"""Making an old version the newest again (S2.9)."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest

import pilum
from pilum import LanceDataset, LanceOperation
from pilum.errors import (
    CommitConflictError,
    CorruptFileError,
    InvalidInputError,
    VersionNotFoundError,
)
from pilum.fragment import write_fragments


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    """Version 1: three rows; 2: three more; 3: one deleted; 4: another table."""
    pilum.write_dataset({"a": [0, 1, 2]}, tmp_path / "t")
    found = pilum.write_dataset({"a": [3, 4, 5]}, tmp_path / "t", mode="append")
    found.delete("a = 1")
    return pilum.write_dataset({"b": ["x"]}, tmp_path / "t", mode="overwrite")


@pytest.mark.parametrize(
    ("version", "rows"), [(1, [0, 1, 2]), (2, [0, 1, 2, 3, 4, 5]), (3, [0, 2, 3, 4, 5])]
)
def test_a_version_is_back_as_it_was(dataset: LanceDataset, version: int, rows: list[int]) -> None:
    old = dataset.checkout_version(version)
    old.restore()
    assert (old.version, old.to_table().to_pydict()) == (5, {"a": rows})
    assert pilum.dataset(dataset.uri).to_table().equals(old.to_table())
    assert dataset.version == 4
    assert dataset.to_table().to_pydict() == {"b": ["x"]}
    assert old.checkout_version(4).to_table().equals(dataset.to_table())
    had, have = dataset.checkout_version(version).snapshot.manifest, old.snapshot.manifest
    assert have.fragments == had.fragments
    assert (have.reader_flags, have.writer_flags) == (had.reader_flags, had.writer_flags)


def test_ids_of_fragments_are_never_used_again(dataset: LanceDataset) -> None:
    assert [fragment.fragment_id for fragment in dataset.get_fragments()] == [2]
    old = dataset.checkout_version(1)
    old.restore()
    old.insert({"a": [9]})
    assert [fragment.fragment_id for fragment in old.get_fragments()] == [0, 3]
    assert old.to_table()["a"].to_pylist() == [0, 1, 2, 9]
    old.delete("a = 0")
    assert old.to_table()["a"].to_pylist() == [1, 2, 9]


def test_the_newest_version_too(dataset: LanceDataset) -> None:
    dataset.restore()
    dataset.restore()
    assert (dataset.version, dataset.to_table().to_pydict()) == (6, {"b": ["x"]})


def test_appends_after_a_restore_do_not_mix_with_it(dataset: LanceDataset) -> None:
    writer = pilum.dataset(dataset.uri)
    fragments = write_fragments({"b": ["y"]}, writer)
    dataset.checkout_version(1).restore()
    with pytest.raises(CommitConflictError, match="restore of version 5"):
        LanceDataset.commit(writer, LanceOperation.Append(fragments), read_version=4)


def test_by_hand_over_commits_of_others(dataset: LanceDataset) -> None:
    dataset.insert({"b": ["y"]})
    found = LanceDataset.commit(dataset, LanceOperation.Restore(2), read_version=4)
    assert (found.version, found.count_rows()) == (6, 6)


def test_restores_at_the_same_moment_follow_each_other(dataset: LanceDataset) -> None:
    pinned = [dataset.checkout_version(1 + number % 3) for number in range(6)]
    threads = [Thread(target=found.restore) for found in pinned]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found.version for found in pinned) == [5, 6, 7, 8, 9, 10]
    latest = next(found for found in pinned if found.version == 10)
    assert pilum.dataset(dataset.uri).to_table().equals(latest.to_table())


def test_versions_that_are_not_there(dataset: LanceDataset) -> None:
    with pytest.raises(VersionNotFoundError, match="no version 77; it has 1 to 4"):
        LanceDataset.commit(dataset, LanceOperation.Restore(77), read_version=4)
    for bad in (0, -1, "1", None):
        with pytest.raises(InvalidInputError, match="version"):
            LanceDataset.commit(dataset, LanceOperation.Restore(bad), read_version=4)  # type: ignore[arg-type]
    old = dataset.checkout_version(1)
    Path(dataset.uri, "_versions", f"{2**64 - 2}.manifest").unlink()
    with pytest.raises(VersionNotFoundError, match="no version 1; it has 2 to 4"):
        old.restore()
    assert len(list(Path(dataset.uri, "_transactions").iterdir())) == 4


def test_a_damaged_version_is_not_restored(dataset: LanceDataset) -> None:
    old = dataset.checkout_version(1)
    Path(dataset.uri, "_versions", f"{2**64 - 2}.manifest").write_bytes(b"LANC" * 9)
    with pytest.raises(CorruptFileError):
        old.restore()
    assert pilum.dataset(dataset.uri).version == 4


def test_legacy_tables_with_dictionaries(tmp_path: Path) -> None:
    """Their manifests hold values, not only references to files."""
    table = pa.table({"d": pa.array(["x", "y", "x"]).dictionary_encode()})
    pilum.write_dataset(table, tmp_path / "t", data_storage_version="legacy")
    pilum.write_dataset({"a": [1]}, tmp_path / "t", mode="overwrite", data_storage_version="2.1")
    old = pilum.dataset(tmp_path / "t", version=1)
    old.restore()
    assert old.to_table()["d"].to_pylist() == ["x", "y", "x"]
    assert pilum.dataset(tmp_path / "t").to_table().equals(old.to_table())
    assert old.data_storage_version == "0.1"
