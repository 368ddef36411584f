"""How long until a table in memory is written, each library by its defaults?

pilum waits until the device has it (`fsync`); the others leave it in the page cache. So pilum is
asked once more without waiting.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.questions.base import Question, Subject, same, timed

__all__ = ["Write", "WriteWithoutSync", "remove"]


class Write(Question):
    """Write everything to a place where nothing is."""

    name = "write"

    def check(self, subject: Subject) -> bool:
        peer, path = subject.peer, subject.scratch / "checked"
        try:
            self._write(subject, path)
            return same(peer.scan(peer.open(path)), subject.table)
        finally:
            remove(path)

    def measure(self, subject: Subject, round_number: int) -> float:
        path = subject.scratch / f"round-{round_number}"
        try:
            return timed(lambda: self._write(subject, path))[0]
        finally:
            remove(path)

    def _write(self, subject: Subject, path: Path) -> None:
        subject.peer.write(subject.table, path)


class WriteWithoutSync(Write):
    """Write everything, and leave it to the system when the device gets it."""

    name = "write without fsync"
    in_all_versions = False

    def _write(self, subject: Subject, path: Path) -> None:
        subject.peer.write_without_sync(subject.table, path)


def remove(path: Path) -> None:
    """Removes a file or a folder; no error if there is nothing."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
