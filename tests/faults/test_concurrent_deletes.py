"""Several processes delete rows of one table, one of them the reference: none comes back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from faults.helpers import exit_codes, listing, start_python
from guard import GUARD_SECONDS

import pilum

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

OURS = """
import sys
from datetime import timedelta
import pilum

path, writer, deletes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
patient = dict(conflict_retries=10_000, retry_timeout=timedelta(hours=1))
for number in range(deletes):
    pilum.dataset(path).delete(f"writer = {writer} and number = {number}", **patient)
"""
THEIRS = OURS.replace("pilum", "lance")
DELETES = (25, 25, 8)


def test_no_delete_is_lost(tmp_path: Path) -> None:
    """S2.9: rows of all writers lie side by side in two fragments."""
    path = str(tmp_path / "t")
    rows = pa.table(
        {
            "writer": [row % 4 for row in range(400)],
            "number": [row // 4 % 50 for row in range(400)],
        }
    )
    pilum.write_dataset(rows, path, max_rows_per_file=200)
    writers = [
        start_python(script, path, writer, deletes)
        for writer, (script, deletes) in enumerate(zip((OURS, OURS, THEIRS), DELETES, strict=True))
    ]
    assert exit_codes(writers) == [0, 0, 0]
    expected = [
        row
        for row in rows.to_pylist()
        if row["writer"] == 3 or row["number"] >= DELETES[row["writer"]]
    ]
    for dataset in (pilum.dataset(path), lance.dataset(path)):
        assert dataset.version == 1 + sum(DELETES)
        assert dataset.to_table().to_pylist() == expected
        assert dataset.count_rows() == len(expected)
    lance.dataset(path).validate()
    assert not [name for name in listing(tmp_path) if "tmp" in name]


def test_the_same_rows_are_counted_once(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    pilum.write_dataset(pa.table({"a": range(1000)}), path, max_rows_per_file=400)
    script = """
import sys
from datetime import timedelta
import pilum
patient = dict(conflict_retries=10_000, retry_timeout=timedelta(hours=1))
deletes = (pilum.dataset(sys.argv[1]).delete(f"a % 30 = {n}", **patient) for n in range(9))
print(sum(delete["num_deleted_rows"] for delete in deletes))
"""
    writers = [start_python(script, path) for _ in range(3)]
    counts = [int(writer.communicate(timeout=GUARD_SECONDS)[0]) for writer in writers]
    assert sum(counts) == sum(row % 30 < 9 for row in range(1000))
    assert pilum.dataset(path).count_rows() == 1000 - sum(counts)
