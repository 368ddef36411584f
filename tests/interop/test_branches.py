"""Branches, clones and base paths that one library made the other reads and goes on from."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.format.pb import table_pb2, transaction_pb2
from pilum.storage.local import LocalStore
from pilum.table.model.manifest_file import load_manifest_and_transaction
from pilum.table.versions.commit_handler import list_manifests

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

LIBRARIES = pytest.mark.parametrize("first", [pilum, lance], ids=["pilum", "lance"])


def other(library: Any) -> Any:
    return lance if library is pilum else pilum


def write(library: Any, path: Any, rows: list[int], mode: str = "append") -> None:
    table = pa.table({"a": rows})
    library.write_dataset(table, path, mode=mode, data_storage_version="2.1", max_rows_per_file=3)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Versions 1 to 4: six rows, an index, without row 2, with row 6."""
    path = str(tmp_path / "t")
    write(lance, path, [0, 1, 2, 3, 4, 5], "create")
    lance.dataset(path).create_scalar_index("a", "BTREE")
    lance.dataset(path).delete("a = 2")
    write(pilum, path, [6])
    return path


def agree(path: str, reference: Any = None) -> list[int]:
    """Both libraries read the same; the values."""
    theirs, ours = lance.dataset(path), pilum.dataset(path)
    if reference is not None:
        theirs, ours = theirs.checkout_version(reference), ours.checkout_version(reference)
    theirs.validate()
    table = ours.to_table()
    assert table.equals(theirs.to_table())
    assert ours.version == theirs.version
    indexed = theirs.to_table(filter="a = 4")
    assert indexed.equals(ours.to_table(filter="a = 4"))
    values: list[int] = table["a"].to_pylist()
    return values


def first_manifest(
    path: str,
) -> tuple[table_pb2.Manifest, transaction_pb2.Transaction | None]:
    store = LocalStore(path)
    return load_manifest_and_transaction(store, list_manifests(store)[0].path)


@LIBRARIES
def test_both_go_on_with_a_branch(path: str, first: Any) -> None:
    second = other(first)
    branch = first.dataset(path).create_branch("dev/x", 4)
    assert agree(path, ("dev/x", None)) == [0, 1, 3, 4, 5, 6]
    write(second, second.dataset(f"{path}/tree/dev/x"), [7])
    branch.checkout_latest()
    branch.delete("a = 0 or a = 7")
    second.dataset(path).checkout_version(("dev/x", None)).delete("a = 1")
    child = second.dataset(path).checkout_version(("dev/x", None)).create_branch("child")
    assert child.version == 7
    first.dataset(path).checkout_version(("child", None)).insert(pa.table({"a": [8]}))
    assert agree(path, ("child", None)) == [3, 4, 5, 6, 8]
    assert agree(path) == [0, 1, 3, 4, 5, 6]
    ours, theirs = pilum.dataset(path).branches, lance.dataset(path).branches
    assert ours.list() == theirs.list()
    assert list(ours.list()) == ["child", "dev/x"]
    assert ours.list_ordered("asc") == theirs.list_ordered("asc")
    first.dataset(path).tags.create("there", ("child", 7))
    second.dataset(path).checkout_version(("child", None)).tags.create("here")
    assert agree(path, "there") == [3, 4, 5, 6]
    assert pilum.dataset(path).tags.list() == lance.dataset(path).tags.list()
    for library in (first, second):
        for name in ("dev/x", "child"):
            with pytest.raises((ValueError, OSError)):
                library.dataset(path).branches.delete(name)
    for tag in ("there", "here"):
        second.dataset(path).tags.delete(tag)
    second.dataset(path).branches.delete("child")
    first.dataset(path).branches.delete("dev/x")
    assert pilum.dataset(path).branches.list() == lance.dataset(path).branches.list() == {}


