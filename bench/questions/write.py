"""How long until a table in memory is written, each library by its defaults?

pilum waits until the device has it; the others leave it in the page cache.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.questions.base import Question, Subject, same, timed

__all__ = ["Write", "remove"]


class Write(Question):
    """Write everything to a place where nothing is."""

    name = "write"

    def check(self, subject: Subject) -> bool:
        peer, path = subject.peer, subject.scratch / "checked"
        try:
            peer.write(subject.table, path)
            return same(peer.scan(peer.open(path)), subject.table)
        finally:
            remove(path)

    def measure(self, subject: Subject, round_number: int) -> float:
        path = subject.scratch / f"round-{round_number}"
        try:
            return timed(lambda: subject.peer.write(subject.table, path))[0]
        finally:
            remove(path)


def remove(path: Path) -> None:
    """Removes a file or a folder; no error if there is nothing."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
