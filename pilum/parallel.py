"""One pool of threads for decoding, encoding and reading; the kernels release the GIL.

Tasks of the pool must not wait for other tasks of the pool.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["map_ordered", "num_threads", "submit"]

T = TypeVar("T")
A = TypeVar("A")

_pool: ThreadPoolExecutor | None = None


def num_threads() -> int:
    """Threads of the pool: the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def submit(task: Callable[[], T]) -> Future[T]:
    """Runs a task in the pool."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(num_threads(), thread_name_prefix="pilum")
    return _pool.submit(task)


def map_ordered(task: Callable[[A], T], items: Iterable[A], *, ahead: int) -> Iterator[T]:
    """Applies a task to items in the pool and yields the results in order.

    Args:
        task: Called with one item, in a thread of the pool.
        items: Consumed as results are taken.
        ahead: How many tasks may run or wait beyond the one whose result is taken next; what
            they hold in memory is bounded by it.
    """
    running: deque[Future[T]] = deque()
    try:
        for item in items:
            running.append(submit(lambda item=item: task(item)))  # type: ignore[misc]
            if len(running) > ahead:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for future in running:
            future.cancel()


def _forget_pool() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    # The threads of a pool do not survive a fork; the child makes its own.
    os.register_at_fork(after_in_child=_forget_pool)