def test_a_branch_begins_as_one_of_the_reference(path: str) -> None:
    lance.dataset(path).create_branch("theirs")
    pilum.dataset(path).create_branch("ours")
    lance.dataset(path).checkout_version(("theirs", None)).create_branch("theirs-2")
    pilum.dataset(path).checkout_version(("ours", None)).create_branch("ours-2")
    for suffix in ("", "-2"):
        found, transactions = [], []
        for name in ("theirs", "ours"):
            text = Path(path, "_refs", "branches", f"{name}{suffix}.json").read_text()
            record = json.loads(text)
            assert text == json.dumps(record, indent=2)
            steps = [version for version, _ in record["identifier"].pop("version_mapping")]
            manifest, transaction = first_manifest(f"{path}/tree/{name}{suffix}")
            assert transaction is not None
            assert manifest.transaction_file == f"4-{transaction.uuid}.txn"
            for message, members in (
                (manifest, ("timestamp", "transaction_file", "writer_version")),
                (manifest, ("index_section", "transaction_section")),
                (transaction, ("uuid",)),
            ):
                for member in members:
                    message.ClearField(member)
            bases = sorted((b.id, b.name, b.path, b.is_dataset_root) for b in manifest.base_paths)
            manifest.ClearField("base_paths")
            assert {type(record.pop(key)) for key in ("createAt", "manifestSize")} == {int}
            shown = repr((record, steps, str(manifest), bases))
            found.append(shown.replace("theirs", "ours"))
            transactions.append(str(transaction).replace("theirs", "ours"))
        assert found[0] == found[1]
        assert transactions[0] == transactions[1]


@LIBRARIES
def test_both_go_on_with_a_shallow_clone(path: str, tmp_path: Path, first: Any) -> None:
    clone = str(tmp_path / "clone")
    first.dataset(path).shallow_clone(clone, 4)
    assert agree(clone) == [0, 1, 3, 4, 5, 6]
    second = other(first)
    second.dataset(clone).delete("a = 3")
    write(first, clone, [7])
    first.dataset(clone).delete("a = 4")
    again = str(tmp_path / "again")
    second.dataset(clone).shallow_clone(again, (None, None))
    write(first, again, [8])
    assert agree(again) == [0, 1, 5, 6, 7, 8]
    first.dataset(again).create_branch("b")
    second.dataset(again).checkout_version(("b", None)).delete("a = 8")
    assert agree(again, ("b", None)) == [0, 1, 5, 6, 7]
    assert agree(path) == [0, 1, 3, 4, 5, 6]


@LIBRARIES
def test_both_go_on_with_a_deep_clone(path: str, tmp_path: Path, first: Any) -> None:
    branch = pilum.dataset(path).create_branch("dev")
    write(lance, branch.uri, [7])
    clone = str(tmp_path / "clone")
    first.dataset(path).checkout_version(("dev", None)).deep_clone(clone, ("dev", None))
    Path(path).rename(tmp_path / "gone")
    assert agree(clone) == [0, 1, 3, 4, 5, 6, 7]
    write(other(first), clone, [8])
    other(first).dataset(clone).delete("a = 0")
    assert agree(clone) == [1, 3, 4, 5, 6, 7, 8]


@LIBRARIES
def test_both_write_to_bases(tmp_path: Path, first: Any) -> None:
    second, path = other(first), str(tmp_path / "t")
    plain = first.DatasetBasePath(str(tmp_path / "plain"), "plain")
    rows = pa.table({"a": [1, 2, 3, 4]})
    first.write_dataset(
        rows, path, initial_bases=[plain], target_bases=["plain"], max_rows_per_file=2
    )
    root = second.DatasetBasePath(str(tmp_path / "root"), "root", is_dataset_root=True)
    second.dataset(path).add_bases([root])
    for library, target in ((first, "root"), (second, "plain"), (second, "root")):
        library.write_dataset(rows, path, mode="append", target_bases=[target])
    second.dataset(path).delete("a = 2")
    first.dataset(path).delete("a = 3")
    assert agree(path) == [1, 4] * 4
    ours, theirs = pilum.dataset(path), lance.dataset(path)
    found = [
        {number: (b.name, b.path) for number, b in one.base_paths().items()}
        for one in (ours, theirs)
    ]
    assert found[0] == found[1]
    first.write_dataset(rows, path, mode="append", target_all_bases=True, max_rows_per_file=1)
    ids = [one.metadata.files[0].base_id for one in lance.dataset(path).get_fragments()]
    assert ids == [1, 1, 2, 1, 2, None, 1, 2, None]
    assert agree(path) == [1, 4] * 4 + [1, 2, 3, 4]


