"""How long do a scan and a take need if no byte of the files is in memory?

Linux drops the pages of a file on request (`posix_fadvise`), unless some process maps them. So the
files are copies that nothing else has opened, and the table is opened for each answer.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.questions.base import Question, Subject, copied, same, timed
from bench.questions.write import remove

__all__ = ["ColdScan", "ColdTake", "drop_pages"]


class ColdScan(Question):
    """Open, read everything."""

    name = "cold scan"
    in_all_versions = False
    shapes = frozenset(
        {
            *("int64 random", "vector 768", "long text", "few strings", "mixed table"),
            *("lineitem", "flights", "documents"),
        }
    )

    def check(self, subject: Subject) -> bool:
        return same(self._answer(subject, subject.path, 0), subject.table)

    def measure(self, subject: Subject, round_number: int) -> float:
        path = copied(subject.path, subject.scratch)
        try:
            gc.collect()
            drop_pages(path)
            return timed(lambda: self._answer(subject, path, round_number))[0]
        finally:
            remove(path)

    def _answer(self, subject: Subject, path: Path, round_number: int) -> pa.Table:
        return subject.peer.scan(subject.peer.open_new(path))


class ColdTake(ColdScan):
    """Open, read some random rows."""

    def __init__(self, count: int) -> None:
        self.name = f"cold take {count}"
        self._count = count

    def check(self, subject: Subject) -> bool:
        rows = self._rows(subject, 0)
        return same(self._answer(subject, subject.path, 0), subject.table.take(rows))

    def _answer(self, subject: Subject, path: Path, round_number: int) -> pa.Table:
        peer = subject.peer
        return peer.take(peer.open_new(path), self._rows(subject, round_number))

    def _rows(self, subject: Subject, round_number: int) -> NDArray[np.int64]:
        available = subject.table.num_rows
        random = np.random.default_rng(round_number)
        return np.sort(random.choice(available, min(self._count, available), replace=False))


def drop_pages(path: Path) -> None:
    """Write the files of a library to the device, and drop them from the page cache."""
    for file in [path] if path.is_file() else path.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
