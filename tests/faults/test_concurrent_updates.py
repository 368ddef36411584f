"""Several processes change the same and other rows of one table, one of them the reference."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from faults.helpers import exit_codes, start_python

import pilum

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

OURS = """
import sys
from datetime import timedelta
import pyarrow as pa
import pilum

path, writer, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
patient = dict(conflict_retries=10_000, retry_timeout=timedelta(hours=1))
for number in range(rounds):
    pilum.dataset(path).update({"count": "count + 1"}, "key = 0", **patient)
    own = pa.table({"key": [writer, 1000 * writer + number], "count": [1, 1]})
    builder = pilum.dataset(path).merge_insert("key").conflict_retries(10_000)
    builder.retry_timeout(timedelta(hours=1)).when_not_matched_insert_all()
    CLAUSE
    builder.execute(own)
"""
BY_EXPRESSION = 'builder.when_matched_update({"count": "target.count + source.count"})'
ROUNDS = 3


def test_no_change_is_lost_or_made_twice(tmp_path: Path) -> None:
    """All add to one row, and each to a row of its own in the same fragment."""
    path = str(tmp_path / "t")
    keys = list(range(100))
    pilum.write_dataset(pa.table({"key": keys, "count": [0] * 100}), path)
    ours = OURS.replace("CLAUSE", BY_EXPRESSION)
    theirs = OURS.replace("CLAUSE", "builder.when_matched_update_all()").replace("pilum", "lance")
    writers = [
        start_python(script, path, writer, ROUNDS)
        for writer, script in enumerate((ours, ours, theirs), 1)
    ]
    assert exit_codes(writers) == [0, 0, 0]
    expected = dict.fromkeys(keys, 0) | {0: 3 * ROUNDS, 1: ROUNDS, 2: ROUNDS, 3: 1}
    expected |= {1000 * writer + number: 1 for writer in (1, 2, 3) for number in range(ROUNDS)}
    for library in (pilum, lance):
        dataset = library.dataset(path)
        assert dataset.version == 1 + 2 * 3 * ROUNDS
        table = dataset.to_table()
        assert dict(zip(*table.to_pydict().values(), strict=True)) == expected
        assert len(table) == len(expected)
    lance.dataset(path).validate()
