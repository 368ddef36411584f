from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from datetime import timedelta

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
from pilum.table.writing.write import WriteOptions


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


def test_a_task_that_fails_leaves_no_file(uri: str) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from rows(1, 2)
        raise RuntimeError("on purpose")

    job = start_job(uri, SCHEMA, "create")
    with pytest.raises(RuntimeError, match="on purpose"):
        write_part(job, failing(), partition=0)
    assert files(uri) == []
