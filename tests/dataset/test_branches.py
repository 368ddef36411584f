"""Branches: lines of history that begin with a version of another one."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pilum
from pilum import LanceDataset, LanceOperation
from pilum.errors import (
    BranchAlreadyExistsError,
    BranchNotFoundError,
    CorruptFileError,
    InvalidInputError,
    NotFoundError,
    PilumError,
    VersionNotFoundError,
)
from pilum.fragment import write_fragments
from pilum.storage.local import LocalStore
from pilum.table.refs.branches import Branch


@pytest.fixture
def main(tmp_path: Path) -> LanceDataset:
    """Versions 1, 2 and 3 with rows up to their number."""
    for number in (1, 2, 3):
        found = pilum.write_dataset({"a": [number]}, tmp_path / "t", mode="append")
    return found


def values(dataset: LanceDataset) -> list[int]:
    return sorted(dataset.to_table()["a"].to_pylist())


def files(dataset: LanceDataset) -> set[Path]:
    return {path for path in Path(dataset.uri).rglob("*") if path.is_file()}


def test_a_branch_goes_on_by_itself(main: LanceDataset) -> None:
    branch = main.create_branch("dev", 2)
    assert (branch.version, values(branch)) == (2, [1, 2])
    branch.insert({"a": [10]})
    branch.delete("a = 1")
    branch.update_config({"on": "dev"})
    main.insert({"a": [4]})
    main.checkout_latest()
    assert (main.version, values(main), main.config()) == (4, [1, 2, 3, 4], {})
    assert (branch.version, values(branch), branch.config()) == (5, [2, 10], {"on": "dev"})
    assert [entry["version"] for entry in branch.versions()] == [2, 3, 4, 5]
    assert branch.latest_version == 5
    branch.add_columns({"b": "a * 2"})
    branch.checkout_version(3).restore()
    branch.checkout_latest()
    assert values(branch) == [1, 2, 10]
    assert main.schema.names == ["a"]


def test_references_reach_every_line(main: LanceDataset) -> None:
    branch = main.create_branch("dev/x", 1)
    branch.insert({"a": [7]})
    main.tags.create("main-tag", 3)
    branch.tags.create("tag")
    assert main.tags.list()["tag"]["branch"] == "dev/x"
    assert sorted(branch.tags.list()) == ["main-tag", "tag"]
    for at in (main, branch):
        for reference, version, rows in (
            (("dev/x", None), 2, [1, 7]),
            (("dev/x", 1), 1, [1]),
            ("tag", 2, [1, 7]),
            ("main-tag", 3, [1, 2, 3]),
            (("main", 2), 2, [1, 2]),
            ((None, None), 3, [1, 2, 3]),
        ):
            found = at.checkout_version(reference)
            assert (found.version, values(found)) == (version, rows)
            assert values(pilum.dataset(at.uri, reference)) == rows
            assert values(pickle.loads(pickle.dumps(found))) == rows
    assert values(main.checkout_version(2)) == [1, 2]
    assert values(branch.checkout_version(2)) == [1, 7]
    branch.tags.update("main-tag", ("dev/x", None))
    assert main.checkout_version("main-tag").uri == branch.uri
    main.tags.update("main-tag", 2)
    assert values(branch.checkout_version("main-tag")) == [1, 2]


def test_everything_that_writes_writes_to_the_branch(main: LanceDataset) -> None:
    before = files(main)
    branch = main.create_branch("dev")
    pilum.write_dataset({"a": [4]}, branch, mode="append")
    written = write_fragments({"a": [5]}, branch)
    branch = LanceDataset.commit(branch, LanceOperation.Append(written), read_version=4)
    assert values(branch) == [1, 2, 3, 4, 5]
    new = files(main) - before
    assert {path.relative_to(main.uri).parts[0] for path in new} == {"_refs", "tree"}
    assert values(pilum.dataset(main.uri)) == [1, 2, 3]
    pilum.write_dataset({"a": [9]}, branch, mode="overwrite")
    branch.checkout_latest()
    assert (branch.version, values(branch)) == (6, [9])
    assert branch.snapshot.manifest.branch == "dev"


def test_branches_of_branches(main: LanceDataset) -> None:
    dev = main.create_branch("dev")
    dev.insert({"a": [4]})
    feature = dev.create_branch("dev/feature")
    feature.insert({"a": [5]})
    last = main.create_branch("last", ("dev/feature", None))
    assert values(last) == [1, 2, 3, 4, 5]
    names = [base.name for base in last.snapshot.manifest.base_paths]
    assert names == [None, "dev", "dev/feature"]
    found = main.branches.list()
    assert [branch["parent_branch"] for branch in found.values()] == [None, "dev", "dev/feature"]
    assert [step[0] for step in found["last"]["branch_identifier"]] == [3, 4, 5]
    assert found["last"]["branch_identifier"][:2] == found["dev/feature"]["branch_identifier"]
    assert [name for name, _ in main.branches.list_ordered()] == ["last", "dev/feature", "dev"]
    assert [name for name, _ in main.branches.list_ordered("asc")] == ["dev", "dev/feature", "last"]


def test_notes_of_a_branch(main: LanceDataset) -> None:
    main.create_branch("dev")
    main.branches.replace_metadata("dev", {"why": "to try"})
    assert main.branches.list()["dev"]["metadata"] == {"why": "to try"}
    with pytest.raises(BranchNotFoundError):
        main.branches.replace_metadata("other", {})
    with pytest.raises(InvalidInputError):
        main.branches.replace_metadata("dev", {"n": 1})  # type: ignore[dict-item]


NAMES = ("", "main", "a b", "a//b", "/a", "a/", "..", "a/../b", ".", "a/.", "a.lock", "a\\b", "a\n")


@pytest.mark.parametrize("name", [*NAMES, "dev/data", "a/_versions", "a/_deletions/b", None, 3])
def test_names_that_are_refused(main: LanceDataset, name: Any) -> None:
    before = files(main)
    with pytest.raises(InvalidInputError, match="branch"):
        main.create_branch(name)
    assert files(main) == before


@pytest.mark.parametrize(
    ("reference", "error"),
    [
        (9, VersionNotFoundError),
        (("dev", 9), VersionNotFoundError),
        (("no", 1), BranchNotFoundError),
        (("no", None), BranchNotFoundError),
        ("no-tag", NotFoundError),
        (("a//b", 1), InvalidInputError),
        ((["dev"], 1), InvalidInputError),
        (("dev", "1"), InvalidInputError),
        (("dev", 1, 2), InvalidInputError),
    ],
)
def test_what_is_not_there(main: LanceDataset, reference: Any, error: type[PilumError]) -> None:
    main.create_branch("dev")
    before = files(main)
    calls: list[Callable[[Any], Any]] = [
        lambda reference: main.create_branch("new", reference),
        main.checkout_version,
        lambda reference: pilum.dataset(main.uri, reference),
        lambda reference: main.tags.create("t", reference),
    ]
    for call in calls:
        with pytest.raises(error):
            call(reference)
    assert files(main) == before


def test_a_branch_is_created_once(main: LanceDataset) -> None:
    branch = main.create_branch("dev")
    branch.insert({"a": [4]})
    before = files(main)
    with pytest.raises(BranchAlreadyExistsError, match="'dev' already"):
        main.create_branch("dev", 1)
    assert files(main) == before


def test_of_several_creators_one_wins(main: LanceDataset) -> None:
    barrier, outcomes = Barrier(4), []

    def create(version: int) -> None:
        dataset = pilum.dataset(main.uri)
        barrier.wait()
        try:
            outcomes.append(dataset.create_branch("dev", version).version)
        except BranchAlreadyExistsError:
            outcomes.append(0)

    threads = [Thread(target=create, args=(version,)) for version in (1, 2, 3, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = filter(None, outcomes)
    branch = main.checkout_version(("dev", None))
    assert values(branch) == list(range(1, winner + 1))
    assert [entry["version"] for entry in branch.versions()] == [winner]
    assert main.branches.list()["dev"]["parent_version"] == winner


def test_what_an_interrupted_creation_leaves_is_no_branch(
    main: LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = type(main.snapshot.line.store)
    put, delete = store.put_if_absent, store.delete

    def interrupted(self: Any, path: str, data: bytes) -> bool:
        if path.startswith("_refs"):
            raise KeyboardInterrupt
        return bool(put(self, path, data))

    monkeypatch.setattr(store, "put_if_absent", interrupted)
    monkeypatch.setattr(store, "delete", lambda self, path: None)  # as if it was killed
    with pytest.raises(KeyboardInterrupt):
        main.create_branch("dev")
    monkeypatch.setattr(store, "put_if_absent", put)
    monkeypatch.setattr(store, "delete", delete)
    assert main.branches.list() == {}
    with pytest.raises(BranchNotFoundError):
        main.checkout_version(("dev", None))
    with pytest.raises(BranchAlreadyExistsError, match="interrupted"):
        main.create_branch("dev")
    main.branches.delete("dev")
    assert values(main.create_branch("dev", 1)) == [1]


def test_a_lost_answer_is_no_other_creator(
    main: LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = LocalStore.put_if_absent

    def lost(self: LocalStore, path: str, data: bytes) -> bool:
        put(self, path, data)
        return False

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "put_if_absent", lost)
        branch = main.create_branch("dev")
        clone = main.shallow_clone(f"{main.uri}-clone", 2)
    assert values(pilum.dataset(branch.uri)) == [1, 2, 3]
    assert values(pilum.dataset(clone.uri)) == [1, 2]
    assert list(main.branches.list()) == ["dev"]


def test_deleting_leaves_other_branches(main: LanceDataset) -> None:
    before = files(main)
    for name in ("dev", "dev/x", "de"):
        main.create_branch(name).insert({"a": [9]})
    main.branches.delete("dev")
    assert sorted(main.branches.list()) == ["de", "dev/x"]
    for name in ("dev/x", "de"):
        assert values(main.checkout_version((name, None))) == [1, 2, 3, 9]
    with pytest.raises(BranchNotFoundError, match="no branch 'dev'"):
        main.checkout_version(("dev", None))
    assert values(main.create_branch("dev", 1)) == [1]
    for name in ("dev", "dev/x", "de"):
        main.branches.delete(name)
    assert files(main) == before


def test_what_others_need_is_not_deleted(main: LanceDataset) -> None:
    dev = main.create_branch("dev")
    dev.create_branch("child")
    other = main.create_branch("other")
    other.tags.create("tag")
    before = files(main)
    for name, reason in (("dev", "child"), ("other", "tag"), ("main", "main line")):
        with pytest.raises(InvalidInputError, match=reason):
            main.branches.delete(name)
    for name in ("no", "dev/no"):
        with pytest.raises(BranchNotFoundError):
            main.branches.delete(name)
    with pytest.raises(InvalidInputError):
        main.branches.delete("../t")
    assert files(main) == before


def test_a_folder_of_a_branch_that_was_copied_is_a_table(
    main: LanceDataset, tmp_path: Path
) -> None:
    branch = main.create_branch("dev")
    Path(branch.uri).rename(tmp_path / "moved")
    moved = pilum.dataset(tmp_path / "moved")
    assert values(moved) == [1, 2, 3]
    moved.tags.create("here")
    assert moved.checkout_version("here").uri == moved.uri
    with pytest.raises(BranchNotFoundError, match="files are gone"):
        main.checkout_version(("dev", None))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
_MEMBERS = ("parentBranch", "parentVersion", "identifier", "createAt", "manifestSize", "metadata")
_GOOD = {"parentBranch": "a", "parentVersion": 3, "createAt": 7, "manifestSize": 9, "metadata": {}}


@given(_JSON | st.dictionaries(st.sampled_from(_MEMBERS), _JSON).map(lambda x: {**_GOOD, **x}))
def test_damaged_records_are_told(content: Any) -> None:
    try:
        branch = Branch.from_json(content, "here")
    except CorruptFileError:
        return
    assert Branch.from_json(json.loads(json.dumps(branch.to_json())), "here") == branch


def test_records_of_old_writers(main: LanceDataset) -> None:
    branch = main.create_branch("dev")
    record = Path(main.uri, "_refs", "branches", "dev.json")
    values = json.loads(record.read_text())
    for member in ("identifier", "metadata"):
        del values[member]
    record.write_text(json.dumps({**values, "later": 1}))
    assert main.branches.list()["dev"]["branch_identifier"] == []
    branch.create_branch("child")
    main.branches.replace_metadata("dev", {"a": "b"})
    assert json.loads(record.read_text())["later"] == 1
    record.write_text("{")
    with pytest.raises(CorruptFileError, match="not JSON"):
        main.checkout_version(("dev", 3))


def test_branches_and_clones_in_an_object_store(tmp_path: Path) -> None:
    uri = f"memory://{tmp_path.name}/t"
    main = pilum.write_dataset({"a": [1]}, uri)
    dev = main.create_branch("dev/x-y")
    dev.insert({"a": [2]})
    child = main.create_branch("child", ("dev/x-y", 2))
    child.delete("a = 1")
    main.tags.create("t", ("child", None))
    assert values(pilum.dataset(uri, "t")) == [2]
    assert values(pilum.dataset(child.uri)) == [2]
    deep = child.deep_clone(tmp_path / "local", child.version)
    shallow = deep.shallow_clone(f"{uri}-clone", deep.version)
    shallow.insert({"a": [3]})
    assert values(pilum.dataset(f"{uri}-clone")) == [2, 3]
    main.tags.delete("t")
    main.branches.delete("child")
    main.branches.delete("dev/x-y")
    assert main.branches.list() == {}
    assert values(deep) == [2]
