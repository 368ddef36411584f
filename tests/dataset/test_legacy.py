"""Tables of version 0.1 through the front door (S2.5, S2.11)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from interop.comparison import assert_same

import pilum
from pilum.container.legacy.file import LegacyFile
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.fragment import write_fragments
from pilum.storage.local import LocalSource

TABLE = pa.table(
    {
        "i": np.arange(5000),
        "s": [f"text {n // 10:04}" for n in range(5000)],
        "f": np.where(np.arange(5000) == 100, np.nan, np.arange(5000) / 2),
        "p": pa.array([{"x": n, "y": f"{n}"} for n in range(5000)]),
        "l": pa.array([[n] * (n % 3) for n in range(5000)]),
    }
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    pilum.write_dataset(TABLE, tmp_path / "t", data_storage_version="legacy")
    return str(tmp_path / "t")


def data_file(path: str) -> Path:
    [found] = (Path(path) / "data").iterdir()
    return found


def test_the_manifest_says_what_readers_need(path: str) -> None:
    """S2.5: all field ids ascending, no columns, versions 0 and 2; the format is 0.1."""
    dataset = pilum.dataset(path)
    assert dataset.data_storage_version == "0.1"
    [fragment] = dataset.get_fragments()
    [file] = fragment.data_files()
    assert file.fields == list(range(8))
    assert file.column_indices == []
    assert (file.file_major_version, file.file_minor_version) == (0, 2)
    reader = LegacyFile.open(LocalSource(str(data_file(path))))
    assert reader.metadata.batch_bounds.tolist() == [0, 1024, 2048, 3072, 4096, 5000]


def test_everything_is_read_back(path: str) -> None:
    dataset = pilum.dataset(path)
    assert_same(dataset.to_table(), TABLE)
    assert dataset.to_table(columns=["p.y", "l"], limit=7, offset=2000)["p.y"].to_pylist() == [
        str(n) for n in range(2000, 2007)
    ]
    rows = [4999, 0, 1024, 1023, 0]
    assert_same(dataset.take(rows), TABLE.take(rows))
    assert dataset.count_rows(filter="i % 2 = 1") == 2500


def test_append_keeps_the_version(path: str) -> None:
    pilum.write_dataset(TABLE.slice(0, 10), path, mode="append", max_rows_per_group=4)
    found = pilum.dataset(path).to_table()
    assert_same(found, pa.concat_tables([TABLE, TABLE.slice(0, 10)]))
    [fragment] = write_fragments(TABLE.slice(0, 3), path, max_rows_per_group=2)
    assert fragment.files[0].file_major_version == 0
    with pytest.raises(InvalidInputError, match=r"the table has 0\.1"):
        pilum.write_dataset(TABLE, path, mode="append", data_storage_version="2.1")


def test_append_of_some_columns(path: str) -> None:
    part = TABLE.select(["l", "i"]).slice(0, 4)
    pilum.write_dataset(part, path, mode="append")
    found = pilum.dataset(path).to_table().slice(5000)
    assert found["i"].to_pylist() == [0, 1, 2, 3]
    assert found["l"].to_pylist() == part["l"].to_pylist()
    assert found["s"].null_count == 4


def test_overwrite_may_change_the_version(path: str) -> None:
    pilum.write_dataset(TABLE, path, mode="overwrite", data_storage_version="2.1")
    assert_same(pilum.dataset(path).to_table(), TABLE)
    pilum.write_dataset(TABLE, path, mode="overwrite", data_storage_version="0.1")
    assert_same(pilum.dataset(path).to_table(), TABLE)


def test_nothing_is_left_of_a_refused_write(tmp_path: Path) -> None:
    nulls = pa.table({"i": [1, None]})
    with pytest.raises(InvalidInputError, match="column 'i': 1 nulls"):
        pilum.write_dataset(nulls, tmp_path / "t", data_storage_version="legacy")
    assert not list(tmp_path.rglob("*.lance"))


FILTERS = [
    "i >= 4096",
    "i < 3",
    "i IN (5, 4999)",
    "NOT (i < 4990)",
    "s = 'text 0001'",
    "s > 'text 0498'",
    "p.x > 4996 AND p.y <> '4998'",
    "f > 2499",
    "f < 1 OR i = 4321",
    "i < 0",
    "s IS NULL",
    "i > 1000 AND i < 1030 AND s LIKE '%1'",
]


@pytest.mark.parametrize("text", FILTERS)
def test_filters_match_the_same_rows_as_without_statistics(path: str, text: str) -> None:
    """S2.11."""
    plain = path + "-plain"
    pilum.write_dataset(TABLE, plain, data_storage_version="2.1")
    expected = pilum.dataset(plain).to_table(filter=text)
    dataset = pilum.dataset(path)
    assert_same(dataset.to_table(filter=text), expected)
    assert dataset.to_table(filter=text, columns=["i"]) == expected.select(["i"])
    assert_same(dataset.to_table(filter=text, limit=3, offset=1), expected.slice(1, 3))
    assert dataset.count_rows(filter=text) == expected.num_rows
    with_ids = dataset.to_table(filter=text, columns=["i"], with_row_id=True)
    assert with_ids["_rowid"].to_pylist() == with_ids["i"].to_pylist()


def test_batches_that_cannot_match_are_not_read(path: str) -> None:
    """S2.11: the strings of the second batch are damaged; only filters that need them notice."""
    file = LegacyFile.open(LocalSource(str(data_file(path))))
    [strings] = (field for field in file.schema.fields if field.name == "s")
    pages = file.pages(strings, frozenset(strings.ids), 0)[strings.id]
    with data_file(path).open("r+b") as writable:
        writable.seek(int(pages.positions[1]))
        writable.write(b"\xff" * 8)
    dataset = pilum.dataset(path)
    assert dataset.count_rows(filter="s < 'text 0100'") == 1000
    assert dataset.count_rows(filter="s > 'text 0210' AND s IS NOT NULL") == 2890
    assert dataset.to_table(filter="i > 2047").num_rows == 2952
    for damaged in ("s = 'text 0150'", "s LIKE 'text%'", "i = 1024"):
        with pytest.raises(CorruptFileError, match="before the start of the file"):
            dataset.to_table(filter=damaged)


def test_nan_is_found_though_no_bound_tells_of_it(path: str) -> None:
    """S2.11."""
    assert pilum.dataset(path).to_table(filter="f > 2499.5")["i"].to_pylist() == [100]


@pytest.mark.reference
def test_lost_nulls_are_found_as_what_they_became(tmp_path: Path) -> None:
    """S2.11: statistics count nulls that nobody reads, and bounds do not hold what stands there."""
    lance = pytest.importorskip("lance", reason="the reference implementation is not installed")
    table = pa.table({"i": [5, None, 7], "s": ["x", "", None], "b": [True, None, True]})
    lance.write_dataset(table, tmp_path / "t", data_storage_version="legacy")
    dataset = pilum.dataset(tmp_path / "t")
    assert dataset.to_table().to_pydict() == {
        "i": [5, 0, 7],
        "s": ["x", None, None],
        "b": [True, False, True],
    }
    counts = {
        "i = 0": 1,
        "i < 5": 1,
        "i IS NULL": 0,
        "i IS NOT NULL": 3,
        "s IS NULL": 2,
        "s = ''": 0,
        "b = false": 1,
        "NOT b": 1,
    }
    for text, expected in counts.items():
        assert dataset.count_rows(filter=text) == expected, text


HISTORICAL = Path(os.environ.get("PILUM_HISTORICAL_TABLES", ""))


@pytest.mark.reference
@pytest.mark.skipif(
    "PILUM_HISTORICAL_TABLES" not in os.environ, reason="PILUM_HISTORICAL_TABLES is not set"
)
@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("v0.7.5/with_deletions", 1),
        ("v0.8.0/migrated_from_v0.7.5", 1),
        ("v0.15.0/v1_no_files.lance", 1),
        ("v0.15.0/v1_with_files.lance", 1),
    ],
)
def test_tables_of_old_releases(name: str, version: int) -> None:
    """S2.5: also where nobody wrote down how many rows there are."""
    lance = pytest.importorskip("lance", reason="the reference implementation is not installed")
    theirs = lance.dataset(str(HISTORICAL / name), version=version)
    ours = pilum.dataset(HISTORICAL / name, version=version)
    assert ours.to_table().equals(theirs.to_table())
    assert ours.count_rows() == theirs.count_rows()
    assert ours.count_rows(filter="x > 3") == theirs.count_rows(filter="x > 3")
    if ours.count_rows():
        rows = [0, ours.count_rows() - 1]
        assert ours.take(rows).equals(theirs.take(rows))


@pytest.mark.reference
@pytest.mark.skipif(
    "PILUM_HISTORICAL_TABLES" not in os.environ, reason="PILUM_HISTORICAL_TABLES is not set"
)
def test_an_append_to_an_old_table_corrects_its_counts(tmp_path: Path) -> None:
    copy = tmp_path / "t"
    shutil.copytree(HISTORICAL / "v0.15.0/v1_with_files.lance", copy)
    more = pa.table({"x": pa.array([10, 11], pilum.dataset(copy).schema.field("x").type)})
    pilum.write_dataset(more, copy, mode="append")
    lance = pytest.importorskip("lance", reason="the reference implementation is not installed")
    assert lance.dataset(str(copy)).to_table() == pilum.dataset(copy).to_table()
    assert pc.sum(pilum.dataset(copy).to_table()["x"]).as_py() >= 21
