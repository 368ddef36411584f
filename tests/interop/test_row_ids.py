"""Stable row ids: each library goes on with tables of the other, and both tell the same rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

import pilum
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.fragment import RowIdMeta, RowIdSequence

lance: Any = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = [pytest.mark.reference, pytest.mark.checklist("S2.12")]

VERSIONS = ["_row_created_at_version", "_row_last_updated_at_version"]
META = ["_rowid", "_rowaddr", "_rowoffset", *VERSIONS]
TABLE = pa.table({"a": range(40), "b": [f"x{row}" for row in range(40)]})


def rows(start: int, count: int) -> pa.Table:
    return TABLE.slice(0, count).set_column(0, "a", pa.array(range(start, start + count)))


def same(path: Path) -> pa.Table:
    """All rows with all that is known of them, once both libraries say the same."""
    ours = pilum.dataset(path).to_table(columns=["a", "b", *META])
    theirs = lance.dataset(str(path)).to_table(columns=["a", "b", *META])
    assert ours == theirs
    return ours


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A table of two versions that pilum made: 40 rows, 15 rows."""
    path = tmp_path / "ours"
    pilum.write_dataset(TABLE, path, enable_stable_row_ids=True, max_rows_per_file=20)
    pilum.write_dataset(rows(40, 15), path, mode="append")
    return path


@pytest.fixture
def moved(ours: Path) -> Path:
    """The same after the reference deleted, updated, merged and compacted; 6 versions or more."""
    theirs = lance.dataset(str(ours))
    theirs.delete("a % 7 = 3")
    theirs.update({"b": "'u'"}, where="a % 5 = 1")
    new = pa.table({"a": [0, 100, 20, 101], "b": ["m"] * 4})
    merge = theirs.merge_insert("a").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(new)
    return ours


def test_the_reference_reads_and_continues_what_pilum_wrote(moved: Path) -> None:
    found = same(moved)
    by_value = dict(zip(found["a"].to_pylist(), found.to_pylist(), strict=True))
    for value in range(55):
        if value % 7 != 3:
            assert by_value[value]["_rowid"] == value
            assert by_value[value]["_row_created_at_version"] == (1 if value < 40 else 2)
    assert {by_value[100]["_rowid"], by_value[101]["_rowid"]} == {55, 56}
    lance.dataset(str(moved)).optimize.compact_files()
    after = same(moved)
    kept = ["a", "b", "_rowid", *VERSIONS]
    assert after.select(kept) == found.select(kept)


def test_pilum_continues_what_the_reference_moved(moved: Path) -> None:
    before = same(moved)
    pilum.write_dataset(rows(200, 3), moved, mode="append")
    dataset = pilum.dataset(moved)
    dataset.delete("a in (0, 201)")
    dataset.add_columns({"c": "a * 2"})
    dataset.drop_columns(["c"])
    found = same(moved).to_pylist()
    assert [row["_rowid"] for row in found if row["a"] >= 200] == [57, 59]
    ids = {row["a"]: row["_rowid"] for row in found}
    assert all(ids.get(row["a"], row["_rowid"]) == row["_rowid"] for row in before.to_pylist())


def test_overwriting_and_restoring_never_give_an_id_again(ours: Path) -> None:
    dataset = pilum.write_dataset(rows(0, 3), ours, mode="overwrite")
    assert same(ours)["_rowid"].to_pylist() == [55, 56, 57]
    dataset = pilum.dataset(ours, version=1)
    dataset.restore()
    assert same(ours)["_rowid"].to_pylist() == list(range(40))
    pilum.write_dataset(rows(90, 2), ours, mode="append")
    assert same(ours)["_rowid"].to_pylist() == [*range(40), 58, 59]


def test_ids_are_chosen_when_a_table_is_made(tmp_path: Path, ours: Path) -> None:
    plain = tmp_path / "plain"
    pilum.write_dataset(TABLE, plain)
    dataset = pilum.write_dataset(TABLE, plain, mode="overwrite", enable_stable_row_ids=True)
    assert not dataset.has_stable_row_ids
    assert pilum.write_dataset(TABLE, ours, mode="append").has_stable_row_ids
    same(plain)


