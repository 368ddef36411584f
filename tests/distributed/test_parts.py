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
    PartMessage,
    abort_parts,
    commit_parts,
    plan_splits,
    start_job,
    write_part,
)
from pilum.errors import (
    CommitError,
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
