"""How long until a table is open, so that its columns are known?"""

from __future__ import annotations

from bench.questions.base import Question, Subject, timed

__all__ = ["Open"]


class Open(Question):
    """Open without caches of earlier openings; the files are in the page cache."""

    name = "open"
    rounds = 10
    is_repeated = True
    in_all_versions = False

    def check(self, subject: Subject) -> bool:
        peer = subject.peer
        return bool(peer.schema(peer.open_new(subject.path)).names == subject.table.column_names)

    def measure(self, subject: Subject, round_number: int) -> float:
        peer = subject.peer
        return timed(lambda: peer.schema(peer.open_new(subject.path)))[0]
