"""Streams of many micro-batches: what a commit costs does not grow with them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import mean

import pyarrow as pa
import pytest
from python_calls import num_calls

import pilum
from pilum.distributed import commit_parts, start_job, write_part
from pilum.distributed.recent_files import compact_recent, recent_small
from pilum.table.model.fragment import DataFile, Fragment, FragmentId

SCHEMA = pa.schema([("id", pa.int64())])
EVERY = 5
CYCLE = 4 * EVERY
"""After so many, compactions and clean-ups have come round."""


def micro_batch(uri: str, number: int) -> None:
    """Does what the sink of a stream does: two rows, a key, a summary, sometimes a compaction."""
    job = start_job(uri, SCHEMA, "append")
    rows = pa.record_batch({"id": [2 * number, 2 * number + 1]}, schema=SCHEMA)
    part = write_part(job, [rows], partition=0)
    commit_parts(job, [part], idempotency_key=("query", number), content=f"2:{number}")
    if number % EVERY == EVERY - 1:
        compact_recent(uri)


def run(uri: str, numbers: range) -> float:
    """Returns the mean number of calls of a micro-batch."""
    return mean(num_calls(partial(micro_batch, uri, number)) for number in numbers)


def test_the_last_micro_batches_cost_what_the_first_did(uri: str) -> None:
    pilum.write_dataset(
        SCHEMA.empty_table(), uri, auto_cleanup_options={"interval": CYCLE, "older_than_seconds": 0}
    )
    first = run(uri, range(CYCLE))
    for number in range(CYCLE, 2 * CYCLE):
        micro_batch(uri, number)
    last = run(uri, range(2 * CYCLE, 3 * CYCLE))
    assert last <= 1.1 * first
    table = pilum.dataset(uri)
    assert table.to_table()["id"].to_pylist() == [*range(2 * 3 * CYCLE)]
    assert len(table.get_fragments()) <= 2 * EVERY
    assert len(list(Path(uri, "_versions").iterdir())) <= 24
    assert len(list(Path(uri, "_transactions").iterdir())) <= 24


@pytest.mark.parametrize(
    ("rows", "joined"),
    [
        ([], 0),
        ([5], 1),
        ([5, 5], 2),
        ([11, 5, 5], 2),
        ([10, 5, 5], 3),
        ([100, 40, 20, 10, 10], 4),
        ([1, 100, 1], 1),
        ([0, 0, 7], 3),
    ],
)
def test_fragments_are_joined_with_as_many_newer_rows(rows: Sequence[int], joined: int) -> None:
    found = recent_small(fragment(number, count) for number, count in enumerate(rows))
    assert sorted(found) == [*range(len(rows) - joined, len(rows))]


def test_large_files_stay() -> None:
    fragments = [fragment(0, 1), fragment(1, 1, 128 << 20), fragment(2, 1), fragment(3, 1)]
    assert recent_small(fragments) == {2, 3}


def test_a_failure_is_logged(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        compact_recent(uri)
    assert "compacting the newest files" in caplog.text


def fragment(number: int, num_rows: int, size_bytes: int = 100) -> Fragment:
    file = DataFile(f"{number}.lance", (), (), 2, 1, size_bytes)
    return Fragment(FragmentId(number), (file,), physical_rows=num_rows)
