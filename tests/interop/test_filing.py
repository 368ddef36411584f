"""Lists of files, and fragments of files that were written by hand, in both directions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.file import LanceFileWriter
from pilum.fragment import DataFile, LanceFragment

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

TABLE = pa.table({"a": range(300), "s": [{"x": 1, "y": "u"}] * 300})


def test_the_same_files_are_listed(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    made = lance.write_dataset(TABLE, uri, max_rows_per_file=200)
    made.create_scalar_index("a", "BTREE")
    pilum.dataset(uri).delete("a = 3")
    pilum.dataset(uri).insert(TABLE)
    for method in ("tracked_files", "all_files"):
        ours, theirs = (
            getattr(library.dataset(uri), method)().read_all() for library in (pilum, lance)
        )
        assert ours.schema == theirs.schema
        found, expected = (
            sorted(tuple(row.values())[:3] for row in table.to_pylist()) for table in (ours, theirs)
        )
        assert found == expected


def test_files_written_by_hand(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    dataset = pilum.write_dataset(TABLE, uri)
    path = str(tmp_path / "t" / "data" / "mine.lance")
    rows = pa.table({"a": [900], "s": [{"x": 5, "y": "v"}]})
    with LanceFileWriter(path, rows.schema) as writer:
        writer.write_batch(rows)
    ours: Any = DataFile.create(dataset, "mine.lance")
    theirs = lance.fragment.DataFile.create(lance.dataset(uri), "mine.lance")
    for name in ("fields", "column_indices", "file_major_version", "file_size_bytes"):
        assert getattr(ours, name) == getattr(theirs, name)
    fragment = LanceFragment.create_from_file("mine.lance", dataset, 0)
    operation = pilum.LanceOperation.Append([fragment])
    pilum.LanceDataset.commit(uri, operation, read_version=1)
    assert lance.dataset(uri).to_table(filter="a = 900").to_pylist() == rows.to_pylist()


def test_damaged_indices_are_named(tmp_path: Path) -> None:
    made = lance.write_dataset(TABLE, str(tmp_path / "t"))
    made.create_scalar_index("a", "BTREE")
    dataset = pilum.dataset(tmp_path / "t")
    assert dataset.verify().is_valid
    path = max((tmp_path / "t" / "_indices").glob("*/*.lance"))
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)
    [fault] = dataset.verify().damaged
    assert tmp_path / "t" / fault.path == path


@pytest.mark.parametrize("ours", [True, False])
def test_addresses_follow_compactions(tmp_path: Path, ours: bool) -> None:
    uri = str(tmp_path / "t")
    made = lance.write_dataset(TABLE.select(["a"]), uri, max_rows_per_file=40)
    addresses = made.to_table(columns=["a"], with_row_address=True)
    assert pilum.dataset(uri).remap_row_addrs(pa.array([0], pa.uint64())) is None
    made.create_scalar_index("a", "BTREE")
    for number in (3, 5):
        pilum.dataset(uri).delete(f"a % 7 = {number}")
        made = (pilum if ours else lance).dataset(uri)
        made.optimize.compact_files(target_rows_per_fragment=130, defer_index_remap=True)
    wanted = pa.concat_arrays(
        [addresses["_rowaddr"].combine_chunks(), pa.array([None, 999 << 32], pa.uint64())]
    )
    dataset = pilum.dataset(uri)
    found = dataset.remap_row_addrs(wanted)
    assert found is not None
    assert found.equals(lance.dataset(uri).remap_row_addrs(wanted))
    there = {row["a"]: row["_rowaddr"] for row in _rows(dataset)}
    known = zip(addresses["a"].to_pylist(), found.to_pylist(), strict=False)
    assert {key: row for key, row in known if row is not None} == there


def _rows(dataset: pilum.LanceDataset) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = dataset.to_table(["a"], with_row_address=True).to_pylist()
    return rows
