"""Progress of long operations: bars in terminals and notebooks, if `rich` is installed.

    with progress("Writing", total) as done:        a bar after half a second, gone at the end
        done(batch.num_rows)

    Merging                 0:00:04
    Writing    1,204,224    0:00:02                 operations within another one have a line too

Nothing is shown if standard error is neither a terminal nor the output of a notebook, or if the
environment variable PILUM_PROGRESS is 0.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from threading import RLock
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["counted", "progress"]

_DELAY_SECONDS = 0.5
"""Operations that end earlier show nothing."""
_SWITCH = "PILUM_PROGRESS"


class _HasRows(Protocol):
    @property
    def num_rows(self) -> int: ...


_Batch = TypeVar("_Batch", bound=_HasRows)


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show the progress of an operation until it ends.

    Args:
        what: The name of the operation.
        total: The number of units of work; None if unknown.

    Yields:
        A function to call, from any thread, with the units that were done since the last call.
    """
    if total == 0 or not _is_shown():
        yield _nothing
        return
    operation = _Operation(what, total)
    try:
        yield operation.advance
    finally:
        operation.end()


def counted(batches: Iterable[_Batch], done: Callable[[int], None]) -> Iterator[_Batch]:
    """Pass batches on, and report the rows of each after it was used."""
    for batch in batches:
        num_rows = batch.num_rows
        yield batch
        del batch  # it would be kept while the next one is made
        done(num_rows)


def _nothing(done: int) -> None:
    """Show nothing."""


def _is_shown() -> bool:
    is_terminal = getattr(sys.stderr, "isatty", None)  # there is no stream, or one without it
    if not (is_terminal is not None and is_terminal()) and not _is_notebook():
        return False
    # Searched for last: it reads folders.
    return os.environ.get(_SWITCH) != "0" and find_spec("rich") is not None


def _is_notebook() -> bool:
    """Return whether the process runs the cells of a notebook."""
    ipython = sys.modules.get("IPython") if "ipykernel" in sys.modules else None
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


class _Operation:
    """One line of the display, from the first report after the delay on."""

    def __init__(self, what: str, total: int | None) -> None:
        self._what = what
        self._total = total
        self._begun = time.monotonic()
        self._done = 0
        self._line: TaskID | None = None

    def advance(self, done: int) -> None:
        """Add units of work."""
        with _DISPLAY.lock:
            self._done += done
            if self._line is None:
                if time.monotonic() - self._begun < _DELAY_SECONDS:
                    return
                self._line = _DISPLAY.open(self._what, self._total)
            _DISPLAY.show(self._line, self._done)

    def end(self) -> None:
        """Remove the line."""
        with _DISPLAY.lock:
            if self._line is not None:
                _DISPLAY.close(self._line)
                self._line = None


class _Display:
    """The lines of all operations that are under way, of all threads."""

    def __init__(self) -> None:
        self.lock = RLock()
        self._progress: Progress | None = None

    def open(self, what: str, total: int | None) -> TaskID:
        """Add a line; the first one starts the display."""
        if self._progress is None:
            self._progress = _new_display()
            self._progress.start()
        return self._progress.add_task(what, total=total)

    def show(self, line: TaskID, done: int) -> None:
        """Update a line."""
        if self._progress is not None:
            self._progress.update(line, completed=done)

    def close(self, line: TaskID) -> None:
        """Remove a line; the last one ends the display, and nothing of it stays."""
        if self._progress is None:
            return
        if len(self._progress.tasks) == 1:
            self._progress.stop()
            self._progress = None
        else:
            self._progress.remove_task(line)


_DISPLAY = _Display()


def _new_display() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    if _is_notebook():
        from pilum.progress_notebook import NotebookProgress

        return NotebookProgress(
            *columns, publish=sys.modules["IPython.display"].publish_display_data
        )
    return Progress(*columns, console=Console(file=sys.stderr), transient=True)
