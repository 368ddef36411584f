"""Detached versions, migrated names and transactions: one library's work seen by the other."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
import pilum.fragment

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

LIBRARIES = pytest.mark.parametrize("first", [pilum, lance], ids=["pilum", "lance"])


def other(library: Any) -> Any:
    return lance if library is pilum else pilum


def append(library: Any, path: str, value: int) -> Any:
    fragments = library.fragment.write_fragments(pa.table({"a": [value]}), path)
    return library.LanceOperation.Append(fragments)


def history(library: Any, path: str) -> None:
    """A version of each kind."""
    rows = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    dataset = library.write_dataset(
        rows, path, data_storage_version="2.1", commit_message="new", max_rows_per_file=1
    )
    dataset.insert(rows.slice(1, 1), transaction_properties={"k": "v"})
    dataset.delete("a = 1")
    dataset.update({"b": "'w'"}, where="a = 3")
    dataset.add_columns({"c": "a + 1"})
    dataset.drop_columns(["c"])
    dataset.optimize.compact_files()
    dataset.update_config({"x": "y"})
    lance.dataset(path).create_scalar_index("a", "BTREE")
    library.dataset(path, version=2).restore()


@LIBRARIES
def test_transactions_are_read_alike(tmp_path: Path, first: Any) -> None:
    path = str(tmp_path / "t")
    history(first, path)
    ours, theirs = pilum.dataset(path), lance.dataset(path)
    kinds = []
    for version in range(1, theirs.version + 1):
        mine, expected = ours.read_transaction(version), theirs.read_transaction(version)
        assert mine
        assert (mine.read_version, mine.uuid) == (expected.read_version, expected.uuid)
        assert mine.transaction_properties == expected.transaction_properties
        kinds.append(type(mine.operation).__name__)
        assert kinds[-1] == type(expected.operation).__name__
        for member in vars(expected.operation):
            found, wanted = getattr(mine.operation, member), getattr(expected.operation, member)
            if member.endswith("fragments"):
                assert [one.to_json() for one in found] == [one.to_json() for one in wanted]
            elif member in {"predicate", "version", "preserves_nullability", "update_mode"}:
                assert found == wanted
    found = [one and one.uuid for one in ours.get_transactions(4)]
    assert found == [one.uuid for one in theirs.get_transactions(4)]
    assert {"Overwrite", "Append", "Delete", "Update", "Merge", "Project"} <= set(kinds)
    assert {"Rewrite", "UpdateConfig", "CreateIndex", "Restore"} <= set(kinds)


def test_the_transaction_of_a_clone(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    source = lance.write_dataset(pa.table({"a": [1]}), path)
    source.create_branch("dev")
    for name, reference in (("x", 1), ("y", ("dev", 1))):
        clone = str(tmp_path / name)
        source.shallow_clone(clone, reference)
        mine = pilum.dataset(clone).read_transaction(1)
        assert mine
        expected = lance.dataset(clone).read_transaction(1).operation
        assert vars(mine.operation) == vars(expected)


@LIBRARIES
def test_detached_versions_are_read_alike(tmp_path: Path, first: Any) -> None:
    path, second = str(tmp_path / "t"), other(first)
    lance.write_dataset(pa.table({"a": [1]}), path, data_storage_version="2.1")
    begun = first.LanceDataset.commit(
        first.dataset(path), append(first, path, 2), read_version=1, detached=True
    )
    found = second.dataset(path, version=begun.version)
    assert found.to_table()["a"].to_pylist() == [1, 2]
    gone_on = second.LanceDataset.commit(
        found, append(second, path, 3), read_version=found.version, detached=True
    )
    last = first.dataset(path, version=gone_on.version)
    assert last.to_table()["a"].to_pylist() == [1, 2, 3]
    first.dataset(path).insert(pa.table({"a": [9]}))
    for library in (first, second):
        dataset = library.dataset(path)
        assert (dataset.version, dataset.to_table()["a"].to_pylist()) == (2, [1, 9])
        assert [entry["version"] for entry in dataset.versions()] == [1, 2]


@LIBRARIES
def test_migrated_names_are_read_alike(tmp_path: Path, first: Any) -> None:
    path, second = str(tmp_path / "t"), other(first)
    for value in (1, 2):
        library = first if value == 1 else second
        library.write_dataset(
            pa.table({"a": [value]}), path, mode="append", enable_v2_manifest_paths=False
        )
    assert {name.name for name in Path(path, "_versions").glob("*.manifest")} == {
        "1.manifest",
        "2.manifest",
    }
    first.dataset(path).migrate_manifest_paths_v2()
    second.dataset(path).migrate_manifest_paths_v2()
    second.dataset(path).insert(pa.table({"a": [3]}))
    for library in (first, second):
        dataset = library.dataset(path)
        assert dataset.to_table()["a"].to_pylist() == [1, 2, 3]
        assert len(dataset.versions()) == 3
    assert not list(Path(path, "_versions").glob("?.manifest"))


@pytest.mark.checklist("S3.1")
def test_the_reference_goes_on_with_a_table_that_had_only_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance.write_dataset(pa.table({"a": [1]}), path, enable_v2_manifest_paths=False)
    (path / "_versions" / "1.manifest").rename(path / "_latest.manifest")
    shutil.rmtree(path / "_versions")
    with pytest.raises(ValueError, match="not found"):
        lance.dataset(path)
    pilum.dataset(path).insert({"a": [2]})
    lance.dataset(path).insert(pa.table({"a": [3]}))
    pilum.dataset(path).insert({"a": [4]})
    for library in (pilum, lance):
        dataset = library.dataset(str(path))
        assert dataset.to_table()["a"].to_pylist() == [1, 2, 3, 4]
        assert [entry["version"] for entry in dataset.versions()] == [1, 2, 3, 4]
    newest = (path / "_versions" / "4.manifest").read_bytes()
    assert (path / "_latest.manifest").read_bytes() == newest