@pytest.mark.parametrize("stable_row_ids", [False, True])
@pytest.mark.parametrize("kind", ["clone", "branch"])
def test_all_changes_of_a_shared_table(tmp_path: Path, kind: str, stable_row_ids: bool) -> None:
    path, rows = str(tmp_path / "t"), pa.table({"a": list(range(12)), "b": ["x"] * 12})
    source = pilum.write_dataset(
        rows, path, max_rows_per_file=4, enable_stable_row_ids=stable_row_ids
    )
    lance.dataset(path).create_scalar_index("a", "BTREE")
    source.checkout_latest()
    source.delete("a = 5")
    if kind == "clone":
        found = source.shallow_clone(tmp_path / "clone", source.version)
    else:
        found = source.create_branch("dev")
    expected = {*range(12)} - {5}
    for change, added, removed in (
        (lambda: found.insert({"a": [12, 13], "b": ["y", "y"]}), {12, 13}, set()),
        (lambda: found.delete("a = 4 or a = 7"), set(), {4, 7}),
        (lambda: found.update({"a": "a + 100"}, where="a = 1"), {101}, {1}),
        (lambda: found.add_columns({"c": "a + 1"}), set(), set()),
        (lambda: found.optimize.compact_files(), set(), set()),
        (lambda: found.delete("a = 0"), set(), {0}),
        (lambda: found.cleanup_old_versions(older_than=timedelta(0)), set(), set()),
        # No compaction by the reference: it looks for the index that it makes in the other table.
        (lambda: lance.dataset(found.uri).delete("a = 12"), set(), {12}),
    ):
        change()
        found.checkout_latest()
        expected = (expected | added) - removed
        theirs = lance.dataset(found.uri)
        theirs.validate()
        assert theirs.to_table().equals(found.to_table())
        assert set(found.to_table()["a"].to_pylist()) == expected
        for value in (2, 7, 12, 101):
            assert theirs.to_table(filter=f"a = {value}").num_rows == (value in expected)
        assert found.verify().is_valid
    source.insert({"a": [50], "b": ["z"]})
    if kind == "branch":
        source.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert set(lance.dataset(found.uri).to_table()["a"].to_pylist()) == expected
    assert set(agree(path)) == {*range(12), 50} - {5}


def test_files_of_several_bases(tmp_path: Path) -> None:
    bases = [lance.DatasetBasePath(str(tmp_path / name), name) for name in ("x", "y")]
    bases.append(lance.DatasetBasePath(str(tmp_path / "root"), "root", is_dataset_root=True))
    path = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1]}), path, initial_bases=bases, target_bases=["x"])
    for number, name in enumerate(["y", "root", "x"]):
        rows = pa.table({"a": [2 + number, 4]})
        lance.write_dataset(rows, path, mode="append", target_bases=[name])
    assert agree(path) == [1, 2, 4, 3, 4, 4, 4]
    pilum.dataset(path).delete("a = 3")
    pilum.dataset(path).insert({"a": [9]})
    assert agree(path) == [1, 2, 4, 4, 4, 4, 9]
    clone = str(tmp_path / "clone")
    pilum.dataset(path).shallow_clone(clone, (None, None))
    assert agree(clone) == [1, 2, 4, 4, 4, 4, 9]
    assert sorted(base.id for base in pilum.dataset(clone).snapshot.manifest.base_paths) == [
        0,
        1,
        2,
        3,
    ]
    deep = pilum.dataset(clone).deep_clone(tmp_path / "deep", (None, None))
    assert agree(deep.uri) == [1, 2, 4, 4, 4, 4, 9]
