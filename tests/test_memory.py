"""Reading by batches and writing from a generator take bounded memory, whatever the table's size.

Each measurement runs in a process of its own, which counts what it holds (`held`). The tables are
about 500 MB without compression (300 MB for vectors).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from guard import GUARD_SECONDS

ROOT = Path(__file__).parents[1]
BOUNDS_MB = {"write": 100, "read": 200, "filter": 300, "add a column": 300}
"""What may be held, with two threads. Reading: four windows of 32 MiB, more while they are decoded.
Filters read windows for themselves and for the result; new columns are a scan and a writer."""

PREAMBLE = """
import os
import sys

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])

import held
import numpy as np
import pyarrow as pa
import pilum


BATCH = 65_536


def zeros():
    column = pa.array(np.zeros(BATCH, np.int64))
    batch = pa.record_batch({"a": column, "b": column, "c": column, "d": column})
    return [batch] * 250


def strings():
    pool = pa.array([f"one of the few texts of this column, number {n}" * 3 for n in range(5)])
    column = pool.take(pa.array(np.arange(BATCH) % 5))
    return [pa.record_batch({"s": column, "n": pa.array(np.arange(BATCH))})] * 55


def lists():
    offsets = pa.array(np.arange(0, 16 * BATCH + 1, 16, dtype=np.int32))
    items = pa.array(np.arange(16 * BATCH, dtype=np.int64) % 7)
    return [pa.record_batch({"l": pa.ListArray.from_arrays(offsets, items)})] * 60


def vectors():
    items = pa.array(np.random.default_rng(1).random(4096 * 768, np.float32))
    return [pa.record_batch({"v": pa.FixedSizeListArray.from_arrays(items, 768)})] * 24


kind, path = sys.argv[1:]
np.random.default_rng(1).random(3)
pa.array([1])
"""
WRITE = """
batches = globals()[kind]()
held.start()
pilum.write_dataset(iter(batches), path, max_rows_per_file=1 << 30)
print(held.peak_bytes() / 2**20)
"""
READ = """
held.start()
num_rows = 0
for batch in pilum.dataset(path).to_batches():
    num_rows += batch.num_rows
assert num_rows == pilum.dataset(path).count_rows() > 50_000
print(held.peak_bytes() / 2**20)
"""
FILTER = """
held.start()
dataset = pilum.dataset(path)
name = dataset.schema.names[0]
wanted = f"{name} IS NOT NULL AND {name} IS NOT NULL"
for batch in dataset.to_batches(filter=wanted, with_row_address=True):
    num_rows = batch["_rowaddr"][-1].as_py() + 1
assert num_rows == dataset.count_rows()
print(held.peak_bytes() / 2**20)
"""
ADD = """
held.start()
dataset = pilum.dataset(path)
dataset.delete("_rowid >= 1000 and _rowid < 2500")
dataset.add_columns({"one": "1"})
dataset.add_columns({"copy": dataset.schema.names[0], "two": "2"})
print(held.peak_bytes() / 2**20)
"""


def measured_mb(script: str, kind: str, path: Path) -> float:
    found = subprocess.run(
        [sys.executable, "-c", PREAMBLE + script, kind, str(path)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=GUARD_SECONDS,
    )
    return float(found.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zeros", "strings", "lists", "vectors"])
@pytest.mark.checklist("S1.5")
def test_memory_is_bounded(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    taken = {
        "write": measured_mb(WRITE, kind, path),
        "read": measured_mb(READ, kind, path),
        "filter": measured_mb(FILTER, kind, path),
        "add a column": measured_mb(ADD, kind, path),
    }
    assert all(taken[what] < bound for what, bound in BOUNDS_MB.items()), taken
