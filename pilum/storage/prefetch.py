"""Run tasks that wait for a store: concurrently if the store is remote, in turn if it is local."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from pilum.parallel import submit_waiting
from pilum.storage.base import Store

__all__ = ["prefetch", "run_all"]

T = TypeVar("T")

_MAX_STARTED = 32


def run_all(store: Store, tasks: Iterable[Callable[[], T]]) -> list[T]:
    """Run all tasks and return their results in order."""
    return list(prefetch(store, tasks))


def prefetch(store: Store, tasks: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Yield the results of tasks in order; at most 32 tasks run before their results are used."""
    if not store.is_remote:
        yield from (task() for task in tasks)
        return
    running: deque[Future[T]] = deque()
    try:
        for task in tasks:
            running.append(submit_waiting(task))
            if len(running) == _MAX_STARTED:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for future in running:
            future.cancel()
