"""The methods of datasets for indices, with a small type of index."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from table.indices.value_index import FILE, TYPES, addresses, is_in, listed

import pilum
from pilum.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    IndexAlreadyExistsError,
    IndexNotFoundError,
    InvalidInputError,
    NotFoundError,
    UnsupportedTypeError,
)
from pilum.index import registry
from pilum.indices import IndexConfig
from pilum.progress import IndexProgress
from pilum.table.indices.open_segments import open_segments


@pytest.fixture(autouse=True)
def value_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_TYPES", (*registry._TYPES, *TYPES))


def rows(first: int, count: int) -> pa.Table:
    numbers = pa.array(range(first, first + count), pa.int64())
    nested = pa.StructArray.from_arrays([numbers], ["x"])
    return pa.table({"a": numbers, "text": numbers.cast(pa.string()), "s": nested})


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    """Three fragments of four rows."""
    return pilum.write_dataset(rows(0, 12), tmp_path / "t", max_rows_per_file=4)


def found(dataset: pilum.LanceDataset, *values: int, path: str = "a") -> list[list[int]]:
    return [
        listed(segment.search(is_in(*values))) for segment in open_segments(dataset.snapshot, path)
    ]


def coverage(dataset: pilum.LanceDataset) -> list[tuple[str, list[int]]]:
    return [(one["name"], [*(one["fragment_ids"] or ())]) for one in dataset.list_indices()]


def folders(dataset: pilum.LanceDataset) -> set[str]:
    root = Path(dataset.uri) / "_indices"
    return {one.name for one in root.iterdir() if any(one.iterdir())} if root.exists() else set()


def test_an_index_is_created_listed_described_and_dropped(dataset: pilum.LanceDataset) -> None:
    dataset.create_scalar_index("a", "values")
    (listing,) = dataset.list_indices()
    assert (listing["name"], listing["type"], listing["fields"]) == ("a_idx", "Values", ["a"])
    assert listing["version"] == 1
    assert dataset.version == 2
    (description,) = dataset.describe_indices()
    size_bytes = (Path(dataset.uri) / "_indices" / listing["uuid"] / FILE).stat().st_size
    assert description.total_size_bytes == size_bytes
    assert (description.num_rows_indexed, description.details) == (12, {})
    assert found(dataset, 5) == [addresses((1, 1))]
    dataset.insert(rows(12, 2))
    dataset.delete("a = 0")
    stats = dataset.stats.index_stats("a_idx")
    assert stats == dataset.index_statistics("a_idx")
    assert stats.pop("updated_at_timestamp_ms") > 0
    assert stats == {
        "index_type": "Values",
        "name": "a_idx",
        "num_indices": 1,
        "num_segments": 1,
        "indices": [{"num_values": 12}],
        "segments": [{"num_values": 12}],
        "num_indexed_fragments": 3,
        "num_indexed_rows": 11,
        "num_unindexed_fragments": 1,
        "num_unindexed_rows": 2,
        "num_indexed_rows_per_delta": [11],
    }
    dataset.drop_index("a_idx")
    assert not dataset.has_index
    for call in (dataset.drop_index, dataset.prewarm_index, dataset.index_statistics):
        with pytest.raises(IndexNotFoundError, match="no index 'a_idx'"):
            call("a_idx")
    with pytest.raises(KeyError):
        dataset.stats.index_stats("a_idx")


def test_members_of_structs_are_indexed(dataset: pilum.LanceDataset) -> None:
    dataset.create_scalar_index("s.x", IndexConfig("VALUES"))
    (listing,) = dataset.list_indices()
    assert (listing["name"], listing["fields"]) == ("s.x_idx", ["s.x"])
    assert found(dataset, 7, path="s.x") == [addresses((1, 3))]
    dataset.insert(rows(12, 2))
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    assert found(dataset, 7, 13, path="s.x") == [addresses((1, 3)), addresses((3, 1))]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        (("x", "VALUES"), {}, ColumnNotFoundError, "no column 'x'"),
        (("x", "VALUES"), {}, KeyError, "no column 'x'"),
        (("_rowid", "VALUES"), {}, InvalidInputError, "in no file"),
        (("text", "VALUES"), {}, UnsupportedTypeError, "'text' of type string"),
        (("text", "VALUES"), {}, TypeError, "expected integers"),
        ((["a", "text"], "VALUES"), {}, NotImplementedError, "several columns"),
        (("a", "FOO"), {}, NotImplementedError, "no type of index 'FOO'"),
        (("a", "IVF_PQ"), {}, UnsupportedTypeError, "column 'a' has type int64"),
        (("a", 5), {}, InvalidInputError, "index_type"),
        (("a", "VALUES"), {"foo": 1}, InvalidInputError, "no parameters"),
        (("a", IndexConfig("VALUES", {"foo": 1})), {}, InvalidInputError, "no parameters"),
        (("a", "VALUES", ""), {}, InvalidInputError, "name: ''"),
        (("a", "VALUES", "__lance_x"), {}, InvalidInputError, "__lance_x"),
        (("a", "VALUES"), {"index_uuid": "zzz"}, InvalidInputError, "not a uuid"),
        (("a", "VALUES"), {"fragment_ids": [0]}, ValueError, "create_index_uncommitted"),
    ],
)
def test_wrong_arguments_are_named(
    dataset: pilum.LanceDataset,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    error: type[Exception],
    text: str,
) -> None:
    with pytest.raises(error, match=text):
        dataset.create_scalar_index(*arguments, **options)
    assert (dataset.version, folders(dataset)) == (1, set())


def test_a_name_is_used_once_unless_its_index_is_replaced(dataset: pilum.LanceDataset) -> None:
    dataset.create_index("a", "VALUES")
    with pytest.raises(IndexAlreadyExistsError, match="replace=True"):
        dataset.create_index(["a"], "VALUES")
    with pytest.raises(RuntimeError):
        dataset.create_scalar_index("a", "VALUES", replace=False)
    (old,) = dataset.list_indices()
    uuid = str(uuid4())
    dataset.create_scalar_index("a", "VALUEIDS", index_uuid=uuid)
    (new,) = dataset.list_indices()
    assert (new["uuid"], new["type"], old["type"]) == (uuid, "ValueIds", "Values")


def test_an_index_without_rows_is_filled_by_the_next_optimization(
    dataset: pilum.LanceDataset,
) -> None:
    dataset.create_scalar_index("a", "VALUES", train=False)
    assert coverage(dataset) == [("a_idx", [])]
    assert found(dataset, 5) == []
    dataset.optimize.optimize_indices()
    assert coverage(dataset) == [("a_idx", [0, 1, 2])]
    assert found(dataset, 5) == [addresses((1, 1))]


def test_a_failed_build_leaves_nothing(dataset: pilum.LanceDataset) -> None:
    with pytest.raises(RuntimeError, match="disk is full"):
        dataset.create_scalar_index("a", "VALUES", fails=True)
    assert (dataset.version, folders(dataset)) == (1, set())


def test_a_build_that_loses_against_another_one_leaves_nothing(
    dataset: pilum.LanceDataset,
) -> None:
    other = pilum.dataset(dataset.uri)
    dataset.create_scalar_index("a", "VALUES")
    with pytest.raises(CommitConflictError) as caught:
        other.create_scalar_index("a", "VALUES")
    assert caught.value.retryable
    assert folders(dataset) == {one["uuid"] for one in dataset.list_indices()}


def test_progress_is_reported(dataset: pilum.LanceDataset) -> None:
    events: list[IndexProgress] = []
    dataset.create_scalar_index("a", "VALUES", progress_callback=events.append)
    assert [one.event for one in events] == ["start", *["progress"] * 3, "complete"]
    assert [one.completed for one in events] == [0, 4, 8, 12, 12]
    assert events[1].fraction == 1 / 3
    assert {(one.stage, one.unit, one.total) for one in events} == {("load_data", "rows", 12)}


def test_segments_are_built_apart_and_committed_together(dataset: pilum.LanceDataset) -> None:
    build = dataset.create_index_uncommitted
    parts = [build("a", "VALUES", name="apart", fragment_ids=[number]) for number in (0, 1, 2)]
    assert dataset.version == 1
    assert [[*one.fragment_ids] for one in parts] == [[0], [1], [2]]
    merged = dataset.merge_existing_index_segments(parts[:2])
    assert [*merged.fragment_ids] == [0, 1]
    dataset.commit_existing_index_segments("a_idx", "a", [merged, parts[2]])
    assert coverage(dataset) == [("a_idx", [0, 1]), ("a_idx", [2])]
    assert found(dataset, 5, 11) == [addresses((1, 1)), addresses((2, 3))]
    dataset.commit_existing_index_segments("a_idx", "a", [parts[0]])
    assert coverage(dataset) == [("a_idx", [0])]


def test_segments_of_values_that_changed_since_are_reduced(dataset: pilum.LanceDataset) -> None:
    build = dataset.create_index_uncommitted
    parts = [build("a", "VALUES", fragment_ids=[number]) for number in (0, 1)]
    image, fields = dataset.get_fragments()[0].update_columns(
        pa.table({"text": ["1"], "a": [70]}), left_on="text"
    )
    operation = pilum.LanceOperation.Update(
        updated_fragments=[image], fields_modified=fields, update_mode="rewrite_columns"
    )
    dataset = pilum.LanceDataset.commit(dataset.uri, operation, read_version=1)
    merged = dataset.merge_existing_index_segments(parts)
    assert [*merged.fragment_ids] == [1]
    dataset.commit_existing_index_segments("apart", "a", parts)
    assert coverage(dataset) == [("apart", []), ("apart", [1])]


def test_segments_that_do_not_belong_together_are_refused(dataset: pilum.LanceDataset) -> None:
    build = dataset.create_index_uncommitted
    one = build("a", "VALUES", fragment_ids=[0])
    other = build("a", "VALUEIDS", fragment_ids=[1])
    nested = build("s.x", "VALUES", fragment_ids=[1])
    with pytest.raises(InvalidInputError, match="needs fragment_ids"):
        build("a", "VALUES")
    with pytest.raises(InvalidInputError, match=r"no fragments \[7\]"):
        build("a", "VALUES", fragment_ids=[0, 7])
    merge, commit = dataset.merge_existing_index_segments, dataset.commit_existing_index_segments
    for call in (merge, lambda some: commit("a_idx", "a", some)):
        with pytest.raises(InvalidInputError, match="at least one"):
            call([])
        with pytest.raises(InvalidInputError, match=r"cover the fragments \[0\]"):
            call([one, one])
    with pytest.raises(InvalidInputError, match="different types or columns"):
        merge([one, other])
    with pytest.raises(InvalidInputError, match="different types or columns"):
        merge([one, nested])
    with pytest.raises(InvalidInputError, match="the same type"):
        commit("a_idx", "a", [one, other])
    with pytest.raises(InvalidInputError, match="not one of column 'a'"):
        commit("a_idx", "a", [one, nested])
    (Path(dataset.uri) / "_indices" / one.uuid / FILE).unlink()
    with pytest.raises(NotFoundError, match=FILE):
        commit("a_idx", "a", [one])
    assert dataset.version == 1


def test_optimization_adds_and_merges(dataset: pilum.LanceDataset) -> None:
    dataset.create_scalar_index("a", "VALUES")
    optimize = dataset.optimize.optimize_indices
    optimize()
    assert dataset.version == 2  # nothing was to be done
    dataset.insert(rows(12, 4))
    optimize(num_indices_to_merge=0)
    assert coverage(dataset) == [("a_idx", [0, 1, 2]), ("a_idx", [3])]
    assert [one["version"] for one in dataset.list_indices()] == [1, 3]
    dataset.insert(rows(16, 4))
    optimize(index_names=["a_idx"])
    assert coverage(dataset) == [("a_idx", [0, 1, 2]), ("a_idx", [3, 4])]
    assert [one["version"] for one in dataset.list_indices()] == [1, 3]
    dataset.delete("a < 4")
    optimize(num_indices_to_merge=5)
    assert coverage(dataset) == [("a_idx", [1, 2, 3, 4])]
    assert [one["version"] for one in dataset.list_indices()] == [1]
    assert dataset.stats.index_stats("a_idx")["segments"] == [{"num_values": 16}]
    optimize(retrain=True)
    assert [one["version"] for one in dataset.list_indices()] == [dataset.version - 1]
    assert found(dataset, 1, 5, 17) == [addresses((1, 1), (4, 1))]
    with pytest.raises(IndexNotFoundError, match="no index 'b'"):
        optimize(index_names=["b"])
    with pytest.raises(InvalidInputError, match="list of names"):
        optimize(index_names="a_idx")
    with pytest.raises(InvalidInputError, match="num_indices_to_merge"):
        optimize(num_indices_to_merge=-1)


def test_a_cleanup_removes_the_files_of_replaced_and_abandoned_segments(
    dataset: pilum.LanceDataset,
) -> None:
    dataset.create_scalar_index("a", "VALUES")
    dataset.create_scalar_index("a", "VALUES")
    dataset.create_index_uncommitted("a", "VALUES", name="b", fragment_ids=[0])
    assert len(folders(dataset)) == 3
    dataset.cleanup_old_versions(retain_versions=1, delete_unverified=True)
    assert folders(dataset) == {one["uuid"] for one in dataset.list_indices()}


def test_segments_are_warmed_by_uuid(dataset: pilum.LanceDataset) -> None:
    dataset.create_scalar_index("a", "VALUES")
    (listing,) = dataset.list_indices()
    dataset.prewarm_index("a_idx", index_segments=[listing["uuid"]])
    with pytest.raises(IndexNotFoundError, match="no segments"):
        dataset.prewarm_index("a_idx", index_segments=[str(uuid4())])


def test_branches_and_restored_versions_have_their_indices(dataset: pilum.LanceDataset) -> None:
    dataset.create_scalar_index("a", "VALUES")
    branch = dataset.create_branch("dev")
    branch.insert(rows(12, 4))
    branch.optimize.optimize_indices(num_indices_to_merge=0)
    assert found(branch, 5, 13) == [addresses((1, 1)), addresses((3, 1))]
    branch.optimize.optimize_indices(num_indices_to_merge=2)
    assert found(branch, 5, 13) == [addresses((1, 1), (3, 1))]
    assert found(pilum.dataset(dataset.uri), 5, 13) == [addresses((1, 1))]
    dataset.drop_index("a_idx")
    dataset.checkout_version(2).restore()
    assert found(pilum.dataset(dataset.uri), 5) == [addresses((1, 1))]


_DIE = {
    "while it writes": "files.IndexFileWriter.write = die",
    "before the commit": "index_builds.commit_new = die",
}


@pytest.mark.parametrize("moment", _DIE)
def test_a_killed_build_leaves_nothing_visible(dataset: pilum.LanceDataset, moment: str) -> None:
    lines = [
        "import os, sys, pilum",
        "from pilum.dataset import index_builds",
        "from pilum.index import files",
        "die = lambda *_, **__: os._exit(9)",
        _DIE[moment],
        "pilum.dataset(sys.argv[1]).create_scalar_index('a', 'BTREE')",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines), dataset.uri], check=False)
    assert done.returncode == 9
    latest = pilum.dataset(dataset.uri)
    assert (latest.version, latest.has_index) == (1, False)
    report = latest.verify()
    assert report.is_valid
    assert {one.path.split("/")[0] for one in report.orphaned} == {"_indices"}
    latest.cleanup_old_versions(delete_unverified=True)
    assert folders(latest) == set()
    latest.create_scalar_index("a", "BTREE")
    assert latest.verify().orphaned == []


def test_segments_are_committed_by_hand(dataset: pilum.LanceDataset) -> None:
    part = dataset.create_index_uncommitted("a", "VALUES", fragment_ids=[0, 1])
    part.name = "by hand"
    operation = pilum.LanceOperation.CreateIndex([part], [])
    dataset = pilum.LanceDataset.commit(dataset.uri, operation, read_version=1)
    assert coverage(dataset) == [("by hand", [0, 1])]
    assert found(dataset, 5, 11) == [addresses((1, 1))]
    operation = pilum.LanceOperation.CreateIndex([], [part])
    dataset = pilum.LanceDataset.commit(dataset.uri, operation, read_version=2)
    assert not dataset.list_indices()
