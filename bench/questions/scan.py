"""How long until all values of a table are in memory as Arrow? Opening is included."""

from __future__ import annotations

from bench.questions.base import Question, Subject, same, timed

__all__ = ["Scan"]


class Scan(Question):
    """Open, read everything."""

    name = "scan"

    def check(self, subject: Subject) -> bool:
        return same(subject.peer.scan(subject.handle), subject.table)

    def measure(self, subject: Subject, round_number: int) -> float:
        peer = subject.peer
        return timed(lambda: peer.scan(peer.open(subject.path)))[0]
