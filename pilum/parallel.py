"""One pool of threads for decoding, encoding and reading; the kernels release the GIL.

Tasks of the pool must not wait for other tasks of the pool.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["num_threads", "submit"]

T = TypeVar("T")

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


def _forget_pool() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    # The threads of a pool do not survive a fork; the child makes its own.
    os.register_at_fork(after_in_child=_forget_pool)
