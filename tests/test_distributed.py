from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some

import pilum
from pilum.commit import ExternalManifests
from pilum.distributed import (
    Mode,
    PartMessage,
    Split,
    WriteJob,
    abort_parts,
    commit_parts,
    group_splits,
    plan_splits,
    read_split,
    start_job,
    write_part,
)
from pilum.errors import (
    CommitConflictError,
    CommitError,
    DatasetAlreadyExistsError,
    InvalidInputError,
    SchemaMismatchError,
)
from pilum.expressions import bind
from pilum.format.version import FileVersion
from pilum.storage.open import open_store
from pilum.table.commits.commit_handler import handler_of
from pilum.table.names import NamingScheme
from pilum.table.open import open_table
from pilum.table.snapshot import Snapshot
from pilum.table.writing.plain_form import plain_schema
from pilum.table.writing.write import WriteOptions

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def rows(*ids: int) -> list[pa.RecordBatch]:
    return [pa.record_batch({"id": list(ids), "text": [f"t{n}" for n in ids]}, schema=SCHEMA)]


def write(uri: str, mode: Mode, *parts: range) -> int:
    job = start_job(uri, SCHEMA, mode)
    return commit_parts(
        job, [write_part(job, rows(*part), partition=n) for n, part in enumerate(parts)]
    )


def latest(uri: str) -> Snapshot:
    return Snapshot.latest(open_store(uri))


def read(uri: str, target_bytes: int = 1 << 20, **how: Any) -> list[int]:
    return [
        number
        for split in plan_splits(latest(uri), target_bytes)
        for batch in read_split(split, columns=("id",), **how)
        for number in batch.column("id").to_pylist()
    ]


def files(uri: str) -> list[str]:
    return sorted(path.name for path in Path(uri, "data").glob("*"))


def test_splits_cover_every_row_once_and_in_order(uri: str) -> None:
    write(uri, "create", range(10_000), range(10_000, 12_000))
    splits = plan_splits(latest(uri), 1)
    assert [(split.fragment_id, split.start, split.stop) for split in splits] == [
        (0, 0, 4096),
        (0, 4096, 8192),
        (0, 8192, 10_000),
        (1, 0, 2000),
    ]
    assert read(uri, 1) == list(range(12_000))
    assert len(plan_splits(latest(uri), 1 << 30)) == 2


def test_a_split_is_read_with_columns_and_filter(uri: str) -> None:
    write(uri, "create", range(10_000))
    condition = bind("id % 1000 = 1 AND text <> 't1'", SCHEMA)
    assert read(uri, 1, filter=condition) == list(range(1001, 10_000, 1000))
    (split,) = plan_splits(latest(uri))
    batches = list(read_split(split, columns=("text", "_rowid"), batch_size=4000))
    assert [batch.num_rows for batch in batches] == [4000, 4000, 2000]
    assert batches[0].schema.names == ["text", "_rowid"]


def test_a_split_stays_with_its_version(uri: str) -> None:
    write(uri, "create", range(5))
    (split,) = plan_splits(latest(uri))
    write(uri, "overwrite", range(9))
    assert pa.Table.from_batches(read_split(split)).num_rows == 5


@given(some.lists(some.integers(0, 50)), some.integers(1, 100))
def test_groups_keep_the_order_and_are_no_larger_than_asked_for(
    sizes: list[int], target: int
) -> None:
    splits = [Split("u", 1, number, 0, 1, size) for number, size in enumerate(sizes)]
    groups = group_splits(splits, target)
    assert [split for group in groups for split in group] == splits
    assert all(
        len(group) == 1 or sum(split.size_bytes for split in group) <= target for group in groups
    )


def test_a_senseless_target_is_refused(uri: str) -> None:
    write(uri, "create", range(1))
    with pytest.raises(InvalidInputError, match="target_bytes"):
        plan_splits(latest(uri), 0)


def test_what_travels_is_plain(uri: str) -> None:
    job = start_job(uri, SCHEMA, "create")
    message = write_part(job, rows(1, 2), partition=3, attempt=1)
    assert pickle.loads(pickle.dumps(job)) == job
    assert PartMessage.from_json(message.to_json()) == message
    assert json.loads(message.to_json()).keys() == {"partition", "attempt", "num_rows", "fragments"}
    assert message.num_rows == 2
    commit_parts(job, [message])
    (split,) = plan_splits(latest(uri))
    assert pickle.loads(pickle.dumps(split)) == split
    assert len(pickle.dumps(split)) < 300


