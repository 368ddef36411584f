"""Files of a table that lie in other folders (S2.2)."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored_manifests import read_manifest

import pilum
from pilum import FragmentMetadata, LanceDataset
from pilum.errors import CorruptFileError, PilumError, UnsupportedFormatError
from pilum.format.pb import table_pb2
from pilum.storage.local import LocalStore
from pilum.table.model.base_paths import BasePath, free_base_id
from pilum.table.model.fragment import (
    DataFile,
    DeletionFile,
    DeletionFileType,
    Fragment,
    FragmentId,
)
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest_file import encode_manifest_file
from pilum.table.model.names import NamingScheme
from pilum.table.read.snapshot import Snapshot

_IDS = st.none() | st.integers(0, 2**32 - 1)


@given(_IDS, _IDS)
def test_ids_of_bases_are_kept(data_id: int | None, deletion_id: int | None) -> None:
    file = DataFile("x.lance", (), (), 2, 1, base_id=data_id)
    deleted = DeletionFile(DeletionFileType.BITMAP, 1, 7, 2, deletion_id)
    fragment = Fragment(FragmentId(3), (file,), 9, deleted)
    message = table_pb2.DataFragment.FromString(fragment.to_proto().SerializeToString())
    assert message.files[0].HasField("base_id") == (data_id is not None)
    assert Fragment.from_proto(message) == fragment
    assert Fragment.from_json(json.loads(json.dumps(fragment.to_json()))) == fragment
    public = FragmentMetadata.from_table(fragment)
    assert FragmentMetadata.from_json(json.dumps(public.to_json())).to_table() == fragment


@given(st.lists(st.integers(0, 6), unique=True), st.integers(0, 2))
def test_a_new_base_gets_the_smallest_free_id(taken: list[int], first: int) -> None:
    found = free_base_id((BasePath(number, "p") for number in taken), first)
    assert found not in taken
    assert found >= first
    assert set(range(first, found)) <= set(taken)


def moved(dataset: LanceDataset, base: BasePath, folder: Path) -> LanceDataset:
    """The table, once more, with all its files in a base."""
    manifest = dataset.snapshot.manifest
    fragments = [
        replace(
            fragment,
            files=tuple(replace(file, base_id=base.id) for file in fragment.files),
            deletion_file=fragment.deletion_file
            and replace(fragment.deletion_file, base_id=base.id),
        )
        for fragment in manifest.fragments
    ]
    content = replace(manifest, version=1, fragments=Fragments(fragments), base_paths=(base,))
    path = NamingScheme.V2.manifest_path(1)
    LocalStore(str(folder)).put(path, encode_manifest_file(content.with_flags(), b""))
    return pilum.dataset(folder)


@pytest.fixture
def source(tmp_path: Path) -> LanceDataset:
    """Two fragments with rows 0..3, of which 1 is deleted."""
    pilum.write_dataset({"a": [0, 1, 2, 3]}, tmp_path / "source", max_rows_per_file=2)
    dataset = pilum.dataset(tmp_path / "source")
    dataset.delete("a = 1")
    return dataset


@pytest.mark.parametrize("number", [0, 5])
def test_files_are_read_from_the_root_of_another_table(
    source: LanceDataset, tmp_path: Path, number: int
) -> None:
    found = moved(source, BasePath(number, source.uri, is_dataset_root=True), tmp_path / "t")
    assert found.snapshot.manifest.reader_flags & 16
    assert found.to_table(filter="a > 0")["a"].to_pylist() == [2, 3]
    assert found.take([1])["a"].to_pylist() == [2]
    copy = pickle.loads(pickle.dumps(found))
    assert copy.to_table()["a"].to_pylist() == [0, 2, 3]


def test_files_are_read_from_a_plain_folder(source: LanceDataset, tmp_path: Path) -> None:
    source.restore()
    shutil.copytree(Path(source.uri, "data"), tmp_path / "plain")
    clean = pilum.dataset(source.uri, version=1)
    found = moved(clean, BasePath(1, (tmp_path / "plain").as_uri(), name="p"), tmp_path / "t")
    shutil.rmtree(source.uri)
    assert found.to_table()["a"].to_pylist() == [0, 1, 2, 3]


def test_changes_are_written_to_the_own_folder(source: LanceDataset, tmp_path: Path) -> None:
    found = moved(source, BasePath(0, source.uri, is_dataset_root=True), tmp_path / "t")
    before = sorted(Path(source.uri).rglob("*"))
    found.insert({"a": [4]})
    found.delete("a = 0 or a = 3")
    found.add_columns({"b": "a + 1"})
    assert sorted(Path(source.uri).rglob("*")) == before
    assert found.to_table().to_pydict() == {"a": [2, 4], "b": [3, 5]}
    kept = found.get_fragments()[0].metadata
    assert [file.base_id for file in kept.files] == [0, None]
    assert found.get_fragments()[0].metadata.deletion_file is not None
    assert pilum.dataset(source.uri).count_rows() == 3


def test_one_id_may_mean_another_place_in_another_version(tmp_path: Path) -> None:
    sources = [pilum.write_dataset({"a": [n]}, tmp_path / f"s{n}") for n in range(2)]
    names = [next(Path(source.uri, "data").iterdir()) for source in sources]
    names[1].rename(names[1].with_name(names[0].name))
    first = moved(sources[0], BasePath(0, sources[0].uri, True), tmp_path / "t")
    other = replace(first.snapshot.manifest, base_paths=(BasePath(0, sources[1].uri, True),))
    for snapshot, value in ((first.snapshot, 0), (Snapshot(first.snapshot.store, other), 1)):
        dataset = LanceDataset.pinned(first.uri, None, snapshot)
        assert dataset.to_table()["a"].to_pylist() == [value]


def test_a_base_that_nobody_knows_is_damage(source: LanceDataset, tmp_path: Path) -> None:
    found = moved(source, BasePath(0, source.uri, is_dataset_root=True), tmp_path / "t")
    unknown = replace(found.snapshot.manifest, base_paths=())
    dataset = LanceDataset.pinned(found.uri, None, Snapshot(found.snapshot.store, unknown))
    with pytest.raises(CorruptFileError, match="where base path 0 is"):
        dataset.to_table()


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("", CorruptFileError),
        ("file://elsewhere/x", CorruptFileError),
        ("a\0b", CorruptFileError),
        ("ftp://host/x", UnsupportedFormatError),
    ],
)
def test_a_base_that_cannot_be_opened(
    source: LanceDataset, tmp_path: Path, path: str, error: type[PilumError]
) -> None:
    found = moved(source, BasePath(0, path, is_dataset_root=True), tmp_path / "t")
    assert (found.version, found.count_rows()) == (1, 3)
    with pytest.raises(error, match=r"base path 0|no store for"):
        found.to_table()


def test_two_bases_of_one_id_are_damage() -> None:
    bases = [table_pb2.BasePath(id=1, path=path) for path in ("/a", "/b")]
    with pytest.raises(CorruptFileError, match="share an id"):
        read_manifest(table_pb2.Manifest(base_paths=bases))
