"""Copy many files from several stores to another: in parallel, in pieces, and all or none."""

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
        store: The store that has the file.
        path: Its path in that store.
        target: Its path in the target store.
    """

    store: Store
    path: str
    target: str


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """The progress of a copy.

    Attributes:
        files: Number of files copied so far.
        num_files: Number of files in all.
        size_bytes: Size in bytes of the files copied so far.
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
    """Copy files before the block runs; remove them all if anything fails, the block included.

    Args:
        copies: The files to copy.
        target: The store to copy to.
        progress: Called after each copied file.
        is_needed: Called after a failure; returns whether the files are in use nevertheless and
            must stay.

    Raises:
        NotFoundError: If a file is missing.
        OSError: If a store fails.
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
    """Copy one file and return its size in bytes."""
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
