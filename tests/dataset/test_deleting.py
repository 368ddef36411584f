"""Deleting rows, and what every way of reading gives afterwards (S2.7, S2.9)."""

from __future__ import annotations

import json
import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pilum
from pilum.distributed import plan_splits, read_split
from pilum.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    CommitContentionError,
    FilterError,
    InvalidInputError,
)

TABLE = pa.table(
    {
        "a": range(100),
        "s": [None if row % 7 == 0 else f"text {row}" for row in range(100)],
        "v": pa.array([[row, -row] for row in range(100)], pa.list_(pa.float32(), 2)),
    }
)


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    """100 rows in four fragments of 30, 30, 30 and 10."""
    return pilum.write_dataset(TABLE, tmp_path / "t", max_rows_per_file=30)


def files(dataset: pilum.LanceDataset) -> set[str]:
    root = Path(dataset.uri)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def assert_holds(dataset: pilum.LanceDataset, rows: list[int], table: pa.Table = TABLE) -> None:
    """Every way of reading gives these rows and no others."""
    expected = table.take(pa.array(rows, pa.int64()))
    assert dataset.count_rows() == len(dataset) == len(rows)
    assert dataset.to_table().equals(expected)
    assert pa.Table.from_batches(dataset.to_batches(batch_size=7), table.schema).equals(expected)
    assert dataset.count_rows("a % 2 = 0") == sum(row % 2 == 0 for row in rows)
    assert dataset.to_table(["s"], "a % 2 = 0").equals(
        expected.filter(pc.equal(pc.bit_wise_and(expected["a"], 1), 0)).select(["s"])
    )
    for offset, limit in ((0, 5), (3, 40), (len(rows) // 2, 1), (0, 1000), (len(rows), 3)):
        assert dataset.to_table(offset=offset, limit=limit).equals(expected.slice(offset, limit))
    order = np.random.default_rng(0).integers(0, max(len(rows), 1), min(len(rows), 30))
    assert dataset.take(order).equals(expected.take(pa.array(order)))
    assert dataset.sample(len(rows), randomize_order=False).equals(expected)
    with pytest.raises(InvalidInputError, match=r"there is no row|there are 0 rows"):
        dataset.take([len(rows)])
    splits = plan_splits(dataset.snapshot, 100)
    batches = [batch for split in splits for batch in read_split(split)]
    assert pa.Table.from_batches(batches, table.schema).equals(expected)
    fragments = dataset.get_fragments()
    assert sum(fragment.count_rows() for fragment in fragments) == len(rows)
    assert pa.concat_tables([*(f.to_table() for f in fragments), expected[:0]]).equals(expected)
    assert pickle.loads(pickle.dumps(dataset)).to_table().equals(expected)


def test_rows_are_gone_everywhere(dataset: pilum.LanceDataset) -> None:
    assert dataset.delete("a in (0, 29, 30, 31, 99) or a between 60 and 88") == {
        "num_deleted_rows": 34
    }
    assert dataset.version == 2
    assert_holds(dataset, [*range(1, 29), *range(32, 60), 89, *range(90, 99)])
    assert_holds(dataset.checkout_version(1), list(range(100)))
    assert dataset.to_table(with_row_id=True, limit=1)["_rowid"].to_pylist() == [1]
    assert dataset.versions()[1]["metadata"]["total_rows"] == "66"
    assert dataset.stats.dataset_stats(30) == {
        "num_deleted_rows": 34,
        "num_fragments": 4,
        "num_small_files": 1,
    }


def test_nothing_matches(dataset: pilum.LanceDataset) -> None:
    """A new version all the same, as of the reference."""
    before = files(dataset)
    assert dataset.delete("a = 1000") == {"num_deleted_rows": 0}
    assert dataset.version == 2
    assert not any("_deletions" in name for name in files(dataset) - before)
    assert_holds(dataset, list(range(100)))


def test_null_is_not_true(dataset: pilum.LanceDataset) -> None:
    dataset.delete("s <> 'text 1'")
    assert_holds(dataset, [row for row in range(100) if row % 7 == 0 or row == 1])


def test_expressions_of_arrow_and_row_addresses(dataset: pilum.LanceDataset) -> None:
    dataset.delete(pc.field("a") >= 30)
    dataset.delete("_rowaddr > 3")
    assert_holds(dataset, [0, 1, 2, 3])


def test_fragments_without_rows_are_dropped(dataset: pilum.LanceDataset) -> None:
    dataset.delete("a >= 30 and a < 60")
    assert [fragment.fragment_id for fragment in dataset.get_fragments()] == [0, 2, 3]
    assert not any("_deletions" in name for name in files(dataset))
    assert_holds(dataset, [*range(30), *range(60, 100)])
    dataset.truncate_table()
    assert dataset.get_fragments() == []
    assert_holds(dataset, [])
    assert dataset.delete("true") == {"num_deleted_rows": 0}
    dataset.insert(TABLE)
    assert [fragment.fragment_id for fragment in dataset.get_fragments()] == [4]


def test_a_table_without_its_data_files_can_be_truncated(dataset: pilum.LanceDataset) -> None:
    dataset.delete("a < 35")
    for file in (Path(dataset.uri) / "data").iterdir():
        file.unlink()
    dataset.truncate_table()
    assert dataset.count_rows() == 0
    dataset.insert(TABLE)
    assert_holds(dataset, list(range(100)))


def test_deleted_rows_are_not_evaluated(dataset: pilum.LanceDataset) -> None:
    dataset.delete("a = 0")
    assert dataset.count_rows("100 / a > 50") == 1
    assert dataset.to_table({"q": "100 / a"}, limit=1).to_pydict() == {"q": [100]}


def test_rows_by_address_that_are_deleted_are_left_out(dataset: pilum.LanceDataset) -> None:
    from pilum.table.read.take import take_addresses

    dataset.delete("a in (1, 31)")
    wanted = np.array([2, 1, 0, 0, 1 << 32, (1 << 32) + 1], dtype=np.uint64)
    found = take_addresses(dataset.snapshot, wanted, ["a"])
    assert found["a"].to_pylist() == [2, 0, 0, 30]


def test_few_rows_left_of_many(dataset: pilum.LanceDataset) -> None:
    dataset.delete("a not in (3, 17, 95)")
    assert_holds(dataset, [3, 17, 95])


def test_append_and_overwrite_after_a_delete(dataset: pilum.LanceDataset) -> None:
    dataset.delete("a < 50")
    dataset.insert(TABLE.slice(0, 10))
    assert_holds(dataset, [*range(50, 100), *range(10)])
    dataset.insert(TABLE.slice(0, 3), mode="overwrite")
    assert dataset.snapshot.manifest.reader_flags == 0
    assert_holds(dataset, [0, 1, 2])


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.sampled_from(["range", "modulo", "append"]), st.integers(0, 99)), max_size=6
    )
)
def test_any_sequence_of_deletes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    path = tmp_path_factory.mktemp("deletes") / "t"
    dataset = pilum.write_dataset(TABLE, path, max_rows_per_file=30)
    rows = list(range(100))
    for kind, number in steps:
        if kind == "append":
            dataset.insert(TABLE.slice(number))
            rows += range(number, 100)
            continue
        where = f"a % {number + 2} = 1" if kind == "modulo" else f"a between {number} and 80"
        left = [
            row
            for row in rows
            if not (row % (number + 2) == 1 if kind == "modulo" else number <= row <= 80)
        ]
        assert dataset.delete(where) == {"num_deleted_rows": len(rows) - len(left)}
        rows = left
    assert_holds(dataset, rows)
    assert_holds(pilum.dataset(path), rows)


