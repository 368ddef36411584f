"""Thread pools; kernels and requests release the GIL.

    submit_waiting   32   reads from a remote store, and decodes
    submit           1 per processor   computes, and reads local files
    submit_request   64   one request to a store
    submit_sync      16   waits until a device has stored a folder

A task may wait for tasks of the pools below its own, never for others.
"""

from __future__ import annotations

import os
import threading
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

_COMPUTE = "pilum"
_REQUEST = "pilum-request"
_WAITING = "pilum-waiting"
_SYNC = "pilum-sync"
_SIZES = {_REQUEST: 64, _WAITING: 32, _SYNC: 16}

T = TypeVar("T")


class _Renewable(Protocol):
    def renew(self) -> None: ...


_renewables: WeakSet[_Renewable] = WeakSet()


def renew_in_child(owner: _Renewable) -> None:
    """Register `owner.renew()` to be called in the child of a fork, while the owner exists.

    For objects that hold a lock or threads: the threads do not exist in the child, and one of them
    may have held the lock.
    """
    _renewables.add(owner)


def _renew_all() -> None:
    for owner in list(_renewables):
        owner.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)


def num_threads() -> int:
    """Return the size of the pool for computing: the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class ThreadPools:
    """The thread pools of a process; each is created on first use, and again after a fork."""

    def __init__(self) -> None:
        self.renew()
        renew_in_child(self)

    def renew(self) -> None:
        """Forget all pools: their threads do not exist in the child of a fork."""
        self._lock = threading.Lock()
        self._pools: dict[str, ThreadPoolExecutor] = {}

    def get(self, name: str) -> ThreadPoolExecutor:
        """Return one of the pools."""
        if (found := self._pools.get(name)) is not None:
            return found
        with self._lock:
            if name not in self._pools:
                size = _SIZES.get(name) or num_threads()
                self._pools[name] = ThreadPoolExecutor(size, thread_name_prefix=name)
            return self._pools[name]


_pools = ThreadPools()


def submit(task: Callable[[], T]) -> Future[T]:
    """Run a task in the pool for work that needs a processor."""
    return _pools.get(_COMPUTE).submit(task)


def submit_request(task: Callable[[], T]) -> Future[T]:
    """Run a task that waits for one request to a store."""
    return _pools.get(_REQUEST).submit(task)


def submit_waiting(task: Callable[[], T]) -> Future[T]:
    """Run a task that reads from a remote store, and decodes the result."""
    return _pools.get(_WAITING).submit(task)


def submit_sync(task: Callable[[], T]) -> Future[T]:
    """Run a task that waits until a device has stored a folder; inline at interpreter shutdown."""
    try:
        return _pools.get(_SYNC).submit(task)
    except RuntimeError:  # data written at the last moment must become durable, too
        done: Future[T] = Future()
        done.set_result(task())
        return done