@pytest.mark.parametrize("threshold", ["4", "30"])
def test_row_ids_in_hidden_columns(tmp_path: Path, threshold: str) -> None:
    path = tmp_path / "t"
    theirs = lance.write_dataset(TABLE, str(path), enable_stable_row_ids=True, max_rows_per_file=20)
    limit = {"lance.row_lineage.inline_max_bytes": threshold, "lance.row_lineage.spill": "true"}
    theirs.update_config(limit)
    theirs.update({"b": "'u'"}, where="a % 3 = 0")
    dataset = pilum.dataset(path)
    dataset.delete("a in (0, 1)")
    dataset.add_columns({"c": "a * 2"})
    dataset.drop_columns(["c"])
    pilum.write_dataset(rows(100, 3), path, mode="append")
    assert same(path).num_rows == 41
    lance.dataset(str(path)).optimize.compact_files()
    assert same(path).num_rows == 41
    pilum.dataset(path).delete("a = 3")
    found = same(path)
    assert found["a"].to_pylist() == [*found["_rowid"].to_pylist()[:-3], 100, 101, 102]


@pytest.mark.parametrize("filter", [f"{name} in (1, 3, 12)" for name in META])
def test_what_is_known_of_rows_filters_them(moved: Path, filter: str) -> None:
    ours = pilum.dataset(moved).to_table(columns=["a", *META], filter=filter)
    assert ours == lance.dataset(str(moved)).to_table(columns=["a", *META], filter=filter)
    assert pilum.dataset(moved).count_rows(filter) == ours.num_rows


def test_fragments_are_exchanged_with_their_ids(moved: Path) -> None:
    theirs = [fragment.metadata for fragment in lance.dataset(str(moved)).get_fragments()]
    ours = [fragment.metadata for fragment in pilum.dataset(moved).get_fragments()]
    assert [one.to_json() for one in ours] == [one.to_json() for one in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.row_id_meta is not None
        assert RowIdMeta.from_json(other.row_id_meta.json()) == mine.row_id_meta
        ids = RowIdSequence.from_inline_metadata(mine.row_id_meta)
        assert list(ids) == list(
            lance.fragment.RowIdSequence.from_inline_metadata(other.row_id_meta)
        )
        assert RowIdSequence(list(ids)).to_inline_metadata() == mine.row_id_meta


def test_rows_are_taken_by_id(moved: Path) -> None:
    columns = ["b", "_rowid", "a", "_rowaddr"]
    ids = [56, 3, 0, 41, 41, 20, 999, 17]  # 3 and 17 are deleted
    for _ in range(2):
        ours = pilum.dataset(moved).take_rows(ids, columns)
        assert ours == lance.dataset(str(moved))._take_rows(ids, columns)
        assert ours["_rowid"].to_pylist() == [56, 0, 41, 41, 20]
        lance.dataset(str(moved)).optimize.compact_files()


def test_blobs_are_taken_by_id(tmp_path: Path) -> None:
    blobs = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("a", pa.int64()), blobs])
    table = pa.table([pa.array(range(6)), [b"%d" % row for row in range(6)]], schema=schema)
    options: Any = {"enable_stable_row_ids": True, "max_rows_per_file": 3}
    pilum.write_dataset(table, tmp_path / "t", data_storage_version="2.1", **options)
    theirs = lance.dataset(str(tmp_path / "t"))
    theirs.delete("a = 1")
    theirs.update({"a": "a + 10"}, where="a = 2")
    ours = pilum.dataset(tmp_path / "t")
    for ids in ([2, 0, 5], [2, 2], []):
        assert ours.read_blobs("b", ids=ids) == theirs.read_blobs("b", ids=ids)
        files = ours.take_blobs("b", ids=ids)
        assert [file and file.readall() for file in files] == [b"%d" % row for row in ids]
    for ids in ([1, 2], [99]):
        with pytest.raises(InvalidInputError, match="there is no row"):
            ours.take_blobs("b", ids=ids)


