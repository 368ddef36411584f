"""Clones: tables that begin with one version of another."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum import LanceDataset, LanceOperation, blob_array, blob_field
from pilum.errors import (
    DatasetAlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    TagNotFoundError,
    VersionNotFoundError,
)
from pilum.storage.local import LocalStore
from pilum.table.refs.clone import CopyProgress


@pytest.fixture
def source(tmp_path: Path) -> LanceDataset:
    """Version 1 with rows 0..9 in two fragments, 2 without row 3, 3 with row 10."""
    rows = {"a": list(range(10))}
    dataset = pilum.write_dataset(rows, tmp_path / "source", max_rows_per_file=5)
    dataset.delete("a = 3")
    dataset.insert({"a": [10]})
    return dataset


def values(dataset: LanceDataset) -> list[int]:
    return sorted(dataset.to_table()["a"].to_pylist())


def files(folder: str | Path) -> set[str]:
    root = Path(folder)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_a_shallow_clone_reads_there_and_writes_here(source: LanceDataset, tmp_path: Path) -> None:
    before = files(source.uri)
    clone = source.shallow_clone(tmp_path / "clone", 2)
    assert (clone.version, values(clone)) == (2, [0, 1, 2, *range(4, 10)])
    assert not any(path.startswith("data") for path in files(clone.uri))
    clone.delete("a < 2")
    clone.insert({"a": [77]})
    clone.add_columns({"b": "a + 1"})
    assert clone.to_table(filter="a > 8").to_pydict() == {"a": [9, 77], "b": [10, 78]}
    assert files(source.uri) == before
    assert values(pilum.dataset(source.uri)) == [0, 1, 2, *range(4, 11)]
    again = clone.shallow_clone(tmp_path / "again", clone.version)
    assert again.to_table().equals(clone.to_table())
    assert [base.path for base in again.snapshot.manifest.base_paths] == [source.uri, clone.uri]


def test_a_deep_clone_needs_nothing_else(source: LanceDataset, tmp_path: Path) -> None:
    shallow = source.shallow_clone(tmp_path / "shallow", source.version)
    shallow.insert({"a": [11]})
    seen: list[CopyProgress] = []
    clone = shallow.deep_clone(tmp_path / "clone", shallow.version, progress=seen.append)
    expected = values(shallow)
    for dataset in (source, shallow):
        shutil.rmtree(dataset.uri)
    assert values(pilum.dataset(clone.uri)) == expected
    assert clone.snapshot.manifest.base_paths == ()
    assert not clone.snapshot.manifest.reader_flags & 16
    assert [(step.files, step.num_files) for step in seen] == [(n, 5) for n in range(1, 6)]
    copied = [path for path in files(clone.uri) if path.startswith(("data", "_deletions"))]
    assert seen[-1].size_bytes == sum(Path(clone.uri, path).stat().st_size for path in copied)


def test_blobs_beside_data_files_are_copied(tmp_path: Path) -> None:
    large = bytes(range(256)) * 1024
    rows = pa.table([blob_array([large, None, b"small"])], schema=pa.schema([blob_field("b")]))
    source = pilum.write_dataset(rows, tmp_path / "source", data_storage_version="2.2")
    shallow = source.shallow_clone(tmp_path / "shallow", source.version)
    deep = source.deep_clone(tmp_path / "deep", source.version)
    assert any(path.endswith(".blob") for path in files(deep.uri))
    for clone in (shallow, deep):
        if clone is deep:
            shutil.rmtree(source.uri)
        found = [blob and blob.readall() for blob in clone.take_blobs("b", indices=[0, 2])]
        assert found == [large, b"small"]


def test_files_of_one_name_in_two_bases(tmp_path: Path) -> None:
    first = pilum.write_dataset({"a": [1]}, tmp_path / "first")
    clone = first.shallow_clone(tmp_path / "clone", first.version)
    clone.insert({"a": [2]})
    fragments = [fragment.metadata for fragment in clone.get_fragments()]
    own = Path(clone.uri, "data", fragments[1].files[0].path)
    own.rename(own.with_name(str(fragments[0].files[0].path)))
    fragments[1].files[0].path = fragments[0].files[0].path
    operation = LanceOperation.Overwrite(clone.lance_schema, fragments)
    clone = LanceDataset.commit(clone, operation, read_version=2)
    assert values(clone) == [1, 2]
    assert values(clone.deep_clone(tmp_path / "deep", clone.version)) == [1, 2]


@pytest.mark.parametrize("kind", ["shallow_clone", "deep_clone"])
def test_a_clone_does_not_overwrite(source: LanceDataset, tmp_path: Path, kind: str) -> None:
    other = pilum.write_dataset({"a": [1]}, tmp_path / "other")
    before = files(tmp_path)
    for target in (other.uri, source.uri):
        with pytest.raises(DatasetAlreadyExistsError):
            getattr(source, kind)(target, 1)
    for reference, error in ((9, VersionNotFoundError), ("no", TagNotFoundError)):
        with pytest.raises(error):
            getattr(source, kind)(tmp_path / "new", reference)
    with pytest.raises(InvalidInputError):
        getattr(source, kind)(tmp_path / "new", 1.5)
    assert files(tmp_path) == before


@pytest.mark.parametrize("kind", ["shallow_clone", "deep_clone"])
def test_of_several_clones_to_one_place_one_wins(
    source: LanceDataset, tmp_path: Path, kind: str
) -> None:
    barrier, outcomes = Barrier(3), []

    def clone(version: int) -> None:
        dataset = pilum.dataset(source.uri)
        barrier.wait()
        try:
            outcomes.append(getattr(dataset, kind)(tmp_path / "clone", version).version)
        except DatasetAlreadyExistsError:
            outcomes.append(0)

    threads = [Thread(target=clone, args=(version,)) for version in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = filter(None, outcomes)
    found = pilum.dataset(tmp_path / "clone")
    assert found.latest_version == winner
    assert values(found) == values(source.checkout_version(winner))


def test_an_interrupted_deep_clone_leaves_no_file(source: LanceDataset, tmp_path: Path) -> None:
    def interrupt(step: CopyProgress) -> None:
        if step.files == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        source.deep_clone(tmp_path / "clone", source.version, progress=interrupt)
    assert files(tmp_path / "clone") == set()
    assert values(source.deep_clone(tmp_path / "clone", source.version)) == values(source)


def test_a_deep_clone_without_a_file_fails_whole(source: LanceDataset, tmp_path: Path) -> None:
    name = source.get_fragments()[1].metadata.files[0].path
    Path(source.uri, "data", name).unlink()
    with pytest.raises(NotFoundError, match=name):
        source.deep_clone(tmp_path / "clone", source.version)
    assert files(tmp_path / "clone") == set()


@pytest.mark.parametrize("step", ["put", "put_if_absent"])
def test_a_clone_that_stands_keeps_its_files(
    source: LanceDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    real = getattr(LocalStore, step)

    def interrupted(self: LocalStore, path: str, data: bytes) -> Any:
        found = real(self, path, data)
        if path.startswith("_versions/1") or "hint" in path:
            raise KeyboardInterrupt  # the manifest is there, but nobody was told
        return found

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            source.deep_clone(tmp_path / "clone", source.version)
    clone = pilum.dataset(tmp_path / "clone")
    shutil.rmtree(source.uri)
    assert values(clone) == [0, 1, 2, *range(4, 11)]
    clone.insert({"a": [5]})
    assert clone.verify().is_valid


def test_a_clone_that_was_killed_is_no_table(
    source: LanceDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = LocalStore.put_if_absent

    def killed(self: LocalStore, path: str, data: bytes) -> bool:
        if path.endswith(".manifest"):
            raise KeyboardInterrupt
        return put(self, path, data)

    def nothing(*_: Any) -> None: ...

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "put_if_absent", killed)
        patch.setattr(LocalStore, "delete", nothing)
        with pytest.raises(KeyboardInterrupt):
            source.deep_clone(tmp_path / "clone", source.version)
    with pytest.raises(NotFoundError):
        pilum.dataset(tmp_path / "clone")
    with pytest.raises(DatasetAlreadyExistsError, match="interrupted"):
        source.deep_clone(tmp_path / "clone", source.version)
    shutil.rmtree(tmp_path / "clone")
    assert values(source.deep_clone(tmp_path / "clone", source.version)) == values(source)
