"""Run tasks that wait for a store: concurrently if the store is remote, in turn if it is local."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from pilum.parallel import submit_waiting
from pilum.storage.base import Store

__all__ = ["at_once", "in_turn"]

T = TypeVar("T")

_MOST_AHEAD = 32


def at_once(store: Store, tasks: Iterable[Callable[[], T]]) -> list[T]:
    """Run all tasks and return their results in order."""
    return list(in_turn(store, tasks))


def in_turn(store: Store, tasks: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Yield the results of tasks in order; at most 32 tasks are started ahead of their use."""
    if not store.is_remote:
        yield from (task() for task in tasks)
        return
    running: deque[Future[T]] = deque()
    try:
        for task in tasks:
            running.append(submit_waiting(task))
            if len(running) == _MOST_AHEAD:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for future in running:
            future.cancel()