@pytest.mark.parametrize(
    ("predicate", "error"),
    [
        ("", FilterError),
        ("nope = 1", ColumnNotFoundError),
        ("a", FilterError),
        ("a / (a - 50) > 1", FilterError),
        (None, InvalidInputError),
    ],
)
def test_a_failing_delete_leaves_nothing(
    dataset: pilum.LanceDataset, predicate: Any, error: type[Exception]
) -> None:
    before = files(dataset)
    with pytest.raises(error):
        dataset.delete(predicate)
    assert files(dataset) == before
    assert (dataset.version, dataset.latest_version) == (1, 1)


@pytest.mark.parametrize(
    "arguments",
    [{"conflict_retries": -1}, {"conflict_retries": 1.5}, {"retry_timeout": 30}],
)
def test_arguments_that_make_no_sense(
    dataset: pilum.LanceDataset, arguments: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(arguments))):
        dataset.delete("a = 1", **arguments)


def test_deletes_of_other_rows_are_merged(dataset: pilum.LanceDataset) -> None:
    """S2.9: the transaction is written anew; what it replaces is removed."""
    other, third = pilum.dataset(dataset.uri), pilum.dataset(dataset.uri)
    dataset.delete("a in (1, 40)")
    assert other.delete("a in (2, 70)") == {"num_deleted_rows": 2}
    assert_holds(other, [row for row in range(100) if row not in {1, 2, 40, 70}])
    (first, second, *_) = (fragment.metadata for fragment in other.get_fragments())
    assert first.deletion_file is not None
    assert second.deletion_file is not None
    assert (first.deletion_file.file_type, first.deletion_file.read_version) == ("bitmap", 2)
    assert (second.deletion_file.file_type, second.deletion_file.read_version) == ("array", 1)
    # The rest of the first fragment: merged, nothing is left of it.
    third.delete("a < 30 and a not in (1, 2)")
    assert [fragment.fragment_id for fragment in third.get_fragments()] == [1, 2, 3]
    assert_holds(third, [row for row in range(30, 100) if row not in {40, 70}])
    named = {name for name in files(third) if name.startswith("_transactions/")}
    assert sorted(name.split("/")[1].split("-")[0] for name in named) == ["0", "1", "2", "3"]
    used = {
        fragment.deletion_file()
        for version in (2, 3, 4)
        for fragment in third.checkout_version(version).get_fragments()
    }
    assert {name for name in files(third) if name.startswith("_deletions/")} == used - {None}