def test_pilum_updates_and_compacts_as_the_reference_does(ours: Path, tmp_path: Path) -> None:
    twin = tmp_path / "twin"
    shutil.copytree(ours, twin)
    mine, theirs = pilum.dataset(ours), lance.dataset(str(twin))
    for dataset in (mine, theirs):
        dataset.delete("a % 7 = 3")
        dataset.update({"b": "'u'"}, where="a % 5 = 1")
        dataset.update({"b": "'v'"}, where="a > 30 and a < 35")
        merge = dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(pa.table({"a": [0, 100, 20, 101], "b": ["m"] * 4}))
    assert same(ours).drop_columns(["_rowaddr"]) == same(twin).drop_columns(["_rowaddr"])
    mine.optimize.compact_files()
    theirs.optimize.compact_files()
    assert pilum.dataset(ours).stats.dataset_stats()["num_fragments"] == 1
    assert same(ours).drop_columns(["_rowaddr"]) == same(twin).drop_columns(["_rowaddr"])
    ids = [41, 3, 33, 0, 6]
    assert pilum.dataset(ours).take_rows(ids) == lance.dataset(str(twin))._take_rows(ids)
    dataset = pilum.write_dataset(rows(90, 2), ours, mode="append")
    with pytest.raises(UnsupportedFeatureError, match="defer_index_remap=True"):
        dataset.optimize.compact_files(defer_index_remap=True)


def test_new_values_in_place_say_when(ours: Path) -> None:
    theirs = lance.dataset(str(ours))
    table = pa.table({"a": [1, 2], "b": ["p", "q"]})
    for offsets in ({0: BitMap([1, 2]).serialize()}, None):
        fragment = theirs.get_fragments()[0]
        changed, fields = fragment.update_columns(table, left_on="a", right_on="a")
        operation = lance.LanceOperation.Update(
            updated_fragments=[changed],
            fields_modified=fields,
            update_mode="rewrite_columns",
            updated_fragment_offsets=offsets,
        )
        theirs = lance.LanceDataset.commit(theirs, operation, read_version=theirs.version)
        updated = same(ours)["_row_last_updated_at_version"].to_pylist()
        assert updated[:5] == [1, 3, 3, 1, 1]


def test_new_columns_are_new_values_of_all_rows(ours: Path, tmp_path: Path) -> None:
    twin = tmp_path / "twin"
    shutil.copytree(ours, twin)
    for dataset in (pilum.dataset(ours), lance.dataset(str(twin))):
        dataset.add_columns({"c": "a * 2"})
        dataset.add_columns(pa.field("d", pa.int8()))
        dataset.alter_columns({"path": "c", "data_type": pa.int32()})
        dataset.drop_columns(["d"])
    assert same(ours) == same(twin)
    assert set(same(ours)["_row_last_updated_at_version"].to_pylist()) == {5}


def test_changes_between_versions(moved: Path) -> None:
    pilum.dataset(moved).delete("a = 44")
    lance.dataset(str(moved)).optimize.compact_files()
    mine, theirs = pilum.dataset(moved), lance.dataset(str(moved))
    versions = [(begin, end) for begin in range(5) for end in range(begin, 8)]
    for begin, end in [*versions, (2, 1), (1, 99)]:
        ours = mine.delta(begin_version=begin, end_version=end)
        other = theirs.delta(begin_version=begin, end_version=end)
        assert ours.get_inserted_rows().read_all() == other.get_inserted_rows().read_all()
        assert ours.get_updated_rows().read_all() == other.get_updated_rows().read_all()
        if end < 8 and begin <= end:
            found = ours.get_deleted_row_ids().read_all()
            assert sorted(found["_rowid"].to_pylist()) == sorted(
                other.get_deleted_row_ids().read_all()["_rowid"].to_pylist()
            )
    since = mine.delta(1)
    assert since.get_deleted_row_ids().read_all()["_rowid"].to_pylist() == [
        *range(3, 39, 7)
    ]  # 45 and 52 are of version 2
    assert since.get_inserted_rows().read_all()["a"].to_pylist()[-2:] == [100, 101]
