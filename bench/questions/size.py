"""How many bytes does a table take on disk, with everything that belongs to it?

Asked twice: as each library writes by default, and if small files are preferred.
"""

from __future__ import annotations

from bench.questions.base import Question, Subject, same
from bench.questions.write import remove

__all__ = ["Size", "SmallSize"]


class Size(Question):
    """All files that writing made."""

    name = "size"
    unit = "bytes"
    rounds = 0

    def check(self, subject: Subject) -> bool:
        return same(subject.peer.scan(subject.handle), subject.table)

    def measure(self, subject: Subject, round_number: int) -> float:
        return float(subject.peer.size(subject.path))


class SmallSize(Question):
    """All files that writing made with one option that prefers size, if there is one."""

    name = "size if preferred"
    unit = "bytes"
    rounds = 0
    in_all_versions = False

    def check(self, subject: Subject) -> bool:
        peer, path = subject.peer, subject.scratch / "checked"
        try:
            peer.write_small(subject.table, path)
            return same(peer.scan(peer.open(path)), subject.table)
        finally:
            remove(path)

    def measure(self, subject: Subject, round_number: int) -> float:
        path = subject.scratch / "small"
        try:
            subject.peer.write_small(subject.table, path)
            return float(subject.peer.size(path))
        finally:
            remove(path)
