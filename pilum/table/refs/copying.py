"""Copying many files from some stores to another: in parallel, in pieces, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from threading import Event

from pilum.parallel import submit
from pilum.storage.base import Ranges, Store, finish_new

__all__ = ["Copy", "CopyProgress", "copy_files"]

_PIECE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Copy:
    """One file to copy.

    Attributes:
        store: Where it is.
        path: Its path there.
        target: Its path where it goes.
    """

    store: Store
    path: str
    target: str


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """How far it is.

    Attributes:
        files: Files that are copied.
        num_files: Files in all.
        size_bytes: Bytes of the files that are copied.
    """

    files: int
    num_files: int
    size_bytes: int


@contextmanager
def copy_files(
    copies: Sequence[Copy],
    target: Store,
    progress: Callable[[CopyProgress], None] | None = None,
    is_needed: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Copies files before the block runs; if anything fails, the block included, none is left.

    Args:
        copies: What to copy.
        target: Where to.
        progress: Called after each file.
        is_needed: Asked after a failure: whether the files are in use all the same, and stay.

    Raises:
        NotFoundError: If a file is missing.
        OSError: If a store failed.
    """
    stop = Event()
    tasks: list[Future[int]] = []
    try:
        tasks += (submit(partial(_copy, copy, target, stop)) for copy in copies)
        size_bytes = 0
        for number, task in enumerate(tasks, 1):
            size_bytes += task.result()
            if progress is not None:
                progress(CopyProgress(number, len(copies), size_bytes))
        yield
    except BaseException:
        stop.set()
        for task in tasks:
            task.cancel()
        wait(tasks)
        if not is_needed():
            for copy in copies:
                with suppress(OSError):
                    target.delete(copy.target)
        raise


def _copy(copy: Copy, target: Store, stop: Event) -> int:
    """Copies one file; returns its size, bytes."""
    source = copy.store.source(copy.path)
    sink = target.sink(copy.target)
    try:
        for start in range(0, source.size, _PIECE_BYTES):
            if stop.is_set():
                break
            size = min(_PIECE_BYTES, source.size - start)
            sink.write(source.read(Ranges.of((start, size)))[0])
        if not stop.is_set():
            finish_new(sink)
    finally:
        sink.abort()
        source.close()
    return source.size
