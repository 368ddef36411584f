"""Which file version new tables and files get where nobody asks for one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum.errors import UnsupportedTypeError
from pilum.file import LanceFileReader, LanceFileWriter

PAIRS = pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32()))
POINTS = pa.array([[{"x": 1}, {"x": 2}], None], pa.list_(pa.struct({"x": pa.int32()}), 2))
NUMBERS = pa.array([1, 2])


@pytest.mark.parametrize("column", [NUMBERS, PAIRS, POINTS])
def test_it_is_that_of_the_reference(tmp_path: Path, column: pa.Array) -> None:
    version = "2.2"
    table = pa.table({"a": column})
    dataset = pilum.write_dataset(table, tmp_path / "t")
    assert dataset.data_storage_version == version
    assert dataset.to_table() == table
    with LanceFileWriter(tmp_path / "a.lance") as writer:
        writer.write_batch(table)
    metadata = LanceFileReader(tmp_path / "a.lance").metadata()
    assert f"{metadata.major_version}.{metadata.minor_version}" == version


def test_what_is_asked_for_counts(tmp_path: Path) -> None:
    table = pa.table({"a": PAIRS})
    with pytest.raises(UnsupportedTypeError, match=r"2\.2"):
        pilum.write_dataset(table, tmp_path / "t", data_storage_version="2.1")
    assert not (tmp_path / "t").exists()
    stable = pilum.write_dataset(
        pa.table({"a": NUMBERS}), tmp_path / "s", data_storage_version="stable"
    )
    assert stable.data_storage_version == "2.2"


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1"])
def test_a_table_without_rows_is_checked_too(tmp_path: Path, version: str) -> None:
    with pytest.raises(UnsupportedTypeError, match="'a'"):
        pilum.write_dataset(
            pa.table({"a": PAIRS}).slice(0, 0), tmp_path / "t", data_storage_version=version
        )
    assert not (tmp_path / "t").exists()
