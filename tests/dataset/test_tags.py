"""Tags: names for versions (S2.1)."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pilum
from pilum import LanceDataset
from pilum.errors import (
    BranchNotFoundError,
    CorruptFileError,
    DatasetNotFoundError,
    InvalidInputError,
    TagAlreadyExistsError,
    TagNotFoundError,
    VersionNotFoundError,
)
from pilum.table.refs.tags import Tag

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
_MEMBERS = ("branch", "version", "createdAt", "updatedAt", "manifestSize", "metadata")


@pytest.fixture
def dataset(tmp_path: Path) -> LanceDataset:
    """Versions 1, 2 and 3 with 1, 2 and 3 rows."""
    for number in range(3):
        found = pilum.write_dataset({"a": [number]}, tmp_path / "t", mode="append")
    return found


def tag_file(dataset: LanceDataset, name: str) -> Path:
    return Path(dataset.uri, "_refs", "tags", f"{name}.json")


def manifest_size(dataset: LanceDataset, version: int) -> int:
    return Path(dataset.uri, "_versions", f"{2**64 - 1 - version}.manifest").stat().st_size


def test_a_tag_opens_its_version(dataset: LanceDataset) -> None:
    dataset.tags.create("first", 1)
    dataset.tags.create("v2.0-rc_1", 2)
    for name, version in (("first", 1), ("v2.0-rc_1", 2)):
        assert dataset.tags.get_version(name) == version
        for found in (dataset.checkout_version(name), pilum.dataset(dataset.uri, name)):
            assert (found.version, found.count_rows()) == (version, version)
            assert pickle.loads(pickle.dumps(found)).version == version
    assert dataset.version == dataset.latest_version == 3


@pytest.mark.parametrize(
    ("reference", "version"),
    [
        (None, 2),
        (1, 1),
        ("other", 1),
        ((None, 2), 2),
        (("main", 1), 1),
        ((None, None), 3),
        (("main", None), 3),
    ],
)
def test_what_a_reference_means(dataset: LanceDataset, reference: Any, version: int) -> None:
    """None is the version of the dataset, no number is the newest one."""
    second = dataset.checkout_version(2)
    second.tags.create("other", 1)
    second.tags.create("new", reference)
    second.tags.create("moved", 1)
    second.tags.update("moved", reference)
    assert second.tags.get_version("new") == second.tags.get_version("moved") == version
    if reference is not None:
        assert second.checkout_version(reference).version == version
        assert pilum.dataset(dataset.uri, reference).version == version


def test_what_a_tag_says(dataset: LanceDataset) -> None:
    before = datetime.now(UTC)
    dataset.tags.create("t", 1)
    created = dataset.tags.list()["t"]
    assert created["created_at"] == created["updated_at"]
    assert created["created_at"] is not None
    assert before - timedelta(seconds=1) < created["created_at"] < datetime.now(UTC)
    rest = {"branch": None, "version": 1, "manifest_size": manifest_size(dataset, 1)}
    assert created == {**created, **rest, "metadata": {}}
    dataset.tags.replace_metadata("t", {"why": "ß"})
    noted = dataset.tags.list()["t"]
    assert noted == {**created, "metadata": {"why": "ß"}}
    dataset.tags.update("t", 3)
    moved = dataset.tags.list()["t"]
    assert moved["updated_at"] is not None
    assert moved["updated_at"] > created["created_at"]
    rest = {"version": 3, "manifest_size": manifest_size(dataset, 3)}
    assert moved == {**noted, **rest, "updated_at": moved["updated_at"]}


def test_lists_in_order(dataset: LanceDataset) -> None:
    for name, version in (("c", 1), ("a", 2), ("b", 1), ("d", 3)):
        dataset.tags.create(name, version)
    assert list(dataset.tags.list()) == ["a", "b", "c", "d"]
    assert [name for name, _ in dataset.tags.list_ordered()] == ["d", "a", "b", "c"]
    assert dataset.tags.list_ordered("desc") == dataset.tags.list_ordered()
    assert [name for name, _ in dataset.tags.list_ordered("asc")] == ["b", "c", "a", "d"]
    with pytest.raises(InvalidInputError, match="order"):
        dataset.tags.list_ordered("up")


def test_a_deleted_tag_is_gone_and_its_version_stays(dataset: LanceDataset) -> None:
    assert dataset.tags.list() == {}
    dataset.tags.create("t", 1)
    dataset.tags.delete("t")
    assert dataset.tags.list() == {}
    assert dataset.checkout_version(1).count_rows() == 1
    dataset.tags.create("t", 2)
    assert dataset.tags.get_version("t") == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda dataset: dataset.tags.get_version("no"),
        lambda dataset: dataset.tags.delete("no"),
        lambda dataset: dataset.tags.update("no", 1),
        lambda dataset: dataset.tags.replace_metadata("no", {}),
        lambda dataset: dataset.checkout_version("no"),
    ],
)
def test_tags_that_are_not_there(
    dataset: LanceDataset, call: Callable[[LanceDataset], object]
) -> None:
    with pytest.raises(TagNotFoundError, match="no tag 'no'"):
        call(dataset)
    with pytest.raises(DatasetNotFoundError):
        pilum.dataset(f"{dataset.uri}-elsewhere", "no")
    assert not Path(dataset.uri, "_refs").exists()


@pytest.mark.parametrize(
    ("reference", "error"),
    [
        (9, VersionNotFoundError),
        (0, VersionNotFoundError),
        (-1, VersionNotFoundError),
        (2**70, VersionNotFoundError),
        ("no", TagNotFoundError),
        (("dev", 1), BranchNotFoundError),
        ((None, "1"), InvalidInputError),
        ((1, 2, 3), InvalidInputError),
        (1.5, InvalidInputError),
        (True, InvalidInputError),
    ],
)
def test_versions_that_cannot_be_tagged(
    dataset: LanceDataset, reference: Any, error: type[Exception]
) -> None:
    dataset.tags.create("there", 1)
    with pytest.raises(error):
        dataset.tags.create("t", reference)
    with pytest.raises(error):
        dataset.tags.update("there", reference)
    assert {name: tag["version"] for name, tag in dataset.tags.list().items()} == {"there": 1}


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/b", "../a", ".a", "a.", "a..b", "a.lock", "a b", "a\n", "a%2f", "a\\b", 5],
)
def test_names_that_are_not_allowed(dataset: LanceDataset, name: Any) -> None:
    for call in (dataset.tags.create, dataset.tags.update, dataset.tags.delete):
        with pytest.raises(InvalidInputError, match="tag"):
            call(name)
    with pytest.raises(InvalidInputError):
        dataset.tags.get_version(name)
    assert not Path(dataset.uri, "_refs").exists()


def test_names_beyond_ascii_are_read_only(dataset: LanceDataset) -> None:
    """The reference makes them, and then fails to list them."""
    with pytest.raises(InvalidInputError, match="ASCII"):
        dataset.tags.create("é", 1)
    dataset.tags.create("e", 1)
    tag_file(dataset, "e").rename(tag_file(dataset, "%C3%A9"))
    assert list(dataset.tags.list()) == ["é"]
    assert dataset.checkout_version("é").version == 1
    dataset.tags.delete("é")
    assert dataset.tags.list() == {}


def test_of_several_creators_one_wins(dataset: LanceDataset) -> None:
    won: list[int] = []
    lost: list[Exception] = []

    def create(version: int) -> None:
        try:
            pilum.dataset(dataset.uri).tags.create("t", version)
            won.append(version)
        except TagAlreadyExistsError as error:
            lost.append(error)

    threads = [Thread(target=create, args=(1 + number % 3,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 7)
    assert dataset.tags.get_version("t") == won[0]
    assert [path.name for path in tag_file(dataset, "t").parent.iterdir()] == ["t.json"]


@pytest.mark.parametrize("kind", [ValueError, FileExistsError])
def test_an_existing_tag_is_no_new_one(dataset: LanceDataset, kind: type[Exception]) -> None:
    dataset.tags.create("t", 1)
    with pytest.raises(kind, match="'t' already"):
        dataset.tags.create("t", 2)
    assert dataset.tags.get_version("t") == 1


@pytest.mark.parametrize("metadata", [{"k": None}, {1: "v"}, {"k": "\ud800"}, "text", None])
def test_notes_are_texts(dataset: LanceDataset, metadata: Any) -> None:
    dataset.tags.create("t", 1)
    with pytest.raises(InvalidInputError, match="metadata"):
        dataset.tags.replace_metadata("t", metadata)
    assert dataset.tags.list()["t"]["metadata"] == {}


def test_old_tags_say_less_and_new_ones_more(dataset: LanceDataset) -> None:
    dataset.tags.create("t", 1)
    tag_file(dataset, "t").write_text('{"version": 2, "manifestSize": 7, "later": [1]}')
    tag_file(dataset, "t").with_suffix(".txt").write_text("not a tag")
    assert dataset.tags.list() == {
        "t": {
            "branch": None,
            "version": 2,
            "created_at": None,
            "updated_at": None,
            "manifest_size": 7,
            "metadata": {},
        }
    }
    assert dataset.checkout_version("t").version == 2
    dataset.tags.replace_metadata("t", {"a": "b"})
    assert json.loads(tag_file(dataset, "t").read_text())["later"] == [1]


def test_a_tag_of_a_branch_that_is_gone_is_listed(dataset: LanceDataset) -> None:
    dataset.tags.create("t", 1)
    tag_file(dataset, "t").write_text('{"branch": "dev", "version": 2, "manifestSize": 7}')
    assert dataset.tags.list()["t"]["branch"] == "dev"
    with pytest.raises(BranchNotFoundError, match="'dev'"):
        dataset.checkout_version("t")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "5",
        "{}",
        '{"version": 1}',
        '{"version": "1", "manifestSize": 1}',
        '{"version": -1, "manifestSize": 1}',
        '{"version": true, "manifestSize": 1}',
        '{"version": 1, "manifestSize": 1, "branch": 5}',
        '{"version": 1, "manifestSize": 1, "metadata": {"a": 1}}',
        '{"version": 1, "manifestSize": 1, "createdAt": "yesterday"}',
        '{"version": 1, "manifestSize": 1, "createdAt": "0001-01-01T00:00:00+14:00"}',
        "[" * 100_000,
        "9" * 10_000,
        b"\xff\xfe",
    ],
)
def test_damaged_tags(dataset: LanceDataset, text: str | bytes) -> None:
    dataset.tags.create("t", 1)
    tag_file(dataset, "t").write_bytes(text if isinstance(text, bytes) else text.encode())
    for call in (dataset.tags.list, lambda: dataset.tags.get_version("t")):
        with pytest.raises(CorruptFileError, match=r"t\.json"):
            call()
    with pytest.raises(CorruptFileError):
        dataset.tags.update("t", 1)
    assert pilum.dataset(dataset.uri).version == 3
    dataset.tags.delete("t")
    assert dataset.tags.list() == {}


@given(values=_JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(_MEMBERS, _JSON)))
def test_any_json_is_a_tag_or_damage(values: Any) -> None:
    with suppress(CorruptFileError):
        assert Tag.from_json(values, "t.json").version >= 0


def test_a_tag_survives_what_happens_to_the_table(dataset: LanceDataset) -> None:
    dataset.tags.create("good", 2)
    pilum.write_dataset({"b": [1]}, dataset.uri, mode="overwrite")
    found = pilum.dataset(dataset.uri, "good")
    found.restore()
    assert (found.version, found.count_rows()) == (5, 2)
    assert found.tags.get_version("good") == 2


@pytest.mark.parametrize("folder", ["tags", "branches"])
def test_a_folder_in_the_place_of_a_record_is_damage_and_no_absent_one(
    tmp_path: Path, folder: str
) -> None:
    """A version whose tag is taken for absent would be cleaned up."""
    path = tmp_path / "t"
    dataset = pilum.write_dataset({"a": [1]}, path)
    dataset.insert({"a": [2]})
    record = path / "_refs" / folder / "v1.json"
    record.mkdir(parents=True)
    (record / "x").write_text("{}")
    reads: list[Callable[[], object]] = [
        lambda: dataset.cleanup_old_versions(timedelta(0)),
        lambda: dataset.tags.list() if folder == "tags" else dataset.branches.list(),
        lambda: pilum.dataset(path, version="v1" if folder == "tags" else ("v1", None)),
    ]
    for read in reads:
        with pytest.raises(CorruptFileError, match=r"a folder(.|\n)*v1\.json"):
            read()
    assert [fault.path for fault in dataset.verify().damaged] == [f"_refs/{folder}/v1.json"]
    assert len(dataset.versions()) == 2
