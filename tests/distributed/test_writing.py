from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from distributed.helpers import SCHEMA, files, latest, read, rows, write

import pilum
from pilum.distributed import (
    Mode,
    PartMessage,
    abort_parts,
    commit_parts,
    plan_splits,
    start_job,
    write_part,
)
from pilum.errors import (
    CommitConflictError,
    CommitError,
    DatasetAlreadyExistsError,
    PilumError,
)
from pilum.table.write.write import WriteOptions


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


BLOBS = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
    ]
)


def below(uri: str) -> set[str]:
    """Files and folders of a table, but notes of its commits."""
    return {str(path.relative_to(uri)) for path in Path(uri, "data").rglob("*")}


def with_blobs() -> pa.RecordBatch:
    """A row with a payload that gets a file of its own."""
    return pa.record_batch([[1], [bytes(9 << 20)]], schema=BLOBS)


@pytest.mark.parametrize("ending", ["given up", "failed", "killed"])
def test_tasks_that_give_up_leave_nothing_that_cleanup_does_not_remove(
    uri: str, ending: str
) -> None:
    """Two of one job: folders of payloads go with them."""
    dataset = pilum.write_dataset(
        pa.Table.from_batches([with_blobs()]), uri, data_storage_version="2.2"
    )
    before = below(uri)
    job = start_job(uri, BLOBS, "append")

    def ends() -> Iterator[pa.RecordBatch]:
        yield with_blobs()
        if ending == "given up":
            abort_parts(job)
        if ending == "failed":
            raise RuntimeError("on purpose")
        yield with_blobs()

    for attempt in range(2):
        if ending == "killed":  # the data file had another name until it was finished
            message = write_part(job, ends(), partition=0, attempt=attempt)
            (file,) = json.loads(message.fragments[0])["files"]
            Path(uri, "data", file["path"]).unlink()
        else:
            with pytest.raises((CommitError, RuntimeError), match=r"given up|on purpose"):
                write_part(job, ends(), partition=0, attempt=attempt)
    if ending == "killed":
        abort_parts(job)
    assert {Path(path).name for path in below(uri) - before} <= {f"{job.uuid}-given-up.lance"}
    dataset.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert below(uri) == before
    assert dataset.to_table().num_rows == 1


def test_cleanup_removes_payloads_of_tasks_that_no_one_ended(uri: str) -> None:
    dataset = pilum.write_dataset(
        pa.Table.from_batches([with_blobs()]), uri, data_storage_version="2.2"
    )
    before = below(uri)
    job = start_job(uri, BLOBS, "append")
    for attempt in range(2):
        write_part(job, [with_blobs()], partition=0, attempt=attempt)
    assert len(below(uri) - before) == 6
    dataset.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert below(uri) == before


def test_a_task_that_fails_leaves_no_file(uri: str) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from rows(1, 2)
        raise RuntimeError("on purpose")

    job = start_job(uri, SCHEMA, "create")
    with pytest.raises(RuntimeError, match="on purpose"):
        write_part(job, failing(), partition=0)
    assert files(uri) == []


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


def test_nothing_appended_is_no_version_but_nothing_created_is_a_table(uri: str) -> None:
    assert write(uri, "append") == 1
    assert write(uri, "append", range(0)) == 1
    assert latest(uri).schema.arrow.names == ["id", "text"]


def test_of_two_jobs_that_find_no_table_the_second_appends(uri: str) -> None:
    jobs = [start_job(uri, SCHEMA, "append") for _ in range(2)]
    messages = [write_part(job, rows(number), partition=0) for number, job in enumerate(jobs)]
    assert commit_parts(jobs[0], messages[:1]) == 1
    assert commit_parts(jobs[1], messages[1:]) == 2
    assert commit_parts(jobs[1], messages[1:]) == 2
    assert read(uri) == [0, 1]


@pytest.mark.parametrize(
    ("mode", "error"),
    [("create", DatasetAlreadyExistsError), ("overwrite", CommitConflictError)],
)
def test_two_jobs_cannot_both_create_a_table(uri: str, mode: Mode, error: type[PilumError]) -> None:
    jobs = [start_job(uri, SCHEMA, mode) for _ in range(2)]
    messages = [write_part(job, rows(number), partition=0) for number, job in enumerate(jobs)]
    assert commit_parts(jobs[0], messages[:1]) == 1
    with pytest.raises(error):
        commit_parts(jobs[1], messages[1:])
    assert abort_parts(jobs[1]) == 1
    assert read(uri) == [0]


def test_a_job_does_not_append_to_a_table_of_other_columns_that_came_first(uri: str) -> None:
    job = start_job(uri, SCHEMA, "append")
    message = write_part(job, rows(0), partition=0)
    pilum.write_dataset({"text": ["x"], "id": [1]}, uri)
    with pytest.raises(CommitConflictError, match="has created the table first") as found:
        commit_parts(job, [message])
    assert found.value.retryable
    assert abort_parts(job) == 1


def test_files_of_lost_attempts_go_with_the_commit(uri: str) -> None:
    """A killed attempt, or one of speculation, is not reported: the winner's number tells of it."""
    write(uri, "create", range(3))
    before = files(uri)
    job = start_job(uri, SCHEMA, "append")
    write_part(job, rows(3), partition=0)
    messages = [write_part(job, rows(n), partition=n - 3, attempt=4 - n) for n in (3, 4)]
    assert len(files(uri)) == len(before) + 3
    commit_parts(job, messages)
    assert len(files(uri)) == len(before) + 2
    assert read(uri) == [0, 1, 2, 3, 4]


def test_blobs_of_the_winner_stay_when_lost_attempts_go(uri: str) -> None:
    """They are files beside the data file, in a folder of its name."""
    schema = pa.schema([pilum.blob_field("blob")])
    payloads = [bytes([number]) * size for number, size in enumerate((9, 200_000, 5_000_000))]
    job = start_job(uri, schema, "create")
    batch = pa.record_batch([pilum.blob_array(payloads)], schema)
    _, won = (write_part(job, [batch], partition=0, attempt=number) for number in range(2))
    commit_parts(job, [won])
    dataset = pilum.dataset(uri)
    found = [blob and blob.readall() for blob in dataset.take_blobs("blob", indices=[0, 1, 2])]
    assert found == payloads
    assert dataset.verify(deep=True).is_valid