def test_rows_that_others_deleted_too_are_looked_for_again(dataset: pilum.LanceDataset) -> None:
    other = pilum.dataset(dataset.uri)
    dataset.delete("a < 3")
    before = files(dataset)
    with pytest.raises(CommitContentionError, match="1 times"):
        pilum.dataset(dataset.uri, version=1).delete("a < 5", conflict_retries=0)
    with pytest.raises(CommitContentionError):
        pilum.dataset(dataset.uri, version=1).delete("a < 5", retry_timeout=timedelta(0))
    assert files(dataset) == before
    assert other.delete("a < 5") == {"num_deleted_rows": 2}
    assert_holds(other, list(range(5, 100)))


def test_rows_appended_meanwhile_stay(dataset: pilum.LanceDataset) -> None:
    other = pilum.dataset(dataset.uri)
    dataset.insert(TABLE.slice(0, 5))
    other.delete("a < 50")
    assert_holds(other, [*range(50, 100), *range(5)])


def test_rows_that_were_replaced_cannot_be_deleted(dataset: pilum.LanceDataset) -> None:
    other = pilum.dataset(dataset.uri)
    dataset.insert(TABLE, mode="overwrite")
    before = files(dataset)
    with pytest.raises(CommitConflictError, match="overwrite of version 2") as caught:
        other.delete("a < 50")
    assert not caught.value.retryable
    assert files(dataset) == before


def test_fragments_delete_and_one_commit_publishes(dataset: pilum.LanceDataset) -> None:
    updated, removed = [], []
    for fragment in dataset.get_fragments():
        found = fragment.delete("a < 40")
        if found is None:
            removed.append(fragment.fragment_id)
        elif found != fragment.metadata:
            again = pilum.FragmentMetadata.from_json(json.dumps(found.to_json()))
            assert again == found
            updated.append(again)
    assert_holds(pilum.dataset(dataset.uri), list(range(100)))
    assert ([item.id for item in updated], removed) == ([1], [0])
    assert (updated[0].num_rows, updated[0].num_deletions) == (20, 10)
    operation = pilum.LanceOperation.Delete(updated, removed, "a < 40")
    assert_holds(
        pilum.LanceDataset.commit(dataset.uri, operation, read_version=1), list(range(40, 100))
    )
    with pytest.raises(CommitConflictError) as caught:
        pilum.LanceDataset.commit(dataset.uri, operation, read_version=1)
    assert caught.value.retryable


def test_fragments_delete_rows_by_number(dataset: pilum.LanceDataset) -> None:
    dataset.delete("a = 3")
    fragment = dataset.get_fragments()[0]
    assert fragment.take([2, 3])["a"].to_pylist() == [2, 4]
    found = fragment.delete_rows([3, 4, 4])
    assert found is not None
    assert found.num_deletions == 2
    assert fragment.delete_rows([3]) == fragment.metadata
    assert fragment.delete_rows(range(30)) is None
    with pytest.raises(InvalidInputError, match="no row 30"):
        fragment.delete_rows([30])


def test_a_fragment_that_is_not_there_cannot_be_deleted(dataset: pilum.LanceDataset) -> None:
    for operation in (
        pilum.LanceOperation.Delete([], [7], ""),
        pilum.LanceOperation.Delete([], [-1], ""),
    ):
        with pytest.raises(InvalidInputError, match=r"\[7\]|-1"):
            pilum.LanceDataset.commit(dataset.uri, operation, read_version=1)
