"""How long until all values of a table have been in memory as Arrow? Opening is included."""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from bench.questions.base import Question, Subject, same, timed

__all__ = ["Scan", "ScanInBatches"]


class Scan(Question):
    """Open, read everything."""

    name = "scan"

    def check(self, subject: Subject) -> bool:
        return same(subject.peer.scan(subject.handle), subject.table)

    def measure(self, subject: Subject, round_number: int) -> float:
        peer = subject.peer
        return timed(lambda: peer.scan(peer.open(subject.path)))[0]


class ScanInBatches(Question):
    """Open, read everything as a stream; each batch is dropped before the next one."""

    name = "scan in batches"
    in_all_versions = False

    def check(self, subject: Subject) -> bool:
        return same(pa.Table.from_batches(subject.peer.batches(subject.handle)), subject.table)

    def measure(self, subject: Subject, round_number: int) -> float:
        peer = subject.peer
        return timed(lambda: deque(peer.batches(peer.open(subject.path)), maxlen=0))[0]
