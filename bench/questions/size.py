"""How many bytes does a table take on disk, with everything that belongs to it?"""

from __future__ import annotations

from bench.questions.base import Question, Subject, same

__all__ = ["Size"]


class Size(Question):
    """All files that writing made."""

    name = "size"
    unit = "bytes"
    rounds = 0

    def check(self, subject: Subject) -> bool:
        return same(subject.peer.scan(subject.handle), subject.table)

    def measure(self, subject: Subject, round_number: int) -> float:
        return float(subject.peer.size(subject.path))