def test_files_tell_their_job_partition_and_attempt(uri: str) -> None:
    job = start_job(uri, SCHEMA, "create", WriteOptions(max_rows_per_file=2))
    write_part(job, rows(1, 2, 3), partition=7, attempt=2)
    assert len(files(uri)) == 2
    assert all(name.startswith(f"{job.uuid}-00007-2-") for name in files(uri))


def test_parts_are_committed_in_the_order_of_their_partitions(uri: str) -> None:
    job = start_job(uri, SCHEMA, "create")
    messages = [write_part(job, rows(number), partition=number) for number in (2, 0, 1)]
    assert commit_parts(job, messages) == 1
    assert read(uri) == [0, 1, 2]


@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
def test_a_repeated_commit_applies_once(uri: str, mode: Mode) -> None:
    if mode != "create":
        write(uri, "create", range(3))
    job = start_job(uri, SCHEMA, mode)
    messages = [write_part(job, rows(7, 8), partition=0)]
    version = commit_parts(job, messages)
    write(uri, "append", range(9, 10))
    assert commit_parts(job, messages) == version
    assert latest(uri).manifest.version == version + 1
    assert sorted(read(uri)) == sorted([*([0, 1, 2] if mode == "append" else []), 7, 8, 9])


def test_a_batch_of_a_stream_that_is_written_again_applies_once(uri: str) -> None:
    versions = []
    for batch, value in ((0, 1), (1, 2), (1, 2), (0, 1)):
        job = start_job(uri, SCHEMA, "append")
        message = write_part(job, rows(value), partition=0)
        versions.append(commit_parts(job, [message], idempotency_key=("query", batch)))
    assert versions == [1, 2, 2, 2]
    assert read(uri) == [1, 2]
    assert len(files(uri)) == 2


def test_a_job_and_its_parts_know_an_external_manifest_store(uri: str, tmp_path: Path) -> None:
    options = {"manifest_store": f"sqlite://{tmp_path}/entries.db"}
    for value in (1, 2):
        job = start_job(uri, SCHEMA, "append", storage_options=options)
        commit_parts(pickle.loads(pickle.dumps(job)), [write_part(job, rows(value), partition=0)])
    handler = handler_of(open_table(uri, options))
    assert isinstance(handler, ExternalManifests)
    assert handler.entries.get_latest(uri) == (2, NamingScheme.V2.manifest_path(2))


def test_an_abort_after_the_commit_deletes_nothing(uri: str) -> None:
    job = start_job(uri, SCHEMA, "create")
    commit_parts(job, [write_part(job, rows(1), partition=0)])
    write(uri, "append", range(2, 3))
    assert abort_parts(job) == 0
    assert read(uri) == [1, 2]


def test_an_abort_deletes_the_files_of_its_job_only(uri: str) -> None:
    write(uri, "create", range(3))
    given_up, going_on = start_job(uri, SCHEMA, "append"), start_job(uri, SCHEMA, "append")
    write_part(given_up, rows(1), partition=0)
    write_part(given_up, rows(1), partition=0, attempt=1)
    message = write_part(going_on, rows(3), partition=0)
    assert abort_parts(given_up) == 2
    commit_parts(going_on, [message])
    assert read(uri) == [0, 1, 2, 3]


def test_a_task_that_outlives_its_job_deletes_its_files(uri: str) -> None:
    """An abort lists files before the task has finished its own."""
    write(uri, "create", range(3))
    before = files(uri)
    job = start_job(uri, SCHEMA, "append", WriteOptions(max_rows_per_file=1))

    def late() -> Iterator[pa.RecordBatch]:
        yield from rows(1, 2)
        abort_parts(job)
        yield from rows(3)

    with pytest.raises(CommitError, match="was given up while its task 0 was still writing"):
        write_part(job, late(), partition=0)
    with pytest.raises(CommitError, match="given up"):
        write_part(job, rows(4), partition=1)
    (mark,) = set(files(uri)) - set(before)
    assert mark == f"{job.uuid}-given-up.lance"
    dataset = pilum.dataset(uri)
    dataset.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert files(uri) == before
    assert read(uri) == [0, 1, 2]


def test_a_task_that_fails_leaves_no_file(uri: str) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from rows(1, 2)
        raise RuntimeError("on purpose")

    job = start_job(uri, SCHEMA, "create")
    with pytest.raises(RuntimeError, match="on purpose"):
        write_part(job, failing(), partition=0)
    assert files(uri) == []


