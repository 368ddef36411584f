"""Pages that are encoded together or by other threads, and written in the order of the file.

large          by the pool, while the caller goes on to what follows
small          by the caller, several and then their writing: they are mostly work of the
               interpreter, which only one thread at a time can do, and to share it takes longer
the last ones  by the caller, who has nothing else to do
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Generic, TypeVar

from pilum.parallel import num_threads, submit

__all__ = ["InOrder"]

K = TypeVar("K")
T = TypeVar("T")

_BUNDLE_BYTES = 512 * 1024
_SMALL_BYTES = 256 * 1024
"""Of pages that are on average smaller, a bundle stays in its thread."""
_HARD = 4
"""A byte of text, or one to be compressed, is at least so much work as one of a number."""


class InOrder(Generic[K, T]):
    """A queue of what is to be encoded; never much more of it than threads.

    Args:
        write: Called with each key and what was encoded for it, in the order of `encode`, by the
            thread that calls that.
    """

    def __init__(self, write: Callable[[K, T], None]) -> None:
        self._write = write
        self._begun: deque[tuple[list[K], Future[list[T]]]] = deque()
        self._keys: list[K] = []
        self._tasks: list[Callable[[], T]] = []
        self._bundle_bytes = 0
        self._effort = 0

    @property
    def waiting_bytes(self) -> int:
        """About how much is not begun."""
        return self._bundle_bytes

    def encode(self, key: K, task: Callable[[], T], num_bytes: int, *, is_hard: bool) -> None:
        """Encodes something soon, and writes what is ready.

        Args:
            key: What it belongs to.
            task: Encodes it.
            num_bytes: About how much it is.
            is_hard: Whether it is text, or is to be compressed.
        """
        effort = num_bytes * (_HARD if is_hard else 1)
        if self._tasks and max(self._effort, effort) >= _BUNDLE_BYTES:
            self._hand_out()
        self._keys.append(key)
        self._tasks.append(task)
        self._bundle_bytes += num_bytes
        self._effort += effort

    def finish(self) -> None:
        """Encodes and writes all that is left."""
        self._do_here()

    def cancel(self) -> None:
        """Gives up what is not begun."""
        for _, future in self._begun:
            future.cancel()

    def _hand_out(self) -> None:
        if self._effort < _SMALL_BYTES * len(self._tasks):
            self._do_here()
            return
        keys, tasks = self._next_bundle()
        self._begun.append((keys, submit(partial(_done, tasks))))
        self._write_begun(keep=num_threads())

    def _do_here(self) -> None:
        keys, tasks = self._next_bundle()
        encoded = _done(tasks)
        self._write_begun(keep=0)
        self._write_all(keys, encoded)

    def _next_bundle(self) -> tuple[list[K], list[Callable[[], T]]]:
        bundle = self._keys, self._tasks
        self._keys, self._tasks, self._bundle_bytes, self._effort = [], [], 0, 0
        return bundle

    def _write_begun(self, keep: int) -> None:
        while len(self._begun) > keep:
            keys, future = self._begun.popleft()
            self._write_all(keys, future.result())

    def _write_all(self, keys: list[K], encoded: list[T]) -> None:
        for key, result in zip(keys, encoded, strict=True):
            self._write(key, result)


def _done(tasks: list[Callable[[], T]]) -> list[T]:
    return [task() for task in tasks]
