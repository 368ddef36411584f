"""Encode pages in bundles or in other threads, and write them in file order.

large          by the pool, while the caller continues
small          by the caller, several before they are written: they are mostly work of the
               interpreter, which only one thread at a time can do; sharing it would be slower
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
"""A bundle of pages that are smaller than this on average is encoded by the calling thread."""
_HARD = 4
"""A byte of text, or a byte to be compressed, costs at least this many times a byte of numbers."""


class InOrder(Generic[K, T]):
    """A queue of encoding tasks, bounded by about the number of threads.

    Args:
        write: Called with each key and its result, in the order of the calls of `encode` and in the
            thread that makes these calls.
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
        """The approximate bytes of tasks that have not started."""
        return self._bundle_bytes

    def encode(self, key: K, task: Callable[[], T], num_bytes: int, *, is_hard: bool) -> None:
        """Queue a task, and write the results that are ready.

        Args:
            key: Identifies the result, for `write`.
            task: Encodes the page.
            num_bytes: Its approximate size.
            is_hard: Whether it is text or will be compressed.
        """
        effort = num_bytes * (_HARD if is_hard else 1)
        if self._tasks and max(self._effort, effort) >= _BUNDLE_BYTES:
            self._hand_out()
        self._keys.append(key)
        self._tasks.append(task)
        self._bundle_bytes += num_bytes
        self._effort += effort

    def finish(self) -> None:
        """Encode and write all remaining tasks."""
        self._do_here()

    def cancel(self) -> None:
        """Cancel the tasks that have not started."""
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