def test_nothing_appended_is_no_version_but_nothing_created_is_a_table(uri: str) -> None:
    assert write(uri, "append") == 1
    assert write(uri, "append", range(0)) == 1
    assert latest(uri).schema.arrow.names == ["id", "text"]


def test_modes_are_told_never_guessed(uri: str) -> None:
    assert start_job(uri, SCHEMA, "append").mode == "create"
    write(uri, "create", range(1))
    assert start_job(uri, SCHEMA, "append").mode == "append"
    with pytest.raises(DatasetAlreadyExistsError):
        start_job(uri, SCHEMA, "create")


def test_two_jobs_cannot_both_create_a_table(uri: str) -> None:
    jobs = [start_job(uri, SCHEMA, "append") for _ in range(2)]
    messages = [write_part(job, rows(number), partition=0) for number, job in enumerate(jobs)]
    assert commit_parts(jobs[0], messages[:1]) == 1
    with pytest.raises(CommitConflictError):
        commit_parts(jobs[1], messages[1:])
    assert abort_parts(jobs[1]) == 1
    assert read(uri) == [0]


def test_an_append_keeps_the_schema_of_the_table(uri: str) -> None:
    write(uri, "create", range(1))
    other = pa.schema([("id", pa.int8())])
    job = start_job(uri, other, "append")
    assert job.schema.arrow == SCHEMA
    with pytest.raises((SchemaMismatchError, InvalidInputError)):
        write_part(job, [pa.record_batch({"id": [1]}, schema=other)], partition=0)
    assert isinstance(job, WriteJob)


def test_the_file_version_is_kept_unless_another_is_asked_for(uri: str) -> None:
    newer = FileVersion.V2_2
    job = start_job(uri, SCHEMA, "create", version=newer)
    assert job.options.version is newer
    commit_parts(job, [write_part(job, rows(1, 2), partition=0)])
    assert start_job(uri, SCHEMA, "append").options.version is newer
    assert start_job(uri, SCHEMA, "overwrite").options.version is newer
    assert start_job(uri, SCHEMA, "overwrite", version=FileVersion.V2_1).options.version is (
        FileVersion.V2_1
    )
    with pytest.raises(InvalidInputError, match=r"files of version 2\.2; 2\.1 cannot"):
        start_job(uri, SCHEMA, "append", version=FileVersion.V2_1)


def test_an_append_may_bring_columns(uri: str) -> None:
    write(uri, "create", range(2))
    more = pa.schema([("extra", pa.float64()), ("id", pa.int64())])
    batch = pa.record_batch([[0.5], [2]], schema=more)
    refused = start_job(uri, more, "append")
    with pytest.raises(SchemaMismatchError, match="no column 'extra'"):
        write_part(refused, [batch], partition=0)
    job = start_job(uri, more, "append", schema_mode="merge")
    message = write_part(job, [batch], partition=0)
    write(uri, "append", range(3, 4))  # at the same time; it must not be lost
    assert commit_parts(job, [message]) == commit_parts(job, [message]) == 3
    assert pilum.dataset(uri).to_table().to_pydict() == {
        "id": [0, 1, 3, 2],
        "text": ["t0", "t1", "t3", None],
        "extra": [None, None, None, 0.5],
    }


@pytest.mark.parametrize("version", [FileVersion.V2_1, FileVersion.V2_2])
def test_rows_may_be_given_in_their_plain_form(uri: str, version: FileVersion) -> None:
    """Binary for blobs, text for JSON: all that Spark has."""
    schema = pa.schema(
        [
            pa.field("doc", pa.string(), metadata={"ARROW:extension:name": "arrow.json"}),
            pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        ]
    )
    batch = pa.record_batch([['{"a": 1}', None], [b"payload", None]], schema=schema)
    job = start_job(uri, schema, "create", version=version)
    commit_parts(job, [write_part(job, [batch], partition=0)])
    job = start_job(uri, plain_schema(latest(uri).schema), "append")
    commit_parts(job, [write_part(job, [batch], partition=0)])
    dataset = pilum.dataset(uri)
    assert dataset.schema.field("doc").type == pa.json_()
    table = dataset.to_table(blob_handling="all_binary")
    assert table["blob"].to_pylist() == [b"payload", None] * 2
    assert table["doc"].to_pylist() == ['{"a":1}', None] * 2


def test_a_new_table_may_have_stable_row_ids(uri: str) -> None:
    job = start_job(uri, SCHEMA, "create", stable_row_ids=True)
    commit_parts(job, [write_part(job, rows(1), partition=0)])
    assert latest(uri).has_stable_row_ids
