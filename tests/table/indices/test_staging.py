"""Parts of a full-text segment that tasks of either library write and merge."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import lance
import lance.query
import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from pilum.query import MatchQuery, PhraseQuery
from pilum.storage.local import LocalStore

WORDS: dict[str, Any] = {"stem": False, "remove_stop_words": False, "with_position": True}
QUERIES = (("a", MatchQuery), ("b d", MatchQuery), ("c a", PhraseQuery))


def _write(path: Path, *, stable: bool = False) -> pilum.LanceDataset:
    texts = ["a b", "b c", None, "c a", "d a", "", "b", "d c a", "a"]
    rows = pa.table({"s": texts, "i": range(9)})
    made = pilum.write_dataset(rows, path, max_rows_per_file=2, enable_stable_row_ids=stable)
    made.delete("i = 6")
    return pilum.dataset(path)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("writer", [pilum, lance], ids=["written here", "written there"])
@pytest.mark.parametrize("merger", [pilum, lance], ids=["merged here", "merged there"])
def test_parts(tmp_path: Path, writer: Any, merger: Any, stable: bool) -> None:
    """A merged segment answers as one that is built at once, in both libraries."""
    dataset, name = _write(tmp_path / "t", stable=stable), str(uuid.uuid4())
    path = str(tmp_path / "t")
    for ids in ([0, 1], [2], [3, 4]):
        writer.dataset(path).create_scalar_index(
            "s", "INVERTED", name="x", fragment_ids=ids, index_uuid=name, **WORDS
        )
    assert writer.dataset(path).version == dataset.version
    merger.dataset(path).merge_index_metadata(name, "INVERTED")
    folder = tmp_path / "t" / "_indices" / name
    files = sorted(one.name for one in folder.rglob("*") if one.is_file())
    assert files == [
        "metadata.lance",
        *(f"part_0_{what}.lance" for what in ("docs", "invert", "tokens")),
    ]
    existing = {one.fragment_id for one in dataset.get_fragments()}
    # Built at once, it has the same details.
    at_once = dataset.create_index_uncommitted(
        "s", "INVERTED", name="x", fragment_ids=existing, **WORDS
    )
    entry = pilum.Index(
        uuid=name,
        name="x",
        fields=at_once.fields,
        dataset_version=dataset.version,
        fragment_ids=existing,
        index_version=at_once.index_version,
        index_details=at_once.index_details,
    )
    operation = pilum.LanceOperation.CreateIndex([entry], [])
    pilum.LanceDataset.commit(path, operation, read_version=dataset.version)
    other = _write(tmp_path / "other", stable=stable)
    other.create_scalar_index("s", "INVERTED", name="x", **WORDS)
    columns = ["i", "_score"]
    for text, query in QUERIES:
        expected = other.to_table(columns, full_text_query=query(text, "s"))
        found = pilum.dataset(path).to_table(columns, full_text_query=query(text, "s"))
        assert found.to_pylist() == expected.to_pylist()
        theirs = getattr(lance.query, query.__name__)(text, "s")
        there = lance.dataset(path).to_table(columns, full_text_query=theirs)
        key = [("_score", "descending"), ("i", "ascending")]
        assert there.sort_by(key).to_pylist() == expected.sort_by(key).to_pylist()


def test_refused_parts(tmp_path: Path) -> None:
    """Parts need fragments that exist, and one uuid; other types have no parts."""
    dataset, name = _write(tmp_path / "t"), str(uuid.uuid4())
    for ids, given, message in (
        ([0], None, "index_uuid"),
        ([], name, "at least one"),
        ([9], name, "no fragments"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            dataset.create_scalar_index("s", "INVERTED", fragment_ids=ids, index_uuid=given)
    with pytest.raises(InvalidInputError, match="create_index_uncommitted"):
        dataset.create_scalar_index("i", "BTREE", fragment_ids=[0], index_uuid=name)
    with pytest.raises(UnsupportedFeatureError, match="create_index_uncommitted"):
        dataset.merge_index_metadata(name, "BTREE")
    with pytest.raises(NotFoundError, match="no staged partitions"):
        dataset.merge_index_metadata(name, "INVERTED")
    dataset.create_scalar_index("s", "INVERTED", fragment_ids=[0], index_uuid=name, stem=False)
    dataset.create_scalar_index("s", "INVERTED", fragment_ids=[1], index_uuid=name, stem=True)
    with pytest.raises(InvalidInputError, match="different parameters"):
        dataset.merge_index_metadata(name, "INVERTED")


@pytest.mark.parametrize("writer", [pilum, lance], ids=["written here", "written there"])
def test_parts_of_the_same_rows_are_refused(tmp_path: Path, writer: Any) -> None:
    """A job that begins again with other tasks must not find rows twice."""
    dataset, name = _write(tmp_path / "t"), str(uuid.uuid4())
    for ids in ([0], [1], [0, 1]):
        writer.dataset(str(tmp_path / "t")).create_scalar_index(
            "s", "INVERTED", name="x", fragment_ids=ids, index_uuid=name, **WORDS
        )
    with pytest.raises(InvalidInputError, match="the same rows"):
        dataset.merge_index_metadata(name, "INVERTED")


def test_parts_that_cannot_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge is complete without them, and another one does not replace it by what is left."""
    dataset, name = _write(tmp_path / "t"), str(uuid.uuid4())
    for number in (0, 1):
        dataset.create_scalar_index(
            "s", "INVERTED", name="x", fragment_ids=[number], index_uuid=name, **WORDS
        )
    delete = LocalStore.delete
    deleted: list[str] = []

    def failing(store: LocalStore, path: str) -> None:
        if "staging" in path and deleted:
            raise OSError("no connection")
        deleted.append(path)
        delete(store, path)

    monkeypatch.setattr(LocalStore, "delete", failing)
    dataset.merge_index_metadata(name, "INVERTED")
    folder = tmp_path / "t" / "_indices" / name
    merged = {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
    assert len(deleted) == 1
    assert len(merged) == 4
    with pytest.raises(InvalidInputError, match="merged already"):
        dataset.merge_index_metadata(name, "INVERTED")
    assert merged == {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
