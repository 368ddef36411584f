"""What one library deleted the other does not read; both delete from one table in turns (S2.7)."""

from __future__ import annotations

import os
import shutil
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop.comparison import as_stored, assert_same
from interop.reading import Request, assert_reads_as, requests
from interop.strategies import tables

import pilum
from pilum.errors import InvalidInputError
from pilum.fragment import DeletionFile

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

_NUMBERS = count()
_VERSIONS = st.sampled_from(["2.1", "2.2"])
_KEY = "the key"

CONDITIONS = {
    "none": lambda key: key < 0,
    "few": lambda key: key % 101 == 7,
    "neighbours": lambda key: (key >= 30) & (key < 5000),
    "half": lambda key: key % 2 == 1,
    "nearly all": lambda key: key % 211 != 5,
}
SQL = {
    "none": "`the key` < 0",
    "few": "`the key` % 101 = 7",
    "neighbours": "`the key` >= 30 and `the key` < 5000",
    "half": "`the key` % 2 = 1",
    "nearly all": "`the key` % 211 <> 5",
}
_STEPS = st.lists(
    st.tuples(st.sampled_from(["pilum", "lance"]), st.sampled_from([*SQL])), min_size=1, max_size=4
)


@settings(max_examples=60)
@given(
    table=tables(max_columns=2),
    rows_per_file=st.sampled_from([1_000_000, 4096]),
    version=_VERSIONS,
    steps=_STEPS,
    request=requests(),
)
def test_both_delete_in_turns(
    tmp_path: Path,
    table: pa.Table,
    rows_per_file: int,
    version: str,
    steps: list[tuple[str, str]],
    request: Request,
) -> None:
    path = str(tmp_path / str(next(_NUMBERS)))
    keys = np.arange(table.num_rows)
    table = as_stored(table.append_column(_KEY, pa.array(keys)))
    pilum.write_dataset(table, path, data_storage_version=version, max_rows_per_file=rows_per_file)
    left = np.ones(table.num_rows, dtype=np.bool_)
    for library, name in steps:
        hit = left & CONDITIONS[name](keys)
        left &= ~hit
        dataset = pilum.dataset(path) if library == "pilum" else lance.dataset(path)
        assert dataset.delete(SQL[name]) == {"num_deleted_rows": int(hit.sum())}
    expected = as_stored(table.take(pa.array(np.flatnonzero(left))))
    assert_reads_as(pilum.dataset(path), expected, request)
    theirs = lance.dataset(path)
    theirs.validate()
    assert theirs.count_rows() == expected.num_rows
    assert_same(theirs.to_table(), expected)
    assert_same_metadata(path)


def assert_same_metadata(path: str) -> None:
    ours, theirs = pilum.dataset(path), lance.dataset(path)
    for mine, other in zip(ours.versions(), theirs.versions(), strict=True):
        assert mine["metadata"] == other["metadata"]
    assert ours.stats.dataset_stats() == theirs.stats.dataset_stats()
    for own, their in zip(ours.get_fragments(), theirs.get_fragments(), strict=True):
        assert own.metadata.to_json() == their.metadata.to_json()
        assert own.deletion_file() == their.deletion_file()
        assert own.num_deletions == their.num_deletions
        assert own.count_rows() == their.count_rows()


TABLE = pa.table({"a": range(20_000), "b": [str(row) for row in range(20_000)]})


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    lance.write_dataset(TABLE, path, max_rows_per_file=8000, data_storage_version="2.1")
    return path


def test_the_same_transactions(path: str) -> None:
    """Fragments updated and dropped, an empty delete, once a bitmap always a bitmap."""
    for where in (
        "a % 50 = 0",
        "a < 8000 and a % 4 > 0",
        "a >= 8000 and a < 16000",
        "a = 1",
        "a = 4",
    ):
        for library in (pilum, lance):
            library.dataset(path, version=library.dataset(path).version).delete(where)
            number = lance.dataset(path).version
            operation = lance.dataset(path).read_transaction(number).operation
            forms = [fragment.deletion_file.file_type for fragment in operation.updated_fragments]
            found = (forms, operation.deleted_fragment_ids, operation.predicate)
            if library is pilum:
                ours = found
                assert_same_metadata(path)
                lance.dataset(path, version=number - 1).restore()
        assert found == ours


