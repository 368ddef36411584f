"""Progress of long operations: a bar in terminals if `rich` is installed, otherwise nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Lock

__all__ = ["progress"]


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show the progress of an operation until it ends.

    Args:
        what: The name of the operation.
        total: The number of units of work.

    Yields:
        A function to call, from any thread, with the units that were done since the last call.
    """
    if not total or not sys.stderr.isatty() or find_spec("rich") is None:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, lock = bar.add_task(what, total=total), Lock()

        def advance(done: int) -> None:
            with lock:
                bar.advance(task, done)

        yield advance
