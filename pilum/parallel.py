"""Thread pools; kernels and requests release the GIL.

    submit_ahead      8   reads whole batches before they are used
    submit_waiting   32   reads from a remote store, and decodes
    submit           1 per processor   computes, and reads local files
    submit_request   64   one request to a store
    submit_sync      16   waits until a device has stored a folder

A task may wait for tasks of the pools below its own, never for others.

Pages of a file are encoded by `InOrder`, which writes the results in the order of the tasks:

    large          by the pool, while the caller continues
    small          by the caller, several before they are written: they are mostly work of the
                   interpreter, which only one thread at a time can do; sharing it would be slower
    the last ones  by the caller, who has nothing else to do
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet

__all__ = [
    "InOrder",
    "ThreadPool",
    "num_threads",
    "renew_in_child",
    "submit",
    "submit_ahead",
    "submit_request",
    "submit_sync",
    "submit_waiting",
]

_COMPUTE = "pilum"
_AHEAD = "pilum-ahead"
_REQUEST = "pilum-request"
_WAITING = "pilum-waiting"
_SYNC = "pilum-sync"
_SIZES = {_AHEAD: 8, _REQUEST: 64, _WAITING: 32, _SYNC: 16}

K = TypeVar("K")
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


class ThreadPool(ThreadPoolExecutor):
    """A pool of threads that also takes tasks while the interpreter shuts down.

    Pools end when the main thread does, before the other threads of the process do, and before what
    `atexit` runs. The thread that submits a task then runs it.
    """

    def submit(self, task: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run `task(*args, **kwargs)` in one of the threads."""
        try:
            return super().submit(task, *args, **kwargs)
        except RuntimeError as error:
            if "interpreter shutdown" not in str(error):
                raise
        done: Future[T] = Future()
        try:
            done.set_result(task(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)
        return done


class ThreadPools:
    """The thread pools of a process; each is created on first use, and again after a fork."""

    def __init__(self) -> None:
        self.renew()
        renew_in_child(self)

    def renew(self) -> None:
        """Forget all pools: their threads do not exist in the child of a fork."""
        self._lock = threading.Lock()
        self._pools: dict[str, ThreadPool] = {}

    def get(self, name: str) -> ThreadPool:
        """Return one of the pools."""
        if (found := self._pools.get(name)) is not None:
            return found
        with self._lock:
            if name not in self._pools:
                size = _SIZES.get(name) or num_threads()
                self._pools[name] = ThreadPool(size, thread_name_prefix=name)
            return self._pools[name]


_pools = ThreadPools()


def submit(task: Callable[[], T]) -> Future[T]:
    """Run a task in the pool for work that needs a processor."""
    return _pools.get(_COMPUTE).submit(task)


def submit_ahead(task: Callable[[], T]) -> Future[T]:
    """Run a task that reads whole batches, by tasks of all other pools."""
    return _pools.get(_AHEAD).submit(task)


def submit_request(task: Callable[[], T]) -> Future[T]:
    """Run a task that waits for one request to a store."""
    return _pools.get(_REQUEST).submit(task)


def submit_waiting(task: Callable[[], T]) -> Future[T]:
    """Run a task that reads from a remote store, and decodes the result."""
    return _pools.get(_WAITING).submit(task)


def submit_sync(task: Callable[[], T]) -> Future[T]:
    """Run a task that waits until a device has stored a folder."""
    return _pools.get(_SYNC).submit(task)


_BUNDLE_BYTES = 512 * 1024
_SMALL_BYTES = 256 * 1024
"""A bundle of tasks that are smaller than this on average is run by the calling thread."""
_HARD = 4
"""A byte of a hard task costs at least this many times another byte."""


class InOrder(Generic[K, T]):
    """A queue of tasks, bounded by about the number of threads.

    `write` is called with each key and its result, in the order of the calls of `add` and in the
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

    def add(self, key: K, task: Callable[[], T], num_bytes: int, *, is_hard: bool) -> None:
        """Queue a task of about `num_bytes`, and write the results that are ready.

        `is_hard` says whether a byte takes long, as text does and whatever is compressed.
        """
        effort = num_bytes * (_HARD if is_hard else 1)
        if self._tasks and max(self._effort, effort) >= _BUNDLE_BYTES:
            self._hand_out()
        self._keys.append(key)
        self._tasks.append(task)
        self._bundle_bytes += num_bytes
        self._effort += effort

    def finish(self) -> None:
        """Run the tasks that have not started in this thread, and write all results."""
        keys, tasks = self._next_bundle()
        results = _done(tasks)
        self._write_begun(keep=0)
        self._write_all(keys, results)

    def cancel(self) -> None:
        """Cancel the tasks that have not started."""
        for _, future in self._begun:
            future.cancel()

    def _hand_out(self) -> None:
        if self._effort < _SMALL_BYTES * len(self._tasks):
            self.finish()
            return
        keys, tasks = self._next_bundle()
        self._begun.append((keys, submit(partial(_done, tasks))))
        self._write_begun(keep=num_threads())

    def _next_bundle(self) -> tuple[list[K], list[Callable[[], T]]]:
        bundle = self._keys, self._tasks
        self._keys, self._tasks, self._bundle_bytes, self._effort = [], [], 0, 0
        return bundle

    def _write_begun(self, keep: int) -> None:
        while len(self._begun) > keep:
            keys, future = self._begun.popleft()
            self._write_all(keys, future.result())

    def _write_all(self, keys: list[K], results: list[T]) -> None:
        for key, result in zip(keys, results, strict=True):
            self._write(key, result)


def _done(tasks: list[Callable[[], T]]) -> list[T]:
    return [task() for task in tasks]
