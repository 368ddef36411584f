"""A damaged newest manifest: what it blocks, which is little, and the way back."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from faults.helpers import listing

import pilum
from pilum.cli.main import main
from pilum.errors import CommitConflictError, CorruptFileError, InvalidInputError
from pilum.table.upkeep.repair import plan_repair, restore_whole, set_aside
from pilum.table.versions.commit_handler import open_table


def newest_manifest(root: Path) -> Path:
    names = sorted((root / "_versions").glob("*.manifest"))
    return names[0] if len(names[0].stem) == 20 else names[-1]


def damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-2] ^= 0xFF
    file.write_bytes(data)


@pytest.fixture(params=[True, False])
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Three versions with names of either scheme, of which the newest is damaged."""
    path = tmp_path / "t"
    for number in range(3):
        pilum.write_dataset(
            {"a": [number]}, path, mode="append", enable_v2_manifest_paths=request.param
        )
    damage(newest_manifest(path))
    return path


def column(path: Path, version: int | None = None) -> Any:
    return pilum.dataset(path, version=version).to_table()["a"].to_pylist()


def test_the_error_names_the_table_and_the_version_that_is_whole(root: Path) -> None:
    with pytest.raises(CorruptFileError) as found:
        pilum.dataset(root)
    for text in (str(root), newest_manifest(root).name, "version 2 is whole", "pilum repair"):
        assert text in str(found.value)


def test_older_versions_open_and_all_are_listed(root: Path) -> None:
    assert column(root, 2) == [0, 1]
    versions = pilum.dataset(root, version=1).versions()
    assert [one["version"] for one in versions] == [1, 2, 3]
    assert ["damaged" in one["metadata"] for one in versions] == [False, False, True]
    assert versions[1]["timestamp"] <= versions[2]["timestamp"]


def test_a_moment_is_found_only_if_it_is_certain(root: Path) -> None:
    first, second, _ = pilum.dataset(root, version=1).versions()
    assert pilum.dataset(root, asof=first["timestamp"]).version == 1
    with pytest.raises(CorruptFileError):  # the damaged version may be the one of that moment
        pilum.dataset(root, asof=second["timestamp"] + timedelta(days=1))


def test_restoring_makes_a_version_after_the_damaged_one(root: Path) -> None:
    before = listing(root)
    dataset = pilum.dataset(root, version=2)
    dataset.restore()
    assert dataset.version == 4
    pilum.write_dataset({"a": [9]}, root, mode="append")
    assert column(root) == [0, 1, 9]
    after = listing(root)
    lost = [name for name, data in before.items() if after.get(name) != data]
    assert set(lost) <= {"_versions/latest_version_hint.json"}


def test_another_commit_is_refused(root: Path) -> None:
    stale = pilum.dataset(root, version=2)
    with pytest.raises(CorruptFileError):
        pilum.write_dataset({"a": [9]}, root, mode="overwrite")
    with pytest.raises((CorruptFileError, CommitConflictError)):
        stale.insert({"a": [9]})


def test_verify_reports_the_damaged_version_and_nothing_else(root: Path) -> None:
    report = pilum.dataset(root, version=1).verify(deep=True)
    assert [(one.version, one.path) for one in report.damaged] == [
        (3, f"_versions/{newest_manifest(root).name}")
    ]
    assert not report.missing
    assert not report.orphaned


def test_a_branch_whose_newest_version_is_damaged_is_still_one(tmp_path: Path) -> None:
    dataset = pilum.write_dataset({"a": [0]}, tmp_path / "t")
    branch = dataset.create_branch("dev")
    branch.insert({"a": [1]})
    folder = tmp_path / "t" / "tree" / "dev"
    damage(newest_manifest(folder))
    older = pilum.dataset(folder, version=branch.version - 1)
    assert older.to_table()["a"].to_pylist() == [0]
    older.restore()
    assert dataset.checkout_version(("dev", None)).to_table()["a"].to_pylist() == [0]


def test_the_command_explains_restores_and_sets_aside(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, before = str(root), listing(root)
    damaged = newest_manifest(root)
    assert main(["repair", path, "--dry-run"]) == 1
    assert "version 2" in capsys.readouterr().out
    assert main(["versions", path]) == 0
    assert "damaged" in capsys.readouterr().out.splitlines()[-1]
    assert main(["verify", path]) == 1
    assert "version 3" in capsys.readouterr().out
    assert main(["repair", path, "--set-aside"]) == 1  # its number would be given again
    assert listing(root) == before
    assert main(["repair", path, "--restore"]) == 0
    assert column(root) == [0, 1]
    assert main(["repair", path, "--restore"]) == 1  # there is nothing to go back from
    assert main(["cleanup", path]) == 1  # no one knows which files the damaged version needs
    content = damaged.read_bytes()
    assert main(["repair", path, "--set-aside"]) == 0
    assert Path(f"{damaged}.damaged").read_bytes() == content
    assert not damaged.exists()
    assert main(["repair", path]) == 0
    assert [one["version"] for one in pilum.dataset(root).versions()] == [1, 2, 4]
    assert main(["cleanup", path]) == 0
    data = [name for name in before if name.startswith("data/")]
    assert all((root / name).exists() for name in data)  # those of the damaged version wait


def test_who_repairs_at_the_same_time_changes_nothing_twice(root: Path) -> None:
    store = open_table(root)
    plan = plan_repair(store)
    assert restore_whole(store, plan) == 4
    pilum.write_dataset({"a": [9]}, root, mode="append")
    with pytest.raises(CommitConflictError, match="version 5 came after version 3"):
        restore_whole(store, plan)
    assert column(root) == [0, 1, 9]
    assert len(plan_repair(store).damaged) == 1
    plan = plan_repair(store)
    assert len(set_aside(store, plan)) == 1
    assert set_aside(store, plan) == []


def test_a_manifest_that_was_set_aside_before_is_not_replaced(root: Path) -> None:
    damaged = newest_manifest(root)
    other = Path(f"{damaged}.damaged")
    other.write_bytes(b"of another day")
    store = open_table(root)
    restore_whole(store, plan_repair(store))
    (moved,) = set_aside(store, plan_repair(store))
    assert other.read_bytes() == b"of another day"
    assert moved.endswith(".damaged-2")


def test_no_version_that_is_whole(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in (root / "_versions").glob("*.manifest"):
        if file != newest_manifest(root):
            damage(file)
    with pytest.raises(CorruptFileError, match="no other can be read"):
        pilum.dataset(root)
    before = listing(root)
    assert main(["repair", str(root)]) == 1
    assert "backup" in capsys.readouterr().out
    assert main(["repair", str(root), "--restore"]) == 1
    assert listing(root) == before


def test_a_folder_without_versions_is_nothing_to_repair(tmp_path: Path) -> None:
    pilum.write_dataset({"a": [0]}, tmp_path / "t")
    shutil.rmtree(tmp_path / "t" / "_versions")
    with pytest.raises(InvalidInputError, match="no version"):
        plan_repair(open_table(tmp_path / "t"))


def test_files_of_killed_writers_are_reported_with_the_day_they_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t"
    pilum.write_dataset(pa.table({"a": [0]}), path)
    left = path / "data" / "0101.lance"
    left.write_bytes(b"half a file")
    assert main(["cleanup", str(path), "--dry-run"]) == 0
    assert "1 files (11 B)" in capsys.readouterr().out
    assert main(["cleanup", str(path)]) == 0
    assert "--delete-unverified" in capsys.readouterr().err
    assert left.exists()
    assert main(["cleanup", str(path), "--delete-unverified"]) == 0
    assert not left.exists()
    assert column(path) == [0]
