"""Cleanup: both libraries remove the same files, and go on with what the other has left."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum

lance: Any = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

_TEN_DAYS = 10 * 24 * 3600


def make(path: Path) -> None:
    """Versions with deletions, indices, a compaction, a tag and strays."""
    uri = str(path)
    for first in range(0, 40, 10):
        lance.write_dataset(pa.table({"a": range(first, first + 10)}), uri, mode="append")
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("a", "BTREE")
    dataset.delete("a = 3")
    dataset.delete("a = 4")
    dataset.optimize.compact_files()
    dataset.create_scalar_index("a", "BTREE", replace=True)
    pilum.write_dataset(pa.table({"a": [40]}), uri, mode="append")
    dataset = lance.dataset(uri)
    dataset.tags.create("kept", 3)
    for name in ("old.lance", "new.lance", "not-ours.txt"):
        (path / "data" / name).write_bytes(b"stray")
    (path / "_transactions" / "3-dead.txt").write_bytes(b"stray")
    for stray in ("data/old.lance", "data/not-ours.txt", "_transactions/3-dead.txt"):
        stamp = (path / stray).stat().st_mtime - _TEN_DAYS
        os.utime(path / stray, (stamp, stamp))


def files(path: Path) -> set[str]:
    return {
        str(file.relative_to(path))
        for file in path.rglob("*")
        if file.is_file() and "tree" not in file.parts
    }


@pytest.mark.parametrize(
    "arguments",
    [
        {"retain_versions": 1},
        {"retain_versions": 4},
        {"versions": [1, 2, 5, 7, 11]},
        {"older_than": timedelta(0)},
        {"older_than": timedelta(days=1)},
        {"older_than": timedelta(0), "retain_versions": 5},
        {},
    ],
)
def test_both_remove_the_same_files(tmp_path: Path, arguments: dict[str, Any]) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    make(theirs)
    shutil.copytree(theirs, ours)
    before = files(ours)
    arguments = {**arguments, "error_if_tagged_old_versions": False}
    explained = pilum.dataset(str(ours)).cleanup_old_versions(**arguments, dry_run=True)
    assert files(ours) == before
    found = pilum.dataset(str(ours)).cleanup_old_versions(**arguments)
    expected = lance.dataset(str(theirs)).cleanup_old_versions(**arguments)
    assert files(ours) == files(theirs)
    for name in ("bytes_removed", "old_versions", "data_files_removed", "deletion_files_removed"):
        assert getattr(found, name) == getattr(expected, name), name
    assert explained.stats == found
    assert {one.path for one in explained.candidate_files} == before - files(ours)
    left = lance.dataset(str(ours))
    for version in left.versions():
        there = lance.dataset(str(ours), version=version["version"])
        assert there.count_rows() == there.to_table().num_rows
    assert left.to_table(filter="a = 12").num_rows == 1
    assert lance.dataset(str(ours), version="kept").count_rows() == 30
    # And the other one finds nothing more to do.
    assert lance.dataset(str(ours)).cleanup_old_versions(**arguments).bytes_removed == 0


def test_versions_that_branches_began_with_stay(tmp_path: Path) -> None:
    path = tmp_path / "table"
    make(path)
    dataset = lance.dataset(str(path))
    dataset.create_branch("side", 6)
    dataset.checkout_version(("side", None)).create_branch("side/of/side", 6)
    ours = pilum.dataset(str(path))
    arguments: dict[str, Any] = {"retain_versions": 1, "error_if_tagged_old_versions": False}
    explained = ours.cleanup_old_versions(**arguments, dry_run=True)
    asked = lance.dataset(str(path)).explain_cleanup_old_versions(**arguments)
    found, expected = (
        sorted((b.name, b.referenced_version, b.cleanup_candidate) for b in one.referenced_branches)
        for one in (explained, asked)
    )
    assert found == expected == [("side", 6, False), ("side/of/side", 6, False)]
    assert explained.warnings[0] == "version 3 stays: tag 'kept'"
    ours.cleanup_old_versions(**arguments)
    left = [version["version"] for version in lance.dataset(str(path)).versions()]
    assert left == [3, 6, ours.version]
    for branch in ("side", "side/of/side"):
        theirs = lance.dataset(str(path)).checkout_version((branch, None))
        assert theirs.to_table().num_rows == 39
