"""Files whose null structs other readers do not see: read rightly, found and written again."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from interop.null_structs import member_paths, value_at

import pilum
from pilum.optimize import Compaction

FIXTURE = Path(__file__).parents[2] / "fixtures" / "structs-with-hidden-nulls.tar.xz"
FULL: dict[str, Any] = {"target_rows_per_fragment": 20}
MEMBERS = {"2.1": "c.x, c.s.y, l.item.x", "2.2": "c.x, c.s.y, l.item.x, f.v.item.w"}
STRUCTS = pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())]))


@pytest.fixture(params=["2.1", "2.2"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> pilum.LanceDataset:
    """A fragment with null structs that members do not know of, and one without nulls."""
    with tarfile.open(FIXTURE) as packed:
        packed.extractall(tmp_path, filter="data")
    [uri] = (tmp_path / request.param).glob("*.lance")
    return pilum.dataset(uri)


def test_members_alone_are_read_rightly(old: pilum.LanceDataset) -> None:
    table = old.to_table()
    for column in table.schema:
        rows = table[column.name].to_pylist()
        for path in member_paths(column):
            name = ".".join(path)
            expected = [value_at(row, path[1:]) for row in rows]
            assert old.to_table(columns=[name])[name].to_pylist() == expected
            assert old.count_rows(f"{name} IS NULL") == expected.count(None)
            nulls = [row for row, value in enumerate(expected) if value is None]
            assert old.to_table(columns=["a"], filter=f"{name} IS NULL")["a"].to_pylist() == nulls


def test_verify_names_file_and_members(old: pilum.LanceDataset) -> None:
    report = old.verify(deep=True)
    assert report.is_valid
    [fault] = report.misread
    [file] = old.get_fragments()[0].data_files()
    assert (fault.kind, fault.path, fault.version) == ("misread", f"data/{file.path}", 2)
    assert fault.size_bytes == file.file_size_bytes
    version = f"{file.file_major_version}.{file.file_minor_version}"
    assert f"around {MEMBERS[version]};" in fault.what
    assert "1 misread" in str(report)


def test_compaction_writes_full_fragments_again(old: pilum.LanceDataset) -> None:
    table, untouched = old.to_table(), old.get_fragments()[1].metadata
    old.optimize.compact_files(**FULL)
    assert not old.verify(deep=True).misread
    assert old.to_table().sort_by("a") == table
    assert untouched in [fragment.metadata for fragment in old.get_fragments()]
    assert Compaction.plan(old, FULL).num_tasks() == 0


def test_excluded_fragments_stay(old: pilum.LanceDataset) -> None:
    assert Compaction.plan(old, {**FULL, "excluded_fragment_ids": [0]}).num_tasks() == 0


def test_damaged_files_are_left_to_verify(old: pilum.LanceDataset, tmp_path: Path) -> None:
    for file in tmp_path.glob("*/*.lance/data/*"):
        file.write_bytes(b"damage" * 100)
    old = pilum.dataset(old.uri)
    assert Compaction.plan(old, FULL).num_tasks() == 0
    report = old.verify()
    assert (len(report.damaged), len(report.misread)) == (2, 0)


@pytest.mark.parametrize("column", [pa.array(["a", None]), STRUCTS], ids=["text", "structs"])
def test_new_files_are_read_rightly_by_all(tmp_path: Path, column: pa.Array) -> None:
    dataset = pilum.write_dataset(pa.table({"c": column}), tmp_path / "table")
    assert not dataset.verify().misread
    assert Compaction.plan(dataset, {"target_rows_per_fragment": 1}).num_tasks() == 0