def test_a_delete_is_merged_with_those_of_the_reference(path: str) -> None:
    """S2.9, in both orders."""
    first, second = pilum.dataset(path), lance.dataset(path)
    third, fourth = lance.dataset(path), pilum.dataset(path)
    first.delete("a in (1, 9000)")
    second.delete("a in (2, 9001)")
    third.delete("a in (3, 17000)")
    fourth.delete("a in (4, 17001)")
    gone = {1, 2, 3, 4, 9000, 9001, 17000, 17001}
    expected = [row for row in range(20_000) if row not in gone]
    for library in (pilum, lance):
        assert library.dataset(path).to_table()["a"].to_pylist() == expected
    forms = [fragment.deletion_file() for fragment in pilum.dataset(path).get_fragments()]
    assert [name.rpartition(".")[2] for name in forms if name] == ["bin"] * 3
    assert [pilum.dataset(path).version, lance.dataset(path).version] == [5, 5]
    lance.dataset(path).validate()


def test_rows_that_the_reference_moved_are_looked_for_again(path: str) -> None:
    stale = [pilum.dataset(path) for _ in range(4)]
    lance.dataset(path).update({"b": "'new'"}, where="a in (5, 6)")
    assert stale[0].delete("b in ('5', '7')") == {"num_deleted_rows": 1}
    lance.dataset(path).delete("a in (10, 11)")
    lance.dataset(path).optimize.compact_files()
    assert stale[1].delete("a in (10, 12)") == {"num_deleted_rows": 1}
    lance.dataset(path).add_columns({"c": "a * 2"})
    assert stale[2].delete("a = 15") == {"num_deleted_rows": 1}
    assert stale[3].delete("a in (12, 13)") == {"num_deleted_rows": 1}
    for library in (pilum, lance):
        found = library.dataset(path).to_table()
        assert found.num_rows == 20_000 - 6
        assert sorted(found.filter(pc.equal(found["b"], "new"))["a"].to_pylist()) == [5, 6]


def test_the_reference_conflicts_with_ours(path: str) -> None:
    stale = lance.dataset(path)
    pilum.dataset(path).delete("a < 100")
    with pytest.raises(OSError, match=r"preempted|conflict"):
        lance.LanceDataset.commit(
            path,
            lance.LanceOperation.Delete([stale.get_fragments()[0].delete("a = 50")], [], "a = 50"),
            read_version=1,
        )
    assert stale.delete("a < 150")["num_deleted_rows"] == 50


def test_indices_of_the_reference_survive(path: str) -> None:
    lance.dataset(path).create_scalar_index("a", "BTREE")
    pilum.dataset(path).delete("a % 2 = 0 or a < 8000")
    found = lance.dataset(path)
    assert [index["name"] for index in found.list_indices()] == ["a_idx"]
    assert found.to_table(filter="a in (7, 7999, 8000, 8001, 19999)")["a"].to_pylist() == [
        8001,
        19999,
    ]
    found.optimize.optimize_indices()
    assert found.count_rows("a < 9000") == 500


def test_the_entry_of_a_deletion_file_reads_as_theirs(path: str) -> None:
    pilum.dataset(path).delete("a = 1")
    ours = pilum.dataset(path).get_fragments()[0].metadata.deletion_file
    theirs = lance.dataset(path).get_fragments()[0].metadata.deletion_file
    assert ours is not None
    assert ours.asdict() == theirs.asdict()
    assert ours.path(0) == theirs.path(0)
    assert ours.path(0, "b/t") == theirs.path(0, "b/t")
    assert DeletionFile.from_json(theirs.json()) == ours
    with pytest.raises(InvalidInputError, match="not"):
        DeletionFile.from_json("{}")


@pytest.mark.skipif(
    "PILUM_HISTORICAL_TABLES" not in os.environ, reason="PILUM_HISTORICAL_TABLES is not set"
)
@pytest.mark.parametrize("name", ["v0.7.5/with_deletions", "v0.8.0/migrated_from_v0.7.5"])
def test_a_delete_in_an_old_table_writes_its_counts(tmp_path: Path, name: str) -> None:
    """What was not recorded, or wrongly, is counted in the files."""
    path = str(tmp_path / "t")
    shutil.copytree(Path(os.environ["PILUM_HISTORICAL_TABLES"]) / name, path)
    os.chmod(path, 0o755)
    for folder in Path(path).iterdir():
        folder.chmod(0o755)
    column = pilum.dataset(path).schema.names[0]
    before = pilum.dataset(path).to_table()
    assert pilum.dataset(path).delete(f"{column} = 3") == {"num_deleted_rows": 1}
    expected = before.filter(pc.not_equal(before[column], 3))
    for library in (pilum, lance):
        assert library.dataset(path).to_table().equals(expected)
        first = library.dataset(path).get_fragments()[0]
        assert (first.physical_rows, first.num_deletions) == (100, 11)
    assert pilum.dataset(path).versions()[-1]["metadata"]["total_deletion_file_rows"] == "11"
    lance.dataset(path).validate()
