"""Tables as old releases left them: files that are gone, fragments that share an id."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from faults.test_bad_tables import patch_manifest

import pilum
from pilum import Session
from pilum.errors import CorruptFileError, NotFoundError
from pilum.format.pb import table_pb2


def forget_rows(message: table_pb2.Manifest) -> None:
    """Leave out what the writers before 0.8 did not record."""
    message.ClearField("writer_version")
    for fragment in message.fragments:
        fragment.physical_rows = 0


def test_a_table_whose_uncounted_files_are_gone_still_says_what_it_was(tmp_path: Path) -> None:
    root = tmp_path / "t"
    pilum.write_dataset({"a": [1, 2, 3]}, root)
    patch_manifest(root, forget_rows)
    assert pilum.dataset(root, session=Session()).count_rows() == 3
    shutil.rmtree(root / "data")
    dataset = pilum.dataset(root, session=Session())
    assert dataset.schema.names == ["a"]
    assert [one["version"] for one in dataset.versions()] == [1]
    assert dataset.list_indices() == []
    assert dataset.tags.list() == {}
    assert [fault.kind for fault in dataset.verify().missing] == ["missing"]
    for read in (dataset.count_rows, dataset.to_table, dataset.get_fragments):
        with pytest.raises(NotFoundError):
            read()


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Three fragments, of which the last two have one id, as an append of 0.16 could leave."""
    root = tmp_path / "t"
    table = {"a": list(range(9)), "s": [f"text {number}" for number in range(9)]}
    dataset = pilum.write_dataset(table, root, max_rows_per_file=3)
    dataset.delete("a = 1")
    (root / "_versions" / f"{2**64 - 2:020}.manifest").unlink()

    def change(message: table_pb2.Manifest) -> None:
        message.fragments[2].id = message.fragments[1].id

    patch_manifest(root, change)
    return root


@pytest.mark.parametrize("rows", [[0], [7, 2, 4, 7, 0, 1], [], list(range(8))])
def test_rows_of_fragments_that_share_an_id_are_taken_by_position(
    shared: Path, rows: list[int]
) -> None:
    left = [0, 2, 3, 4, 5, 6, 7, 8]
    taken = pilum.dataset(shared).take(rows)
    assert taken["a"].to_pylist() == [left[row] for row in rows]
    assert taken["s"].to_pylist() == [f"text {left[row]}" for row in rows]


def test_rows_of_fragments_that_share_an_id_have_no_address(shared: Path) -> None:
    dataset = pilum.dataset(shared)
    assert dataset.sample(5).num_rows == 5
    with pytest.raises(CorruptFileError, match="read them by position"):
        dataset.take_rows([1 << 32])
    assert [fault.what for fault in dataset.verify().damaged] == ["two fragments have one id"]
