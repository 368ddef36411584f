"""Changes between versions: what is asked wrongly, and what cannot be told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError, VersionNotFoundError


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    """Six rows, of which the second version deletes two; the third adds one."""
    table = pa.table({"a": range(6)})
    options: Any = {"enable_stable_row_ids": True, "max_rows_per_file": 3}
    dataset = pilum.write_dataset(table, tmp_path / "t", **options)
    dataset.delete("a in (1, 5)")
    return pilum.write_dataset(table.slice(0, 1), tmp_path / "t", mode="append")


def test_changes_since_a_version(dataset: pilum.LanceDataset) -> None:
    delta = dataset.delta(1)
    assert delta.get_inserted_rows().read_all().to_pydict() == {
        "a": [0],
        "_rowid": [6],
        "_row_created_at_version": [3],
        "_row_last_updated_at_version": [3],
    }
    assert delta.get_updated_rows().read_all().num_rows == 0
    assert delta.get_deleted_row_ids().read_all().to_pydict() == {"_rowid": [1, 5]}
    assert dataset.delta(2).get_deleted_row_ids().read_all().num_rows == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"begin_version": 1},
        {"end_version": 1},
        {"compared_against": 1, "begin_version": 1, "end_version": 2},
        {"compared_against": -1},
        {"begin_version": "1", "end_version": 2},
    ],
)
def test_versions_that_make_no_sense(dataset: pilum.LanceDataset, arguments: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"version|compared_against"):
        dataset.delta(**arguments)


def test_deleted_rows_need_both_versions(dataset: pilum.LanceDataset) -> None:
    with pytest.raises(InvalidInputError, match="later"):
        dataset.delta(begin_version=2, end_version=1).get_deleted_row_ids()
    with pytest.raises(VersionNotFoundError):
        dataset.delta(begin_version=2, end_version=9).get_deleted_row_ids()


def test_without_stable_ids_nobody_can_tell(tmp_path: Path) -> None:
    delta = pilum.write_dataset(pa.table({"a": [1]}), tmp_path / "t").delta(0)
    for read in (delta.get_inserted_rows, delta.get_updated_rows):
        with pytest.raises(InvalidInputError, match="no stable row ids"):
            read()


def test_transactions_tell_how(dataset: pilum.LanceDataset) -> None:
    found = dataset.delta(begin_version=0, end_version=3).list_transactions()
    assert [type(one.operation).__name__ for one in found if one] == [
        "Overwrite",
        "Delete",
        "Append",
    ]
    assert [one.read_version for one in dataset.delta(2).list_transactions() if one] == [2]
    assert dataset.delta(begin_version=2, end_version=1).list_transactions() == []
    with pytest.raises(VersionNotFoundError):
        dataset.delta(begin_version=2, end_version=9).list_transactions()
