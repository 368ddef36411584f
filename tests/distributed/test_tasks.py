"""The jobs on an engine that pickles everything, and runs the first task twice."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from distributed.helpers import Pickling, files

import pilum
from pilum import LanceOperation
from pilum.distributed import Attempt, TableVersion, find_version, write_part
from pilum.distributed.clustering import ClusterJob, Sorted, cluster, write_cluster_part
from pilum.distributed.columns import ColumnValues, compute_columns
from pilum.distributed.jobs import PartMessage, WriteJob, write_options
from pilum.distributed.merging import (
    MERGE_ADDRESS,
    MERGE_PRESENT,
    DistributedMerge,
    MergeJob,
    MergePart,
    write_merge_part,
)
from pilum.distributed.row_changes import RowChange, delete, update
from pilum.distributed.tasks import fragment_groups, require_count
from pilum.distributed.upkeep import analyze, compact, verify
from pilum.errors import FilterError, InvalidInputError, VersionNotFoundError
from pilum.file import LanceFileWriter
from pilum.fragment import DataFile


@pytest.fixture
def engine() -> Pickling:
    return Pickling()


@pytest.fixture
def table(uri: str) -> str:
    """Twenty rows in four fragments."""
    rows = pa.table({"id": range(20), "n": [number * 10 for number in range(20)]})
    pilum.write_dataset(rows, uri, max_rows_per_file=5)
    return uri


def rows_of(uri: str) -> dict[int, int]:
    found = pilum.dataset(uri).to_table(columns=["id", "n"]).to_pydict()
    return dict(zip(found["id"], found["n"], strict=True))


def used_files(uri: str) -> set[str]:
    fragments = TableVersion.latest(uri).snapshot.manifest.fragments
    return {file.path for fragment in fragments for file in fragment.files}


def test_a_version_is_plain_and_stays_what_it_is(table: str) -> None:
    version = find_version(table)
    assert version.columns.names == ["id", "n"]
    sent = pickle.loads(pickle.dumps(version))
    assert sent == version == TableVersion(table, 1)
    assert len(pickle.dumps(version)) < 500
    pilum.dataset(table).delete("id < 10")
    assert (sent.num_rows, find_version(table).num_rows) == (20, 10)
    assert find_version(table, 1).num_rows == 20
    with pytest.raises(VersionNotFoundError):
        find_version(table, 9)


def test_versions_have_names_and_branches(table: str) -> None:
    dataset = pilum.dataset(table)
    dataset.tags.create("first", 1)
    branch = dataset.create_branch("trial")
    branch.delete("id < 15")
    assert find_version(table, "first").version == 1
    found = find_version(table, branch="trial")
    assert (found.num_rows, TableVersion.latest(found.uri).num_rows) == (5, 5)
    with pytest.raises(InvalidInputError, match="is on one branch"):
        find_version(table, "first", branch="trial")


def test_fragments_share_tasks(table: str) -> None:
    version = TableVersion.latest(table)
    assert fragment_groups(version) == [(0, 1, 2, 3)]
    assert fragment_groups(version, 1) == [(0,), (1,), (2,), (3,)]


def test_rows_are_deleted(table: str, engine: Pickling) -> None:
    assert delete(engine, RowChange.of(table), "id % 5 = 1") == {"num_deleted_rows": 4}
    assert rows_of(table) == {n: n * 10 for n in range(20) if n % 5 != 1}
    assert engine.num_tasks == 2


def test_rows_are_updated_and_files_of_lost_attempts_are_deleted(
    table: str, engine: Pickling
) -> None:
    change = RowChange.of(table)
    assert update(engine, change, {"n": "n + 1"}, "id < 7") == {"num_rows_updated": 7}
    assert rows_of(table) == {n: n * 10 + (n < 7) for n in range(20)}
    assert set(files(table)) >= used_files(table)
    assert len(files(table)) == 5


def test_small_tables_need_no_task(table: str, engine: Pickling) -> None:
    change = RowChange.of(table, idempotency_key="job")
    assert update(engine, change, {"n": "0"}, local_bytes=1 << 30) == {"num_rows_updated": 20}
    assert delete(engine, change, "true", local_bytes=1 << 30) == {"num_deleted_rows": 0}
    assert engine.num_tasks == 0


def test_errors_are_found_before_any_task(table: str, engine: Pickling) -> None:
    with pytest.raises(FilterError):
        delete(engine, RowChange.of(table), "id <")
    with pytest.raises(InvalidInputError, match="set: expected a dict"):
        update(engine, RowChange.of(table), {})
    with pytest.raises(InvalidInputError, match="commit_every"):
        compact(engine, table, {}, commit_every=0)
    with pytest.raises(InvalidInputError, match="local_bytes"):
        delete(engine, RowChange.of(table), "true", local_bytes=-1)
    assert engine.num_tasks == 0
    assert require_count("n", np.int32(3)) == 3


def test_fragments_are_compacted(table: str, engine: Pickling) -> None:
    metrics = compact(engine, table, {"target_rows_per_fragment": 10}, commit_every=1)
    assert (metrics.fragments_removed, metrics.fragments_added) == (4, 2)
    assert rows_of(table) == {n: n * 10 for n in range(20)}
    assert len(files(table)) == 6  # the old ones, and one of each task


def test_pages_are_checked_in_tasks(table: str, engine: Pickling) -> None:
    assert verify(engine, table, deep=True).is_valid
    assert engine.num_tasks == 5
    path = Path(table, "data", files(table)[0])
    path.write_bytes(b"\0" * 64 + path.read_bytes()[64:])
    assert not verify(engine, table, deep=True).is_valid


def test_statistics_of_groups_are_joined(table: str, engine: Pickling) -> None:
    one, two = analyze(engine, TableVersion.latest(table))
    assert (one.name, one.min, one.max, one.num_rows, one.distinct_count) == ("id", 0, 19, 20, 20)
    assert (two.name, two.max, two.null_count) == ("n", 190, 0)


@pytest.mark.parametrize("size", [None, 3])
def test_columns_are_computed(table: str, engine: Pickling, size: int | None) -> None:
    job = None if size is None else "twice"
    values = ColumnValues({"twice": "n * 2"})
    compute_columns(engine, table, values, "add", job=job, commit_every=size)
    values = ColumnValues({"twice": "twice + 1"}, where="id < 3")
    compute_columns(engine, table, values, "update")
    compute_columns(engine, table, ColumnValues({"n": "cast(n AS string)"}), "replace")
    found = pilum.dataset(table).to_table().sort_by("id").to_pydict()
    assert found["twice"] == [n * 20 + (n < 3) for n in range(20)]
    assert found["n"] == [str(n * 10) for n in range(20)]
    assert used_files(table) <= set(files(table))


@pytest.mark.parametrize("how", ["add", "update"])
def test_columns_are_computed_again_after_an_overlay(
    table: str, how: Literal["add", "update"]
) -> None:
    """The first tasks have read the values that the overlay replaces."""
    dataset = pilum.dataset(table)
    dataset.add_columns({"twice": "0"} if how == "update" else {"other": "0"})

    class Interrupted(Pickling):
        num_runs = 0

        def run(self, items: Any, task: Any) -> Any:
            found = super().run(items, task)
            self.num_runs += 1
            if self.num_runs == 1:
                overlay(table, {"n": [7000]} if how == "add" else {"twice": [1]})
            return found

    engine = Interrupted()
    compute_columns(engine, table, ColumnValues({"twice": "n * 2 + 0"}), how)
    assert engine.num_runs == 2
    found = pilum.dataset(table).to_table().to_pydict()
    assert found["twice"] == [2 * n for n in found["n"]]


def overlay(uri: str, values: dict[str, list[int]]) -> None:
    """Replace a value of the first row."""
    dataset = pilum.dataset(uri)
    [(name, [value])] = values.items()
    rows = pa.table({name: pa.array([value], dataset.schema.field(name).type)})
    version = dataset.data_storage_version
    with LanceFileWriter(f"{uri}/data/overlay.lance", rows.schema, version=version) as writer:
        writer.write_batch(rows)
    [fragment, *_] = dataset.get_fragments()
    major, minor = map(int, version.split("."))
    [number] = [one.id for one in dataset.snapshot.schema.fields if one.name == name]
    file = DataFile("overlay.lance", [number], [0], major, minor)
    group = LanceOperation.DataOverlayGroup(
        fragment.fragment_id, [LanceOperation.DataOverlayFile(file, [0])]
    )
    change = LanceOperation.DataOverlay([group])
    pilum.LanceDataset.commit(uri, change, read_version=dataset.version)


def test_rows_are_rewritten_in_the_order_of_the_engine(table: str) -> None:
    def sort(job: ClusterJob) -> Sorted:
        rows = pilum.dataset(job.write.uri).to_table(columns=job.columns, filter=job.condition)
        rows = rows.set_column(
            rows.schema.get_field_index("_rowaddr"), "_rowaddr", rows["_rowaddr"].cast(pa.int64())
        )
        parts = rows.sort_by([("id", "descending")]).to_batches(max_chunksize=8)
        return lambda: [
            write_cluster_part(job.write, [part], partial(_part, number=number))
            for number, part in enumerate(parts)
        ]

    options = write_options(max_rows_per_file=100)
    version = TableVersion.latest(table)
    metrics = cluster(sort, version, options, order=["sort", "id"], commit_every=2)
    assert metrics.fragments_removed == 4
    ids = pilum.dataset(table).to_table()["id"].to_pylist()
    assert ids == [*reversed(range(10)), *reversed(range(10, 20))]


def _part(job: WriteJob, batches: Iterable[pa.RecordBatch], number: int) -> PartMessage:
    return write_part(job, batches, partition=number)


@pytest.mark.parametrize("is_local", [False, True])
def test_rows_are_merged_as_the_engine_joined_them(table: str, is_local: bool) -> None:
    source = pa.table({"id": [3, 4, 50], "n": [-3, -4, -50]})
    merge = DistributedMerge(RowChange.of(table), "id")
    with pytest.raises(InvalidInputError, match="nothing to merge"):
        merge.check(source.schema)
    merge.when_matched_update_all().when_not_matched_insert_all()
    merge.when_not_matched_by_source_delete("id >= 18")
    merge.check(source.schema)
    local = source.to_batches() if is_local else None
    assert merge.run(source.schema, local, _joined) == {
        "num_inserted_rows": 1,
        "num_updated_rows": 2,
        "num_deleted_rows": 2,
    }
    wanted = {n: n * 10 for n in range(18)} | {3: -3, 4: -4, 50: -50}
    assert rows_of(table) == wanted


def _joined(job: MergeJob) -> list[MergePart]:
    """Joins in memory, and merges all in one task."""
    merge = pickle.loads(pickle.dumps(job))
    assert merge.kind_of_join == "full"
    source = pa.table({"id": [3, 4, 50], "n": [-3, -4, -50], MERGE_PRESENT: [True] * 3})
    keys = pilum.dataset(merge.write.uri, merge.write.read_version).to_table(
        columns=[*merge.keys, "_rowaddr"]
    )
    keys = keys.rename_columns(["id", MERGE_ADDRESS])
    keys = keys.set_column(1, MERGE_ADDRESS, keys[MERGE_ADDRESS].cast(pa.int64()))
    rows = source.join(keys, "id", join_type="full outer").sort_by(MERGE_ADDRESS)

    def convert(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        return batch.select(schema.names).cast(schema)

    part = write_merge_part(merge, rows.combine_chunks().to_batches(), Attempt(0), convert)
    assert pc.max(pa.array(part.others)).as_py() == (3 << 32) + 4
    return [pickle.loads(pickle.dumps(part))]
