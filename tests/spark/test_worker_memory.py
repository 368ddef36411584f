"""A worker of Spark stays within the option "memoryLimit", measured without a session.

Each measurement runs in a process of its own, which counts what it holds (`held`). The table is
three times as large as the limit.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from guard import GUARD_SECONDS
from spark.helpers import ROOT

LIMIT_MB = 256

SCRIPT = """
import os
import sys

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])

import held
import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

import pilum
from pilum.distributed import commit_parts, write_part
from pilum.spark.aggregates.partials import Call
from pilum.spark.aggregates.source import PartialsReader, Request
from pilum.spark.convert import convert_batch
from pilum.spark.opening import pin
from pilum.spark.options import Options
from pilum.spark.sink import plan_write
from pilum.spark.source import PilumReader
from pilum.spark.types import to_spark

ROWS, BATCHES = 10_000, 480


def batches():
    random = np.random.default_rng(1)
    words = [f"{number:032x} some words that follow" for number in random.integers(0, 9**9, ROWS)]
    offsets = pa.array(np.arange(0, 4 * ROWS + 1, 4, dtype=np.int32))
    columns = {
        "id": pa.array(random.integers(0, 2**60, ROWS)),
        "word": pa.array(words),
        "kind": pa.array([word[-20:] for word in words]),
        "list": pa.ListArray.from_arrays(offsets, pa.array(random.random(4 * ROWS))),
        **{f"x{number}": pa.array(random.random(ROWS)) for number in range(4)},
    }
    return [pa.record_batch(columns)] * BATCHES


def write(path, given):
    rows = batches()
    yield
    job = plan_write(to_spark(rows[0].schema), Options.parse(given), "create")
    yield commit_parts(job, [write_part(job, iter(rows), partition=0)])


def read(path, given):
    options, table = pin(Options.parse(given))
    reader = PilumReader(to_spark(table.read_schema()), options)
    (partition, *others) = reader.partitions()
    yield
    for one in (partition, *others):
        yield sum(batch.num_rows for batch in reader.read(one))


def aggregate(path, given):
    calls = [Call.parse(text) for text in ("sum(x1)", "max(word)", "count(list)", "avg(id % 7)")]
    reader = PartialsReader(Request(("kind", "id % 1000"), tuple(calls)), Options.parse(given))
    partitions = reader.partitions()
    yield
    for one in partitions:
        yield sum(batch.num_rows for batch in reader.read(one))


kind, path, limit = sys.argv[1:]
np.random.default_rng(1).random(3)
work = globals()[kind](path, {"path": path, "memoryLimit": limit})
next(work)
held.start()
assert sum(work) > 0
print(held.peak_bytes() / 2**20)
"""


def measured_mb(kind: str, path: Path) -> float:
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind, str(path), str(LIMIT_MB << 20)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=GUARD_SECONDS,
    )
    return float(found.stdout)


@pytest.mark.slow
def test_a_worker_stays_within_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "t"
    taken = {kind: measured_mb(kind, path) for kind in ("write", "read", "aggregate")}
    assert all(megabytes < LIMIT_MB for megabytes in taken.values()), taken
