"""Histories: what commits changed, and how two versions differ, beside a comparison of the rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError, NotFoundError
from pilum.inspection.history import changes_of, differences, picture_of
from pilum.pictures.history import Change


def rows(first: int, last: int, value: int = 0) -> pa.Table:
    return pa.table({"id": range(first, last), "value": [value] * (last - first)})


def changed_table(uri: Path, *, stable: bool) -> pilum.LanceDataset:
    dataset = pilum.write_dataset(rows(0, 100), uri, enable_stable_row_ids=stable)
    dataset.insert(rows(100, 150))
    dataset.delete("id >= 140")
    dataset.update({"value": "value + 1"}, where="id < 20")
    dataset.update({"value": "value + 1"}, where="id < 5")
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows(130, 145, value=7))
    dataset.optimize.compact_files()
    return dataset


def counts_of(
    older: pilum.LanceDataset, newer: pilum.LanceDataset, key: str = "id"
) -> tuple[int, int, int]:
    """Compare all rows by a key."""
    columns = [key, "value"]
    old, new = (
        dict(zip(*one.to_table(columns).to_pydict().values(), strict=True))
        for one in (older, newer)
    )
    changed = sum(old[key] != new[key] for key in old.keys() & new.keys())
    return len(new.keys() - old.keys()), len(old.keys() - new.keys()), changed


def test_each_commit_says_what_it_changed(tmp_path: Path) -> None:
    dataset = changed_table(tmp_path / "t", stable=False)
    changes = changes_of(dataset)
    assert [one.version for one in changes] == list(range(1, dataset.version + 1))
    parts = {one.version: one.difference for one in changes if one.difference is not None}
    found = {
        version: (one.rows_added, one.rows_removed, one.rows_changed)
        for version, one in parts.items()
    }
    for version in range(2, 7):
        before, now = (dataset.checkout_version(number) for number in (version - 1, version))
        assert found[version] == counts_of(before, now)
    assert {found[version] for version in range(7, dataset.version + 1)} == {(0, 0, 0)}
    assert changes[-1].operation == "rewrite"
    assert changes_of(dataset, most=2) == changes[-2:]
    assert changes_of(dataset, since=3) == changes[3:]
    assert changes_of(dataset, most=0) == []
    pictured = picture_of("t", changes).steps
    assert [step.rows for step in pictured][:3] == [100, 150, 140]
    assert pictured[3].change is Change.CHANGED


def test_with_stable_ids_rows_are_counted_exactly(tmp_path: Path) -> None:
    dataset = changed_table(tmp_path / "t", stable=True)
    for begin, end in ((1, 5), (2, 6), (3, dataset.version), (1, dataset.version)):
        older, newer = dataset.checkout_version(begin), dataset.checkout_version(end)
        found = differences(older, newer)
        assert found.is_exact
        counts = found.rows_added, found.rows_removed, found.rows_changed
        assert counts == counts_of(older, newer, "_rowid")


def test_without_them_the_commits_are_added_up(tmp_path: Path) -> None:
    dataset = changed_table(tmp_path / "t", stable=False)
    older, newer = dataset.checkout_version(3), dataset.checkout_version(5)
    found = differences(older, newer)
    assert not found.is_exact
    assert found.rows_changed == 25  # five rows changed twice
    dataset.optimize.compact_files()
    dataset.cleanup_old_versions(versions=[4])
    with pytest.raises(NotFoundError, match="commit by commit"):
        differences(older, newer)
    four = changes_of(dataset)[3]
    assert (four.version, four.difference) == (5, None)
    with pytest.raises(InvalidInputError, match="expected an older"):
        differences(newer, older)


def test_columns_indices_and_settings(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(rows(0, 10), tmp_path / "t")
    begin = dataset.checkout_version(1)
    dataset.add_columns({"double": "value * 2"})
    dataset.alter_columns({"path": "value", "name": "amount"})
    dataset.create_scalar_index("id", "BTREE")
    dataset.drop_columns(["double"])
    dataset.add_columns({"new\x1b[1m": "id + 1"})
    dataset.optimize.enable_auto_cleanup({"interval": 5, "older_than_seconds": 60})
    found = differences(begin, dataset)
    assert found.columns_added == ("new\x1b[1m: int64",)
    assert found.columns_changed == ("value: int64 → amount: int64",)
    assert found.columns_removed == ()
    assert found.indices_added == ("id_idx",)
    assert [key.rpartition(".")[2] for key in found.config_changed] == ["interval", "older_than"]
    assert found.bytes_added > 0
    assert found.fragments_added == 0


def test_damaged_versions_are_named(tmp_path: Path) -> None:
    dataset = changed_table(tmp_path / "t", stable=False)
    manifests = sorted((tmp_path / "t" / "_versions").glob("*.manifest"), reverse=True)
    manifests[2].write_bytes(b"damaged")
    changes = changes_of(dataset)
    assert changes[2].version == 3
    assert changes[2].fault
    assert changes[3].difference is None
    assert 3 not in [step.version for step in picture_of("t", changes).steps]
