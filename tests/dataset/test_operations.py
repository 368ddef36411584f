"""Commits by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum import LanceDataset, LanceOperation, Transaction
from pilum.errors import CommitConflictError, DatasetNotFoundError, InvalidInputError
from pilum.fragment import write_fragments

TABLE = pa.table({"a": [1, 2, 3], "s": ["x", "y", None]})
NO_FRAGMENTS: Any = ["x"]


def test_a_table_can_be_made_by_hand(tmp_path: Path) -> None:
    fragments = write_fragments(TABLE, tmp_path / "t", mode="create")
    operation = LanceOperation.Overwrite(TABLE.schema, fragments)
    found = LanceDataset.commit(tmp_path / "t", operation, commit_message="by hand")
    assert (found.version, found.to_table().equals(TABLE)) == (1, True)


def test_an_overwrite_replaces_the_latest_version(tmp_path: Path) -> None:
    pilum.write_dataset(TABLE, tmp_path / "t")
    other = pa.table({"b": [1.5]})
    fragments = write_fragments(other, tmp_path / "t", mode="overwrite")
    found = LanceDataset.commit(tmp_path / "t", LanceOperation.Overwrite(other.schema, fragments))
    assert (found.version, found.to_table().equals(other)) == (2, True)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_transaction_brings_all_that_its_commit_needs(tmp_path: Path, mode: str) -> None:
    pilum.write_dataset(TABLE, tmp_path / "t")
    transaction = write_fragments(TABLE, tmp_path / "t", mode=mode, return_transaction=True)
    assert isinstance(transaction, Transaction)
    found = LanceDataset.commit(tmp_path / "t", transaction)
    assert found.count_rows() == (6 if mode == "append" else 3)


def test_appends_from_the_same_version_stand_side_by_side(tmp_path: Path) -> None:
    base = pilum.write_dataset(TABLE, tmp_path / "t")
    written = [write_fragments(TABLE, base) for _ in range(3)]
    for fragments in written:
        found = LanceDataset.commit(base, LanceOperation.Append(fragments), read_version=1)
    assert (found.version, found.count_rows()) == (4, 12)


def test_an_append_does_not_survive_an_overwrite(tmp_path: Path) -> None:
    base = pilum.write_dataset(TABLE, tmp_path / "t")
    fragments = write_fragments(TABLE, base)
    pilum.write_dataset(TABLE, base, mode="overwrite")
    with pytest.raises(CommitConflictError, match="overwrite of version 2"):
        LanceDataset.commit(base, LanceOperation.Append(fragments), read_version=1)
    assert pilum.dataset(tmp_path / "t").version == 2


def test_without_retries_an_overwrite_follows_its_version_alone(tmp_path: Path) -> None:
    """All else follows what it is compatible with, as in the reference."""
    path = tmp_path / "t"
    pilum.write_dataset(TABLE, path).update_config({"a": "b"})
    found = LanceDataset.commit(path, LanceOperation.Append([]), read_version=1, max_retries=0)
    assert found.version == 3
    overwrite = LanceOperation.Overwrite(TABLE.schema, [])
    with pytest.raises(CommitConflictError, match="for version 2 alone") as caught:
        LanceDataset.commit(path, overwrite, read_version=2, max_retries=0)
    assert caught.value.retryable
    assert LanceDataset.commit(path, overwrite, read_version=2).version == 4
    assert LanceDataset.commit(path, overwrite, read_version=4, max_retries=0).version == 5


@pytest.mark.parametrize(
    ("operation", "arguments", "reason"),
    [
        (LanceOperation.Append([]), {}, "read_version"),
        (LanceOperation.Append([]), {"read_version": -1}, "read_version"),
        (LanceOperation.Append([]), {"read_version": 1, "max_retries": -1}, "max_retries"),
        (LanceOperation.Append(NO_FRAGMENTS), {"read_version": 1}, "FragmentMetadata"),
        (LanceOperation.Overwrite("a", []), {}, "new_schema"),
        (LanceOperation.BaseOperation(), {"read_version": 1}, "expected one of LanceOperation"),
        (Transaction(1, LanceOperation.Append([])), {"read_version": 2}, "is for 1, not 2"),
    ],
)
def test_what_cannot_be_committed(
    tmp_path: Path, operation: Any, arguments: dict[str, Any], reason: str
) -> None:
    pilum.write_dataset(TABLE, tmp_path / "t")
    with pytest.raises(InvalidInputError, match=reason):
        LanceDataset.commit(tmp_path / "t", operation, **arguments)
    assert pilum.dataset(tmp_path / "t").version == 1


def test_nothing_to_append_to(tmp_path: Path) -> None:
    fragments = write_fragments(TABLE, tmp_path / "t")
    with pytest.raises(DatasetNotFoundError):
        LanceDataset.commit(tmp_path / "t", LanceOperation.Append(fragments), read_version=0)


def test_updates_by_hand(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(TABLE, tmp_path / "t")
    image = dataset.get_fragments()[0].delete("a = 2")
    assert image is not None
    new = write_fragments(pa.table({"a": [20], "s": ["new"]}), dataset)
    operation = LanceOperation.Update([], [image], new, fields_for_preserving_frag_bitmap=[0, 1])
    found = LanceDataset.commit(dataset, operation, read_version=1)
    assert found.to_table()["a"].to_pylist() == [1, 3, 20]
    with pytest.raises(CommitConflictError) as error:  # it does not know its rows
        LanceDataset.commit(dataset, operation, read_version=1)
    assert error.value.retryable


@pytest.mark.parametrize(
    ("operation", "match"),
    [
        (LanceOperation.Update([7]), "no fragments"),
        (LanceOperation.Update(updated_fragments=NO_FRAGMENTS), "expected FragmentMetadata"),
        (LanceOperation.Update(update_mode="other"), "update_mode"),
        (LanceOperation.Update(fields_modified=[-1]), "fields_modified"),
        (LanceOperation.Update([-1]), "removed_fragment_ids"),
    ],
)
def test_updates_that_make_no_sense(
    tmp_path: Path, operation: LanceOperation.Update, match: str
) -> None:
    dataset = pilum.write_dataset(TABLE, tmp_path / "t")
    with pytest.raises(InvalidInputError, match=match):
        LanceDataset.commit(dataset, operation, read_version=1)
    assert pilum.dataset(tmp_path / "t").version == 1
