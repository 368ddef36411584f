"""Tables of numbers and texts, written by jobs; an engine."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from pilum.distributed import (
    Attempt,
    Mode,
    commit_parts,
    plan_splits,
    read_split,
    start_job,
    write_part,
)
from pilum.storage.open import open_store
from pilum.table.read.snapshot import Snapshot

T = TypeVar("T")
R = TypeVar("R")

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


class Pickling:
    """An engine that pickles everything; the first attempt of the first task is lost."""

    num_tasks = 0

    def run(self, items: Sequence[T], work: Callable[[T, Attempt], R]) -> list[R]:
        found = []
        for number, item in enumerate(items):
            attempts = (
                [Attempt(number, 0), Attempt(number, 1)] if number == 0 else [Attempt(number)]
            )
            for attempt in attempts:
                sent, given = pickle.loads(pickle.dumps((work, item)))
                result = sent(given, attempt)
                self.num_tasks += 1
            found.append(pickle.loads(pickle.dumps(result)))
        return found
