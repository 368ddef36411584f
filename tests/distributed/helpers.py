"""Tables of numbers and texts, written by jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from pilum.distributed import (
    Mode,
    commit_parts,
    plan_splits,
    read_split,
    start_job,
    write_part,
)
from pilum.storage.open import open_store
from pilum.table.read.snapshot import Snapshot

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


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
