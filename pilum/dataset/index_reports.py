"""The progress of a build of an index: shown in terminals, and reported to a callback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Literal

from pyroaring import BitMap

from pilum.arguments import require_function
from pilum.progress import IndexProgress
from pilum.progress_display import progress
from pilum.table.indices.rows import OnRows
from pilum.table.read.snapshot import Snapshot

__all__ = ["OnProgress", "Report", "num_rows_of", "reported"]

OnProgress = Callable[[IndexProgress], None]
_READ, _INSERT = "load_data", "build_graphs"
"""Stages of a build."""


class Report:
    """Shows the rows of a build, and reports them to a callback, stage after stage.

    Args:
        total: Number of rows.
        shown: Function that shows rows that were read.
        callback: Function that is called with messages; None for none.

    Raises:
        InvalidInputError: If the callback cannot be called.
    """

    def __init__(self, total: int, shown: OnRows, callback: OnProgress | None) -> None:
        require_function("progress_callback", callback)
        self._total = total
        self._shown = shown
        self._callback = callback
        self._done = {_READ: 0}
        self._lock = Lock()
        self._send("start", _READ, 0)

    def read(self, num_rows: int) -> None:
        """Count rows that were read."""
        self._shown(num_rows)
        self._count(_READ, num_rows)

    def insert(self, num_rows: int) -> None:
        """Count rows that were inserted into graphs."""
        if _INSERT not in self._done:
            self._done[_INSERT] = 0
            self._send("start", _INSERT, 0)
        self._count(_INSERT, num_rows)

    def complete(self) -> None:
        """Report that all stages are complete."""
        for stage, done in self._done.items():
            self._send("complete", stage, max(done, self._total))

    def _count(self, stage: str, num_rows: int) -> None:
        with self._lock:
            self._done[stage] += num_rows
            self._send("progress", stage, self._done[stage])

    def _send(self, event: Literal["start", "progress", "complete"], stage: str, done: int) -> None:
        if self._callback is not None:
            total = max(done, self._total)
            self._callback(IndexProgress(event, stage, done, total, "rows"))


@contextmanager
def reported(
    snapshot: Snapshot, fragments: BitMap, on_progress: OnProgress | None
) -> Iterator[Report]:
    """Yield what shows and reports the progress of a build."""
    total = num_rows_of(snapshot, fragments)
    with progress("Indexing", total) as shown:
        report = Report(total, shown, on_progress)
        yield report
        report.complete()


def num_rows_of(snapshot: Snapshot, fragments: BitMap) -> int:
    """Return the number of rows of some fragments."""
    return sum(one.num_rows for one in snapshot.manifest.fragments if one.id in fragments)
