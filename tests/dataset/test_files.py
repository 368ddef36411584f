"""The files of a table: listed, adopted and dropped."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum.errors import (
    CorruptFileError,
    DatasetNotFoundError,
    IndexNotFoundError,
    InvalidInputError,
    NotFoundError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    UnsupportedVersionError,
)
from pilum.file import LanceFileWriter
from pilum.fragment import DataFile, LanceFragment

TABLE = pa.table({"a": [1, 2, 3], "s": [{"x": 1, "y": "u"}] * 3})


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    return pilum.write_dataset(TABLE, tmp_path / "t", max_rows_per_file=2)


def write_file(dataset: pilum.LanceDataset, name: str, table: pa.Table, version: str) -> None:
    path = Path(dataset.uri) / "data" / name
    with LanceFileWriter(str(path), table.schema, version=version) as writer:
        writer.write_batch(table)


def test_files_that_versions_need(dataset: pilum.LanceDataset) -> None:
    dataset.delete("a = 1")
    dataset.insert(TABLE)
    seen: list[tuple[int, int | None]] = []
    tracked = dataset.tracked_files(progress=lambda *done: seen.append(done)).read_all()
    assert seen == [(1, 3), (2, 3), (3, 3)]
    kinds = {
        version: sorted(row["type"] for row in tracked.to_pylist() if row["version"] == version)
        for version in (3, 2, 1)
    }
    whole = ["data file"] * 2 + ["manifest", "transaction file"]
    assert kinds == {
        1: whole,
        2: sorted([*whole, "deletion file"]),
        3: sorted([*whole, "data file", "deletion file"]),
    }
    needed = {row["path"] for row in tracked.to_pylist()}
    present = dataset.all_files().read_all().to_pylist()
    assert needed == {row["path"] for row in present} - {"_versions/latest_version_hint.json"}
    for row in present:
        assert (Path(dataset.uri) / row["path"]).stat().st_size == row["size_bytes"]
        assert row["base_uri"] == dataset.uri
    newer = dataset.tracked_files(min_version=3).read_all()["version"].to_pylist()
    assert set(newer) == {3}


def test_files_of_base_paths_are_told_apart(tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    bases = [pilum.DatasetBasePath(other, "second")]
    dataset = pilum.write_dataset(
        TABLE, tmp_path / "t", mode="create", initial_bases=bases, target_bases=["second"]
    )
    rows = dataset.tracked_files().read_all().to_pylist()
    [data] = [row for row in rows if row["type"] == "data file"]
    assert data["base_uri"] == other
    assert (Path(other) / data["path"]).is_file()


def test_small_answers(dataset: pilum.LanceDataset) -> None:
    assert dataset.fragment_ids() == {0, 1}
    assert dataset.initial_storage_options is None
    assert dataset.latest_storage_options() is None
    listed = dataset.new_file_session().list("data")
    assert len(listed) == 2
    assert "path" in dir(dataset.get_fragments()[0].data_files()[0])


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_files_written_by_hand_become_fragments(tmp_path: Path, version: str) -> None:
    dataset = pilum.write_dataset(TABLE, tmp_path / "t", data_storage_version=version)
    rows = pa.table({"s": [{"y": "v", "x": 7}], "a": [9]})
    write_file(dataset, "mine.lance", rows, version)
    fragment = LanceFragment.create_from_file("mine.lance", dataset, 5)
    assert (fragment.id, fragment.physical_rows) == (5, 1)
    operation = pilum.LanceOperation.Append([fragment])
    made = pilum.LanceDataset.commit(dataset.uri, operation, read_version=1)
    assert made.to_table().to_pylist()[3:] == [{"a": 9, "s": {"x": 7, "y": "v"}}]
    assert made.verify(deep=True).is_valid


def test_files_written_by_hand_replace_columns(dataset: pilum.LanceDataset) -> None:
    write_file(dataset, "mine.lance", pa.table({"a": [7, 8]}), "2.2")
    file = DataFile.create(dataset, "mine.lance")
    assert (file.fields, file.column_indices) == ([0], [0])
    group = pilum.LanceOperation.DataReplacementGroup(0, file)
    operation = pilum.LanceOperation.DataReplacement([group])
    made = pilum.LanceDataset.commit(dataset.uri, operation, read_version=1)
    assert made.to_table(["a"])["a"].to_pylist() == [7, 8, 3]


def test_files_that_do_not_fit(dataset: pilum.LanceDataset) -> None:
    cases = {
        "more": pa.table({"zz": [1]}),
        "type": pa.table({"a": pa.array([1], pa.int32())}),
        "part": pa.table({"s": [{"x": 1}]}),
    }
    for name, table in cases.items():
        write_file(dataset, f"{name}.lance", table, "2.2")
        with pytest.raises(SchemaMismatchError):
            DataFile.create(dataset, f"{name}.lance")
    write_file(dataset, "old.lance", pa.table({"a": [1]}), "0.1")
    with pytest.raises(UnsupportedVersionError, match=r"0\.1"):
        DataFile.create(dataset, "old.lance")
    with pytest.raises(NotFoundError):
        LanceFragment.create_from_file("nowhere.lance", dataset, 0)
    (Path(dataset.uri) / "data" / "bad.lance").write_bytes(b"nothing of the kind" * 9)
    with pytest.raises(CorruptFileError, match=r"bad\.lance"):
        DataFile.create(dataset, "bad.lance")


def test_rows_become_one_fragment(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    made = LanceFragment.create(uri, TABLE, fragment_id=3, mode="create")
    assert (made.id, made.physical_rows, len(made.files)) == (3, 3, 1)
    operation = pilum.LanceOperation.Overwrite(TABLE.schema, [made])
    dataset = pilum.LanceDataset.commit(uri, operation)
    assert dataset.to_table().equals(TABLE)
    with pytest.raises(SchemaMismatchError):
        LanceFragment.create(uri, pa.table({"b": [1]}))
    with pytest.raises(InvalidInputError, match="at least one row"):
        LanceFragment.create(uri, TABLE.slice(0, 0))


def test_one_fragment_is_checked_and_taken_from(dataset: pilum.LanceDataset) -> None:
    fragment = dataset.get_fragments()[1]
    fragment.validate()
    session = fragment.open_session(["a"], with_row_address=True)
    assert session.take([0]).to_pylist() == [{"a": 3, "_rowaddr": 1 << 32}]
    assert fragment.open_session({"b": "a + 1"}).take([0]).to_pylist() == [{"b": 4}]
    assert fragment.to_pandas(["a"], limit=1)["a"].tolist() == [3]
    [file] = fragment.data_files()
    path = Path(dataset.uri) / "data" / file.path
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorruptFileError, match=file.path):
        fragment.validate()


def test_a_table_is_dropped_and_nothing_else_ever(
    dataset: pilum.LanceDataset, tmp_path: Path
) -> None:
    dataset.create_branch("dev")
    with pytest.raises(InvalidInputError, match="branch"):
        pilum.LanceDataset.drop(tmp_path / "t" / "tree" / "dev")
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "file").write_text("text")
    with pytest.raises(DatasetNotFoundError):
        pilum.LanceDataset.drop(folder)
    pilum.LanceDataset.drop(folder, ignore_not_found=True)
    assert (folder / "file").read_text() == "text"
    pilum.LanceDataset.drop(tmp_path / "t")
    assert not (tmp_path / "t").exists()
    again = pilum.write_dataset(TABLE, tmp_path / "t", mode="create")
    assert (again.version, again.count_rows()) == (1, 3)


def test_tables_in_memory_are_dropped() -> None:
    pilum.write_dataset(TABLE, "memory://dropped")
    pilum.LanceDataset.drop("memory://dropped")
    with pytest.raises(DatasetNotFoundError):
        pilum.dataset("memory://dropped")


def test_what_is_not_supported_is_refused(dataset: pilum.LanceDataset) -> None:
    for missing in (dataset.index_statistics, dataset.prewarm_index):
        with pytest.raises(IndexNotFoundError, match="no index 'i'"):
            missing("i")
    with pytest.raises(UnsupportedFeatureError, match="MemWAL"):
        dataset.initialize_mem_wal()
