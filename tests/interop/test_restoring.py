"""What one library restored the other reads and goes on from (S2.9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.format.pb import table_pb2
from pilum.storage.local import LocalStore
from pilum.table.model.manifest_file import load_message
from pilum.table.versions.commit_handler import list_manifests

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

LIBRARIES = pytest.mark.parametrize("first", [pilum, lance], ids=["pilum", "lance"])


def other(library: Any) -> Any:
    return lance if library is pilum else pilum


def write(library: Any, path: str, values: dict[str, list[Any]], mode: str = "append") -> None:
    library.write_dataset(pa.table(values), path, mode=mode, data_storage_version="2.1")


def message(path: str, version: int) -> table_pb2.Manifest:
    store = LocalStore(path)
    found = next(name for name in list_manifests(store) if name.version == version)
    return load_message(store, found.path)


@LIBRARIES
def test_both_go_on_after_a_restore(tmp_path: Path, first: Any) -> None:
    path, second = str(tmp_path / "t"), other(first)
    write(second, path, {"a": [1, 2]}, "create")
    write(first, path, {"a": [3]})
    second.dataset(path).delete("a = 2")
    write(first, path, {"b": [True]}, "overwrite")
    old = first.dataset(path, version=3)
    old.restore()
    for library in (pilum, lance):
        found = library.dataset(path)
        assert (found.version, found.to_table()["a"].to_pylist()) == (5, [1, 3])
    write(second, path, {"a": [4]})
    first.dataset(path).delete("a = 1")
    second.dataset(path, version=6).restore()
    write(first, path, {"a": [5]})
    theirs = lance.dataset(path)
    theirs.validate()
    assert theirs.to_table().equals(pilum.dataset(path).to_table())
    assert theirs.to_table()["a"].to_pylist() == [1, 3, 4, 5]
    ids = [fragment.fragment_id for fragment in theirs.get_fragments()]
    assert ids == [0, 1, 3, 4]


def test_the_same_manifest_as_the_reference(tmp_path: Path) -> None:
    """Version by version, but for names of files, moments and who restored."""
    path = str(tmp_path / "t")
    write(pilum, path, {"a": [1, 2]}, "create")
    write(pilum, path, {"a": [3]})
    write(lance, path, {"b": [True]}, "overwrite")
    for version in (1, 2, 3):
        pilum.dataset(path, version=version).restore()
        lance.dataset(path, version=version).restore()
        latest = lance.dataset(path).version
        mine, theirs = message(path, latest - 1), message(path, latest)
        for found in (mine, theirs):
            for name in ("version", "timestamp", "transaction_file"):
                found.ClearField(name)
            for name in ("transaction_section", "index_section"):
                found.ClearField(name)
        assert mine == theirs
        transactions = lance.dataset(path).get_transactions(2)
        assert [found.operation for found in transactions] == [
            lance.LanceOperation.Restore(version=version)
        ] * 2
