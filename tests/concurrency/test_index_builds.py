"""Indices are built from a version that others have changed since: conflicts, or right answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.errors import CommitConflictError
from pilum.index.queries import IsIn
from pilum.table.indices.open_segments import open_segments


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"a": pa.array([one % 7 for one in numbers], pa.int64()), "b": numbers})


def replace_values(dataset: pilum.LanceDataset) -> None:
    image, fields = dataset.get_fragments()[1].update_columns(
        pa.table({"b": [11, 12], "a": [5, 5]}), left_on="b"
    )
    operation = pilum.LanceOperation.Update(
        updated_fragments=[image], fields_modified=fields, update_mode="rewrite_columns"
    )
    pilum.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)


CHANGES: dict[str, Callable[[pilum.LanceDataset], object]] = {
    "append": lambda dataset: dataset.insert(rows(30, 5)),
    "delete": lambda dataset: dataset.delete("b < 4"),
    "delete a fragment": lambda dataset: dataset.delete("b < 10"),
    "update": lambda dataset: dataset.update({"a": "5"}, where="b > 7 AND b < 12"),
    "new values": replace_values,
    "add a column": lambda dataset: dataset.add_columns({"c": "a + b"}),
    "config": lambda dataset: dataset.update_config({"key": "value"}),
    "another index": lambda dataset: dataset.create_scalar_index("b", "BTREE"),
    "compact": lambda dataset: dataset.optimize.compact_files(),
    "compact and defer": lambda dataset: dataset.optimize.compact_files(
        defer_index_remap=None if dataset.has_stable_row_ids else True
    ),
    "overwrite": lambda dataset: pilum.write_dataset(rows(0, 9), dataset, mode="overwrite"),
    "restore": lambda dataset: dataset.checkout_version(2).restore(),
    "drop the column": lambda dataset: dataset.drop_columns(["a"]),
    "the same index": lambda dataset: dataset.create_scalar_index("a", "BTREE"),
}
CONFLICTS = {"compact", "compact and defer", "overwrite", "restore", "the same index"}


def check(dataset: pilum.LanceDataset) -> None:
    """The segments find the rows that are in their fragments."""
    table = dataset.to_table(columns=["a", "_rowaddr"])
    addresses, values = table["_rowaddr"].to_numpy(), table["a"].to_numpy()
    for segment in open_segments(dataset.snapshot, "a"):
        covered = np.isin(addresses >> np.uint64(32), list(segment.fragments))
        for value in range(7):
            answer = segment.search(IsIn(pa.array([value], pa.int64())))
            assert answer is not None
            found = answer.rows.within(np.sort(addresses[covered]))
            assert found.tolist() == np.sort(addresses[covered & (values == value)]).tolist()


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
@pytest.mark.parametrize("change", CHANGES)
def test_an_index_of_an_older_version(tmp_path: Path, change: str, kind: str, stable: bool) -> None:
    path = tmp_path / "t"
    dataset = pilum.write_dataset(
        rows(0, 30), path, max_rows_per_file=10, enable_stable_row_ids=stable
    )
    dataset.delete("b = 29")
    stale = pilum.dataset(path)
    CHANGES[change](dataset)
    if change == "drop the column":
        with pytest.raises(ValueError, match="no field 0 any more"):
            stale.create_scalar_index("a", kind)
        return
    if change in CONFLICTS:
        with pytest.raises(CommitConflictError):
            stale.create_scalar_index("a", kind)
        stale = pilum.dataset(path)
    stale.create_scalar_index("a", kind)
    check(stale)
    stale.insert(rows(40, 5))
    stale.optimize.optimize_indices()
    existing = {one.fragment_id for one in stale.get_fragments()}
    assert {one["name"]: {*(one["fragment_ids"] or ())} & existing for one in stale.list_indices()}[
        "a_idx"
    ] == existing
    check(stale)
    assert pilum.dataset(path).verify().is_valid


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
@pytest.mark.parametrize("change", sorted(CHANGES.keys() - {"drop the column"}))
def test_an_optimization_of_an_older_version(
    tmp_path: Path, change: str, kind: str, stable: bool
) -> None:
    path = tmp_path / "t"
    dataset = pilum.write_dataset(
        rows(0, 20), path, max_rows_per_file=10, enable_stable_row_ids=stable
    )
    dataset.create_scalar_index("a", kind)
    dataset.insert(rows(20, 10))
    stale = pilum.dataset(path)
    CHANGES[change](dataset)
    if change in CONFLICTS:
        with pytest.raises(CommitConflictError):
            stale.optimize.optimize_indices()
        stale = pilum.dataset(path)
    stale.optimize.optimize_indices()
    check(pilum.dataset(path))
    assert pilum.dataset(path).verify().is_valid
