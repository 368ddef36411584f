"""Thread pools; kernels and requests release the GIL.

    submit_waiting   32   reads from a remote store, and decodes
    submit           1 per processor   computes, and reads local files
    submit_request   64   one request to a store
    submit_sync      16   waits until a device has stored a folder

A task may wait for tasks of the pools below its own, never for others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar
from weakref import WeakSet

__all__ = [
    "num_threads",
    "renew_in_child",
    "submit",
    "submit_request",
    "submit_sync",
    "submit_waiting",
]

_REQUESTS = 64
_SYNCS = 16
_WAITING = 32

T = TypeVar("T")

_pool: ThreadPoolExecutor | None = None
_request_pool: ThreadPoolExecutor | None = None
_sync_pool: ThreadPoolExecutor | None = None
_waiting_pool: ThreadPoolExecutor | None = None


class _Renewable(Protocol):
    def renew(self) -> None: ...


_renewables: WeakSet[_Renewable] = WeakSet()


def num_threads() -> int:
    """Return the size of the pool for computing: the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def submit(task: Callable[[], T]) -> Future[T]:
    """Run a task in the pool for work that needs a processor."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(num_threads(), thread_name_prefix="pilum")
    return _pool.submit(task)


def submit_request(task: Callable[[], T]) -> Future[T]:
    """Run a task that waits for one request to a store."""
    global _request_pool
    if _request_pool is None:
        _request_pool = ThreadPoolExecutor(_REQUESTS, thread_name_prefix="pilum-request")
    return _request_pool.submit(task)


def submit_waiting(task: Callable[[], T]) -> Future[T]:
    """Run a task that reads from a remote store, and decodes the result."""
    global _waiting_pool
    if _waiting_pool is None:
        _waiting_pool = ThreadPoolExecutor(_WAITING, thread_name_prefix="pilum-waiting")
    return _waiting_pool.submit(task)


def submit_sync(task: Callable[[], T]) -> Future[T]:
    """Run a task that waits until a device has stored a folder; inline at interpreter shutdown."""
    global _sync_pool
    if _sync_pool is None:
        _sync_pool = ThreadPoolExecutor(_SYNCS, thread_name_prefix="pilum-sync")
    try:
        return _sync_pool.submit(task)
    except RuntimeError:  # data written at the last moment must become durable, too
        done: Future[T] = Future()
        done.set_result(task())
        return done


def renew_in_child(owner: _Renewable) -> None:
    """Register `owner.renew()` to be called in the child of a fork, while the owner exists.

    For objects that hold a lock: a thread that does not exist in the child may have held it.
    """
    _renewables.add(owner)


def _begin_anew() -> None:
    global _pool, _request_pool, _sync_pool, _waiting_pool
    # The threads of a pool do not survive a fork; the child creates its own.
    _pool = _request_pool = _sync_pool = _waiting_pool = None
    for owner in list(_renewables):
        owner.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
