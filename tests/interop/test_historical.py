"""Tables that real users' releases left behind: every value that is in them comes back.

The folder is not part of the repository; `PILUM_HISTORICAL_TABLES` names it.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum.errors import CorruptFileError, PilumError

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

_FOLDER = os.environ.get("PILUM_HISTORICAL_TABLES", "")

pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(not _FOLDER, reason="PILUM_HISTORICAL_TABLES is not set"),
    # The reference says that it does not know the details of an old index.
    pytest.mark.filterwarnings("ignore"),
]


@dataclass(frozen=True)
class Old:
    """What a table holds, in the words of those who made it."""

    versions: int
    first_column: list[int]
    refused: type[PilumError] | None = None


TABLES = {
    "v0.7.5/with_deletions": Old(2, [*range(10), *range(20, 100)]),
    "v0.8.0/migrated_from_v0.7.5": Old(3, [*range(10), *range(20, 100), 0, 1]),
    "v0.15.0/v1_no_files.lance": Old(1, []),
    "v0.15.0/v1_with_files.lance": Old(1, [1, 2, 3]),
    "v0.15.0/v2_no_files.lance": Old(1, []),
    "v0.15.0/v2_with_files.lance": Old(1, [1, 2, 3]),
    "v0.16.0/wrong_data_version_can_fix.lance": Old(2, [1, 2, 3]),
    "v0.16.0/wrong_data_version_no_fix.lance": Old(2, [1, 2, 1, 3]),
    "v0.20.0/old_btree_bitmap_indices.lance": Old(3, [1, 2, 3, 4]),
    "v0.27.1/pq_in_schema": Old(2, [*range(512)]),
}


def test_every_table_is_known() -> None:
    found = {str(path.relative_to(_FOLDER)) for path in Path(_FOLDER).glob("*/*") if path.is_dir()}
    assert found == set(TABLES)


BROKEN = "v0.16.0/wrong_data_version_no_fix.lance"
"""Two of its fragments have one id, and its files are of two versions: no writer may go on."""


@pytest.mark.checklist("S3.1")
@pytest.mark.parametrize("name", TABLES)
def test_is_read(name: str) -> None:
    """What is refused today fails here on the day that it is not refused any more."""
    old, path = TABLES[name], Path(_FOLDER, name)
    if old.refused:
        with pytest.raises(old.refused):
            pilum.dataset(path).to_table()
        return
    theirs = lance.dataset(str(path))
    ours = pilum.dataset(path)
    assert ours.version == theirs.version == old.versions
    assert ours.schema == theirs.schema
    table: pa.Table = ours.to_table()
    assert table.column(0).to_pylist() == old.first_column
    assert table == theirs.to_table()
    assert ours.count_rows() == len(old.first_column)
    if old.first_column and name != BROKEN:
        rows = [len(old.first_column) - 1, 0, len(old.first_column) // 2]
        assert ours.take(rows) == theirs.take(rows)
    for number in range(1, old.versions + 1):
        expected = lance.dataset(str(path), version=number).to_table()
        assert ours.checkout_version(number).to_table() == expected


def test_an_address_that_means_two_rows_is_refused(tmp_path: Path) -> None:
    path = shutil.copytree(Path(_FOLDER, BROKEN), tmp_path / "t")
    assert pilum.dataset(path).take([3, 1, 2])["foo"].to_pylist() == [3, 2, 1]
    with pytest.raises(CorruptFileError, match="two fragments have one id"):
        pilum.dataset(path).take_rows([1 << 32])
    with pytest.raises(CorruptFileError, match="one id; go on from an earlier version"):
        pilum.write_dataset(pa.table({"foo": [7]}), path, mode="append")
    pilum.dataset(path, version=1).restore()
    pilum.write_dataset(pa.table({"foo": [7]}), path, mode="append")
    assert lance.dataset(str(path)).to_table()["foo"].to_pylist() == [7]


@pytest.mark.parametrize(
    "name", [name for name, old in TABLES.items() if not old.refused and name != BROKEN]
)
def test_an_append_goes_on_in_the_version_of_the_files(tmp_path: Path, name: str) -> None:
    path = shutil.copytree(Path(_FOLDER, name), tmp_path / "t")
    before = pilum.dataset(path).to_table()
    ours = pilum.write_dataset(before, path, mode="append")
    expected = pa.concat_tables([before, before])
    assert ours.to_table() == expected
    theirs = lance.dataset(str(path))
    assert theirs.to_table() == expected
    lance.write_dataset(before, str(path), mode="append")
    assert pilum.dataset(path).to_table() == pa.concat_tables([expected, before])
